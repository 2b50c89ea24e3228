#include <fmt/format.h>

#include <array>
#include <cmath>

#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

// Returns four significant digits.
std::string four_digits(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 999.95) return fixed(value, 0);
  if (magnitude >= 99.995) return fixed(value, 1);
  if (magnitude >= 9.9995) return fixed(value, 2);
  return fixed(value, 3);
}

}  // namespace

std::string fixed(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

std::string grouped(double value) {
  const std::string digits = fixed(std::abs(value), 0);
  std::string text = value <= -0.5 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string number(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 1e12 || (magnitude > 0 && magnitude < 1)) return fmt::format("{:.4g}", value);
  return magnitude >= 9999.5 ? grouped(value) : four_digits(value);
}

std::string duration(double seconds) {
  const double magnitude = std::abs(seconds);
  if (magnitude >= 1 || magnitude == 0) return four_digits(seconds) + " s";
  if (magnitude >= 1e-3) return four_digits(seconds * 1e3) + " ms";
  return four_digits(seconds * 1e6) + " us";
}

std::string gigabytes(double bytes) { return fixed(bytes / 1e9, 1); }

std::string percent(double fraction) { return fixed(fraction * 100, 1) + " %"; }

std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", fraction * 100); }

std::string scaled(double value) {
  struct Unit {
    double factor;
    const char* name;
  };
  static constexpr std::array<Unit, 3> units = {{{1e12, " T"}, {1e9, " B"}, {1e6, " M"}}};
  for (const Unit& unit : units) {
    if (std::abs(value) >= unit.factor) return four_digits(value / unit.factor) + unit.name;
  }
  return grouped(value);
}

std::string escape_html(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD
  const auto is_no_character_of_xml = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  };
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += is_no_character_of_xml(c) ? replacement : std::string_view(&c, 1);
    }
  }
  return out;
}

std::string escape_json(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace plumbline::reports
