// Plans and results side by side, and where the step time of each differs from another's; beside a measured step, how
// far off the prediction is.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/comparison_subjects.h"
#include "model/result/prediction_error.h"
#include "model/result/timeline_comparison.h"
#include "model/result/waterfall.h"

namespace plumbline::cli {

enum class Against { first, previous };

// The overlapped pairs of a step as predicted and measured, where both have a timeline with some.
struct OverlappedPairs {
  struct Prediction {
    model::OverlappedSlots slots;
    std::vector<model::ComparedTime> classes;  // of operators, in the pairs whose kernels are known
  };
  Prediction predicted;
  std::string baseline;  // the profile of the second prediction, if there is one
  std::optional<Prediction> by_baseline;
};

struct PlanComparison {
  struct Difference {
    std::size_t from = 0, to = 0;  // positions in `subjects`
    model::Waterfall waterfall;
  };
  struct PlanDifference {  // of a key that says what is executed
    std::string key, predicted, measured;
  };
  struct MeasuredPair {                       // of a difference where one subject is measured
    std::size_t predicted = 0, measured = 0;  // positions in `subjects`
    model::PredictionError error;
    std::vector<PlanDifference> plans;  // empty: both executed the same
    std::optional<OverlappedPairs> overlapped;
  };
  std::vector<ComparisonSubject> subjects;
  std::vector<Difference> differences;  // between subjects with a result; the others are passed over
  std::vector<MeasuredPair> measured;
  Against against = Against::first;
  bool same_tokens = true;  // a step of each trains on as many tokens
};

PlanComparison compare_plans(std::vector<ComparisonSubject> subjects, Against against, model::WaterfallDetail detail);

std::string subject_letter(std::size_t index);  // A, B, ... Z, 27, 28, ...

// The pair of a difference; null where both are predicted or both measured.
const PlanComparison::MeasuredPair* measured_pair(const PlanComparison& comparison,
                                                  const PlanComparison::Difference& difference);

// Nothing where one of the two has no timeline, or none with pairs.
std::optional<OverlappedPairs> overlapped_pairs(const ComparisonSubject& predicted, const ComparisonSubject& measured);

// A table of the pairs, their phases and their classes of operators, at most 80 columns wide.
std::string overlapped_pairs_text(const OverlappedPairs& pairs);

// Tables of slots, parts and classes with predicted, measured and error, at most 80 columns wide.
std::string measured_pair_text(const PlanComparison::MeasuredPair& pair);

std::string plan_comparison_text(const PlanComparison& comparison, bool colour);
std::string plan_comparison_json(const PlanComparison& comparison);
std::string plan_comparison_svg(const PlanComparison& comparison);

}  // namespace plumbline::cli
