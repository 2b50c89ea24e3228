#include "sim/plan_work.h"

#include <algorithm>
#include <utility>

#include "model/memory_reserve.h"

namespace plumbline::sim {

namespace {

using model::OpType;

// The most that a rank's activations, temporary tensors and messages come to.
model::Bytes fullest(const PlanWork& work, const model::ScheduleTable::Rank& rank) {
  const StageLibrary& library = work.timed->stage_library();
  model::Bytes most;
  for (const auto& moment : rank.moments) {
    model::Bytes sum = library.hop() * static_cast<double>(moment.messages);
    for (std::size_t i = 0; i < rank.stages.size(); ++i) {
      const std::int32_t kind = work.stage_kinds[static_cast<std::size_t>(rank.stages[i])];
      sum += library.kept_after_forward(kind) * static_cast<double>(moment.forwards[i]);
      sum += library.kept_for_weights(kind) * static_cast<double>(moment.weights[i]);
    }
    if (moment.slot_class >= 0) sum += library.fullest(work.slots[static_cast<std::size_t>(moment.slot_class)]);
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

// Durations and collectives of every slot class; classes with the same slot are looked up once.
void time_slots(PlanWork& work) {
  struct Seen {
    std::int32_t slot;
    const TemplateRun* run;
    const SlotSync* sync;
  };
  static thread_local std::vector<Seen> seen;
  seen.clear();
  const bool even = work.timed->even();
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
      const TemplateRun& run = work.timed->run(slot, even ? 0 : seen.size());
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

// As sim/prediction.cc: messages of pairs share their link two by two.
void fill_costs(PlanWork& work) {
  const bool pairs = std::ranges::any_of(work.table->classes, [](const auto& one) { return one.type == OpType::FB; });
  const bool pipeline = work.layout.stages > 1;
  work.step.hop = pipeline ? work.costs->exchanges.hop(work.timed->stage_library().hop(), pairs ? 2 : 1) : 0;
  work.step.waits = {};
  if (work.plan->parallelism.zero_stage >= 2 && pipeline)
    work.step.waits = mean_waits(work.step, work.table->ranks.size() / 2);
}

void prepare_step(PlanWork& work) {
  const model::Plan& plan = *work.plan;
  const std::int64_t zero = plan.parallelism.zero_stage;
  const bool overlap = plan.overlap.gradient_reduce;
  using enum StepRecurrence::Reduce;
  work.step.table = work.table;
  work.step.reduce = zero >= 2 ? (overlap ? each : each_waiting) : (overlap ? once : once_at_end);
  work.step.gathers = (zero == 1 || zero == 2) && plan.overlap.parameter_gather;
  work.step.gathers_each = zero == 3;
  work.step.reshard = plan.parallelism.reshard_after_forward;
  work.step.buffers = static_cast<std::size_t>(plan.overlap.prefetch) + 1;
  work.step.reduces = true;
  work.alone = work.table->ranks.size() == 1;
}

StepEnds run_step(PlanWork& work, bool reduces) {
  work.step.reduces = reduces;
  StepWalk& walk = work.walk;
  walk_step(work.step, work.alone, walk);
  StepEnds ends;
  for (const GradientsReady& ready : walk.ranks) ends.pipeline = std::max(ends.pipeline, ready.end);
  std::vector<RankWork> works;
  for (std::size_t rank = 0; rank < walk.ranks.size(); ++rank) {
    ends.exposed_reduce = std::max(ends.exposed_reduce, walk.ranks[rank].reduced - ends.pipeline);
    works.push_back(work.states[rank]->work);
  }
  ends.step = step_end(works, walk.ranks, {});
  ends.gather_wait = walk.gather_waits[0];
  ends.slots = walk.first_slots;
  return ends;
}

StepEnds mean_of(const StepEnds& reducing, const StepEnds& local, double share) {
  const auto blend = [share](double a, double b) { return share * a + (1 - share) * b; };
  return {blend(reducing.pipeline, local.pipeline), blend(reducing.step, local.step),
          blend(reducing.exposed_reduce, local.exposed_reduce), blend(reducing.gather_wait, local.gather_wait),
          blend(reducing.slots, local.slots)};
}

double busy_first_rank(const PlanWork& work) {
  const std::vector<double> costs = slot_costs(work.step);
  double busy = 0;
  for (const std::uint32_t op : work.table->ranks[0].ops) busy += costs[work.table->ops[op].slot_class];
  return busy;
}

double peak_bytes(const PlanWork& work, const model::Device& device) {
  double peak = 0;
  for (std::size_t rank = 0; rank < work.table->ranks.size(); ++rank) {
    const ShardedStages::State& state = *work.states[rank];
    const model::Bytes dynamic = fullest(work, work.table->ranks[rank]);
    const model::Bytes buffers = model::communication_buffers(*work.plan, work.layout, device, state.gradients);
    const model::Bytes reserve = model::runtime_memory(device) + model::fragmentation(device, dynamic);
    peak = std::max(peak, state.bytes + (dynamic + buffers + reserve).value());
  }
  return peak;
}

}  // namespace plumbline::sim
