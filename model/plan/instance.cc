#include "model/plan/instance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/plan/detail/plan_rules.h"

namespace plumbline::model {
namespace {

const PoolKeys* keys_of(const Plan& plan, PoolKind pool) {
  if (!plan.inference.disaggregated || pool == PoolKind::both) return nullptr;
  return pool == PoolKind::prefill ? &plan.inference.prefill : &plan.inference.decode;
}

bool states(const PoolKeys& keys, std::string_view name) {
  if (name == "tensor") return keys.tensor.has_value();
  if (name == "pipeline") return keys.pipeline.has_value();
  if (name == "expert") return keys.expert.has_value();
  if (name == "attention_data") return keys.attention_data.has_value();
  return keys.redundant_experts.has_value();
}

// Checks what the experts of an instance divide over; `key` returns the key of a degree.
template <class KeyOf>
void check_instance_experts(Divisions& rules, const Architecture& model, const Instance& instance, const KeyOf& key) {
  const MixtureOfExperts& experts = model.experts;
  const auto one = [](std::int64_t d) { return d == 1; };
  if (experts.routed_experts == 0) {
    rules.require(key("expert"), instance.expert, one, fmt::format("{} has no experts to divide", model.name));
    rules.require(key("attention_data"), instance.attention_data, one,
                  fmt::format("{} has no experts between groups of attention data parallelism: replicas follow from "
                              "cluster.gpus",
                              model.name));
    return;
  }
  if (experts.shared_experts > 0)
    rules.require_divides(key("tensor"), instance.tensor, experts.shared_width(), "columns of the shared experts");
  rules.require(
      key("expert"), instance.expert, [&](std::int64_t d) { return instance.stage_gpus() % d == 0; },
      fmt::format("{} tensor ranks times {} groups of attention_data do not divide over {} ranks of experts",
                  instance.tensor, instance.attention_data, instance.expert));
  const std::int64_t held = experts.routed_experts + instance.redundant_experts;
  if (held % instance.expert != 0 && instance.redundant_experts > 0)
    rules.require(
        key("redundant_experts"), instance.redundant_experts,
        [&](std::int64_t d) { return (experts.routed_experts + d) % instance.expert == 0; },
        fmt::format("{} experts with {} copies do not divide over {} ranks", experts.routed_experts,
                    instance.redundant_experts, instance.expert));
  const std::int64_t missing = (instance.expert - held % instance.expert) % instance.expert;
  rules.require(
      key("expert"), instance.expert, [held](std::int64_t d) { return held % d == 0; },
      fmt::format("{} experts do not divide over {} ranks, but with {} in inference.redundant_experts", held,
                  instance.expert, missing));
  rules.require(
      key("expert"), instance.expert,
      [&](std::int64_t d) {
        return instance.stage_gpus() % d == 0 && experts.intermediate_size % (instance.stage_gpus() / d) == 0;
      },
      fmt::format("{} columns of an expert do not divide over the {} ranks that share it", experts.intermediate_size,
                  instance.expert_tensor()));
}

// Acceptance by position as published, each after accepted ones, and where the first of them lies.
struct PublishedAcceptance {
  std::vector<double> shares;
  double low = 0, high = 0;
};
// One module that drafts its own successors: 0.85 to 0.90 of the second token (arXiv 2412.19437, section 5.4.3), 0.6 as
// the readers of DeepSeek's profile took it; 0.79 of those after it is derived from 3.06 tokens a step of three drafted
// ones, 1 + 0.85 (1 + p + p^2) (vllm-project/vllm-ascend tests/e2e/pull_request/eight_card/test_glm5_2.py @28e9e11a,
// GLM-5.2).
const PublishedAcceptance accepted_of_module = {{0.85, 0.79}, 0.6, 0.9};
// Medians of EAGLE-3 heads of Llama-3.1-8B, Qwen3-8B and gpt-oss-20b over MT-Bench (vllm-project/vllm
// tests/v1/spec_decode/test_acceptance_length.py @029ba375), whose first ones are 0.654 and 0.730 at the ends. Behind
// the third token it falls no further (issue 26191: 0.74 to 0.76 of seven positions).
const PublishedAcceptance accepted_of_head = {{0.72, 0.71, 0.65}, 0.65, 0.73};
// Of edits of a text, which repeat it (vllm-project/vllm pull request 24344): 993 of 1,814 steps find a draft, whose
// first token is accepted in 0.81 of the cases, which is the upper end. Prose that repeats nothing: 0.11 (kekzl/imp
// pull request 1460).
const PublishedAcceptance accepted_of_lookup = {{0.44, 0.91, 0.95, 0.97}, 0.11, 0.81};
// Of a model with a seventeenth of the parameters of the one it drafts for, at any position (arXiv 2211.17192, table 3,
// LaMDA); 0.61 with a thousandth. The upper end is assumed.
const PublishedAcceptance accepted_of_model = {{0.75}, 0.61, 0.85};

const PublishedAcceptance& published_acceptance(DraftKind kind) {
  if (kind == DraftKind::module) return accepted_of_module;
  if (kind == DraftKind::head) return accepted_of_head;
  return kind == DraftKind::lookup ? accepted_of_lookup : accepted_of_model;
}

}  // namespace

DraftKind draft_of(const Plan& plan, const Architecture& architecture) {
  const Plan::Inference& inference = plan.inference;
  if (inference.speculative_tokens == 0) return DraftKind::none;
  if (inference.draft == "auto")
    return architecture.multi_token_prediction_layers > 0 ? DraftKind::module : DraftKind::head;
  for (const DraftKind kind : {DraftKind::module, DraftKind::head, DraftKind::lookup})
    if (inference.draft == to_string(kind)) return kind;
  return DraftKind::model;
}

std::string_view to_string(DraftKind kind) {
  static constexpr std::array<std::string_view, 5> words = {"", "mtp", "eagle", "ngram", ""};
  return words[static_cast<std::size_t>(kind)];
}

std::vector<double> acceptance_of(const Plan& plan, const Architecture& architecture) {
  const DraftKind kind = draft_of(plan, architecture);
  if (kind == DraftKind::none) return {};
  if (plan.inference.acceptance) return plan.inference.acceptance->shares;
  return published_acceptance(kind).shares;
}

std::optional<AcceptanceRange> acceptance_range(const Plan& plan, const Architecture& architecture) {
  const DraftKind kind = draft_of(plan, architecture);
  if (kind == DraftKind::none || plan.inference.acceptance) return std::nullopt;
  const PublishedAcceptance& published = published_acceptance(kind);
  return AcceptanceRange{published.low, published.shares.front(), published.high};
}

std::string_view to_string(PoolKind kind) {
  if (kind == PoolKind::both) return "both";
  return kind == PoolKind::prefill ? "prefill" : "decode";
}

std::vector<RequestLength> requests_of(const Plan& plan) {
  if (plan.inference.lengths && plan.files) return plan.files->requests;
  return {{static_cast<double>(plan.inference.input_tokens), static_cast<double>(plan.inference.output_tokens)}};
}

double longest_request(const Plan& plan, PoolKind pool) {
  double longest = 0;
  for (const RequestLength& one : requests_of(plan))
    longest = std::max(longest, one.input + (pool == PoolKind::prefill ? 0 : one.output));
  return longest;
}

Instance instance_of(const Plan& plan, PoolKind pool) {
  const Plan::Inference& inference = plan.inference;
  const auto& degrees = plan.parallelism;
  static const PoolKeys none;
  const PoolKeys* stated = keys_of(plan, pool);
  const PoolKeys& keys = stated == nullptr ? none : *stated;
  return {keys.tensor.value_or(degrees.tensor),
          keys.pipeline.value_or(degrees.pipeline),
          keys.expert.value_or(degrees.expert),
          keys.attention_data.value_or(inference.attention_data),
          keys.redundant_experts.value_or(inference.redundant_experts),
          keys.two_micro_batches.value_or(inference.two_micro_batches)};
}

std::string dispatch_of(const Plan& plan, const Instance& instance) {
  constexpr std::int64_t node = 8;  // GPUs
  if (plan.inference.dispatch != "auto") return plan.inference.dispatch;
  const bool gathers = instance.attention_data == 1 || instance.tensor * instance.attention_data <= node;
  return std::string(gathers ? all_reduce_dispatch : "deepep-2025-06");
}

std::string degree_key(const Plan& plan, PoolKind pool, std::string_view name) {
  const PoolKeys* keys = keys_of(plan, pool);
  if (keys != nullptr && states(*keys, name)) return fmt::format("inference.{}.{}", to_string(pool), name);
  const bool of_parallelism = name == "tensor" || name == "pipeline" || name == "expert";
  return fmt::format("{}.{}", of_parallelism ? "parallelism" : "inference", name);
}

Result<Instance> make_instance(const Plan& plan, const Architecture& architecture, PoolKind pool) {
  const Instance instance = instance_of(plan, pool);
  const auto key = [&](std::string_view name) { return degree_key(plan, pool, name); };
  Divisions rules(plan);
  rules.require_heads(key("tensor"), instance.tensor, architecture);
  rules.require_divides(key("tensor"), instance.tensor, architecture.intermediate_size, "columns of the MLP");
  rules.require_one_stage(key("pipeline"), instance.pipeline, architecture);
  check_instance_experts(rules, architecture, instance, key);
  rules.require(
      key("pipeline"), instance.pipeline, [&](std::int64_t d) { return d <= architecture.layers; },
      fmt::format("{} layers do not divide over {} stages", architecture.layers, instance.pipeline));
  if (rules.error()) return tl::unexpected(*rules.error());
  return instance;
}

}  // namespace plumbline::model
