#include "sim/whatif/detail/root.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

namespace plumbline::sim {
namespace {

// Returns where the interpolation through the best point b, the end c on the other side and the previous point a
// reaches zero, as a distance from b.
double interpolated(const Sample& a, const Sample& b, const Sample& c) {
  const double s = b.y / a.y;
  if (a.x == c.x) return (c.x - b.x) * s / (s - 1);
  const double q = a.y / c.y, r = b.y / c.y;
  const double numerator = s * ((c.x - b.x) * q * (q - r) - (b.x - a.x) * (r - 1));
  return -numerator / ((q - 1) * (r - 1) * (s - 1));
}

}  // namespace

model::Result<Root> find_root(const std::function<model::Result<double>(double)>& f, Sample a, Sample b,
                              double x_tolerance, double y_tolerance) {
  assert((a.y <= 0 && b.y >= 0) || (a.y >= 0 && b.y <= 0));
  Sample c = a;
  double step = b.x - a.x, before = step;
  while (true) {
    if ((b.y > 0) == (c.y > 0) && b.y != 0) {
      c = a;
      step = before = b.x - a.x;
    }
    if (std::abs(c.y) < std::abs(b.y)) a = std::exchange(b, std::exchange(c, b));
    const double least = 2 * std::numeric_limits<double>::epsilon() * std::abs(b.x) + x_tolerance * std::abs(b.x) / 2;
    const double half = (c.x - b.x) / 2;
    if (std::abs(b.y) <= y_tolerance || std::abs(half) <= least) return Root{b, c};
    double next = half;
    bool halved = true;
    if (std::abs(before) >= least && std::abs(a.y) > std::abs(b.y)) {
      const double guess = interpolated(a, b, c);
      // The guess must lie towards the other side, within three quarters of the way, and shrink faster than bisection.
      const bool inside = guess / half > 0 && std::abs(guess) < std::min(1.5 * std::abs(half), std::abs(before) / 2);
      if (inside) next = guess, halved = false;
    }
    before = halved ? next : step;
    step = next;
    a = b;
    b.x += std::abs(step) > least ? step : std::copysign(least, half);
    b.y = TRY(f(b.x));
  }
}

}  // namespace plumbline::sim
