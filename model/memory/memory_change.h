// Changes of a plan, their effect on its memory and what they cost in time. Plain data, found by
// sim/analysis/memory_advice.h.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace plumbline::model {

struct MemoryChange {
  std::vector<std::string> settings;  // as for --set: "recompute.policy=full"; several where one requires another
  double peak_bytes = 0;              // the highest of the changed plan's ranks
  std::string peak_operator;          // what runs at that peak
  // Of the rank that needs most at least. What its allocator holds unused is that on a device without limit.
  double allocated_bytes = 0;                          // tensors
  double unused_low_bytes = 0, unused_high_bytes = 0;  // what the allocator holds in addition
  double fits_probability = 0;                         // as clusters run it
  double margin_bytes = 0;                             // what is left with the least unused; below 0: it does not fit
  std::optional<double> step_ratio = std::nullopt;     // of the step's time to the plan's own, where it fits
};

struct MemoryAdvice {
  std::vector<MemoryChange> fitting;    // the cheapest in time first, of equal ones the highest peak
  std::optional<MemoryChange> closest;  // when nothing fits: the likeliest to fit, of equal ones the lowest peak
  std::size_t tried = 0;                // number of changes that the layout allows
};

}  // namespace plumbline::model
