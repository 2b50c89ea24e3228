#include "model/plan/rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace plumbline::model {
namespace {

constexpr double most_answers = 262144;  // that are in flight, each of which is drawn
constexpr double most_sequences = 1e9;   // of a step, as integer_range() has it

// Refuses keys that do not belong together.
std::optional<Error> check_keys(const Plan& plan) {
  const auto& r = plan.rollout;
  const auto wrong = [&plan](const char* key, std::string message, std::string hint) {
    return plan_error(plan, ErrorKind::input, key, std::move(message), std::move(hint));
  };
  if (!plan.inference.given)
    return wrong("rollout", "no engine generates the answers", "add [inference] with its engine and formats");
  if (plan.inference.disaggregated)
    return wrong("inference.disaggregated", "engines of a rollout prefill and decode on the same GPUs",
                 "leave it out, or leave [rollout] out");
  if (plan.inference.stream_interval != Plan{}.inference.stream_interval)
    return wrong("inference.stream_interval", "engines of a rollout send tokens to no client",
                 "leave it out, or leave [rollout] out");
  const bool colocated = is_colocated(plan);
  if (colocated && r.gpus)
    return wrong("rollout.gpus", "colocated engines have the GPUs that train",
                 "leave it out, or set rollout.placement = \"split\"");
  if (!colocated && !r.gpus)
    return wrong("rollout.gpus", fmt::format("placement {} needs GPUs that generate", r.placement),
                 "state how many, in addition to cluster.gpus");
  if (r.staleness && r.placement != "asynchronous")
    return wrong("rollout.staleness",
                 fmt::format("with placement {} answers are of the policy that trains", r.placement),
                 "set rollout.placement = \"asynchronous\", or leave it out");
  if (r.offload && !colocated)
    return wrong("rollout.offload", "engines on GPUs of their own leave what trains where it is",
                 "leave it out, or set rollout.placement = \"colocated\"");
  if (r.reward_s > 0 && r.reward_model != rule_reward)
    return wrong("rollout.reward_s", "the time of a reward model follows from its size",
                 "leave it out, or set rollout.reward_model = \"rule\"");
  if (plan.training.objective != "next-token")
    return wrong("training.objective", "an update of reinforcement learning has one of its own",
                 "leave it out, or leave [rollout] out");
  if (plan.run.tokens)
    return wrong("run.tokens", "a run of reinforcement learning is counted in steps",
                 "leave it out, and state rollout.steps");
  return std::nullopt;
}

std::optional<Error> check_lengths(const Plan& plan) {
  const auto& r = plan.rollout;
  const auto cannot = [&plan](const char* key, std::string message, std::string hint) {
    return plan_error(plan, ErrorKind::infeasible, key, std::move(message), std::move(hint));
  };
  if (r.answer_tokens > r.max_answer_tokens)
    return cannot("rollout.answer_tokens",
                  fmt::format("a mean of {} is above the longest answer of {}", r.answer_tokens, r.max_answer_tokens),
                  "the mean counts answers as they are cut");
  const std::int64_t longest = r.prompt_tokens + r.max_answer_tokens;
  if (longest > plan.batch.sequence_length)
    return cannot("batch.sequence_length",
                  fmt::format("the longest sample, of {} tokens of prompt and {} of answer, has no place in a sequence "
                              "of {}",
                              r.prompt_tokens, r.max_answer_tokens, plan.batch.sequence_length),
                  fmt::format("use at least {}; shorter samples are packed", longest));
  const double drawn =
      trained_answers(plan) * passes_of(plan).oversampling * static_cast<double>(r.staleness.value_or(1));
  if (drawn > most_answers)
    return cannot("rollout.prompts", fmt::format("{:.0f} answers in flight", drawn),
                  fmt::format("at most {:.0f} are drawn", most_answers));
  return std::nullopt;
}

}  // namespace

RolloutPasses passes_of(const Plan& plan) {
  constexpr double generated_by_dapo = 3;
  const auto& r = plan.rollout;
  const bool dapo = r.algorithm == "dapo";
  return {r.reference.value_or(!dapo), r.critic.value_or(r.algorithm == "ppo"),
          r.oversampling.value_or(dapo ? generated_by_dapo : 1)};
}

bool is_colocated(const Plan& plan) { return plan.rollout.placement == "colocated"; }

std::int64_t rollout_gpus(const Plan& plan) { return plan.rollout.gpus.value_or(plan.cluster.gpus); }

double trained_answers(const Plan& plan) {
  return static_cast<double>(plan.rollout.prompts) * static_cast<double>(plan.rollout.answers);
}

double sample_tokens(const Plan& plan) {
  return static_cast<double>(plan.rollout.prompt_tokens) + static_cast<double>(plan.rollout.answer_tokens);
}

double step_sequences(const Plan& plan) {
  if (!plan.rollout.given) return static_cast<double>(plan.batch.global_batch_size);
  const auto& degrees = plan.parallelism;
  const std::int64_t data =
      std::max<std::int64_t>(1, plan.cluster.gpus / (degrees.tensor * degrees.context * degrees.pipeline));
  const double tokens = trained_answers(plan) * sample_tokens(plan) / static_cast<double>(plan.rollout.updates);
  const double together = static_cast<double>(data) * static_cast<double>(plan.batch.micro_batch_size);
  const double packed = tokens / static_cast<double>(plan.batch.sequence_length);
  return std::max(1.0, std::ceil(packed / together)) * together;
}

Result<void> complete_rollout(Plan& plan) {
  if (auto error = check_keys(plan)) return tl::unexpected(std::move(*error));
  if (auto error = check_lengths(plan)) return tl::unexpected(std::move(*error));
  constexpr const char* section = "rollout";
  const auto imply = [&plan](const char* key) { plan.places[key] = {plan.file, 0, section}; };
  const auto stated = [&plan](const char* key) {
    const auto place = plan.places.find(key);
    return place != plan.places.end() && place->second.implied_by != section;
  };
  const double exact = step_sequences(plan);
  if (exact > most_sequences)
    return tl::unexpected(plan_error(plan, ErrorKind::infeasible, "batch.micro_batch_size",
                                     fmt::format("an update has {:.3g} sequences of all ranks", exact),
                                     fmt::format("at most {:.0f} are predicted", most_sequences)));
  const auto sequences = static_cast<std::int64_t>(exact);
  if (stated("batch.global_batch_size") && plan.batch.global_batch_size != sequences)
    return tl::unexpected(plan_error(
        plan, ErrorKind::input, "batch.global_batch_size",
        fmt::format("{} sequences hold the samples of an update, found {}", sequences, plan.batch.global_batch_size),
        "leave it out: it follows from [rollout]"));
  if (!stated("batch.global_batch_size")) {
    plan.batch.global_batch_size = sequences;
    imply("batch.global_batch_size");
  }
  if (!plan.batch.document_length && !plan.batch.document_lengths) {
    plan.batch.document_length = sample_tokens(plan);
    imply("batch.document_length");
  }
  return {};
}

Plan engine_plan(const Plan& plan) {
  const auto& r = plan.rollout;
  Plan engines = plan;
  engines.rollout = {};
  engines.cluster.gpus = rollout_gpus(plan);
  engines.parallelism = {};
  engines.parallelism.tensor = r.tensor.value_or(1);
  engines.parallelism.pipeline = r.pipeline.value_or(1);
  engines.parallelism.expert = r.expert.value_or(1);
  auto& served = engines.inference;
  served.input_tokens = r.prompt_tokens;
  served.output_tokens = r.answer_tokens;
  served.lengths.reset();
  served.stream_interval = 0;
  served.prefix_hit_rate = 1 - (1 - served.prefix_hit_rate) / static_cast<double>(r.answers);
  return engines;
}

}  // namespace plumbline::model
