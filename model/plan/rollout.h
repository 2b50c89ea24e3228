// Reinforcement learning: what a step of [rollout] runs besides the updates of [batch]. An engine generates answers to
// prompts; forward passes give their log-probabilities, values and rewards; then the policy is trained on them.
#pragma once

#include <string_view>

#include "model/base/error.h"
#include "model/plan/plan.h"

namespace plumbline::model {

// What an algorithm runs. GRPO (arXiv 2402.03300) holds the policy near a reference model and compares the answers of a
// group; PPO (arXiv 1707.06347, as RLHF has it in arXiv 2203.02155) has a critic in place of groups; DAPO (arXiv
// 2503.14476, section 3.2 and 2.3) leaves out prompts whose answers are all right or all wrong, and has no reference.
// Its share of them varies during a run; its recipe generates three times as many as it trains on (volcengine/verl
// recipe/dapo/run_dapo_qwen2.5_32b.sh, gen_prompt_bsz).
struct RolloutPasses {
  bool reference = false, critic = false;
  double oversampling = 1;  // prompts that are answered over those that are trained on
};
// Returns those of the plan's algorithm, with what its keys state otherwise.
RolloutPasses passes_of(const Plan& plan);

inline constexpr std::string_view rule_reward = "rule";  // a rollout.reward_model that is no model

// Returns whether the engines have the GPUs that train.
bool is_colocated(const Plan& plan);
// Returns the GPUs that generate.
std::int64_t rollout_gpus(const Plan& plan);
double trained_answers(const Plan& plan);  // of a step
double sample_tokens(const Plan& plan);    // a prompt with an answer, in the mean

// Returns the sequences of a step: batch.global_batch_size, or with [rollout] as many as hold the samples of an update
// when these are packed one after another, rounded up to whole micro-batches of all data-parallel ranks.
double step_sequences(const Plan& plan);

// Checks a plan with [rollout] and gives it what follows from that: batch.global_batch_size, that of step_sequences(),
// and batch.document_length, the mean length of a sample, where the plan states neither it nor a file. What followed
// from an earlier placement is replaced. Errors: keys that do not belong together, or another batch (input); lengths
// that do not fit (infeasible).
Result<void> complete_rollout(Plan& plan);

// Returns the plan of the engines as a deployment of their own: their GPUs and degrees, the lengths of [rollout], each
// prompt computed once for all of its answers, whose blocks of keys and values engines share.
Plan engine_plan(const Plan& plan);

}  // namespace plumbline::model
