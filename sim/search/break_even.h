// The factor by which an input may be wrong before another plan, or other hardware, is the better choice.
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

// A plan in a comparison of weight * step seconds.
struct BreakEvenCandidate {
  const Inputs* inputs = nullptr;  // with the plan
  double step_s = 0;               // by events
  double weight = 1;               // GPUs, or GPUs times a price
};

struct BreakEvenOptions {
  double lowest = 0.25, highest = 4;  // range of the factor
  bool weight_is_price = false;       // the weight is proportional to the price
  unsigned threads = 0;               // 0: one per core
  std::function<bool()> stopped;      // may be empty
};

// The factor on a quantity at which an alternative becomes the better choice.
struct BreakEven {
  BreakEvenQuantity quantity = BreakEvenQuantity::price;
  std::optional<double> factor;  // the nearest to 1 by ratio; nothing: none in the range
  std::size_t by = 0;            // index of the alternative that is then better, if any
  std::optional<double> from;    // the present value of a quantity that is one number (imbalance)
};

// Returns the inputs with the quantity multiplied by a factor. Hardware quantities are the line rates of links, which
// the measured rates of the profile follow. Profile quantities are the GEMM rate and the memory bandwidth, and the
// plan's quantity is the imbalance.
Inputs changed(const Inputs& inputs, BreakEvenQuantity quantity, double factor);

// Returns one entry per quantity that can matter: price only where it has a weight and an alternative has other
// hardware, imbalance only above 0. A change of hardware or profile applies to the winner and to alternatives with the
// same hardware (`same[i]`); a change of imbalance applies to all. Under a change each step is step_s * closed(factor)
// / closed(1), with closed() the closed form, so the order at factor 1 is that of the events. A plan that no longer
// fits in memory drops out. The search runs over a grid of factors of 2^(1/2) outwards from 1 and then bisects to 1 %,
// so a break-even that reverts within one grid step is missed. The result does not depend on the number of threads.
// After `stopped` the remaining entries have no factor.
std::vector<BreakEven> break_evens(const BreakEvenCandidate& winner,
                                   const std::vector<BreakEvenCandidate>& alternatives, const std::vector<bool>& same,
                                   const BreakEvenOptions& options);

}  // namespace plumbline::sim
