// Plans that serve shipped models on shipped clusters, as inputs of the predictor.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/predict/memos.h"
#include "sim/serving/pool_model.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {

// DeepSeek's unit for decode (open-infra-index, day 6): 144 GPUs, of which each has requests of its own and two routed
// experts, and the lengths of its users.
inline const std::string deepseek_decode_unit = R"(
[model]
config = "models/deepseek-v3.json"
[cluster]
topology = "h800-rail-fat-tree"
gpus = 144
[parallelism]
expert = 144
[inference]
input_tokens = 4383
output_tokens = 1211
concurrency = 12672
attention_data = 144
redundant_experts = 32
two_micro_batches = true
speculative_tokens = 1
)";

inline const std::string llama_node = R"(
[model]
config = "models/llama-3-70b.json"
[cluster]
topology = "h100-dgx"
gpus = 8
[parallelism]
tensor = 8
[inference]
)";

// Returns the inputs of the text of a plan, with the constants of a profile alone. `overrides` have the form of the
// command line.
inline sim::Inputs serving_inputs(const std::string& text, const std::string& profile_name,
                                  const std::vector<std::string>& overrides = {}) {
  const model::Plan plan = model::read_plan(text, "plan.toml", overrides).value();
  sim::Inputs inputs{plan, model::load_architecture(shipped("examples/" + plan.model.config)).value(),
                     load_cluster(shipped("topologies/" + plan.cluster.topology + ".toml"),
                                  shipped("topologies/devices"), topologies::variation_of(plan))
                         .value(),
                     model::load_profile(profile_file(profile_name)).value()};
  inputs.routing = std::make_shared<sim::ExpertGroupMemo>();
  return inputs;
}

inline model::Parameter of_engine(const std::string& name, double value, const char* unit = "1") {
  return {"serving." + name, value, unit, model::Evidence::assumed, "this test"};
}

// Returns the same with further constants.
inline sim::Inputs engine_inputs(const std::string& text, const std::string& profile_name,
                                 const std::vector<model::Parameter>& constants,
                                 const std::vector<std::string>& overrides = {}) {
  sim::Inputs inputs = serving_inputs(text, profile_name, overrides);
  auto all = inputs.profile.parameters();
  all.insert(all.end(), constants.begin(), constants.end());
  inputs.profile = model::Profile("of an engine", "", std::move(all), inputs.profile.devices());
  return inputs;
}

// The GPUs of a plan without pools of their own.
struct OnePool {
  explicit OnePool(sim::Inputs given) : inputs(std::move(given)) {}
  OnePool(const OnePool&) = delete;
  OnePool& operator=(const OnePool&) = delete;
  const sim::PoolModel* operator->() const { return pool.get(); }

  sim::Inputs inputs;
  std::shared_ptr<const sim::PassCosts> costs = sim::PassCosts::make(inputs).value();
  std::shared_ptr<const sim::PoolModel> pool =
      sim::PoolModel::make(inputs, *costs, inputs.plan, model::PoolKind::both).value();
};

}  // namespace plumbline::tests
