// Results side by side, and where the step time of each differs from another's; beside a measured step, how far off the
// prediction is.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/prediction_error.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "model/result/timeline_comparison.h"
#include "model/result/waterfall.h"

namespace plumbline::model {

// A step that was predicted for a plan, or a result that was stored, predicted or measured.
struct ComparisonSubject {
  std::string name;           // short, differs from the others'
  std::string origin;         // "plan" or "result"
  Plan plan;                  // of a result what it stored of it
  Result<StepResult> result;  // an infeasible plan keeps its error
  std::string stored;         // of a result: the JSON as it was read
  Timeline timeline = {};     // of a measured result, and of a plan when asked for; else empty
  std::vector<std::string> rank_names = {};
  std::map<std::string, std::string> operator_classes = {};  // of a plan with a timeline: rows of the breakdown by name
  std::string baseline = {};                                 // another profile, by which the plan was predicted too
  Timeline baseline_timeline = {};
  // Of a measured result: its clock, and the steps whose median it is.
  std::string clock = {};
  std::vector<double> measured_seconds = {};

  bool measured() const { return result && result->fidelity == "measured"; }
  // A sentence without full stop why it is infeasible or does not fit; "" when it does.
  std::string reason() const;
};

enum class Against { first, previous };

// The overlapped pairs of a step as predicted and measured, where both have a timeline with some.
struct OverlappedPairs {
  struct Prediction {
    OverlappedSlots slots;
    std::vector<ComparedTime> classes;  // of operators, in the pairs whose kernels are known
  };
  Prediction predicted;
  std::string baseline;  // the profile of the second prediction, if there is one
  std::optional<Prediction> by_baseline;
};

struct ResultComparison {
  struct Difference {
    std::size_t from = 0, to = 0;  // positions in `subjects`
    Waterfall waterfall;
  };
  struct PlanDifference {  // of a key that says what is executed
    std::string key, predicted, measured;
  };
  struct MeasuredPair {                       // of a difference where one subject is measured
    std::size_t predicted = 0, measured = 0;  // positions in `subjects`
    PredictionError error;
    std::vector<PlanDifference> plans;  // empty: both executed the same
    std::optional<OverlappedPairs> overlapped;
  };
  std::vector<ComparisonSubject> subjects;
  std::vector<Difference> differences;  // between subjects with a result; the others are passed over
  std::vector<MeasuredPair> measured;
  Against against = Against::first;
  bool same_tokens = true;  // a step of each trains on as many tokens
};

ResultComparison compare_results(std::vector<ComparisonSubject> subjects, Against against, WaterfallDetail detail);

// The pair of a difference; null where both are predicted or both measured.
const ResultComparison::MeasuredPair* measured_pair(const ResultComparison& comparison,
                                                    const ResultComparison::Difference& difference);

}  // namespace plumbline::model
