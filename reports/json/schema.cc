#include <nlohmann/json.hpp>

#include "reports/json/detail/schemas.h"
#include "reports/json/document.h"
#include "reports/json/json.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

std::string shared_definitions() {
  Json definitions = Json::object();
  for (std::string (*part)() : {step_definitions, serving_definitions, campaign_definitions, schedule_definitions})
    definitions.update(Json::parse(part()));
  definitions["plan"] = Json::parse(plan_schema());
  return text_of_json(Json{
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "Definitions"},
      {"description",
       "What the outputs of plumbline share. Times are seconds, sizes bytes, unless the key has another unit at its "
       "end."},
      {"$defs", definitions}});
}

struct NamedSchema {
  std::string_view name;
  std::string (*text)();
};
constexpr NamedSchema schemas[] = {{"defs", shared_definitions},
                                   {"simulate", simulate_schema},
                                   {"memory", memory_schema},
                                   {"campaign", campaign_schema},
                                   {"serve", serving_schema},
                                   {"schedule", schedule_schema},
                                   {"schedule-all", schedule_comparison_schema},
                                   {"plan", plan_answer_schema},
                                   {"plan-deployments", deployments_schema},
                                   {"plan-rollouts", rollout_plans_schema},
                                   {"run", run_schema},
                                   {"run-generate", generation_schema},
                                   {"sweep", sweep_schema},
                                   {"sweep-tornado", tornado_schema},
                                   {"sweep-solve", solve_schema},
                                   {"compare", result_comparison_schema},
                                   {"compare-trace", trace_comparison_schema},
                                   {"compare-chunk", chunk_comparison_schema},
                                   {"validate", validation_schema},
                                   {"validate-ledger", ledger_schema},
                                   {"show-routing", routing_schema}};

}  // namespace

std::vector<std::string> schema_names() {
  std::vector<std::string> names;
  for (const NamedSchema& schema : schemas) names.emplace_back(schema.name);
  return names;
}

std::optional<std::string> json_schema(std::string_view name) {
  for (const NamedSchema& schema : schemas)
    if (schema.name == name) return schema.text();
  return std::nullopt;
}

}  // namespace plumbline::reports
