// Decimal numbers are exact: 0.05 is five hundredths, not the nearest double.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline::model {

// The value is units * 10^exponent. Arithmetic is exact and returns nothing where 64 bits do not hold the result.
struct Decimal {
  std::int64_t units = 0;
  int exponent = 0;
  bool integer = true;  // written without a point and without an exponent

  double value() const;      // the nearest double
  std::string text() const;  // as a TOML number: 20, 0.15, 1e-07
};

// Parses an optional sign, digits, an optional point with digits and an optional exponent; nothing for other text.
std::optional<Decimal> parse_decimal(std::string_view text);

std::optional<Decimal> sum(Decimal a, Decimal b);
std::optional<Decimal> product(Decimal a, Decimal b);
bool less(Decimal a, Decimal b);

}  // namespace plumbline::model
