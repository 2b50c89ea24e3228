// How far an input may be wrong before another plan, or other hardware, would have been the better choice.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/predict/inputs.h"

namespace plumbline::sim {

enum class BreakEvenQuantity { nic_bandwidth, nvlink_bandwidth, gemm_rate, memory_bandwidth, imbalance, price };
std::string_view describe(BreakEvenQuantity quantity);  // "NIC bandwidth", "price of a GPU-hour", ...

// One of the plans: how long its step takes by events, and what a second of it counts (GPUs, or GPUs times a price).
struct BreakEvenCandidate {
  const Inputs* inputs = nullptr;  // with its plan
  double step_s = 0;
  double weight = 1;  // what is compared is weight * step
};

struct BreakEvenOptions {
  double lowest = 0.25, highest = 4;  // of the factor
  bool weight_is_price = false;       // the weight is proportional to the price
  unsigned threads = 0;               // 0: as many as cores
  std::function<bool()> stopped;      // may be empty
};

// The factor on a quantity at which an alternative becomes the better choice.
struct BreakEven {
  BreakEvenQuantity quantity = BreakEvenQuantity::price;
  std::optional<double> factor;  // of the quantity, the nearest to 1 by ratio; nothing: none in the range
  std::size_t by = 0;            // which alternative is then better, if any
  std::optional<double> from;    // the quantity where it is one number (imbalance); else nothing
};

// The quantity times a factor: of the hardware its links' line rates (what the profile measured follows them), of the
// profile the rate of matrix products and the bandwidth of memory, of the plan the imbalance.
Inputs changed(const Inputs& inputs, BreakEvenQuantity quantity, double factor);

// One entry per quantity that can matter: price only where it is weighed and an alternative stands on other hardware,
// imbalance only where it is above 0. A change of hardware or profile meets the winner and alternatives with
// the same hardware (`same[i]`); imbalance meets all.
// Under the change each step is step_s * closed(factor) / closed(1), closed: the closed form; so the order at factor 1
// is that of the events. A plan that no longer fits in memory is out. Looked for on a grid of factors of 2^(1/2)
// outwards from 1, then bisected to 1 %: a break_even narrower than the grid that reverts is missed.
// The result does not depend on the number of threads. After `stopped` the rest has no factor.
std::vector<BreakEven> break_evens(const BreakEvenCandidate& winner,
                                   const std::vector<BreakEvenCandidate>& alternatives, const std::vector<bool>& same,
                                   const BreakEvenOptions& options);

}  // namespace plumbline::sim
