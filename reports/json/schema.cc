#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "reports/json/detail/fields.h"
#include "reports/json/document.h"
#include "reports/json/json.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* dialect = "https://json-schema.org/draft/2020-12/schema";

std::string shared_definitions() {
  Json definitions = Json::object();
  for (std::string (*part)() : {step_definitions, serving_definitions, campaign_definitions, schedule_definitions})
    definitions.update(Json::parse(part()));
  definitions["plan"] = Json::parse(plan_schema());
  return text_of_json(Json{
      {"$schema", dialect},
      {"title", "Definitions"},
      {"description",
       "What the outputs of plumbline share. Times are seconds, sizes bytes, unless the key has another unit at its "
       "end."},
      {"$defs", definitions}});
}

struct Output {
  std::string_view name, title, description;
  std::string (*keys)();
};
constexpr Output outputs[] = {
    {"simulate", "plumbline simulate PLAN --json",
     "A predicted step of training. Written for plans that do not fit in memory, too (memory.fits).", simulate_schema},
    {"memory", "plumbline memory PLAN --json", "Memory of every pipeline rank, and of one over a step.", memory_schema},
    {"campaign", "plumbline campaign PLAN --json", "A whole training with its failures.", campaign_schema},
    {"serve", "plumbline serve PLAN --json", "A deployment that serves a model in its steady state.", serving_schema},
    {"schedule", "plumbline schedule KIND --json", "One pipeline schedule. Times are in the unit of the costs.",
     schedule_schema},
    {"schedule-all", "plumbline schedule all --json", "All schedules of one shape, compared at equal work.",
     schedule_comparison_schema},
    {"plan", "plumbline plan MODEL --json", "The best plans of a model on clusters, to train it.", plan_answer_schema},
    {"plan-deployments", "plumbline plan MODEL --objective throughput|latency|tokens-per-dollar --json",
     "The best deployments that serve a model.", deployments_schema},
    {"plan-rollouts", "plumbline plan PLAN --json, of a plan with [rollout]",
     "How the GPUs of reinforcement learning are divided between generation and training.", rollout_plans_schema},
    {"run", "plumbline run PLAN --json",
     "A step that was executed: the keys of a predicted one, with what was measured.", run_schema},
    {"run-generate", "plumbline run PLAN --generate N --json", "Tokens that an executed model generated.",
     generation_schema},
    {"sweep", "plumbline sweep PLAN --over KEY=RANGE --json",
     "A step, or a deployment that serves, over ranges of keys.", sweep_schema},
    {"sweep-tornado", "plumbline sweep PLAN --tornado --json",
     "Which input moves time and cost most, of a step or a deployment.", tornado_schema},
    {"sweep-solve", "plumbline sweep PLAN --solve KEY --for METRIC=VALUE --json",
     "For which value of a key a target is reached.", solve_schema},
    {"compare", "plumbline compare A B --json", "Plans and results, and why one is slower.", result_comparison_schema},
    {"compare-trace", "plumbline compare PLAN TRACE --json",
     "A trace of one GPU and the predicted step of its pipeline rank.", trace_comparison_schema},
    {"compare-chunk", "plumbline compare PLAN CHUNK --json", "A profiled chunk and its prediction.",
     chunk_comparison_schema},
    {"validate", "plumbline validate --json",
     "Predictions against published and measured figures. Errors are relative: predicted over published, less one.",
     validation_schema},
    {"validate-ledger", "plumbline validate --ledger --json", "Predictions that were made before their measurement.",
     ledger_schema},
    {"show-routing", "plumbline show routing PLAN --json", "How uneven the experts of a plan are.", routing_schema}};

}  // namespace

std::vector<std::string> schema_names() {
  std::vector<std::string> names = {"defs"};
  for (const Output& output : outputs) names.emplace_back(output.name);
  return names;
}

std::optional<std::string> json_schema(std::string_view name) {
  if (name == "defs") return shared_definitions();
  const auto* output = std::ranges::find(outputs, name, &Output::name);
  if (output == std::end(outputs)) return std::nullopt;
  Json schema = {{"$schema", dialect}, {"title", output->title}, {"description", output->description}};
  schema.update(Json::parse(output->keys()));
  schema["properties"]["plumbline"]["properties"] = {
      {"output", {{"description", "name of the output"}, {"const", output->name}}}};
  return text_of_json(schema);
}

}  // namespace plumbline::reports
