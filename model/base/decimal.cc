#include "model/base/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "model/base/text.h"

namespace plumbline::model {
namespace {

constexpr std::string_view digits = "0123456789";
constexpr int largest_exponent = 300;  // within the range of a double

// Removes the digits at the front of `text` and returns them.
std::string_view take_digits(std::string_view& text) {
  const std::size_t count = std::min(text.find_first_not_of(digits), text.size());
  const std::string_view taken = text.substr(0, count);
  text.remove_prefix(count);
  return taken;
}

// Returns the same number with a smaller exponent.
std::optional<Decimal> scaled_to(Decimal number, int exponent) {
  for (; number.exponent > exponent && number.units != 0; --number.exponent)
    if (__builtin_mul_overflow(number.units, std::int64_t{10}, &number.units)) return std::nullopt;
  number.exponent = exponent;
  return number;
}

// Returns the exponent at the end of a number, 0 where there is none; nothing when it is malformed.
std::optional<int> parse_exponent(std::string_view text) {
  if (text.empty()) return 0;
  if (text.front() != 'e' && text.front() != 'E') return std::nullopt;
  text.remove_prefix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto exponent = parse_number<int>(text);
  return exponent && std::abs(*exponent) <= largest_exponent ? exponent : std::nullopt;
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  std::string all(take_digits(text));
  if (all.empty()) return std::nullopt;
  Decimal number;
  if (text.starts_with('.') && text.size() > 1 && digits.find(text[1]) != std::string_view::npos) {
    text.remove_prefix(1);
    const std::string_view fraction = take_digits(text);
    all += fraction;
    number.exponent = -static_cast<int>(fraction.size());
    number.integer = false;
  }
  const auto exponent = parse_exponent(text);
  if (!exponent) return std::nullopt;
  number.integer = number.integer && text.empty();
  number.exponent += *exponent;
  if (negative) all.insert(0, "-");
  const auto units = parse_number<std::int64_t>(all);
  if (!units) return std::nullopt;
  number.units = *units;
  return number;
}

double Decimal::value() const {
  const std::string written = fmt::format("{}e{}", units, exponent);
  return std::strtod(written.c_str(), nullptr);
}

std::string Decimal::text() const { return integer ? fmt::format("{}", units) : fmt::format("{}", value()); }

std::optional<Decimal> sum(Decimal a, Decimal b) {
  const int exponent = std::min(a.exponent, b.exponent);
  const auto left = scaled_to(a, exponent), right = scaled_to(b, exponent);
  Decimal total{0, exponent, a.integer && b.integer};
  if (!left || !right || __builtin_add_overflow(left->units, right->units, &total.units)) return std::nullopt;
  return total;
}

std::optional<Decimal> product(Decimal a, Decimal b) {
  Decimal result{0, a.exponent + b.exponent, a.integer && b.integer};
  if (__builtin_mul_overflow(a.units, b.units, &result.units)) return std::nullopt;
  return result;
}

bool less(Decimal a, Decimal b) {
  const int exponent = std::min(a.exponent, b.exponent);
  const auto left = scaled_to(a, exponent), right = scaled_to(b, exponent);
  return left && right ? left->units < right->units : a.value() < b.value();
}

}  // namespace plumbline::model
