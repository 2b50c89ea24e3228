#include <nlohmann/json.hpp>
#include <utility>

#include "cli/compare_plans.h"
#include "model/version.h"
#include "reports/json.h"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json subject_of(const ComparisonSubject& subject) {
  const std::string obstacle = subject.obstacle();
  Json json = {{"name", subject.name},
               {"origin", subject.origin},
               {"feasible", obstacle.empty()},
               {"reason", obstacle.empty() ? Json(nullptr) : Json(obstacle)}};
  if (!subject.result) {
    for (const char* key : {"step", "interval", "bound", "run", "memory", "basis"}) json[key] = nullptr;
    json["plan"] = Json::parse(reports::plan_json(subject.plan));
    return json;
  }
  // As `simulate --json` has it; what a stored result lacks is null.
  Json result = Json::parse(subject.stored.empty() ? reports::to_json(*subject.result, subject.plan) : subject.stored);
  for (const char* key : {"step", "interval", "bound", "run", "memory", "basis", "plan"}) json[key] = result[key];
  return json;
}

Json difference_of(const PlanComparison::Difference& difference) {
  const model::Waterfall& waterfall = difference.waterfall;
  Json rows = Json::array();
  for (const model::WaterfallRow& row : waterfall.rows)
    rows.push_back({{"name", row.name}, {"from_s", row.from_s}, {"to_s", row.to_s}, {"change_s", row.change_s()}});
  return {{"from", difference.from},
          {"to", difference.to},
          {"from_s", waterfall.from_s},
          {"to_s", waterfall.to_s},
          {"change_s", waterfall.change_s()},
          {"rows", rows},
          {"reasons", model::main_reasons(waterfall)}};
}

}  // namespace

std::string plan_comparison_json(const PlanComparison& comparison) {
  Json subjects = Json::array(), differences = Json::array();
  for (const ComparisonSubject& subject : comparison.subjects) subjects.push_back(subject_of(subject));
  for (const PlanComparison::Difference& difference : comparison.differences)
    differences.push_back(difference_of(difference));
  const Json json = {{"plumbline", {{"version", model::version}, {"schema", model::schema}}},
                     {"comparison",
                      {{"against", comparison.against == Against::first ? "first" : "previous"},
                       {"same_tokens", comparison.same_tokens}}},
                     {"subjects", subjects},
                     {"waterfalls", differences}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
