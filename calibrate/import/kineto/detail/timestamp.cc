#include <cmath>
#include <limits>

#include "calibrate/import/kineto/detail/events.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr std::int64_t per_microsecond = 1000;
constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 4;  // so that sums of two stay in range

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::int64_t> from_double(std::string_view text) {
  const auto value = model::parse_number<double>(text);
  if (!value) return std::nullopt;
  const double ns = *value * static_cast<double>(per_microsecond);
  if (!(std::abs(ns) < static_cast<double>(limit))) return std::nullopt;
  return std::llround(ns);
}

// Returns nanoseconds: the first three digits after the point, rounded by the fourth.
std::int64_t fraction(std::string_view digits) {
  std::int64_t ns = 0;
  for (std::size_t i = 0; i < 3; ++i) ns = ns * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  return ns + (digits.size() > 3 && digits[3] >= '5' ? 1 : 0);
}

}  // namespace

std::optional<std::int64_t> nanoseconds(std::string_view text) {
  if (text.size() > 1 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  const bool negative = text.starts_with('-');
  std::string_view rest = text.substr(negative ? 1 : 0);
  std::int64_t value = 0;
  std::size_t digits = 0;
  for (; digits < rest.size() && is_digit(rest[digits]); ++digits) {
    value = value * 10 + (rest[digits] - '0');
    if (value > limit / per_microsecond) return std::nullopt;
  }
  if (digits == 0) return std::nullopt;
  value *= per_microsecond;
  rest.remove_prefix(digits);
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    std::size_t decimals = 0;
    while (decimals < rest.size() && is_digit(rest[decimals])) ++decimals;
    value += fraction(rest.substr(0, decimals));
    rest.remove_prefix(decimals);
  }
  if (!rest.empty()) return from_double(text);
  return negative ? -value : value;
}

}  // namespace plumbline::calibrate
