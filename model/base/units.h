// Physical quantities with their dimension in the type, so that adding bytes to seconds does not compile. Values are SI
// doubles: seconds, bytes (1 GB = 1e9 B, 1 GiB = 2^30 B), floating-point operations.
#pragma once

#include <compare>

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

}  // namespace plumbline::model
