#include "sim/deployment/detail/pool_space.h"

#include <algorithm>

#include "sim/search/cluster_option.h"

namespace plumbline::sim {
namespace {

using model::Instance;
using Values = std::vector<std::int64_t>;

Values powers_up_to(std::int64_t most) {
  Values values;
  for (std::int64_t value = 1; value <= most; value *= 2) values.push_back(value);
  return values;
}

// Returns 1, 3, 5 and 9 times the powers of two.
Values round_numbers(std::int64_t most) {
  Values values;
  for (const std::int64_t odd : {1, 3, 5, 9})
    for (const std::int64_t power : powers_up_to(most / odd)) values.push_back(odd * power);
  std::ranges::sort(values);
  return values;
}

// The pools of one model on one cluster.
class Instances {
 public:
  Instances(const Inputs& inputs, std::int64_t gpus) : inputs_(inputs), gpus_(gpus) {}

  std::vector<Instance> all() {
    const auto& listed = plan_.search.tensor;
    for (const std::int64_t tensor : listed.empty() ? powers_up_to(node_) : listed) add_pipelines(tensor);
    std::ranges::stable_sort(instances_, {}, [](const Instance& instance) { return instance.gpus(); });
    return std::move(instances_);
  }

 private:
  void add_pipelines(std::int64_t tensor) {
    constexpr std::int64_t most_stages = 16;
    const auto& listed = plan_.search.pipeline;
    for (const std::int64_t pipeline : listed.empty() ? powers_up_to(std::min(most_stages, model_.layers)) : listed)
      for (const std::int64_t data : attention_data(tensor))
        if (tensor * pipeline * data <= gpus_)
          add_experts({.tensor = tensor, .pipeline = pipeline, .attention_data = data});
  }

  Values attention_data(std::int64_t tensor) const {
    if (asked(plan_, "inference.attention_data")) return {plan_.inference.attention_data};
    if (model_.experts.routed_experts == 0) return {1};
    Values values = round_numbers(gpus_ / tensor);
    std::erase_if(values, [&](std::int64_t data) { return !has_place(tensor * data); });
    return values;
  }

  // The ranks of a stage lie on a part of a host that divides it, on whole hosts or on whole domains, and instances of
  // one size fill a domain where there are several.
  bool has_place(std::int64_t ranks) const {
    const std::int64_t host = model::gpus_per_host(node_);
    if (ranks % node_ == 0) return true;
    return (host % ranks == 0 || ranks % host == 0) && (node_ % ranks == 0 || gpus_ <= node_);
  }

  void add_experts(Instance instance) {
    const std::int64_t ranks = instance.tensor * instance.attention_data, experts = model_.experts.routed_experts;
    if (experts == 0) return add(instance);
    const auto& listed = plan_.search.expert;
    for (const std::int64_t parts : powers_up_to(std::min(ranks, node_))) {
      instance.expert = ranks / parts;
      const bool wanted = listed.empty() || std::ranges::find(listed, instance.expert) != listed.end();
      if (ranks % parts != 0 || !wanted || instance.expert > 2 * experts) continue;
      instance.redundant_experts = asked(plan_, "inference.redundant_experts")
                                       ? plan_.inference.redundant_experts
                                       : (instance.expert - experts % instance.expert) % instance.expert;
      add_micro_batches(instance);
    }
  }

  void add_micro_batches(Instance instance) {
    const bool fixed = asked(plan_, "inference.two_micro_batches");
    for (const bool two : {false, true}) {
      if (fixed ? two != plan_.inference.two_micro_batches : two && instance.expert == 1) continue;
      instance.two_micro_batches = two;
      add(instance);
    }
  }

  void add(const Instance& instance) {
    model::Plan plan = plan_;
    use_one_pool(plan, instance);
    if (model::make_instance(plan, model_, model::PoolKind::both)) instances_.push_back(instance);
  }

  const Inputs& inputs_;
  const model::Plan& plan_ = inputs_.plan;
  const model::Architecture& model_ = inputs_.architecture;
  const std::int64_t node_ = inputs_.cluster.gpus_per_node;
  std::int64_t gpus_;
  std::vector<Instance> instances_;
};

void give(model::PoolKeys& keys, const Instance& instance, std::int64_t instances) {
  keys = {instances * instance.gpus(), instance.tensor,
          instance.pipeline,           instance.expert,
          instance.attention_data,     instance.redundant_experts,
          instance.two_micro_batches};
}

}  // namespace

std::vector<Instance> pool_instances(const Inputs& inputs, std::int64_t gpus) { return Instances(inputs, gpus).all(); }

std::vector<std::int64_t> chunk_sizes(const model::Plan& plan) {
  const std::int64_t own = plan.inference.chunked_prefill_tokens;
  if (asked(plan, "inference.chunked_prefill_tokens")) return {own};
  Values sizes = {2048, 4096, 8192, 16384};
  if (std::ranges::find(sizes, own) == sizes.end()) sizes.push_back(own);
  std::ranges::sort(sizes);
  return sizes;
}

std::vector<bool> disaggregations(const model::Plan& plan) {
  if (asked(plan, "inference.disaggregated")) return {plan.inference.disaggregated};
  return {false, true};
}

std::vector<PoolSplit> pool_splits(const model::Plan& plan, const Instance& prefill, const Instance& decode) {
  const std::int64_t gpus = plan.cluster.gpus;
  const auto kept = [&](const char* key, const model::PoolKeys& keys, std::int64_t found) {
    return !asked(plan, key) || keys.gpus == found;
  };
  std::vector<PoolSplit> splits;
  for (PoolSplit split{0, 1}; split.decode_instances * decode.gpus() < gpus; ++split.decode_instances) {
    const std::int64_t decoding = split.decode_instances * decode.gpus();
    split.prefill_instances = (gpus - decoding) / prefill.gpus();
    if (split.prefill_instances > 0 && kept("inference.decode.gpus", plan.inference.decode, decoding) &&
        kept("inference.prefill.gpus", plan.inference.prefill, split.prefill_instances * prefill.gpus()))
      splits.push_back(split);
  }
  return splits;
}

void use_one_pool(model::Plan& plan, const Instance& instance) {
  plan.parallelism.tensor = instance.tensor;
  plan.parallelism.pipeline = instance.pipeline;
  plan.parallelism.expert = instance.expert;
  plan.inference.attention_data = instance.attention_data;
  plan.inference.redundant_experts = instance.redundant_experts;
  plan.inference.two_micro_batches = instance.two_micro_batches;
  plan.inference.disaggregated = false;
  plan.inference.prefill = plan.inference.decode = {};
}

void use_two_pools(model::Plan& plan, const Instance& prefill, const Instance& decode, const PoolSplit& split) {
  use_one_pool(plan, decode);
  plan.inference.disaggregated = true;
  give(plan.inference.prefill, prefill, split.prefill_instances);
  give(plan.inference.decode, decode, split.decode_instances);
}

}  // namespace plumbline::sim
