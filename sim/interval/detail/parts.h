// Quantiles of draws, and what share of their variance each source has.
#pragma once

#include <string_view>
#include <vector>

#include "model/result/prediction_interval.h"
#include "sim/interval/detail/draws.h"
#include "sim/interval/left.h"

namespace plumbline::sim {

inline constexpr std::string_view left_source = "what is left";

// Returns each draw times exp(location + standard deviation * z) for quantiles z of the normal distribution; the draws
// themselves where nothing is left.
std::vector<double> with_left(const std::vector<double>& draws, const Left& left);

// Interpolates linearly between the two nearest values.
model::Quantiles quantiles_of(std::vector<double> values);

// Explains ln(time) of the draws by the sources' linear scores: the sum of gradient * z over a source's uncertainties.
// Least squares give each score a coefficient; a source's share is the covariance of (coefficient * score) and ln(time)
// over the variance, and what scores do not explain counts to the sources in proportion. What is left adds its own
// variance. Parts below a thousandth are left out, and the others scaled to 1. A measurement subtracts (1 - after) of
// the contribution of what it measures from each draw.
std::vector<model::IntervalPart> parts_of(const Drawn& drawn, const Left& left);

}  // namespace plumbline::sim
