#include "model/result/comparison.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "model/memory/memory.h"
#include "model/plan/plan_fields.h"

namespace plumbline::model {
namespace {

// Returns whether a key changes the executed work; others set constants, search ranges or the cost of the run.
bool executed(std::string_view key) {
  return key != "cluster.profile" && !key.starts_with("stack.") && !key.starts_with("run.") &&
         !key.starts_with("campaign.") && !key.starts_with("inference.") && !key.starts_with("rollout.") &&
         !key.starts_with("search.");
}

template <class T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, Precision>) {
    return std::string(to_string(value));
  } else if constexpr (std::is_same_v<T, ConfigValue>) {
    return std::visit([](const auto& alternative) { return text_of(alternative); }, value);
  } else if constexpr (std::is_same_v<T, StageLayers>) {
    return value.counts.empty() ? (value.even ? "even" : "balanced") : text_of(value.counts);
  } else if constexpr (std::is_same_v<T, AcceptanceShares>) {
    return text_of(value.shares);
  } else {
    return nlohmann::json(value).dump();
  }
}

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "null";
}

// Returns keys and values that change the executed work. The model is its name, as a stored result has another file.
std::map<std::string, std::string> executed_keys(Plan plan) {
  plan.model.config = model_name(plan);
  std::map<std::string, std::string> keys;
  visit_fields(plan, [&keys](std::string_view key, const auto& field) {
    if (executed(key)) keys[std::string(key)] = text_of(field);
  });
  return keys;
}

std::vector<ResultComparison::PlanDifference> plan_differences(const Plan& predicted, const Plan& measured) {
  const auto first = executed_keys(predicted), second = executed_keys(measured);
  auto all = first;
  all.insert(second.begin(), second.end());
  const auto value = [](const std::map<std::string, std::string>& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? "not given" : found->second;
  };
  std::vector<ResultComparison::PlanDifference> differences;
  for (const auto& [key, unused] : all)
    if (value(first, key) != value(second, key)) differences.push_back({key, value(first, key), value(second, key)});
  return differences;
}

std::optional<OverlappedPairs::Prediction> prediction(const Timeline& predicted, const Timeline& measured,
                                                      const std::map<std::string, std::string>& classes) {
  auto slots = compare(predicted, measured).overlapped;
  if (!slots) return std::nullopt;
  auto rows = grouped(slots->kernels, classes);
  return OverlappedPairs::Prediction{std::move(*slots), std::move(rows)};
}

// Returns nothing where a timeline is missing or has no pairs.
std::optional<OverlappedPairs> overlapped_pairs(const ComparisonSubject& predicted, const ComparisonSubject& measured) {
  auto own = prediction(predicted.timeline, measured.timeline, predicted.operator_classes);
  if (!own) return std::nullopt;
  OverlappedPairs pairs{std::move(*own), predicted.baseline, std::nullopt};
  if (!predicted.baseline.empty())
    pairs.by_baseline = prediction(predicted.baseline_timeline, measured.timeline, predicted.operator_classes);
  return pairs;
}

ResultComparison::MeasuredPair pair_of(const std::vector<ComparisonSubject>& subjects, std::size_t from, std::size_t to,
                                       WaterfallDetail detail) {
  const std::size_t predicted = subjects[from].measured() ? to : from, measured = from + to - predicted;
  const ComparisonSubject &first = subjects[predicted], &second = subjects[measured];
  return {predicted, measured, prediction_error(first.result->step, second.result->step, detail),
          plan_differences(first.plan, second.plan), overlapped_pairs(first, second)};
}

// Returns the tokens that a step trains on.
double trained_tokens(const StepResult& result) {
  const auto& rollout = result.rollout;
  return std::round(rollout ? rollout->tokens_per_s * rollout->step_s : result.step.tokens_per_s * result.step.time_s);
}

Waterfall waterfall_of(const ComparisonSubject& from, const ComparisonSubject& to, WaterfallDetail detail) {
  if (from.serving && to.serving) return waterfall(*from.serving, *to.serving);
  if (from.result->rollout && to.result->rollout) return waterfall(*from.result->rollout, *to.result->rollout);
  return waterfall(from.result->step, to.result->step, detail);
}

}  // namespace

std::string ComparisonSubject::reason() const {
  return result ? infeasible_reason(*result) : reason_of(result.error());
}

ResultComparison compare_results(std::vector<ComparisonSubject> subjects, Against against, WaterfallDetail detail) {
  ResultComparison comparison{std::move(subjects), {}, {}, against, true};
  std::optional<std::size_t> from;
  std::optional<double> tokens;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const auto& result = comparison.subjects[i].result;
    if (!result) continue;
    const double own = trained_tokens(*result);
    if (tokens.value_or(own) != own) comparison.same_tokens = false;
    tokens = own;
    if (from) {
      comparison.differences.push_back(
          {*from, i, waterfall_of(comparison.subjects[*from], comparison.subjects[i], detail)});
      if (comparison.subjects[*from].measured() != comparison.subjects[i].measured())
        comparison.measured.push_back(pair_of(comparison.subjects, *from, i, detail));
    }
    if (!from || against == Against::previous) from = i;
  }
  return comparison;
}

bool ResultComparison::deployments() const {
  return std::ranges::any_of(subjects, [](const ComparisonSubject& one) { return one.serving.has_value(); });
}

bool ResultComparison::rollouts() const {
  return std::ranges::any_of(subjects, [](const ComparisonSubject& one) { return one.result && one.result->rollout; });
}

const ResultComparison::MeasuredPair* measured_pair(const ResultComparison& comparison,
                                                    const ResultComparison::Difference& difference) {
  for (const ResultComparison::MeasuredPair& pair : comparison.measured)
    if (std::minmax(pair.predicted, pair.measured) == std::minmax(difference.from, difference.to)) return &pair;
  return nullptr;
}

}  // namespace plumbline::model
