#include "sim/predict/plan_work.h"

#include <algorithm>
#include <numeric>

#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/plan_key.h"

namespace plumbline::sim {
namespace {

// Returns the seconds that a slot's collectives hold their stream at least. With zero_stage 3, what two consecutive
// slots use is gathered once. The first use may therefore need no gather, and consecutive uses of one unit within a
// slot count once.
double collective_seconds(const StepRecurrence& step, const model::ScheduleTable::Op& op) {
  const SlotSync& sync = *step.syncs[op.slot_class];
  const bool each = step.reduce == StepRecurrence::Reduce::each || step.reduce == StepRecurrence::Reduce::each_waiting;
  double seconds = each && step.reduces && step.reduces_after(op) ? sync.reduce_seconds : 0;
  if (!step.gathers_each || !step.reshard) return seconds;
  for (std::size_t u = 1; u < sync.uses.size(); ++u)
    if (sync.uses[u].unit != sync.uses[u - 1].unit) seconds += sync.uses[u].seconds;
  return seconds;
}

// Returns the peak of the fullest rank, whose slots hold so much at their fullest moments. bytes_of(rank) returns its
// bytes and the least of them.
template <class BytesOf>
Peak peak_with(const PlanWork& work, const model::Device& device, const std::vector<model::Bytes>& slots,
               const BytesOf& bytes_of) {
  const model::StageLibrary& library = work.timed->stage_library();
  std::vector<model::ChunkBytes> chunks;
  for (const std::int32_t kind : work.stage_kinds)
    chunks.push_back({library.kept_after_forward(kind), library.kept_for_weights(kind)});
  Peak peak;
  std::vector<double> on_hosts;
  for (std::size_t rank = 0; rank < work.table->ranks.size(); ++rank) {
    const ShardedStages::State& state = *work.states[rank];
    const model::FullestMoment dynamic = model::fullest_moment(work.table->ranks[rank], chunks, slots, library.p2p());
    double in_flight = 0;
    for (const auto& moment : work.table->ranks[rank].moments)
      in_flight = std::max(in_flight, static_cast<double>(std::accumulate(moment.forwards.begin(),
                                                                          moment.forwards.end(), std::int64_t{0})));
    const model::RankPeak whole = model::rank_peak(*work.plan, work.layout, device,
                                                   {model::Bytes(state.bytes), state.gradients, state.counts,
                                                    dynamic.sum, dynamic.kept, library.p2p() * in_flight});
    const auto [bytes, least] = bytes_of(whole);
    peak.bytes = std::max(peak.bytes, bytes.value());
    peak.least_bytes = std::max(peak.least_bytes, least.value());
    on_hosts.push_back(state.counts.on_host.value());
  }
  peak.host_bytes = model::fullest_host(*work.plan, device, on_hosts);
  return peak;
}

}  // namespace

// Finds durations and collectives of every slot class. Classes with the same slot are looked up once.
void time_slots(PlanWork& work) {
  struct Seen {
    std::int32_t slot;
    const TemplateRun* run;
    const SlotSync* sync;
  };
  static thread_local std::vector<Seen> seen;
  seen.clear();
  work.slots.clear();
  work.step.runs.clear();
  work.step.syncs.clear();
  static thread_local std::vector<std::pair<std::uint64_t, std::size_t>> tags;
  tags.clear();
  for (const auto& one : work.table->classes) {
    const std::int32_t f = one.f_stage < 0 ? -1 : work.stage_kinds[static_cast<std::size_t>(one.f_stage)];
    const std::int32_t b = one.b_stage < 0 ? -1 : work.stage_kinds[static_cast<std::size_t>(one.b_stage)];
    const std::uint64_t tag = (static_cast<std::uint64_t>(one.type) << 48) | (static_cast<std::uint64_t>(f + 1) << 24) |
                              static_cast<std::uint64_t>(b + 1);
    auto known = std::ranges::find(tags, tag, &std::pair<std::uint64_t, std::size_t>::first);
    if (known == tags.end()) {
      const std::int32_t slot = work.timed->stage_library().slot(one.type, f, b);
      const TemplateRun& run = work.timed->run(slot);
      tags.emplace_back(tag, seen.size());
      seen.push_back({slot, &run, &work.sharded->sync(slot, run)});
      known = tags.end() - 1;
    }
    const Seen& found = seen[known->second];
    work.slots.push_back(found.slot);
    work.step.runs.push_back(found.run);
    work.step.syncs.push_back(found.sync);
  }
}

// A pair sends an activation and a gradient over the same link.
void fill_costs(PlanWork& work) {
  const bool pairs =
      std::ranges::any_of(work.table->classes, [](const auto& one) { return one.type == model::OpType::FB; });
  const bool pipeline = work.layout.stages > 1;
  work.step.p2p = pipeline ? work.costs->communication.p2p(work.timed->stage_library().p2p(), pairs ? 2 : 1) : 0;
}

void prepare_step(PlanWork& work) {
  const model::Plan& plan = *work.plan;
  const std::int64_t zero = plan.parallelism.zero_stage;
  const bool overlap = plan.overlap.gradient_reduce;
  using enum StepRecurrence::Reduce;
  work.step.table = work.table;
  work.step.reduce = zero >= 2 ? (overlap ? each : each_waiting) : (overlap ? once : once_at_end);
  using After = StepRecurrence::After;
  const std::string& after = plan.parallelism.reduce_after;
  work.step.reduce_after = after == "step" ? After::step : after == "run" ? After::run : After::pass;
  work.step.gathers = (zero == 1 || zero == 2) && plan.overlap.parameter_gather;
  work.step.gathers_each = zero == 3;
  work.step.reshard = plan.parallelism.reshard_after_forward;
  work.step.buffers = static_cast<std::size_t>(plan.overlap.prefetch) + 1;
  work.step.reduces = true;
  work.step.collective_slowdown = work.costs->collective_slowdown;
}

std::vector<std::int32_t> distinct_slots(const PlanWork& work) {
  std::vector<std::int32_t> slots;
  for (const std::int32_t slot : work.slots)
    if (std::ranges::find(slots, slot) == slots.end()) slots.push_back(slot);
  return slots;
}

Execution run_step(PlanWork& work, bool reduces, bool tail) {
  work.step.reduces = reduces;
  StepWalk& walk = work.walk;
  walk_step(work.step, walk);
  Execution execution;
  execution.ranks.resize(walk.ranks.size());
  std::vector<RankWork> works;
  std::vector<GradientsReady> ready;
  for (std::size_t rank = 0; rank < walk.ranks.size(); ++rank) {
    RankTimes& times = execution.ranks[rank];
    const StepWalk::Rank& walked = walk.ranks[rank];
    times.slot_seconds = walked.longer;
    for (const auto& [slot_class, ops] : work.counts->at(rank)) {
      const auto type = static_cast<std::size_t>(work.table->classes[slot_class].type);
      times.slot_seconds[type] += static_cast<double>(ops) * work.step.runs[slot_class]->seconds;
      times.slot_counts[type] += ops;
    }
    times.gather_wait = walked.gather_wait;
    times.slowed = walked.slowed;
    execution.pipeline_end = std::max(execution.pipeline_end, walked.ready.end);
    works.push_back(work.updates[rank]->work);
    ready.push_back(walked.ready);
  }
  for (const GradientsReady& rank : ready)
    execution.exposed_reduce = std::max(execution.exposed_reduce, rank.reduced - execution.pipeline_end);
  execution.step_end = step_end(works, ready, {});
  if (tail) execution.tail = step_tail(std::move(works), std::move(ready));
  return execution;
}

Peak peak_of(const PlanWork& work, const model::Device& device) {
  std::vector<model::Bytes> slots;
  for (const std::int32_t slot : work.slots) slots.push_back(work.timed->stage_library().fullest(slot));
  return peak_with(work, device, slots, [](const model::RankPeak& rank) { return std::pair(rank.sum(), rank.low); });
}

Peak least_peak_of(const PlanWork& work, const model::Device& device) {
  const std::vector<model::Bytes> slots(work.table->classes.size());
  return peak_with(work, device, slots, [](const model::RankPeak& rank) {
    const model::Bytes least = rank.sum() - rank.held;
    return std::pair(least, least);
  });
}

// Finds slots like time_slots(), without their durations.
void find_slots(PlanWork& work) {
  work.slots.clear();
  const auto kind = [&](std::int32_t stage) {
    return stage < 0 ? -1 : work.stage_kinds[static_cast<std::size_t>(stage)];
  };
  for (const auto& one : work.table->classes)
    work.slots.push_back(work.timed->stage_library().slot(one.type, kind(one.f_stage), kind(one.b_stage)));
}

// A rank's collectives end before the step: the last slot needs what was gathered, the update what was reduced.
double most_collective_seconds(const PlanWork& work) {
  const bool some = work.plan->parallelism.zero_stage >= 2 && work.plan->parallelism.synchronization_interval == 1;
  if (!some) return 0;
  double most = 0;
  for (const auto& rank : work.table->ranks) {
    double seconds = 0;
    for (const std::uint32_t op : rank.ops) seconds += collective_seconds(work.step, work.table->ops[op]);
    most = std::max(most, seconds);
  }
  return most;
}

std::vector<std::int32_t> slots_by_weight(const PlanWork& work, const std::vector<double>& seconds) {
  std::vector<std::pair<double, std::int32_t>> weights;  // of distinct slots
  std::vector<std::size_t> place(work.slots.size());
  for (std::size_t c = 0; c < work.slots.size(); ++c) {
    const auto known = std::ranges::find(weights, work.slots[c], &std::pair<double, std::int32_t>::second);
    place[c] = static_cast<std::size_t>(known - weights.begin());
    if (known == weights.end()) weights.emplace_back(0, work.slots[c]);
  }
  for (const auto& op : work.table->ops) weights[place[op.slot_class]].first += seconds[op.slot_class];
  std::ranges::stable_sort(weights, std::ranges::greater{}, &std::pair<double, std::int32_t>::first);
  std::vector<std::int32_t> slots;
  for (const auto& [weight, slot] : weights) slots.push_back(slot);
  return slots;
}

void add_graphs(const model::Plan& plan, const model::LayerContext& degrees, PlanKey& key) {
  model::visit_context(degrees, [&](const auto& value) { key.add(value); });
  key.add(plan.overlap.tensor, plan.overlap.tensor_gradients, plan.recompute.policy, plan.offload.activations);
}

void add_costs(const model::Plan& plan, const model::Layout& layout, bool wired, PlanKey& key) {
  key.add(plan.overlap, plan.input);
  const model::RankGroup group = model::expert_group(plan.parallelism);
  key.add(group.ranks, group.stride, plan.routing.max_nodes_per_token, plan.precision.gemm, plan.precision.dispatch,
          plan.precision.combine, plan.offload.optimizer, plan.optimizer.ema, plan.cluster.power_limit_w,
          plan.cluster.host_speed, plan.stack.dispatcher, plan.stack.fused, plan.stack.graphs, plan.attention.kernel,
          plan.loss.kernel, plan.precision.attention, plan.precision.experts, plan.precision.parameters,
          plan.precision.head,
          plan.parallelism.pipeline > 1,                                       // slots have messages
          plan.parallelism.pipeline > 1 && plan.schedule.virtual_stages == 1,  // and wait for them
          plan.routing.pad_to_capacity, plan.offload.activations > 0);
  key.add(plan.cluster.gpus, plan.parallelism.tensor, plan.cluster.speed_deviation);  // the slowest GPU
  if (!wired) return;
  key.add(plan.cluster.placement, plan.cluster.domain_gpus, plan.parallelism.pipeline);
  key.add(collective_groups(plan, layout));
}

void add_imbalance(const model::Plan& plan, PlanKey& key) {
  key.add(plan.routing, plan.parallelism.expert);
  if (!plan.routing.skew) return;
  key.add(plan.batch.micro_batch_size, plan.batch.sequence_length, plan.parallelism.context, plan.parallelism.tensor,
          plan.parallelism.sequence);
}

void add_sharding(const model::Plan& plan, const model::Layout& layout, PlanKey& key) {
  key.add(plan.parallelism, plan.overlap, plan.precision);
  key.add(plan.cluster.gpus, plan.optimizer.kind, plan.optimizer.gradient_clipping, plan.optimizer.ema,
          plan.optimizer.gradient_copy, plan.offload.optimizer, layout.two_directions);
}

void add_stages(const model::Plan& plan, const model::Layout& layout, PlanKey& key) {
  const model::StageLayers& layers = plan.schedule.layers_per_stage;
  key.add(layout.stages, layers.counts, plan.recompute.policy == "full", plan.recompute.layers,
          model::has_reference(plan));
}

}  // namespace plumbline::sim
