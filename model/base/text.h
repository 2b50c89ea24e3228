// These functions search text, split it into lines and parts, quote it, and parse numbers.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace plumbline::model {

// Returns the lines without their ends (\n or \r\n). Text after the last line end is a line too.
std::vector<std::string_view> lines_of(std::string_view text);

// Returns the parts between the separators, empty ones included: one more than there are separators.
std::vector<std::string_view> split_at(std::string_view text, char separator);

constexpr bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns a text in small letters; other characters than those of ASCII stay.
std::string lower_case(std::string_view text);

constexpr bool is_digit(char c) { return '0' <= c && c <= '9'; }

// Returns the text without blanks, tabs and carriage returns at either end.
std::string_view trimmed(std::string_view text);

// Returns the text with control characters other than tabs and line ends as "\x1b": files and other processes must not
// steer the terminal on which a part of them is quoted.
std::string printable(std::string_view text);

// Returns a quoted TOML basic string.
std::string toml_string(std::string_view text);

// Returns a field of a CSV file: with a comma, quote or line break it is quoted, its quotes doubled.
std::string csv_field(std::string_view text);

// Returns the days from 1970-01-01 to a date of the calendar, "2026-12-01"; nothing for other texts. Then the inverse.
std::optional<std::int64_t> parse_date(std::string_view text);
std::string date_text(std::int64_t days);

// Returns a probability: "46 %", and "< 1 %" or "> 99 %" beyond what the draws of an interval resolve.
std::string chance(double probability, int digits = 0);

// Parses a number; nothing when the text has any other character or the number is out of range.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace plumbline::model
