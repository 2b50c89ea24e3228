// What verl, OpenRLHF, NeMo-RL and the trainers on TRL have in common, and GRPO of the latter.
#include "model/configurations/detail/rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/configurations/detail/shared.h"

namespace plumbline::model::configurations {

void set_silent(Draft& draft, std::span<const SilentKey> silent) {
  for (const auto& [plan_key, key, value] : silent)
    if (!draft.given(plan_key)) draft.put(plan_key, std::string(value), key);
}

void read_engine(Draft& draft, std::string_view key) {
  const std::string name = draft.text(key).value_or("vllm");
  const bool known = name == "vllm" || name == "sglang" || name == "trtllm";
  draft.set("inference.engine", name == "trtllm" ? "tensorrt-llm" : known ? name : "vllm", key);
  if (!known) draft.not_modeled(key, "the engine is vLLM");
}

bool read_algorithm(Draft& draft, std::string_view filter, bool critic, std::string_view estimator) {
  const bool filters = draft.flag(filter).value_or(false);
  const std::string_view key = filters ? filter : estimator;
  draft.set("rollout.algorithm", filters ? "dapo" : critic ? "ppo" : "grpo", key);
  draft.set("rollout.critic", critic, key);
  return filters;
}

void read_updates(Draft& draft, std::int64_t all, std::string_view key, std::int64_t silent) {
  const std::int64_t update = draft.integer(key).value_or(silent);
  if (update > 0 && all % update == 0) return draft.set("rollout.updates", all / update, key);
  if (!draft.given("rollout.updates")) draft.fail(key, fmt::format("{} are no whole mini-batches of {}", all, update));
}

std::int64_t answers_of(const Draft& draft) {
  return bounded_product({draft.value("rollout.prompts").value_or(0), draft.value("rollout.answers").value_or(0)});
}

void read_micro_batch(Draft& draft, std::int64_t longest, std::optional<std::int64_t> packed,
                      std::optional<std::int64_t> samples, std::string_view key) {
  draft.set("batch.sequence_length", std::max(packed.value_or(0), longest),
            packed ? key : "the longest prompt and answer");
  if (packed || samples) draft.set("batch.micro_batch_size", packed ? 1 : *samples, key);
  for (const char* length : {"rollout.prompt_tokens", "rollout.answer_tokens", "rollout.answer_tokens_sd"})
    if (!draft.given(length))
      return draft.fail("", fmt::format("does not state {}: it has the longest prompts and answers alone", length),
                        "--set rollout.prompt_tokens=N --set rollout.answer_tokens=N --set rollout.answer_tokens_sd=N "
                        "state the lengths in the mean, and the deviation of those of answers");
}

namespace {

// What ms-swift and axolotl leave to TRL, or decide themselves: swift/arguments/rlhf_args.py @efd0a543 and
// VllmArguments of swift/trainers/arguments.py @0037257c (modelscope/ms-swift); src/axolotl/utils/schemas/trl.py
// @b6fc46ad and vllm.py @236a4e3c with the defaults of GRPOConfig of huggingface/trl.
struct TrlDefaults {
  double penalty = 0;
  std::int64_t answer_tokens = 0;
  std::string_view mode;
  double colocated_share = 0, server_share = 0;  // of an engine's GPU memory
};
constexpr TrlDefaults of_swift{0.04, 512, "colocate", 0.9, 0.9}, of_axolotl{0, 256, "server", 0.3, 0.9};

const TrlDefaults& trl_defaults(const Draft& draft) { return draft.program() == "axolotl" ? of_axolotl : of_swift; }

// Sets prompts, answers and updates of a step. Batches count answers. One generation is for `steps_per_generation`
// micro-batches of each rank, of which an update takes those that are accumulated; ms-swift's ranks of one sequence
// take each other's micro-batches too (gradient_accumulation_steps * sequence_parallel.world_size of GRPOTrainer).
void read_trl_step(Draft& draft) {
  const std::string_view groups = "num_generations", per_generation = "steps_per_generation",
                         generation = "generation_batch_size", again = "num_iterations";
  const std::int64_t micro = draft.integer("per_device_train_batch_size").value_or(1),
                     accumulated = draft.integer("gradient_accumulation_steps").value_or(1);
  const auto ranks = draft.program() == "axolotl" ? draft.data_parallel() : draft.value("cluster.gpus");
  const std::int64_t at_once = bounded_product({micro, ranks.value_or(0)});
  if (at_once < 1 || accumulated < 1) return;  // what is missing or wrong is refused with the plan
  const auto stated = draft.integer(generation);
  if (stated && *stated % at_once != 0)
    return draft.fail(generation,
                      fmt::format("{} answers are no whole micro-batches of all ranks, {}", *stated, at_once));
  const std::int64_t steps = stated ? *stated / at_once : draft.integer(per_generation).value_or(accumulated);
  const std::string_view key = stated ? generation : per_generation;
  if (steps < 1 || steps % accumulated != 0)
    return draft.fail(key,
                      fmt::format("{} micro-batches of a generation are no whole updates of {}", steps, accumulated));
  const std::int64_t answers = draft.integer(groups).value_or(8), all = bounded_product({at_once, steps});
  if (answers < 1 || all % answers != 0)
    return draft.fail(groups, fmt::format("{} answers of a generation are no whole groups of {}", all, answers),
                      "micro-batch x GPUs x steps_per_generation has to be a multiple");
  draft.set("rollout.prompts", all / answers, "micro-batch x ranks x steps of a generation over answers");
  draft.set("rollout.answers", answers, groups);
  draft.set("rollout.updates", steps / accumulated, key);
  const std::int64_t epochs = draft.integer(again).value_or(1);
  draft.set("rollout.epochs", epochs, again);
  // The policy's own log-probabilities are those of the update where it is the only one.
  draft.set("rollout.old_log_probs", epochs > 1 || steps > accumulated, key);
  if (const auto run = draft.integer("max_steps"))
    if (const std::int64_t updates = bounded_product({steps / accumulated, epochs}); updates > 0 && *run >= updates)
      draft.set("rollout.steps", *run / updates, "max_steps");
}

// Sets the longest sample and the micro-batch. A prompt is cut at max_length, and a sample at what the engine takes.
void read_trl_lengths(Draft& draft) {
  const std::string_view context = "vllm_max_model_len";
  const std::int64_t answer = draft.integer("max_completion_length").value_or(trl_defaults(draft).answer_tokens);
  draft.set("rollout.max_answer_tokens", answer, "max_completion_length");
  const auto prompt = draft.integer("cutoff_len"), whole = draft.integer(context);
  if (!prompt && !whole && !draft.given("batch.sequence_length"))
    draft.note(Note::Kind::assumed, "", "assumed: no prompt is longer than the mean, as no key states the longest");
  constexpr std::int64_t most = 1'000'000'000;  // of a plan's lengths
  const std::int64_t usual = draft.value("rollout.prompt_tokens").value_or(0);
  const std::int64_t both = std::min(most, prompt.value_or(usual)) + std::min(most, answer);
  const std::int64_t longest = !whole ? both : prompt ? std::min(*whole, both) : *whole;
  read_micro_batch(draft, longest, std::nullopt, draft.integer("per_device_train_batch_size").value_or(1),
                   "per_device_train_batch_size");
  draft.note(Note::Kind::assumed, "",
             "assumed: samples are packed into sequences of the longest, so that micro-batches are fewer and fuller");
}

void read_trl_server(Draft& draft) {
  const bool ahead = draft.flag("async_generate").value_or(false);
  const auto ranks = draft.integer("vllm_tensor_parallel_size");
  draft.set("rollout.placement", ahead ? "asynchronous" : "split", ahead ? "async_generate" : "vllm_mode");
  const bool own = draft.program() == "axolotl" && ranks;  // the file has the server's section
  if (own)
    draft.set("rollout.gpus", bounded_product({*ranks, draft.integer("vllm_data_parallel_size").value_or(1)}),
              "vllm_tensor_parallel_size");
  if (draft.given("rollout.gpus")) return;
  draft.fail("vllm_mode", "a server on other GPUs generates the answers, and its command is not here",
             "--set rollout.gpus=N --set rollout.tensor=N state its GPUs and the degree of an engine");
}

void read_trl_colocated(Draft& draft) {
  const bool model = draft.flag("offload_model").value_or(false),
             optimizer = draft.flag("offload_optimizer").value_or(false);
  const std::string_view key = model ? "offload_model" : "offload_optimizer", sleep = "sleep_level";
  draft.set("rollout.offload", model || optimizer, key);
  if (model != optimizer) draft.not_modeled(key, "all that trains is on the host");
  if (draft.integer(sleep).value_or(0) == 0)
    draft.not_modeled(sleep,
                      "engines sleep during the update; there they keep vllm_gpu_memory_utilization of the memory");
}

// Sets the engine; without vLLM transformers generates, which is none.
void read_trl_engine(const RuleInput& in) {
  Draft& draft = in.draft;
  const std::string_view key = "use_vllm", ranks = "vllm_tensor_parallel_size", stages = "vllm_pipeline_parallel_size",
                         experts = "vllm_enable_expert_parallel";
  const TrlDefaults& defaults = trl_defaults(draft);
  const bool other = draft.flag("use_lmdeploy").value_or(false), engine = draft.flag(key).value_or(false) || other;
  if (!engine && !draft.given("inference.engine"))
    return draft.fail(draft.text(key) ? key : "stage",
                      "transformers generates the answers, which is no engine of [inference]",
                      "--set inference.engine=vllm predicts vLLM in its place");
  draft.set("inference.engine", "vllm", key);
  const bool server = engine && !other &&
                      (draft.configuration().find("vllm_server_host") != nullptr ||
                       draft.configuration().find("vllm_server_base_url") != nullptr ||
                       draft.text("vllm_mode").value_or(std::string(defaults.mode)) == "server");
  draft.set("rollout.tensor", draft.integer(ranks).value_or(1), ranks);
  draft.set("rollout.pipeline", draft.integer(stages).value_or(1), stages);
  if (draft.flag(experts).value_or(false))
    draft.set("rollout.expert", draft.value("rollout.tensor").value_or(1), experts);
  draft.set(
      "inference.memory_share",
      draft.number("vllm_gpu_memory_utilization").value_or(server ? defaults.server_share : defaults.colocated_share),
      "vllm_gpu_memory_utilization");
  if (server)
    read_trl_server(draft);
  else
    read_trl_colocated(draft);
  if (!draft.text("reward_model") || draft.given("rollout.reward_model")) return;
  if (const auto model = named_model(in, "reward_model"))
    draft.set("rollout.reward_model", model->shipped, "reward_model");
  else
    draft.not_modeled("reward_model", "a program rewards; set rollout.reward_model");
}

}  // namespace

void read_trl_grpo(const RuleInput& in) {
  Draft& draft = in.draft;
  read_algorithm(draft, "dynamic_sample", false, "stage");
  draft.set("rollout.reference", draft.number("beta").value_or(trl_defaults(draft).penalty) != 0, "beta");
  read_trl_engine(in);
  read_trl_step(draft);
  read_trl_lengths(draft);
}

}  // namespace plumbline::model::configurations
