#include "sim/predict/detail/parts_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/plan/software.h"
#include "model/program/compile.h"
#include "sim/network/contention.h"
#include "sim/predict/memos.h"
#include "sim/predict/stage_balance.h"
#include "topologies/fabric.h"

namespace plumbline::sim {
namespace {

using model::ErrorKind;

constexpr double rate_rounding = 1e-9;

bool is_number(double value) { return std::isfinite(value) && value >= 0; }

constexpr const char* endless = "a part of the step takes more seconds than events can count";

model::Failure refuse(const Predicted& predicted, ErrorKind kind, const std::string& what) {
  return tl::unexpected(model::plan_error(
      predicted.plan, kind, "cluster.profile",
      fmt::format("with profile {} on {} {}", predicted.inputs.profile.name(), predicted.inputs.cluster.device.name,
                  what),
      "the plan, or a constant of the profile or the topology, is wrong: plumbline show lists constants"));
}

// Returns whether the profile's rates were measured or stated for a device whose peak nobody has stated.
bool peak_is_open(const Predicted& predicted) {
  const auto& parameters = predicted.inputs.cluster.parameters;
  const auto peak = std::ranges::find(parameters, "device.bf16_peak", &model::Parameter::name);
  return predicted.costs.profile->holds && peak != parameters.end() && peak->kind == model::Evidence::assumed;
}

double highest_peak(const Predicted& predicted) {
  const model::Device& device = predicted.inputs.cluster.device;
  const auto attention = model::attention_format(predicted.plan);
  const double of_attention = attention ? model::peak(device, *attention) : 0;
  return std::max({device.bf16_peak.value(), model::peak(device, predicted.plan.precision.gemm), of_attention});
}

bool is_below(double seconds, double limit) { return seconds < limit * (1 - rate_rounding); }

// Upper limits of the cache, sized for large models on large pipelines. A search decides one branch under one
// recomputation after another, and returns to none of their libraries: more of them only take memory.
constexpr std::size_t most_libraries = 32;

// Returns the seconds of both passes through a stage of this block alone.
double block_seconds(const model::BlockList& block, TimedStages& timed) {
  model::StageLibrary& library = timed.stage_library();
  const std::int32_t kind = library.kind(block);
  return timed.run(library.slot(model::OpType::F, kind, -1)).seconds +
         timed.run(library.slot(model::OpType::B, -1, kind)).seconds;
}

}  // namespace

model::Result<void> check_estimate(const Predicted& predicted, const model::StepTimes& step, double peak_bytes) {
  if (std::isinf(step.time_s)) return refuse(predicted, ErrorKind::input, endless);
  if (!is_number(step.time_s) || step.time_s == 0)
    return refuse(predicted, ErrorKind::input, fmt::format("the step takes {} s", step.time_s));
  if (!is_number(peak_bytes))
    return refuse(predicted, ErrorKind::input, fmt::format("the fullest rank holds {} B", peak_bytes));
  for (const std::optional<double>& slots : step.slots_s)
    if (slots && !is_number(*slots))
      return refuse(predicted, ErrorKind::input, fmt::format("slots of a rank take {} s", *slots));
  const double peak = highest_peak(predicted), rate = step.model_tflops_per_gpu_causal * 1e12;
  if (peak == 0 || rate <= peak * (1 + rate_rounding) || peak_is_open(predicted)) return {};
  return refuse(predicted, ErrorKind::infeasible,
                fmt::format("the step takes {:.4g} s, an MFU of {:.1f} %: faster than the peak of {:.4g} TFLOP/s",
                            step.time_s, 100 * rate / peak, peak / 1e12));
}

model::Result<void> check_limits(const Predicted& predicted, double step_s, double bound_s, double flops_at_peak_s) {
  if (!is_number(bound_s) || is_below(step_s, bound_s))
    return refuse(predicted, ErrorKind::input,
                  fmt::format("the step takes {:.6g} s and its lower bound is {:.6g} s", step_s, bound_s));
  if (!is_below(step_s, flops_at_peak_s) || peak_is_open(predicted)) return {};
  return refuse(predicted, ErrorKind::infeasible,
                fmt::format("the step takes {:.4g} s, and its FLOPs take {:.4g} s at the device's peak", step_s,
                            flops_at_peak_s));
}

model::Result<void> check_countable(const Predicted& predicted, double step_s) {
  constexpr double longest = 1e6;  // s; a ninth of what the counter holds, since links may be shared
  if (step_s < longest) return {};
  if (std::isinf(step_s)) return refuse(predicted, ErrorKind::input, endless);
  return refuse(predicted, ErrorKind::input,
                fmt::format("the step takes {:.4g} s, too long for an event simulation", step_s));
}

std::vector<std::string> peak_warnings(const Predicted& predicted, double step_s, double flops_at_peak_s) {
  if (!is_below(step_s, flops_at_peak_s)) return {};
  return {fmt::format("the step is faster than the assumed peak of {} allows: its file understates it",
                      predicted.inputs.cluster.device.name)};
}

PartsCache::PartsCache(Inputs inputs) : device_(inputs.cluster.device), inputs_(std::move(inputs)) {
  inputs_.cluster.device = model::with_allocator(device_, inputs_.profile);
  add_memos(inputs_);
}

void PartsCache::forget_times() {
  sharded_.clear();
  optimizers_.clear();
  timed_.clear();
  costs_.clear();
}

void PartsCache::set_links(const model::ClusterShape& cluster, const std::optional<topologies::FabricShape>& fabric) {
  forget_times();
  waits_.clear();
  inputs_.cluster = cluster;
  inputs_.cluster.device = model::with_allocator(device_, inputs_.profile);
  inputs_.fabric = fabric;
  inputs_.links = std::make_shared<LinksMemo>();
}

void PartsCache::set_profile(model::Profile profile) {
  if (waits_.empty())
    for (const auto& [key, timed] : timed_) timed->add_waits(waits_[&timed->stage_library()]);
  forget_times();
  inputs_.profile = std::move(profile);
  inputs_.cluster.device = model::with_allocator(device_, inputs_.profile);
}

model::Result<void> PartsCache::find(const model::Plan& plan, PlanWork& work) {
  forget();
  auto layout = TRY(model::make_layout(plan, inputs_.architecture));
  work.plan = &plan;
  work.layout = std::move(layout);
  work.kind = *model::schedule_kind(plan);
  work.schedule = TRY(inputs_.tables->find(*work.kind, work.layout.schedule));
  work.table = &work.schedule->table;
  work.counts = &work.schedule->outline.ranks;
  TRY(find_costs(work));
  find_stages(work);
  return {};
}

void PartsCache::forget() {
  const bool libraries = libraries_.size() > most_libraries;
  if (libraries || sharded_.size() > 16 * most_libraries) {  // these refer to the parts cleared below
    sharded_.clear();
    optimizers_.clear();
  }
  if (libraries || timed_.size() > 4 * most_libraries) {
    sharded_.clear();
    timed_.clear();
  }
  if (libraries) {
    waits_.clear();
    libraries_.clear();
  }
}

model::Result<void> PartsCache::find_costs(PlanWork& work) {
  add_costs(*work.plan, work.layout, inputs_.fabric.has_value(), key_.clear());
  if (inputs_.fabric) key_.add(topologies::used_nodes(*inputs_.fabric, *work.plan).gpus_per_node);
  if (inputs_.profile.find("overlap.memory_passes")) key_.add(work.layout.dense_group, work.layout.dense_stride);
  // What is copied after gathers, and how messages are divided.
  const auto states = [&](std::string_view constant) { return inputs_.profile.find(constant).has_value(); };
  if (states("message.divided") || states("sequence.gather_passes") || states("sequence.reduce_passes") ||
      states("sequence.gradient_passes") || states("sequence.partial_passes"))
    key_.add(work.plan->parallelism.tensor, work.plan->parallelism.sequence, work.plan->batch.micro_batch_size > 1);
  auto& known = costs_[key_.bytes()];
  if (!known) {
    inputs_.plan = *work.plan;
    auto costs = cost_models(inputs_, work.layout);
    if (!costs) {
      costs_.erase(key_.bytes());
      return tl::unexpected(costs.error());
    }
    known = std::make_unique<CostModels>(std::move(*costs));
  }
  work.costs = known.get();
  return {};
}

void PartsCache::find_stages(PlanWork& work) {
  const model::Plan& plan = *work.plan;
  const model::RoutingSpread spread = spread_of(inputs_, plan);
  model::LayerContext degrees = model::plan_degrees(plan, inputs_.architecture.experts, work.layout, spread);
  add_graphs(plan, degrees, key_.clear());
  auto& library = libraries_[key_.bytes()];
  if (!library) {
    degrees.architecture = inputs_.architecture;
    library = std::make_unique<model::StageLibrary>(std::move(degrees), plan);
  }
  key_.clear().add(library.get(), work.costs);
  add_imbalance(plan, key_);
  std::optional<model::Plan> copying;
  if (passes_in_slots(plan, *work.costs).any()) copying = plan;
  if (copying)
    key_.add(plan.parallelism.zero_stage, plan.parallelism.reduce_after, plan.overlap.gradient_bucket_bytes,
             plan.precision.gradient_reduce);
  auto& timed = timed_[key_.bytes()];
  const auto kept = waits_.find(library.get());
  if (!timed)
    timed = std::make_unique<TimedStages>(
        *library, *work.costs, inputs_.cluster.device, imbalance_of(plan, inputs_.architecture.experts, 0),
        plan.parallelism.expert, *inputs_.routing, std::move(copying), kept == waits_.end() ? nullptr : &kept->second);
  work.timed = timed.get();
  key_.clear().add(timed.get());
  add_sharding(plan, work.layout, key_);
  auto& sharded = sharded_[key_.bytes()];
  if (!sharded) sharded = std::make_unique<ShardedStages>(*timed, optimizers_, plan, work.layout);
  work.sharded = sharded.get();
  add_stages(plan, work.layout, key_.clear());
  auto& stages = stages_[key_.bytes()];
  if (!stages) stages = std::make_unique<StageLists>(stage_lists(plan, inputs_.architecture, work.layout));
  kinds_.clear();
  for (const model::BlockList& blocks : stages->kinds) kinds_.push_back(library->kind(blocks));
  work.stage_kinds.clear();
  for (const std::int32_t kind : stages->kind_of_stage)
    work.stage_kinds.push_back(kinds_[static_cast<std::size_t>(kind)]);
}

const std::vector<std::int32_t>& PartsCache::kinds_on(const PlanWork& work, const model::ScheduleTable::Rank& rank) {
  kinds_.clear();
  for (const std::int32_t stage : rank.stages) kinds_.push_back(work.stage_kinds[static_cast<std::size_t>(stage)]);
  return kinds_;
}

void PartsCache::find_states(PlanWork& work) {
  work.states.clear();
  for (const auto& rank : work.table->ranks) work.states.push_back(&work.sharded->state(kinds_on(work, rank)));
}

void PartsCache::find_updates(PlanWork& work) {
  work.updates.clear();
  for (const auto& rank : work.table->ranks) work.updates.push_back(&work.sharded->update(kinds_on(work, rank)));
}

model::Result<model::SplitCosts> split_costs(const model::Plan& plan, const Inputs& inputs) {
  Inputs unwired = inputs;
  unwired.fabric.reset();
  unwired.links = nullptr;
  model::Plan even = plan;
  even.schedule.layers_per_stage = {.even = true};
  PartsCache cache(std::move(unwired));
  PlanWork work;
  TRY(cache.find(even, work));
  std::map<model::BlockList, double> known;
  model::SplitCosts costs;
  for (std::int64_t stage = 0; stage < work.layout.stages; ++stage) {
    std::size_t again = costs.layers.size();  // the layer whose reference comes next
    for (const auto& block : model::block_list(even, inputs.architecture, work.layout, stage)) {
      const auto [seconds, fresh] = known.try_emplace({block});
      if (fresh) seconds->second = block_seconds(seconds->first, *work.timed);
      const bool head =
          block.first == model::BlockKind::head || block.first == model::BlockKind::multi_token_prediction;
      if (block.first == model::BlockKind::embedding)
        costs.first += seconds->second;
      else if (head)
        costs.last += seconds->second;
      else if (block.second == model::BlockPass::reference)
        costs.layers[again++] += seconds->second;
      else
        costs.layers.push_back(seconds->second);
    }
  }
  return costs;
}

model::Plan with_balanced_stages(model::Plan plan, const Inputs& inputs) {
  model::StageLayers& layers = plan.schedule.layers_per_stage;
  if (layers.even || !layers.counts.empty() || plan.batch.global_batch_size == 0) return plan;
  model::Plan even = plan;
  even.schedule.layers_per_stage = {.even = true};
  const auto layout = model::make_layout(even, inputs.architecture);
  if (!layout || layout->stages == 1) return plan;
  const auto costs = split_costs(plan, inputs);
  if (costs) {
    layers.counts = model::balanced_layer_counts(*costs, layout->stages);
    layers.found = true;
  }
  return plan;
}

}  // namespace plumbline::sim
