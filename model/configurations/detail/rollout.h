// What readers of reinforcement learning share: the keys of [rollout] that follow from those of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/configurations/draft.h"
#include "model/configurations/format.h"

namespace plumbline::model::configurations {

// A key of the plan that has a program's own default, as TOML, where neither file nor user states it.
struct SilentKey {
  std::string_view plan_key, key, value;
};
void set_silent(Draft& draft, std::span<const SilentKey> silent);

// Sets the engine that a key names, vLLM without one.
void read_engine(Draft& draft, std::string_view key);

// Sets the algorithm, and returns whether it leaves out prompts whose answers are alike.
bool read_algorithm(Draft& draft, std::string_view filter, bool critic, std::string_view estimator);

// Sets the updates of a step of so many prompts, or answers, as a key states an update in.
void read_updates(Draft& draft, std::int64_t all, std::string_view key, std::int64_t silent);
// Returns the answers of a step.
std::int64_t answers_of(const Draft& draft);

// Sets a micro-batch that is packed to so many tokens, else of so many samples of the longest; lengths in the mean are
// in no file.
void read_micro_batch(Draft& draft, std::int64_t longest, std::optional<std::int64_t> packed,
                      std::optional<std::int64_t> samples, std::string_view key);

// Reads GRPO of the trainers that build on TRL, after model, GPUs and degrees.
void read_trl_grpo(const RuleInput& in);

}  // namespace plumbline::model::configurations
