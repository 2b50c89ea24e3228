// What the GPUs of a pool hold.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/layers/key_value_cache.h"
#include "model/layers/recurrence.h"
#include "model/memory/memory.h"
#include "sim/serving/pool_model.h"
#include "sim/serving/serving_forms.h"

namespace plumbline::sim {
namespace {

using Kind = model::InferencePass::Kind;
using model::BlockKind;

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

}  // namespace

double PoolModel::requests_per_rank() const {
  return runs_at_most(most_requests(memory_.space, memory_.bytes_per_request()));
}

bool PoolModel::scheduler_binds() const {
  const double most = costs_.memory().most_requests;
  return most > 0 && most < most_requests(memory_.space, memory_.bytes_per_request());
}

// SGLang states a share by what it leaves to others (python/sglang/srt/server_args.py, _handle_gpu_memory_settings).
// For more GPUs than a node's eight the rule leaves nothing, so that deployments state a share; without a statement
// they have that of a node without groups.
double PoolModel::memory_share() const {
  const auto& left = costs_.memory().left;
  if (left.fixed == 0 || plan_.places.contains("inference.memory_share")) return plan_.inference.memory_share;
  constexpr double least_chunk = 2048;
  constexpr std::int64_t node = 8;
  constexpr double large = 60.0 * 1024 * 1024 * 1024;  // bytes
  const auto groups = static_cast<double>(instance_.attention_data);
  const double graph = std::isfinite(costs_.largest_graph()) ? costs_.largest_graph() : 0;
  const auto chunk = static_cast<double>(plan_.inference.chunked_prefill_tokens);
  double bytes = left.fixed + left.token * std::max(least_chunk, chunk) + left.graph * graph +
                 left.gpu * static_cast<double>(std::min(instance_.gpus(), node));
  if (groups > 1 && instance_.gpus() <= node) bytes += left.group_graph * graph * groups;
  if (memory_.capacity > large) bytes = std::max(bytes, left.least);
  if (!draft_.blocks.empty()) bytes += draft_.model == PassModel::draft ? left.draft_model : left.draft;
  return std::max(0.0, 1 - bytes / memory_.capacity);
}

double PoolModel::usable() const {
  const EngineMemory& engine = costs_.memory();
  const double share = memory_share(), others = memory_.reserve + memory_.activations;
  if (engine.of_static) return std::min(share * memory_.capacity, memory_.capacity - others);
  if (engine.of_free) return memory_.weights + share * (memory_.capacity - others - memory_.weights);
  return share * memory_.capacity - others;
}

// An engine that runs a pass to find its space runs a whole chunk, whatever the pool does.
std::vector<PassShape> PoolModel::largest_passes() const {
  const auto chunk = plan_.inference.chunked_prefill_tokens;
  std::vector<PassShape> passes;
  if (costs_.memory().logit > 0 && chunk > 0) passes.push_back({.kind = Kind::prefill, .new_tokens = chunk});
  const double most = std::max(1.0, most_requests(usable() - memory_.weights, memory_.bytes_per_request()));
  passes.push_back(kind_ == model::PoolKind::decode ? decode_shape(std::llround(std::ceil(runs_at_most(most))))
                                                    : prefill_shape_);
  return passes;
}

double PoolModel::runs_at_most(double requests) const {
  const double most = costs_.memory().most_requests;
  return most > 0 ? std::min(requests, most) : requests;
}

// A request that makes more tokens runs for longer, so that more of those that run are such.
double PoolModel::kept_tokens() const {
  const EngineMemory& engine = costs_.memory();
  double outputs = 0, outstanding = 0;
  for (const model::RequestLength& one : model::requests_of(plan_)) {
    outputs += one.output;
    outstanding += one.output * mean_outstanding(one.output, engine.reserved_tokens);
  }
  return request_.context + engine.reserved * outstanding / outputs;
}

model::Result<void> PoolModel::find_memory(const Inputs& inputs) {
  const model::Device device = model::with_allocator(inputs.cluster.device, costs_.profile().profile);
  memory_.capacity = device.memory.value();
  memory_.reserve = (device.reserve.context + device.reserve.matmul_workspace).value();
  if (instance_.gpus() > 1) memory_.reserve += device.reserve.communicator.value();
  if (instance_.expert > 1) memory_.reserve += device.reserve.all_to_all.value();
  if (kind_ != model::PoolKind::prefill) memory_.states_per_request = static_cast<double>(decode_shape(1).new_tokens);
  for (const Stage& stage : stages_) {
    const Held one = held(stage);
    memory_.weights = std::max(memory_.weights, one.weights);
    PoolMemory of_stage = memory_;
    of_stage.keys_values = one.keys_values;
    of_stage.kept = one.kept;
    of_stage.longest = one.longest;
    of_stage.states = one.states;
    if (of_stage.bytes_per_request() > memory_.bytes_per_request()) memory_ = of_stage;
  }
  for (const PassShape& largest : largest_passes())
    for (const Stage& stage : stages_)
      for (const auto& [kind, count] : stage.blocks)
        memory_.activations = std::max(memory_.activations, block(largest, kind)->activation_bytes);
  const EngineMemory& engine = costs_.memory();
  const double logits = engine.most_requests * static_cast<double>(inputs.architecture.vocabulary) * engine.logit;
  memory_.activations = std::max(memory_.activations, logits);
  memory_.space = usable() - memory_.weights;
  if (memory_.space < 0) return tl::unexpected(no_space_for_weights(inputs));
  if (requests_per_rank() < 1) return tl::unexpected(no_space_for_request(inputs, kept_tokens(), memory_.kept));
  return {};
}

model::Result<void> PoolModel::check_longest(const Inputs& inputs) const {
  if (memory_.longest + memory_.states * memory_.states_per_request <= memory_.space) return {};
  return tl::unexpected(no_space_for_request(inputs, model::longest_request(plan_, kind_), memory_.longest));
}

// Returns the bytes of a stage's weights, and of the keys and values and of one state of a request. A draft is on the
// last stage.
PoolModel::Held PoolModel::held(const Stage& stage) const {
  const PassShape shape = kind_ == model::PoolKind::prefill ? prefill_shape_ : decode_shape(1);
  const model::DataType type = model::cache_type(plan_.inference.kv_cache);
  const double partial = (costs_.memory().block_tokens - 1) / 2;  // of the last block, in the mean
  const double kept = kept_tokens(), longest = model::longest_request(plan_, kind_);
  Held sum;
  const auto add = [&](const PassShape& of, const std::map<BlockKind, std::int64_t>& blocks) {
    const model::Architecture& model = costs_.architecture(of.model);
    for (const auto& [kind, count] : blocks) {
      const auto many = static_cast<double>(count);
      const model::LayerKind layer = model::layer_of(kind, model);
      sum.weights += block(of, kind)->weights_bytes * many;
      const auto cached = [&](double tokens) {
        return model::cache_bytes(model, type, instance_.tensor, layer, tokens + partial) * many;
      };
      sum.keys_values += cached(request_.context);
      sum.kept += cached(kept);
      sum.longest += cached(longest);
      sum.states += model::state_bytes(model, instance_.tensor, layer.mixer) * many;
    }
  };
  add(shape, stage.blocks);
  if (stage.blocks.contains(BlockKind::head)) add(draft_shape(shape), draft_.blocks);
  return sum;
}

model::Error PoolModel::no_space_for_weights(const Inputs& inputs) const {
  const std::string key =
      model::degree_key(plan_, kind_, inputs.architecture.experts.routed_experts > 0 ? "expert" : "tensor");
  const double usable = this->usable();
  std::string hint = fmt::format(
      "divide them over {:.0f} times as many GPUs of an instance, or store them in fewer bits (inference.weights)",
      std::ceil(memory_.weights / std::max(usable, 1.0)));
  if (usable <= 0) hint = "raise inference.memory_share";
  if (plan_.inference.chunked_prefill_tokens > 0 && memory_.activations > memory_.weights)
    hint = fmt::format("lower inference.chunked_prefill_tokens: the activations of a step take {}",
                       gigabytes(memory_.activations));
  return model::plan_error(
      plan_, model::ErrorKind::infeasible, key,
      fmt::format("{} of weights a GPU do not fit: of {} the engine may use {}", gigabytes(memory_.weights),
                  gigabytes(memory_.capacity), gigabytes(std::max(usable, 0.0))),
      std::move(hint));
}

model::Error PoolModel::no_space_for_request(const Inputs& inputs, double tokens, double keys_values) const {
  const double states = memory_.states * memory_.states_per_request;
  if (memory_.space < states)
    return model::plan_error(plan_, model::ErrorKind::infeasible, model::degree_key(plan_, kind_, "tensor"),
                             fmt::format("{} of states of one request of {} have no space: {} a GPU are left for them",
                                         gigabytes(states), inputs.architecture.name, gigabytes(memory_.space)),
                             "use more GPUs for an instance, or speculate fewer tokens");
  const double held = tokens * (memory_.space - states) / keys_values;
  const bool narrow = model::bytes_per_element(model::cache_type(plan_.inference.kv_cache)) <= 1;
  const bool listed = plan_.inference.lengths.has_value();
  return model::plan_error(
      plan_, model::ErrorKind::infeasible, listed ? "inference.lengths" : "inference.input_tokens",
      fmt::format("{:.0f} tokens of {} request of {} have no space: {} a GPU are left for keys and values, which hold "
                  "{:.0f}",
                  tokens,
                  !listed                                         ? "one"
                  : tokens < model::longest_request(plan_, kind_) ? "a mean"
                                                                  : "the longest",
                  inputs.architecture.name, gigabytes(memory_.space), held),
      fmt::format("shorten requests to {:.0f}, {}or use more GPUs for an instance", std::floor(held),
                  narrow ? "" : "set inference.kv_cache = \"fp8\", "));
}

}  // namespace plumbline::sim
