// The zero of a function of one number.
#pragma once

#include <functional>

#include "model/base/error.h"

namespace plumbline::sim {

struct Sample {
  double x = 0, y = 0;
};

struct Root {
  Sample at;     // the smallest |y| that was found
  Sample other;  // the nearest x with the other sign; at a jump over zero, the other side of the jump
};

// Returns a root by Brent's method (R. P. Brent, Algorithms for Minimization without Derivatives, 1973, chapter 4):
// inverse quadratic interpolation and secants where they converge, else bisection. Requires ends of different sign, or
// one that is zero. Ends when |y| <= y_tolerance, or when the two sides are closer than x_tolerance times x. Returns
// the first error of `f`.
model::Result<Root> find_root(const std::function<model::Result<double>(double)>& f, Sample a, Sample b,
                              double x_tolerance, double y_tolerance);

}  // namespace plumbline::sim
