#include "sim/predict/plan_evaluator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/plan/layout.h"
#include "model/schedule/schedule_table.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/event_step.h"
#include "sim/predict/plan_key.h"
#include "sim/predict/plan_work.h"
#include "sim/predict/simulate.h"

namespace plumbline::sim {

namespace {

template <class Part>
using Known = std::unordered_map<std::string, std::unique_ptr<Part>>;

struct Stages {                             // of a plan
  std::vector<BlockList> kinds;             // distinct ones
  std::vector<std::int32_t> kind_of_stage;  // index into kinds
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

}  // namespace

class PlanEvaluator::Parts {
 public:
  explicit Parts(Inputs inputs) : inputs_(std::move(inputs)) {
    if (!inputs_.routing) inputs_.routing = std::make_shared<RoutingMemo>();
    if (!inputs_.links) inputs_.links = std::make_shared<LinksMemo>();
    if (!inputs_.tables) inputs_.tables = std::make_shared<ScheduleTables>();
  }

  model::Result<PlanEstimate> evaluate(const model::Plan& plan) {
    if (plan.offload.activations > 0) return simulate_whole(plan, Fidelity::closed_form);
    if (auto prepared = prepare(plan); !prepared) return tl::unexpected(prepared.error());
    return closed_form();
  }

  model::Result<PlanEstimate> evaluate_by_events(const model::Plan& plan) {
    if (plan.offload.activations > 0) return simulate_whole(plan, Fidelity::step);
    if (auto prepared = prepare(plan); !prepared) return tl::unexpected(prepared.error());
    const model::Result<StepEnds> reducing = run_events(true);
    if (!reducing) return tl::unexpected(reducing.error());
    StepEnds ends = *reducing;
    if (plan.parallelism.synchronisation_interval > 1) {
      const model::Result<StepEnds> local = run_events(false);
      if (!local) return tl::unexpected(local.error());
      ends = mean_of(ends, *local, 1 / static_cast<double>(plan.parallelism.synchronisation_interval));
    }
    return estimate(work_, ends);
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
    PlanWork& work = work_;
    find_slots(work);
    seconds.resize(work.slots.size(), 0);
    for (const std::int32_t slot : slots_by_weight(work, seconds)) {
      const TemplateRun& run = work.timed->run(slot);
      for (std::size_t c = 0; c < seconds.size(); ++c)
        if (work.slots[c] == slot) seconds[c] = run.seconds;
      if (!promising(seconds)) return std::nullopt;
    }
    prepare_step(work);
    time_slots(work);
    if (most_collective_seconds(work) > limit) return std::nullopt;
    find_states(work);
    return closed_form().map(whole);
  }

  Remembered remembered() const { return {tables_.size(), costs_.size(), libraries_.size(), sharded_.size()}; }

 private:
  // Finds the parts of the plan.
  model::Result<void> prepare(const model::Plan& plan) {
    if (auto found = find_parts(plan); !found) return found;
    prepare_step(work_);
    time_slots(work_);
    find_states(work_);
    return {};
  }

  model::Result<PlanEstimate> closed_form() {
    fill_costs(work_);
    StepEnds ends = run_step(work_, true);
    if (!work_.alone) ends.slots = busy_first_rank(work_);
    const std::int64_t interval = work_.plan->parallelism.synchronisation_interval;
    if (interval > 1) {
      StepEnds local = run_step(work_, false);
      if (!work_.alone) local.slots = ends.slots;
      ends = mean_of(ends, local, 1 / static_cast<double>(interval));
    }
    return estimate(work_, ends);
  }

  model::Result<StepEnds> run_events(bool reduces) {
    std::unique_ptr<Timetable>& timetable = timetables_[work_.table];
    if (!timetable) timetable = std::make_unique<Timetable>(make_timetable(*work_.kind, work_.layout.schedule));
    const EventStep step{*work_.plan,  *work_.table,   *timetable,        *work_.costs,
                         *work_.timed, *work_.sharded, work_.stage_kinds, work_.slots};
    const model::Result<Execution> run = run_by_events(step, reduces);
    if (!run) return tl::unexpected(run.error());
    const RankTimes& first = run->ranks[0];
    return StepEnds{run->pipeline_end, run->step_end, run->exposed_reduce, first.gather_wait,
                    std::accumulate(first.slot_seconds.begin(), first.slot_seconds.end(), 0.0)};
  }

  // Largest numbers of parts; their sizes are those of large models on large pipelines.
  static constexpr std::size_t most_libraries = 256, most_table_ops = 50'000'000;

  void forget() {
    const bool libraries = libraries_.size() > most_libraries;
    if (libraries || sharded_.size() > 16 * most_libraries) {  // these refer to what follows
      sharded_.clear();
      timings_.clear();
    }
    if (libraries || timed_.size() > 4 * most_libraries) {
      sharded_.clear();
      timed_.clear();
    }
    if (libraries) libraries_.clear();
    if (table_ops_ > most_table_ops) {
      timetables_.clear();
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
  model::Result<PlanEstimate> simulate_whole(const model::Plan& plan, Fidelity fidelity) {
    inputs_.plan = plan;
    const model::Result<Simulation> whole = simulate(inputs_, fidelity, false);
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

  model::Result<void> find_table(PlanWork& work) {
    const model::ScheduleShape& shape = work.layout.schedule;
    key_.clear().add(std::string(work.kind->name()), shape.ranks, shape.micro_batches, shape.virtual_stages,
                     shape.micro_batch_group);
    auto& known = tables_[key_.bytes()];
    if (!known) {
      auto table = inputs_.tables->find(*work.kind, shape);
      if (!table) {
        tables_.erase(key_.bytes());
        return tl::unexpected(table.error());
      }
      known = std::move(*table);
      table_ops_ += known->ops.size();
    }
    work.table = known.get();
    return {};
  }

  model::Result<void> find_costs(PlanWork& work) {
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

  void find_stages(PlanWork& work) {
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

  void find_states(PlanWork& work) {
    work.states.clear();
    for (const auto& rank : work.table->ranks) {
      kinds_.clear();
      for (const std::int32_t stage : rank.stages) kinds_.push_back(work.stage_kinds[static_cast<std::size_t>(stage)]);
      work.states.push_back(&work.sharded->state(kinds_));
    }
  }

  // As sim/predict/prediction.cc.
  PlanEstimate estimate(const PlanWork& work, const StepEnds& ends) const {
    const model::Plan& plan = *work.plan;
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
  PlanWork work_;
  std::vector<std::int32_t> kinds_;
  std::size_t table_ops_ = 0;
  std::unordered_map<std::string, std::shared_ptr<const model::ScheduleTable>> tables_;
  std::unordered_map<const model::ScheduleTable*, std::unique_ptr<Timetable>> timetables_;  // for events only
  Known<CostModels> costs_;
  Known<Stages> stages_;
  Known<StageLibrary> libraries_;
  Known<TimedStages> timed_;
  OptimizerTimings timings_;
  Known<ShardedStages> sharded_;
};

PlanEvaluator::PlanEvaluator(model::Architecture architecture, model::ClusterShape cluster, model::Profile profile,
                             std::optional<topologies::FabricShape> fabric, std::shared_ptr<RoutingMemo> routing)
    : PlanEvaluator(Inputs{
          {}, std::move(architecture), std::move(cluster), std::move(profile), std::move(routing), std::move(fabric)}) {
}
PlanEvaluator::PlanEvaluator(Inputs inputs) : parts_(std::make_unique<Parts>(std::move(inputs))) {}
PlanEvaluator::~PlanEvaluator() = default;
PlanEvaluator::PlanEvaluator(PlanEvaluator&&) noexcept = default;
PlanEvaluator& PlanEvaluator::operator=(PlanEvaluator&&) noexcept = default;

model::Result<PlanEstimate> PlanEvaluator::evaluate(const model::Plan& plan) { return parts_->evaluate(plan); }
model::Result<PlanEstimate> PlanEvaluator::evaluate_by_events(const model::Plan& plan) {
  return parts_->evaluate_by_events(plan);
}
model::Result<double> PlanEvaluator::peak(const model::Plan& plan) { return parts_->peak(plan); }
model::Result<std::optional<PlanEstimate>> PlanEvaluator::evaluate_while(const model::Plan& plan, double limit,
                                                                         std::vector<double> seconds,
                                                                         const Promising& promising) {
  return parts_->evaluate_while(plan, limit, std::move(seconds), promising);
}
PlanEvaluator::Remembered PlanEvaluator::remembered() const { return parts_->remembered(); }

}  // namespace plumbline::sim
