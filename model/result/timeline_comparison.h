// Two timelines side by side, a predicted and a measured one, of steps or of kernel traces.
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

// The overlapped pairs of two steps: what they take, and what the phases and operators in them take.
struct OverlappedSlots {
  std::int64_t rank = 0;       // pipeline rank whose slots these are: the lowest one that was measured
  ComparedTime each;           // the mean of all pairs
  std::vector<double> errors;  // of every pair, predicted over measured, less one; ascending
  // Parts of a pair that both have, the mean of all; they run at the same time.
  std::vector<ComparedTime> phases;
  // Operators by name, of the pairs that are like the one whose kernels the prediction shows; empty where a timeline
  // shows none.
  std::vector<ComparedTime> kernels;

  double median_error() const;
};

struct TimelineComparison {
  // Of kernel traces. Every row that one of the two has, the measured ones first.
  TimelineSummary predicted, measured;
  // Both have the same number of pairs of layers: then phases, periods and products are lined up, else only totals and
  // classes, without errors: they are of different work.
  bool same_slots = false;
  std::vector<ComparedTime> totals, phases, periods, classes, gemms;
  // Of steps: nothing where one has no overlapped pairs, or the two have different numbers of them.
  std::optional<OverlappedSlots> overlapped;
};

TimelineComparison compare(const Timeline& predicted, const Timeline& measured);

// Rows of the same group as one, in the order of the groups' first rows; a row without a group is left out.
std::vector<ComparedTime> grouped(const std::vector<ComparedTime>& rows,
                                  const std::map<std::string, std::string>& groups);

}  // namespace plumbline::model
