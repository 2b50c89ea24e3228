#include "model/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace plumbline::model {

std::string lower_case(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(),
                         [](char letter) { return letter >= 'A' && letter <= 'Z' ? letter + 32 : letter; });
  return all;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split_at(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (std::string_view& line : lines)
    if (line.ends_with('\r')) line.remove_suffix(1);
  return lines;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string printable(std::string_view text) {
  constexpr unsigned char first_of_c1 = 0xc2, after_c1 = 0xa0;  // U+0080 to U+009F are 0xc2 and a byte below 0xa0
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    const bool c1 = code == first_of_c1 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < after_c1;
    const bool control = code < 0x20 && code != '\t' && code != '\n';
    if (control || code == 0x7f)
      out += fmt::format("\\x{:02x}", code);
    else if (c1)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    else
      out += text[i];
  }
  return out;
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\u{:04x}", code);
      continue;
    }
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + '"';
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::optional<std::int64_t> parse_date(std::string_view text) {
  const std::vector<std::string_view> parts = split_at(text, '-');
  if (parts.size() != 3) return std::nullopt;
  const auto year = parse_number<int>(parts[0]);
  const auto month = parse_number<unsigned>(parts[1]), day = parse_number<unsigned>(parts[2]);
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month), std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

std::string date_text(std::int64_t days) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(days))};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

std::string chance(double probability, int digits) {
  constexpr double least = 0.01;
  if (probability < least) return "< 1 %";
  return probability > 1 - least ? "> 99 %" : fmt::format("{:.{}f} %", probability * 100, digits);
}

}  // namespace plumbline::model
