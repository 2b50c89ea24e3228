#include "model/plan/instance.h"

#include <fmt/format.h>

#include <optional>

#include "model/plan/detail/division_rules.h"

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

}  // namespace

std::string_view to_string(PoolKind kind) {
  if (kind == PoolKind::both) return "both";
  return kind == PoolKind::prefill ? "prefill" : "decode";
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

std::string degree_key(const Plan& plan, PoolKind pool, std::string_view name) {
  const PoolKeys* keys = keys_of(plan, pool);
  if (keys != nullptr && states(*keys, name)) return fmt::format("inference.{}.{}", to_string(pool), name);
  const bool of_parallelism = name == "tensor" || name == "pipeline" || name == "expert";
  return fmt::format("{}.{}", of_parallelism ? "parallelism" : "inference", name);
}

Result<Instance> make_instance(const Plan& plan, const Architecture& architecture, PoolKind pool) {
  const Instance instance = instance_of(plan, pool);
  const auto key = [&](std::string_view name) { return degree_key(plan, pool, name); };
  if (const auto error = check_instance_divisions(plan, architecture, instance, key)) return tl::unexpected(*error);
  return instance;
}

}  // namespace plumbline::model
