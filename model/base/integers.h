// Arithmetic on whole numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace plumbline::model {

// Returns the quotient, rounded up. Requires a >= 0 and b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Returns the product, or the largest number where it does not fit in 64 bits.
constexpr std::int64_t bounded_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product)) return std::numeric_limits<std::int64_t>::max();
  return product;
}

}  // namespace plumbline::model
