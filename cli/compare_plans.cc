#include "cli/compare_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "reports/json/json.h"
#include "reports/text/describe.h"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

// What a plan says of the prediction alone: which constants, what a search may try, what the run costs.
bool executed(const std::string& key) {
  return key != "cluster.profile" && !key.starts_with("run.") && !key.starts_with("search.");
}

// Keys and values that say what is executed; a model by its name, since its file lies elsewhere for a stored result.
std::map<std::string, std::string> executed_keys(model::Plan plan) {
  plan.model.config = reports::model_name(plan);
  std::map<std::string, std::string> keys;
  const Json json = Json::parse(reports::plan_json(plan));
  for (const auto& [section, values] : json.items())
    for (const auto& [name, value] : values.items())
      if (const std::string key = section + "." + name; executed(key))
        keys[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return keys;
}

std::vector<PlanComparison::PlanDifference> plan_differences(const model::Plan& predicted,
                                                             const model::Plan& measured) {
  const auto first = executed_keys(predicted), second = executed_keys(measured);
  auto all = first;
  all.insert(second.begin(), second.end());
  const auto value = [](const std::map<std::string, std::string>& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? "not given" : found->second;
  };
  std::vector<PlanComparison::PlanDifference> differences;
  for (const auto& [key, unused] : all)
    if (value(first, key) != value(second, key)) differences.push_back({key, value(first, key), value(second, key)});
  return differences;
}

PlanComparison::MeasuredPair pair_of(const std::vector<ComparisonSubject>& subjects, std::size_t from, std::size_t to,
                                     model::WaterfallDetail detail) {
  const std::size_t predicted = subjects[from].measured() ? to : from, measured = from + to - predicted;
  const ComparisonSubject &first = subjects[predicted], &second = subjects[measured];
  return {predicted, measured, model::prediction_error(first.result->step, second.result->step, detail),
          plan_differences(first.plan, second.plan), overlapped_pairs(first, second)};
}

}  // namespace

PlanComparison compare_plans(std::vector<ComparisonSubject> subjects, Against against, model::WaterfallDetail detail) {
  PlanComparison comparison{std::move(subjects), {}, {}, against, true};
  std::optional<std::size_t> from;
  std::optional<double> tokens;
  for (std::size_t i = 0; i < comparison.subjects.size(); ++i) {
    const auto& result = comparison.subjects[i].result;
    if (!result) continue;
    const double own = std::round(result->step.tokens_per_s * result->step.time_s);
    if (tokens.value_or(own) != own) comparison.same_tokens = false;
    tokens = own;
    if (from) {
      comparison.differences.push_back(
          {*from, i, model::waterfall(comparison.subjects[*from].result->step, result->step, detail)});
      if (comparison.subjects[*from].measured() != comparison.subjects[i].measured())
        comparison.measured.push_back(pair_of(comparison.subjects, *from, i, detail));
    }
    if (!from || against == Against::previous) from = i;
  }
  return comparison;
}

std::string subject_letter(std::size_t index) {
  constexpr std::size_t letters = 26;
  return index < letters ? std::string(1, static_cast<char>('A' + index)) : fmt::format("{}", index + 1);
}

const PlanComparison::MeasuredPair* measured_pair(const PlanComparison& comparison,
                                                  const PlanComparison::Difference& difference) {
  for (const PlanComparison::MeasuredPair& pair : comparison.measured)
    if (std::minmax(pair.predicted, pair.measured) == std::minmax(difference.from, difference.to)) return &pair;
  return nullptr;
}

}  // namespace plumbline::cli
