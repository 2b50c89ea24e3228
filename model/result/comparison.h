// Compares results: the parts of a step in which their times differ and, where one is measured, the prediction error.
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
#include "model/result/serving_result.h"
#include "model/result/timeline.h"
#include "model/result/timeline_comparison.h"
#include "model/result/waterfall.h"

namespace plumbline::model {

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
