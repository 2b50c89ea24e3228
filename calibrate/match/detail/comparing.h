// What a comparison of a trace with a predicted step consists of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/match/trace_comparison.h"
#include "model/profile/cluster.h"
#include "model/result/comparison.h"
#include "model/result/timeline.h"

namespace plumbline::calibrate {

// The operators that the kernels of a trace are named after. The traces that plumbline writes have such names, and so
// has what was made of them by programs that leave out the classes.
class OperatorNames {
 public:
  // Takes the operators of a step that was predicted with all kernels, which must outlive the object.
  explicit OperatorNames(const model::Timeline& predicted);

  // Returns the number of a predicted span's operator.
  std::int32_t predicted(std::size_t span) const;
  // Returns the number of the operator that the name of a kernel of a trace states; -1: none.
  std::int32_t measured(const model::Kernel& kernel) const;
  // Returns a kernel of the operator, nullptr where its kernels are of several classes.
  const model::Kernel* kernel(std::int32_t named) const { return kernels_[static_cast<std::size_t>(named)]; }

 private:
  const model::Timeline& timeline_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
  std::vector<const model::Kernel*> kernels_;  // by number
};

// Returns the trace with the classes of predicted operators for the kernels that are named after them and have none, or
// that of collectives without a kind.
model::Timeline classified_by_name(const model::Timeline& measured, const model::Timeline& predicted);

// Whether a trace is of the run that a plan describes.

// Undoes the matches of GEMMs whose rate is above the peak of the device, in the format of the trace or the plan: what
// ran there is something else.
void undo_impossible(const model::Timeline& predicted, const model::Timeline& measured, const model::Device& device,
                     StepMatch& match);

// Returns an error that states what differs where the trace is of another model, batch or layout: experts on one side
// alone; GEMMs that mostly have other FLOPs than those that they match, where the trace has their shapes; many GEMMs
// and attentions that the plan lacks, or of a whole step that the trace lacks. Smaller differences of shapes are a
// note. Needs the classes of the comparison.
model::Result<void> check_same_run(const model::Timeline& measured, bool whole_step, TraceComparison& comparison);

// The largest differences between a trace and its prediction, each with what may explain it.

// Returns the row of a kernel in comparisons of steps: that of its class, a collective's kind, and one row of the tiny
// kernels that routers consist of.
std::string class_of_kernel(const model::Kernel& kernel);

// Returns the differences of at least a thousandth of the step by their seconds, ten at most: GEMMs by shape, other
// classes that compute, communication while nothing computes, and the time in which nothing runs.
std::vector<TraceDifference> worst_differences(const TraceComparison& comparison);

// What a comparison of timelines adds up: seconds by row, and when kernels ran.

// Adds seconds to a row of a side; rows keep the order of their first entries.
class Rows {
 public:
  void add(const std::string& name, std::optional<double> model::ComparedTime::*side, double seconds) {
    const auto [entry, fresh] = index_.try_emplace(name, rows_.size());
    if (fresh) rows_.push_back({name, std::nullopt, std::nullopt});
    std::optional<double>& sum = rows_[entry->second].*side;
    sum = sum.value_or(0) + seconds;
  }
  std::vector<model::ComparedTime> longest_first() {
    std::ranges::stable_sort(rows_, std::greater<>{}, [](const model::ComparedTime& row) {
      return std::max(row.predicted_s.value_or(0), row.measured_s.value_or(0));
    });
    return std::move(rows_);
  }

 private:
  std::vector<model::ComparedTime> rows_;
  std::map<std::string, std::size_t> index_;
};

// When a timeline's kernels compute, and when they communicate, by kind.
struct Busy {
  std::vector<model::Interval> compute;
  std::map<std::string, std::vector<model::Interval>> transfers;
  std::int64_t first_ps = std::numeric_limits<std::int64_t>::max(), last_ps = 0;

  void add(const model::Span& span, const model::Kernel& kernel) {
    const model::Interval when{span.start_ps, span.end_ps() + kernel.gap_ps};
    (model::is_communication(kernel.row) ? transfers[class_of_kernel(kernel)] : compute).push_back(when);
    first_ps = std::min(first_ps, span.start_ps);
    last_ps = std::max(last_ps, span.end_ps());
  }
  std::vector<model::Interval> all_transfers() const {
    std::vector<model::Interval> all;
    for (const auto& [kind, intervals] : transfers) all.insert(all.end(), intervals.begin(), intervals.end());
    return all;
  }
  std::vector<model::Interval> all() const {
    std::vector<model::Interval> all = all_transfers();
    all.insert(all.end(), compute.begin(), compute.end());
    return all;
  }
  double seconds() const { return last_ps > first_ps ? static_cast<double>(last_ps - first_ps) * 1e-12 : 0; }
};

}  // namespace plumbline::calibrate
