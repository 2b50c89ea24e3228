// Physical quantities with their dimension in the type, so that adding bytes to seconds does not compile. Values are SI
// doubles: seconds, bytes (1 GB = 1e9 B, 1 GiB = 2^30 B), floating-point operations.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/base/error.h"

namespace plumbline::model {

template <int TimePower, int BytePower, int FlopPower>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, double s) { return Quantity(a.value_ * s); }
  friend constexpr Quantity operator*(double s, Quantity a) { return Quantity(a.value_ * s); }
  friend constexpr Quantity operator/(Quantity a, double s) { return Quantity(a.value_ / s); }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double value_ = 0;
};

template <int T1, int B1, int F1, int T2, int B2, int F2>
constexpr Quantity<T1 + T2, B1 + B2, F1 + F2> operator*(Quantity<T1, B1, F1> a, Quantity<T2, B2, F2> b) {
  return Quantity<T1 + T2, B1 + B2, F1 + F2>(a.value() * b.value());
}
template <int T1, int B1, int F1, int T2, int B2, int F2>
constexpr Quantity<T1 - T2, B1 - B2, F1 - F2> operator/(Quantity<T1, B1, F1> a, Quantity<T2, B2, F2> b) {
  return Quantity<T1 - T2, B1 - B2, F1 - F2>(a.value() / b.value());
}
template <int T, int B, int F>
constexpr double operator/(Quantity<T, B, F> a, Quantity<T, B, F> b) {
  return a.value() / b.value();
}

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>;
using BytesPerSecond = Quantity<-1, 1, 0>;
using FlopsPerSecond = Quantity<-1, 0, 1>;

// Units in profile, topology and device files. GB is 10^9 bytes, GiB 2^30.
enum class UnitDimension {
  count,
  seconds,
  bytes,
  bytes_per_second,
  flops_per_second,
  watts,
  joules,
  joules_per_flop,
  joules_per_byte,
  hertz,
  // Money, and the years of depreciation, have one unit each and are never converted.
  usd,
  usd_per_gpu_hour,
  usd_per_kwh,
  years
};
std::string_view to_string(UnitDimension dimension);

struct SiUnit {
  UnitDimension dimension = UnitDimension::count;
  double factor = 1;  // value * factor is in SI
};

// Fails with an input error that lists the known units for an unknown one; the caller adds file, line and key.
Result<SiUnit> si_unit(std::string_view unit);

// Reads bytes as nccl-tests do: an integer from 1 to 2^50, with K, M or G for powers of 1024; else an error about
// `key`.
Result<std::int64_t> parse_binary_size(std::string_view text, std::string key);

}  // namespace plumbline::model
