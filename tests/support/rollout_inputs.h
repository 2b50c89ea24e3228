// Plans with [rollout], as inputs of the predictor.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/plan/rollout.h"
#include "tests/support/serving_inputs.h"

namespace plumbline::tests {

// 512 samples of 2,000 tokens in the mean, on two nodes, in two updates.
inline const std::string policy_text = R"([model]
config = "models/llama-3-8b.json"
[cluster]
topology = "h100-dgx"
gpus = 16
[parallelism]
zero_stage = 3
[batch]
sequence_length = 8192
micro_batch_size = 1
[recompute]
policy = "full"
[inference]
weights = "bf16"
[rollout]
prompts = 64
answers = 8
prompt_tokens = 500
answer_tokens = 1500
answer_tokens_sd = 1200
max_answer_tokens = 6000
updates = 2
)";

// Returns the inputs with the deployment that generates for their plan.
inline sim::Inputs with_engines(sim::Inputs inputs) {
  sim::Inputs engines = inputs;
  engines.plan = model::engine_plan(inputs.plan);
  inputs.engines = std::make_shared<const sim::Inputs>(std::move(engines));
  return inputs;
}

// Returns those of the plan above with overrides.
inline sim::Inputs rollout_inputs(const std::vector<std::string>& overrides) {
  return with_engines(serving_inputs(policy_text, "h100", overrides));
}

}  // namespace plumbline::tests
