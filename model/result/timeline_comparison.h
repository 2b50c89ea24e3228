// Compares a predicted and a measured timeline, of steps or of kernel traces.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/result/prediction_error.h"
#include "model/result/timeline.h"

namespace plumbline::model {

// Sums up a kernel trace, in the same way for measured and predicted ones.
//
// A kernel keeps its stream busy for its span and the launch gap after it (Kernel::gap_ps). Predicted kernels include
// their launch gaps, so busy times, classes and GEMMs are comparable. Where kernels of one class or GEMM overlap on two
// streams, the time in which at least one runs counts once.

// Sets of time intervals: when a stream, or a class of kernels, runs.

struct Interval {
  std::int64_t start_ps = 0, end_ps = 0;
};

// Returns the same times as sorted intervals that neither touch nor overlap.
std::vector<Interval> merged(std::vector<Interval> intervals);

// Returns the seconds in at least one of the intervals.
double covered(const std::vector<Interval>& intervals);

// Returns the seconds in at least one interval of `these` and in none of `those`.
double covered_without(const std::vector<Interval>& these, const std::vector<Interval>& those);

struct TimelineSummary {
  struct Phase {
    std::string name;  // "attn(F)"
    std::int32_t slot = 0;
    double start = 0, end = 0;
  };
  struct ClassTime {
    std::string row;  // Kernel::row, plus ", communication stream" for other kernels that run there
    double seconds = 0;
  };
  struct Gemm {                 // a GEMM of a layer
    std::string name, kind;     // Kernel::gemm and Kernel::gemm_kind
    std::vector<double> slots;  // seconds in each slot that has it
    double mean() const;
  };

  double seconds = 0;                // from the first kernel to the end of the trace
  double compute_busy = 0;           // while at least one compute kernel runs
  double communication_busy = 0;     // while a kernel runs on the communication stream
  double exposed_communication = 0;  // while such a kernel but no compute kernel runs
  std::int32_t slots = 0;            // pairs of layers; 0: unknown
  std::vector<Phase> phases;         // by start
  std::vector<double> periods;       // from the end of one attn(B) to the next, from slot 1 on
  std::vector<ClassTime> classes;    // the longest first
  std::vector<Gemm> gemms;           // in the order of their first kernels

  double compute_share() const { return seconds > 0 ? compute_busy / seconds : 0; }
};

// Summarizes a kernel trace. All fields are empty for a timeline without one.
TimelineSummary summarize(const Timeline& timeline);

// Returns whether kernels of a row are communication between ranks.
bool is_communication(std::string_view row);

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
