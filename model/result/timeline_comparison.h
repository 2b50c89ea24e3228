// Compares a predicted and a measured timeline, of steps or of kernel traces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/result/compared_time.h"
#include "model/result/timeline.h"
#include "model/result/timeline_summary.h"

namespace plumbline::model {

// The overlapped pairs of two steps: their times, and those of the phases and operators in them.
struct OverlappedSlots {
  std::int64_t rank = 0;       // pipeline rank of these slots: the lowest one that was measured
  ComparedTime each;           // the mean of all pairs
  std::vector<double> errors;  // error of every pair, predicted over measured - 1; ascending
  // Phases of a pair that both timelines have, as means over all pairs. They overlap, so they do not add up to a pair.
  std::vector<ComparedTime> phases;
  // Operators by name, of pairs like the one whose kernels the prediction shows; empty where a timeline has none.
  std::vector<ComparedTime> kernels;

  double median_error() const;
};

struct TimelineComparison {
  // Filled for kernel traces: every row that one of the two has, the measured ones first.
  TimelineSummary predicted, measured;
  // Both have the same number of pairs of layers. Then phases, periods and GEMMs are compared one by one; else only
  // totals and classes, without errors, because the work differs.
  bool same_slots = false;
  std::vector<ComparedTime> totals, phases, periods, classes, gemms;
  // Filled for steps; none where one has no overlapped pairs, or the two have different numbers of them.
  std::optional<OverlappedSlots> overlapped;
};

TimelineComparison compare(const Timeline& predicted, const Timeline& measured);

// Merges the rows of each group into one, in the order of the groups' first rows; rows without a group are left out.
std::vector<ComparedTime> grouped(const std::vector<ComparedTime>& rows,
                                  const std::map<std::string, std::string>& groups);

}  // namespace plumbline::model
