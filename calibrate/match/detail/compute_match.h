// The match of the kernels that compute: those of a trace, in whatever order it ran them, with those of a step.
#pragma once

#include <vector>

#include "calibrate/match/detail/alignment.h"
#include "calibrate/match/detail/match_item.h"
#include "calibrate/match/trace_comparison.h"

namespace plumbline::calibrate {

// Adds the matches of the kernels that compute, given by start, to `result`, whose vectors have the lengths of the
// timelines; sets its scores.
void match_compute(const std::vector<MatchItem>& predicted, const std::vector<MatchItem>& measured, StepMatch& result);

// Adds what an alignment of these items found.
void add_matches(const Alignment& alignment, const std::vector<MatchItem>& predicted,
                 const std::vector<MatchItem>& measured, MatchedBy by, StepMatch& result);

// Returns the items that `keep` accepts.
template <class Keep>
std::vector<MatchItem> chosen(const std::vector<MatchItem>& items, const Keep& keep) {
  std::vector<MatchItem> found;
  for (const MatchItem& item : items)
    if (keep(item)) found.push_back(item);
  return found;
}

}  // namespace plumbline::calibrate
