// What changing a plan would do to its memory. Plain data; sim/analysis/memory_advice.h finds it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace plumbline::model {

struct MemoryChange {
  std::vector<std::string> settings;  // as for --set: "recompute.policy=full"; several where one needs the other
  double peak_bytes = 0;              // of the changed plan's fullest rank
  std::string peak_operator;          // and when
};

struct MemoryAdvice {
  std::vector<MemoryChange> fitting;    // the smallest change in peak first: the highest peak that fits
  std::optional<MemoryChange> closest;  // when nothing fits: the lowest peak, if below the plan's own
  std::size_t tried = 0;                // changes that the layout allows
};

}  // namespace plumbline::model
