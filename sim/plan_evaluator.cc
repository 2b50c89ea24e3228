#include "sim/plan_evaluator.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/layout.h"
#include "model/memory_reserve.h"
#include "model/schedule/schedule_table.h"
#include "sim/cached_stages.h"
#include "sim/plan_key.h"
#include "sim/simulate.h"
#include "sim/step_recurrence.h"

namespace plumbline::sim {

namespace {

using model::OpType;

template <class Part>
using Known = std::unordered_map<std::string, std::unique_ptr<Part>>;

struct Stages {                             // of a plan
  std::vector<BlockList> kinds;             // distinct ones
  std::vector<std::int32_t> kind_of_stage;  // index into kinds
};

// Everything of one plan, until its estimate is made.
struct Work {
  const model::Plan* plan = nullptr;
  model::Layout layout;
  const model::ScheduleKind* kind = nullptr;
  const model::ScheduleTable* table = nullptr;
  const CostModels* costs = nullptr;
  TimedStages* timed = nullptr;
  ShardedStages* sharded = nullptr;
  std::vector<std::int32_t> stage_kinds;            // [stage] of the library
  std::vector<std::int32_t> slots;                  // [slot class] of the library
  std::vector<const ShardedStages::State*> states;  // [rank]
  StepRecurrence step;
  StepWalk walk;
  bool alone = false;
};

std::unique_ptr<Stages> stages_of(const model::Plan& plan, const model::Architecture& architecture,
                                  const model::Layout& layout) {
  auto stages = std::make_unique<Stages>();
  for (std::int64_t stage = 0; stage < layout.stages; ++stage) {
    BlockList blocks;
    for (const model::StageBlock& block : model::stage_blocks(plan, architecture, layout, stage))
      blocks.emplace_back(block.kind, block.recomputed);
    const auto known = std::ranges::find(stages->kinds, blocks);
    stages->kind_of_stage.push_back(static_cast<std::int32_t>(known - stages->kinds.begin()));
    if (known == stages->kinds.end()) stages->kinds.push_back(std::move(blocks));
  }
  return stages;
}

// Durations and collectives of every slot class; classes with the same slot are looked up once.
void time_slots(Work& work) {
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
void fill_costs(Work& work) {
  const bool pairs = std::ranges::any_of(work.table->classes, [](const auto& one) { return one.type == OpType::FB; });
  const bool pipeline = work.layout.stages > 1;
  work.step.hop = pipeline ? work.costs->exchanges.hop(work.timed->stage_library().hop(), pairs ? 2 : 1) : 0;
  work.step.waits = {};
  if (work.plan->parallelism.zero_stage >= 2 && pipeline)
    work.step.waits = mean_waits(work.step, work.table->ranks.size() / 2);
}

void prepare_step(Work& work) {
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

struct StepEnds {
  double pipeline = 0, step = 0, exposed_reduce = 0, gather_wait = 0, slots = 0;
};

StepEnds run_step(Work& work, bool reduces) {
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

double busy_first_rank(const Work& work) {
  const std::vector<double> costs = slot_costs(work.step);
  double busy = 0;
  for (const std::uint32_t op : work.table->ranks[0].ops) busy += costs[work.table->ops[op].slot_class];
  return busy;
}

// The most that a rank's activations, temporary tensors and messages come to.
model::Bytes fullest(const Work& work, const model::ScheduleTable::Rank& rank) {
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

double peak_bytes(const Work& work, const model::Device& device) {
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

// As time_slots, without their durations.
void find_slots(Work& work) {
  work.slots.clear();
  const auto kind = [&](std::int32_t stage) {
    return stage < 0 ? -1 : work.stage_kinds[static_cast<std::size_t>(stage)];
  };
  for (const auto& one : work.table->classes)
    work.slots.push_back(work.timed->stage_library().slot(one.type, kind(one.f_stage), kind(one.b_stage)));
}

// Seconds that a slot's collectives hold their stream in any case. zero_stage 3: what two slots in a row use is
// gathered once, so the first use may find it there, and within a slot uses of one unit in a row count once.
double collective_seconds(const StepRecurrence& step, const SlotSync& sync) {
  const bool every_slot = step.reduce == StepRecurrence::Reduce::each ||
                          step.reduce == StepRecurrence::Reduce::each_waiting;
  double seconds = every_slot && step.reduces ? sync.reduce_seconds : 0;
  if (!step.gathers_each || !step.reshard) return seconds;
  for (std::size_t u = 1; u < sync.uses.size(); ++u)
    if (sync.uses[u].unit != sync.uses[u - 1].unit) seconds += sync.uses[u].seconds;
  return seconds;
}

// Of the rank that has most of them. The step ends after the last: the last slot needs what was gathered, and the
// update what was reduced.
double most_collective_seconds(const Work& work) {
  const bool some = work.plan->parallelism.zero_stage >= 2 && work.plan->parallelism.synchronisation_interval == 1;
  if (!some) return 0;
  double most = 0;
  for (const auto& rank : work.table->ranks) {
    double seconds = 0;
    for (const std::uint32_t op : rank.ops)
      seconds += collective_seconds(work.step, *work.step.syncs[work.table->ops[op].slot_class]);
    most = std::max(most, seconds);
  }
  return most;
}

// Distinct slots with their index among them (time_slots), the one with most seconds in all first.
std::vector<std::pair<std::size_t, std::int32_t>> slots_by_weight(const Work& work,
                                                                  const std::vector<double>& seconds) {
  std::vector<std::pair<std::size_t, std::int32_t>> slots;
  std::vector<double> weights;
  std::vector<std::size_t> slot_of(work.slots.size());
  for (std::size_t c = 0; c < work.slots.size(); ++c) {
    const auto known = std::ranges::find(slots, work.slots[c], &std::pair<std::size_t, std::int32_t>::second);
    slot_of[c] = static_cast<std::size_t>(known - slots.begin());
    if (known != slots.end()) continue;
    slots.emplace_back(slots.size(), work.slots[c]);
    weights.push_back(0);
  }
  for (const auto& op : work.table->ops) weights[slot_of[op.slot_class]] += seconds[op.slot_class];
  std::ranges::stable_sort(slots, std::ranges::greater{}, [&](const auto& slot) { return weights[slot.first]; });
  return slots;
}

}  // namespace

class PlanEvaluator::Parts {
 public:
  Parts(model::Architecture architecture, model::ClusterShape cluster, model::Profile profile,
        std::optional<topologies::FabricShape> fabric, std::shared_ptr<RoutingMemo> routing) {
    inputs_.architecture = std::move(architecture);
    inputs_.cluster = std::move(cluster);
    inputs_.profile = std::move(profile);
    inputs_.fabric = std::move(fabric);
    inputs_.routing = routing ? std::move(routing) : std::make_shared<RoutingMemo>();
  }

  model::Result<PlanEstimate> evaluate(const model::Plan& plan) {
    forget();
    model::Result<model::Layout> layout = model::make_layout(plan, inputs_.architecture);
    if (!layout) return tl::unexpected(layout.error());
    if (plan.offload.activations > 0) return simulate_whole(plan);
    Work& work = work_;
    work.plan = &plan;
    work.layout = std::move(*layout);
    work.kind = *model::find_schedule(plan.schedule.kind);
    if (auto found = find_table(work); !found) return tl::unexpected(found.error());
    if (auto found = find_costs(work); !found) return tl::unexpected(found.error());
    find_stages(work);
    prepare_step(work);
    time_slots(work);
    find_states(work);
    fill_costs(work);
    return estimate(work);
  }

  model::Result<double> peak(const model::Plan& plan) {
    if (plan.offload.activations > 0)
      return evaluate(plan).map([](const PlanEstimate& estimate) { return estimate.peak_bytes; });
    if (auto found = find_parts(plan); !found) return tl::unexpected(found.error());
    find_slots(work_);
    find_states(work_);
    return peak_bytes(work_, inputs_.cluster.device);
  }

  model::Result<std::optional<PlanEstimate>> evaluate_while(const model::Plan& plan, double limit,
                                                            std::vector<double> seconds, const Promising& promising) {
    const auto whole = [](const PlanEstimate& estimate) { return std::optional(estimate); };
    if (plan.offload.activations > 0) return evaluate(plan).map(whole);
    if (auto found = find_parts(plan); !found) return tl::unexpected(found.error());
    Work& work = work_;
    find_slots(work);
    seconds.resize(work.slots.size(), 0);
    for (const auto& [index, slot] : slots_by_weight(work, seconds)) {
      const TemplateRun& run = work.timed->run(slot, work.timed->even() ? 0 : index);
      for (std::size_t c = 0; c < seconds.size(); ++c)
        if (work.slots[c] == slot) seconds[c] = run.seconds;
      if (!promising(seconds)) return std::nullopt;
    }
    prepare_step(work);
    time_slots(work);
    if (most_collective_seconds(work) > limit) return std::nullopt;
    find_states(work);
    fill_costs(work);
    return estimate(work).map(whole);
  }

  Remembered remembered() const { return {tables_.size(), costs_.size(), libraries_.size(), sharded_.size()}; }

 private:
  // Largest numbers of parts; their sizes are those of large models on large pipelines.
  static constexpr std::size_t most_libraries = 256, most_table_ops = 50'000'000;

  void forget() {
    if (libraries_.size() > most_libraries || sharded_.size() > 16 * most_libraries) {
      sharded_.clear();
      timings_.clear();
      timed_.clear();
      libraries_.clear();
    }
    if (table_ops_ > most_table_ops) {
      tables_.clear();
      table_ops_ = 0;
    }
  }

  // All that is needed before slots are looked up.
  model::Result<void> find_parts(const model::Plan& plan) {
    forget();
    model::Result<model::Layout> layout = model::make_layout(plan, inputs_.architecture);
    if (!layout) return tl::unexpected(layout.error());
    work_.plan = &plan;
    work_.layout = std::move(*layout);
    work_.kind = *model::find_schedule(plan.schedule.kind);
    if (auto found = find_table(work_); !found) return found;
    if (auto found = find_costs(work_); !found) return found;
    find_stages(work_);
    return {};
  }

  // Copies of activations to the host and back give slots a memory of their own, which no part here knows.
  model::Result<PlanEstimate> simulate_whole(const model::Plan& plan) {
    inputs_.plan = plan;
    const model::Result<Simulation> whole = simulate(inputs_, Fidelity::closed_form, false);
    if (!whole) return tl::unexpected(whole.error());
    const model::StepTimes& step = whole->result.step;
    return PlanEstimate{step.time_s,
                        step.bubble_s.value_or(0),
                        step.exposed_gradient_reduce_s.value_or(0),
                        step.exposed_parameter_gather_s.value_or(0),
                        step.optimizer_s.value_or(0),
                        whole->result.memory.peak_bytes,
                        whole->result.memory.fits};
  }

  model::Result<void> find_table(Work& work) {
    const model::ScheduleShape& shape = work.layout.schedule;
    key_.clear().add(std::string(work.kind->name()), shape.ranks, shape.micro_batches, shape.virtual_stages,
                     shape.micro_batch_group);
    auto& known = tables_[key_.bytes()];
    if (!known) {
      auto table = model::make_schedule_table(*work.kind, shape);
      if (!table) {
        tables_.erase(key_.bytes());
        return tl::unexpected(table.error());
      }
      known = std::make_unique<model::ScheduleTable>(std::move(*table));
      table_ops_ += known->ops.size();
    }
    work.table = known.get();
    return {};
  }

  model::Result<void> find_costs(Work& work) {
    add_costs(*work.plan, inputs_.fabric.has_value(), key_.clear());
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

  void find_stages(Work& work) {
    const model::Plan& plan = *work.plan;
    const model::RoutingSpread spread =
        spread_of(plan, inputs_.architecture.experts, inputs_.cluster.gpus_per_node, inputs_.routing.get());
    model::LayerContext degrees = model::plan_degrees(plan, inputs_.architecture.experts, work.layout, spread);
    add_graphs(plan, degrees, key_.clear());
    auto& library = libraries_[key_.bytes()];
    if (!library) {
      degrees.architecture = inputs_.architecture;
      library = std::make_unique<StageLibrary>(std::move(degrees), plan.overlap.tensor ? plan.parallelism.tensor : 1);
    }
    key_.clear().add(library.get(), work.costs);
    add_imbalance(plan, key_);
    auto& timed = timed_[key_.bytes()];
    if (!timed)
      timed = std::make_unique<TimedStages>(
          *library, *work.costs, Imbalance{plan.routing.imbalance, relative_rows(plan.routing.rows_per_rank), 0},
          plan.parallelism.expert);
    work.timed = timed.get();
    key_.clear().add(timed.get());
    add_sharding(plan, work.layout, key_);
    auto& sharded = sharded_[key_.bytes()];
    if (!sharded) sharded = std::make_unique<ShardedStages>(*timed, timings_, plan, work.layout);
    work.sharded = sharded.get();
    add_stages(plan, work.layout, key_.clear());
    auto& stages = stages_[key_.bytes()];
    if (!stages) stages = stages_of(plan, inputs_.architecture, work.layout);
    kinds_.clear();
    for (const BlockList& blocks : stages->kinds) kinds_.push_back(library->kind(blocks));
    work.stage_kinds.clear();
    for (const std::int32_t kind : stages->kind_of_stage)
      work.stage_kinds.push_back(kinds_[static_cast<std::size_t>(kind)]);
  }

  void find_states(Work& work) {
    work.states.clear();
    for (const auto& rank : work.table->ranks) {
      kinds_.clear();
      for (const std::int32_t stage : rank.stages) kinds_.push_back(work.stage_kinds[static_cast<std::size_t>(stage)]);
      work.states.push_back(&work.sharded->state(kinds_));
    }
  }

  // As sim/prediction.cc.
  model::Result<PlanEstimate> estimate(Work& work) {
    const model::Plan& plan = *work.plan;
    StepEnds ends = run_step(work, true);
    if (!work.alone) ends.slots = busy_first_rank(work);
    if (plan.parallelism.synchronisation_interval > 1) {
      StepEnds local = run_step(work, false);
      if (!work.alone) local.slots = ends.slots;
      ends = mean_of(ends, local, 1 / static_cast<double>(plan.parallelism.synchronisation_interval));
    }
    const auto step_tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
    const auto replica = static_cast<double>(plan.parallelism.tensor * plan.parallelism.pipeline);
    const double loading =
        work.costs->host.input(step_tokens * replica / static_cast<double>(plan.cluster.gpus), step_tokens);
    const double input = plan.input.prefetch ? std::max(0.0, loading - ends.step) : loading;
    double longest = 0;
    for (const auto* state : work.states) longest = std::max(longest, state->average);
    const double average = std::max(0.0, longest - ends.step - input);
    constexpr double rounding = 1e-12;  // s: of sums of slots
    const double rest = ends.pipeline - ends.slots;
    PlanEstimate result;
    result.step_s = ends.step + input + average;
    result.bubble_s = (std::abs(rest) < rounding ? 0 : rest) + input + average;
    result.exposed_gradient_reduce_s = ends.exposed_reduce;
    result.exposed_parameter_gather_s = ends.gather_wait;
    result.optimizer_s = ends.step - ends.pipeline;
    result.peak_bytes = peak_bytes(work, inputs_.cluster.device);
    result.fits = result.peak_bytes <= inputs_.cluster.device.memory.value();
    return result;
  }

  Inputs inputs_;  // its plan is the last one for which something new was computed
  PlanKey key_;
  Work work_;
  std::vector<std::int32_t> kinds_;
  std::size_t table_ops_ = 0;
  Known<model::ScheduleTable> tables_;
  Known<CostModels> costs_;
  Known<Stages> stages_;
  Known<StageLibrary> libraries_;
  Known<TimedStages> timed_;
  OptimizerTimings timings_;
  Known<ShardedStages> sharded_;
};

PlanEvaluator::PlanEvaluator(model::Architecture architecture, model::ClusterShape cluster, model::Profile profile,
                             std::optional<topologies::FabricShape> fabric, std::shared_ptr<RoutingMemo> routing)
    : parts_(std::make_unique<Parts>(std::move(architecture), std::move(cluster), std::move(profile), std::move(fabric),
                                     std::move(routing))) {}
PlanEvaluator::~PlanEvaluator() = default;
PlanEvaluator::PlanEvaluator(PlanEvaluator&&) noexcept = default;
PlanEvaluator& PlanEvaluator::operator=(PlanEvaluator&&) noexcept = default;

model::Result<PlanEstimate> PlanEvaluator::evaluate(const model::Plan& plan) { return parts_->evaluate(plan); }
model::Result<double> PlanEvaluator::peak(const model::Plan& plan) { return parts_->peak(plan); }
model::Result<std::optional<PlanEstimate>> PlanEvaluator::evaluate_while(const model::Plan& plan, double limit,
                                                                         std::vector<double> seconds,
                                                                         const Promising& promising) {
  return parts_->evaluate_while(plan, limit, std::move(seconds), promising);
}
PlanEvaluator::Remembered PlanEvaluator::remembered() const { return parts_->remembered(); }

}  // namespace plumbline::sim
