// The interval of a prediction: what is likely, where its uncertainty comes from, and what measurement would narrow it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace plumbline::model {

// Nine of ten standard normal numbers are below it.
inline constexpr double normal_p90 = 1.2815515655446004;

// Eight of ten values lie between p10 and p90.
struct Quantiles {
  double p10 = 0, p50 = 0, p90 = 0;
  // Half of the interval over its middle.
  double half_width() const { return p50 > 0 ? (p90 - p10) / 2 / p50 : 0; }
  bool contains(double value) const { return p10 <= value && value <= p90; }
  // Returns the quantiles of what is measured where nothing above `most` can be.
  Quantiles at_most(double most) const { return {std::min(p10, most), std::min(p50, most), std::min(p90, most)}; }
  // Returns the share of values below this one, with a normal logarithm of its own width on either side of the middle.
  double share_below(double value) const;
  bool operator==(const Quantiles&) const = default;
};

// Returns the quantile of at least one value, interpolated at place p * (n + 1) of the n sorted ones: another value is
// below the result with probability p.
double quantile_of(std::vector<double> values, double probability);
Quantiles quantiles_of(std::vector<double> values);

// A source of uncertainty. Shares are of the variance of ln(step time) and add up to 1 over all parts.
struct IntervalPart {
  std::string source;  // "GEMM constants", "expert load", "what is left", ...
  double share = 0;
  // What would narrow it, in words ("combine at 20 SMs on two of your nodes"), and the half-width of the step time
  // after that, found by conditioning the same draws on it; neither where no measurement of components would.
  std::string measurement;
  std::optional<double> half_width_after;
};

struct PredictionInterval {
  Quantiles time_s;
  Quantiles tokens_per_s;
  std::optional<Quantiles> days, gpu_hours, cost_usd;  // of the run; nothing without its tokens, and its price
  Quantiles peak_bytes;                                // of the fullest rank, on a device without limit
  double fits_probability = 1;                         // that the fullest rank's least is below the capacity
  // By what factor steps of this software took longer than predicted, in the middle, and the rows that it rests on; the
  // quantiles above contain it.
  double left_factor = 1;
  std::string left_rows;
  std::size_t draws = 0;            // predictions behind the interval
  std::vector<IntervalPart> parts;  // by falling share
};

// A key of the software that a plan leaves open, and what else it usually is.
struct AssumedKey {
  std::string key, name;     // "stack.dispatcher", "dispatcher"
  std::string value, other;  // as words: what is predicted with, and another usual value
  std::string setting;       // KEY=VALUE of the other
  std::string given_by;      // "stack megatron-core-2025"; empty: the default
  double ratio = 1;          // of the step, or of a deployment's time per output token: with the other over without
};

}  // namespace plumbline::model
