// Order statistics of the samples of a time; single disturbed samples hardly change them.
#pragma once

#include <vector>

namespace plumbline::real {

struct Spread {
  double min = 0, p10 = 0, p50 = 0, p90 = 0;
  double mad = 0;  // median of the absolute deviations from p50
};

// Interpolates quantiles linearly between the two nearest samples. Requires at least one sample.
Spread spread_of(std::vector<double> samples);

}  // namespace plumbline::real
