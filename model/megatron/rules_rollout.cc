// Reinforcement learning that Megatron-Core trains: what its scripts state of the answers that an engine generates.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/decimal.h"
#include "model/base/text.h"
#include "model/megatron/rules.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::int64_t most = 1'000'000'000;  // of a plan's lengths and counts

double decimal(const RuleReader& in, std::string_view argument, double silent) {
  const auto text = in.given.value(argument);
  const auto number = text ? parse_decimal(*text) : std::nullopt;
  if (text && !number) in.note(argument, fmt::format("'{}' is no number: {} holds", *text, silent));
  return number ? number->value() : silent;
}

std::int64_t count(const RuleReader& in, std::string_view argument, std::int64_t silent) {
  return std::clamp<std::int64_t>(in.number(argument).value_or(silent), 0, most);
}

// Sets the updates of a step. Samples that fill none are left out.
void set_updates(const RuleReader& in, std::string_view argument, std::int64_t answers, std::int64_t update) {
  if (update < 1) return;  // refused with the plan
  in.plan.rollout.updates = std::max<std::int64_t>(1, answers / update);
  if (answers % update != 0)
    in.note(argument, fmt::format("{} answers are no whole updates of {}: {} updates are priced", answers, update,
                                  in.plan.rollout.updates));
}

// Sets sequences that hold the longest sample, or as many tokens as a micro-batch may have. An engine cuts an answer
// where its sample reaches the context.
void set_samples(const RuleReader& in, std::int64_t prompt, std::int64_t context, std::optional<std::int64_t> packed) {
  auto& batch = in.plan.batch;
  auto& answer = in.plan.rollout.max_answer_tokens;
  answer = std::min({answer, most, std::max<std::int64_t>(0, context - in.plan.rollout.prompt_tokens)});
  const std::int64_t longest = std::min(prompt + answer, context);
  batch.sequence_length = std::min(most, std::max(packed.value_or(0), longest));
  if (packed) batch.micro_batch_size = 1;
  in.plan.run.tokens.reset();  // steps are counted
}

// Defaults and rules are those of slime/utils/arguments.py @002fa9d6 and of train_actor() of
// slime/backends/megatron_utils/actor.py @2bebc099 (THUDM/slime): an update that is the only one of its step compares
// itself with its own log-probabilities, but for gspo and a penalty in the reward.
void read_slime(const RuleReader& in) {
  auto& r = in.plan.rollout;
  const std::string estimator = in.given.value("--advantage-estimator").value_or("grpo");
  const bool filters = in.given.has("--dynamic-sampling-filter-path"), critic = estimator == "ppo";
  r.algorithm = filters ? "dapo" : critic ? "ppo" : "grpo";
  r.critic = critic;
  r.prompts = count(in, "--rollout-batch-size", 0);
  r.answers = count(in, "--n-samples-per-prompt", 1);
  const std::int64_t answers = r.prompts * r.answers;
  if (const auto steps = in.number("--num-steps-per-rollout"))
    r.updates = std::clamp<std::int64_t>(*steps, 1, most);
  else if (const auto update = in.number("--global-batch-size"))
    set_updates(in, "--global-batch-size", answers, *update);
  constexpr const char* over = "--over-sampling-batch-size";
  if (const auto sampled = in.number(over); sampled && r.prompts > 0 && *sampled > r.prompts) {
    if (filters) r.oversampling = static_cast<double>(*sampled) / static_cast<double>(r.prompts);
    if (!filters) in.note(over, "no prompt is answered that is not trained on");
  }
  const bool penalty = decimal(in, "--kl-coef", 0) != 0;
  r.reference = in.given.has("--use-kl-loss") || penalty;
  const bool own = r.updates == 1 && !penalty && !critic && estimator != "gspo";
  r.old_log_probs = in.given.has("--get-mismatch-metrics") || !(own || in.given.has("--use-rollout-logprobs"));
  if (const auto steps = in.number("--num-rollout"); steps && *steps > 0) r.steps = *steps;
  if (const auto longest = in.number("--rollout-max-response-len")) r.max_answer_tokens = *longest;

  if (in.given.has("--colocate")) {
    r.placement = "colocated";
    if (in.given.has("--no-offload-train")) r.offload = false;
  } else if (const auto gpus = in.number("--rollout-num-gpus")) {
    r.gpus = *gpus;
  }
  const std::int64_t stages =
      std::max(count(in, "--sglang-pp-size", 1), count(in, "--sglang-pipeline-parallel-size", 1));
  r.pipeline = stages;
  r.tensor =
      std::max<std::int64_t>(1, count(in, "--rollout-num-gpus-per-engine", 1) / std::max<std::int64_t>(1, stages));
  r.expert = std::max(count(in, "--sglang-ep-size", 1), count(in, "--sglang-expert-parallel-size", 1));
  auto& engine = in.plan.inference;
  engine.engine = "sglang";
  engine.memory_share = decimal(in, "--sglang-mem-fraction-static", engine.memory_share);
  engine.chunked_prefill_tokens = count(in, "--sglang-chunked-prefill-size", engine.chunked_prefill_tokens);
  // Weights are sent in the format of the checkpoint of Hugging Face.
  constexpr const char* checkpoint = "--hf-checkpoint";
  const std::string path = lower_case(in.given.value(checkpoint).value_or(""));
  engine.weights = contains(path, "fp8") ? Precision::fp8 : Precision::bf16;
  if (contains(path, "fp8")) in.note(checkpoint, "by its name the engines have weights of FP8");
  if (contains(path, "int4") || contains(path, "nvfp4"))
    in.note(checkpoint, "the engines have weights of 16 bits; inference.weights has other formats");

  std::optional<std::int64_t> packed;
  if (in.given.has("--use-dynamic-batch-size"))
    packed = count(in, "--max-tokens-per-gpu", 0) * std::clamp<std::int64_t>(in.plan.parallelism.context, 1, most);
  set_samples(in, count(in, "--rollout-max-prompt-len", r.prompt_tokens), count(in, "--rollout-max-context-len", most),
              packed);
  if (!in.given.has("--rollout-max-prompt-len") && !in.given.has("--rollout-max-context-len"))
    in.note("--rollout-max-prompt-len", "is not given: no prompt is longer than the mean");
}

// Refuses what ms-swift itself does: these two are of its trainings without Megatron, and a generation is whole
// updates.
void refuse_of_swift(const RuleReader& in, std::int64_t update) {
  if (count(in, "--num-iterations", 1) > 1) in.refuse("--num-iterations", "Megatron GRPO uses an answer once: 1");
  if (in.given.has("--async-generate"))
    in.refuse("--async-generate", "Megatron GRPO generates when it needs answers: false");
  constexpr const char* generation = "--generation-batch-size";
  const auto all = in.number(generation), steps = in.number("--steps-per-generation");
  if (!all || update < 1) return;
  if (*all % update != 0 || (steps && *all / update != *steps))
    in.refuse(generation, fmt::format("{} answers are not {} updates of --global-batch-size {}", *all,
                                      steps ? std::to_string(*steps) : "whole", update));
}

// Defaults and rules are those of RLHFMegatronArgumentsMixin of swift/megatron/arguments/megatron_args.py @006938be and
// of MegatronGRPOTrainer (modelscope/ms-swift): batches count answers, and an update that is the only one of its
// generation has no log-probabilities from before.
void read_swift_grpo(const RuleReader& in) {
  auto& r = in.plan.rollout;
  r.algorithm = in.given.has("--dynamic-sample") ? "dapo" : "grpo";
  r.critic = false;
  r.answers = count(in, "--num-generations", 8);
  const std::int64_t update = std::min(most, in.plan.batch.global_batch_size);
  const std::int64_t steps = std::max<std::int64_t>(1, count(in, "--steps-per-generation", 1));
  const std::int64_t all = count(in, "--generation-batch-size", std::min(most, update * std::min(steps, most / 1000)));
  if (r.answers > 0) r.prompts = all / r.answers;
  if (r.answers > 0 && all % r.answers != 0)
    in.refuse("--num-generations", fmt::format("{} answers of a generation are no whole groups of {}", all, r.answers));
  refuse_of_swift(in, update);
  set_updates(in, "--generation-batch-size", all, update);
  r.old_log_probs = r.updates > 1;
  r.reference = decimal(in, "--beta", 0.04) != 0;
  r.max_answer_tokens = count(in, "--max-completion-length", r.max_answer_tokens > 0 ? r.max_answer_tokens : 512);
  if (const auto run = in.number("--train-iters"); run && *run >= r.updates) r.steps = *run / r.updates;

  const bool server = in.given.value("--vllm-mode") == "server", model = in.given.has("--offload-model"),
             states = in.given.has("--offload-optimizer");
  r.placement = server ? "split" : "colocated";
  if (!server) r.offload = model || states;
  if (!server && model != states)
    in.note(model ? "--offload-model" : "--offload-optimizer", "all that trains is on the host");
  r.tensor = std::max<std::int64_t>(1, count(in, "--vllm-tensor-parallel-size", 1));
  auto& engine = in.plan.inference;
  engine.engine = "vllm";
  engine.weights = Precision::bf16;
  engine.memory_share = decimal(in, "--vllm-gpu-memory-utilization", 0.9);
  set_samples(in, count(in, "--seq-length", r.prompt_tokens), count(in, "--vllm-max-model-len", most), std::nullopt);
}

}  // namespace

void read_rollout(const RuleReader& in) {
  if (!in.plan.rollout.given) return;
  if (in.given.has("--rlhf-type")) return read_swift_grpo(in);
  read_slime(in);
}

}  // namespace plumbline::model::megatron
