// Compares results: the parts of a step in which their times differ and, where one is measured, the prediction error.
//
// Compares a predicted and a measured timeline, of steps or of kernel traces.
//
// Explains why one step takes longer than another, or an output token more of GPUs: splits the difference by causes.
//
// Computes the error of a predicted step against the measured one, slot by slot and class by class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {

struct WaterfallRow {
  std::string name;             // "GEMM", "exposed communication", "bubble", ...
  double from_s = 0, to_s = 0;  // seconds of a step, on rank 0
  double change_s() const { return to_s - from_s; }
};

struct Waterfall {
  double from_s = 0, to_s = 0;     // the two step times, or GPU-seconds of deployments
  std::vector<WaterfallRow> rows;  // in a fixed order; they add up to both times; rows that both lack are left out
  double change_s() const { return to_s - from_s; }
};

enum class WaterfallDetail {
  categories,  // all memory-bound classes are one row
  classes      // each class of the breakdown is a row
};

// Returns the rows of rank 0: the classes of compute; "exposed communication" inside the slots, without waits for
// gathered parameters, which are "exposed parameter gather"; "point-to-point" and "bubble"; "exposed input"; "exposed
// copy to the host"; "exposed gradient reduction", from the last slot to the last reduction; "optimizer", the rest of
// optimizer_s. Parts that one of the steps does not separate (a measured one: messages from the bubble, gathers from
// other exposed communication) are one row of both. Where either step lacks a breakdown (closed form), compute and
// exposed times in slots are one row, "slots". Time that a result does not attribute is "not attributed".
Waterfall waterfall(const StepTimes& from, const StepTimes& to, WaterfallDetail detail = WaterfallDetail::categories);

// Returns the GPU-seconds of all GPUs that a thousand output tokens take: the parts of a decode step, and "prompts", by
// which a token takes longer than its share of a decode step, or that GPUs take that only prefill. Their price per hour
// makes a cost of them.
Waterfall waterfall(const ServingResult& from, const ServingResult& to);

// Returns the parts of steps of reinforcement learning; "halves at once" is what asynchronous ones save, below 0.
Waterfall waterfall(const RolloutResult& from, const RolloutResult& to);

// Returns the rows that explain most of the change, largest first, in one line: "bubble +0.81 s, exposed communication
// +0.32 s (GEMM -0.10 s)", with opposite changes in brackets. "" when no row changes by over a millionth of the step.
std::string main_reasons(const Waterfall& waterfall, std::size_t most = 3);

// Returns predicted over measured, minus one; nothing where a time is missing or the measured one is not positive.
inline std::optional<double> relative_error(std::optional<double> predicted, std::optional<double> measured) {
  if (!predicted || !measured || *measured <= 0) return std::nullopt;
  return *predicted / *measured - 1;
}

// A predicted and the measured time of the same thing.
struct ComparedTime {
  std::string name;                               // "F", "attn(F)", "GEMM", "q_b"
  std::optional<double> predicted_s, measured_s;  // missing on the side that does not have it
  std::string kind = {};                          // kind of GEMM: fprop, dgrad, wgrad, recompute
  std::int32_t slot = -1;                         // pair of layers of a phase or period
  bool same_work = true;                          // else the times are not comparable

  std::optional<double> error() const { return same_work ? relative_error(predicted_s, measured_s) : std::nullopt; }
};

struct SlotPrediction {
  OpType kind = OpType::F;
  std::int64_t count = 0;
  ComparedTime each, together;  // the mean of `count` slots, and their sum
};

// Times of rank 0. `parts` (slots by kind, bubble, optimizer) and `classes` (rows of a waterfall) add up to the step.
struct PredictionError {
  ComparedTime step;
  std::vector<SlotPrediction> slots;  // empty where the slots differ, or one step lacks them
  std::vector<ComparedTime> parts;    // empty where `slots` is
  std::vector<ComparedTime> classes;
  // Returns a row's share of step.error(): the row's difference over the measured step.
  double contribution(const ComparedTime& row) const;
};

PredictionError prediction_error(const StepTimes& predicted, const StepTimes& measured,
                                 WaterfallDetail detail = WaterfallDetail::categories);

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

// A step or a deployment predicted for a plan, or a stored result, predicted or measured.
struct ComparisonSubject {
  std::string name;           // short, differs from the others'
  std::string origin;         // "plan" or "result"
  Plan plan;                  // for a stored result the part that it stored
  Result<StepResult> result;  // an infeasible plan keeps its error
  std::string stored;         // JSON of a stored result
  Timeline timeline = {};     // set for a measured result, and for a plan on request; else empty
  std::vector<std::string> rank_names = {};
  std::map<std::string, std::string> operator_classes = {};  // breakdown rows by operator name, with a timeline
  std::string baseline = {};                                 // a second profile by which the plan was predicted
  Timeline baseline_timeline = {};
  // A measured result has a clock, and the times of the steps whose median it is.
  std::string clock = {};
  std::vector<double> measured_seconds = {};
  // Of a deployment, whose `result` has no step: what it rests on, and its memory.
  std::optional<ServingResult> serving = {};
  std::optional<double> usd_per_gpu_hour = {};

  bool measured() const { return result && result->fidelity == "measured"; }
  // Returns why the plan is infeasible or does not fit, as a sentence without full stop; "" when it fits.
  std::string reason() const;
};

enum class Against { first, previous };

// The overlapped pairs of a step, predicted and measured, where both timelines have some.
struct OverlappedPairs {
  struct Prediction {
    OverlappedSlots slots;
    std::vector<ComparedTime> classes;  // operator classes, in the pairs whose kernels are known
  };
  Prediction predicted;
  std::string baseline;  // the profile of the second prediction; may be empty
  std::optional<Prediction> by_baseline;
};

struct ResultComparison {
  struct Difference {
    std::size_t from = 0, to = 0;  // positions in `subjects`
    Waterfall waterfall;
  };
  struct PlanDifference {  // two values of a key that changes the executed work
    std::string key, predicted, measured;
  };
  struct MeasuredPair {                       // a difference of which one subject is measured
    std::size_t predicted = 0, measured = 0;  // positions in `subjects`
    PredictionError error;
    std::vector<PlanDifference> plans;  // empty: both executed the same work
    std::optional<OverlappedPairs> overlapped;
  };
  std::vector<ComparisonSubject> subjects;
  std::vector<Difference> differences;  // between subjects that have a result
  std::vector<MeasuredPair> measured;
  Against against = Against::first;
  bool same_tokens = true;  // all steps train on the same number of tokens
  bool deployments() const;
  bool rollouts() const;
};

// The subjects are steps, those of reinforcement learning, or deployments, all of one kind.
ResultComparison compare_results(std::vector<ComparisonSubject> subjects, Against against, WaterfallDetail detail);

// Returns the pair of a difference; null where both are predicted or both measured.
const ResultComparison::MeasuredPair* measured_pair(const ResultComparison& comparison,
                                                    const ResultComparison::Difference& difference);

}  // namespace plumbline::model
