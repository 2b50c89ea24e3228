// Text in pieces: the lines of a file, the parts of a list, a number written out.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace plumbline::model {

// The lines without their ends (\n or \r\n). Text behind the last end is a line of its own.
std::vector<std::string_view> lines_of(std::string_view text);

// What stands between the separators, empty parts included: one part more than there are separators.
std::vector<std::string_view> split(std::string_view text, char separator);

// Without blanks, tabs and carriage returns at either end.
std::string_view trimmed(std::string_view text);

// A basic string of TOML, in quotes.
std::string toml_string(std::string_view text);

// The number that the whole text is; nothing when there is anything else in it, or the number is out of range.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace plumbline::model
