// Changes of a plan and their effect on its memory. Plain data, found by sim/analysis/memory_advice.h.
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
};

struct MemoryAdvice {
  std::vector<MemoryChange> fitting;    // the highest peak that fits first
  std::optional<MemoryChange> closest;  // when nothing fits: the lowest peak, if below the plan's own
  std::size_t tried = 0;                // number of changes that the layout allows
};

}  // namespace plumbline::model
