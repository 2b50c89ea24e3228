#include "sim/predict/predictor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "model/architecture/metrics.h"
#include "model/memory/memory.h"
#include "model/plan/software.h"
#include "model/program/compile.h"
#include "model/routing/documents.h"
#include "sim/campaign/closed_form.h"
#include "sim/engine/loop.h"
#include "sim/predict/detail/accounting.h"
#include "sim/predict/detail/parts_cache.h"
#include "sim/predict/memos.h"
#include "topologies/fabric.h"

namespace plumbline::sim {

namespace {

std::vector<std::string> rank_names(const model::Schedule& schedule) {
  const auto stages = stages_of(schedule);
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < stages.size(); ++rank)
    names.push_back(
        fmt::format("rank {} (stage{} {})", rank, stages[rank].size() > 1 ? "s" : "", fmt::join(stages[rank], ", ")));
  return names;
}

using model::Span;
using Spans = std::vector<const Span*>;

struct RankSpans {
  Spans slots, updates;  // in order of time; updates: kernels after the slots, no collectives
};

std::vector<RankSpans> spans_by_rank(const model::Timeline& timeline) {
  std::vector<RankSpans> ranks(static_cast<std::size_t>(timeline.ranks));
  for (const Span& span : timeline.spans) {
    RankSpans& rank = ranks[static_cast<std::size_t>(span.rank)];
    if (span.depth == model::slot_depth) rank.slots.push_back(&span);
    if (span.stream == model::Stream::optimizer && span.work < 0) rank.updates.push_back(&span);
  }
  return ranks;
}

model::Counter memory_counter(std::int32_t rank, const Spans& slots, const model::RankLevels& levels) {
  model::Counter counter{rank, "memory (bytes)", {"state", "activations", "temporary", "communication"}, {}};
  for (std::size_t op = 0; op < levels.ops.size(); ++op) {
    const model::MemoryLevel& level = levels.ops[op];
    const double state =
        level.total_bytes - level.activations_bytes - level.temporary_bytes - level.communication_bytes;
    counter.samples.push_back({op < slots.size() ? slots[op]->start_ps : slots.back()->end_ps(),
                               {state, level.activations_bytes, level.temporary_bytes, level.communication_bytes}});
  }
  return counter;
}

class PowerCounter {
 public:
  PowerCounter(std::int32_t rank, const model::PowerModel& power) : power_(power) {
    counter_ = {rank, "power (W)", {"GPU"}, {{0, {power.idle()}}}};
  }

  // Adds work of so many joules above an idle GPU's; the calls are in order of time.
  void add(const Span& span, double joules) {
    if (span.duration_ps == 0) return;
    note(span.start_ps, std::min(power_.idle() + joules / to_seconds(span.duration_ps), power_.drawn_at_limit()));
    note(span.end_ps(), power_.idle());
  }
  model::Counter take() { return std::move(counter_); }

 private:
  void note(std::int64_t time_ps, double watts) {
    if (counter_.samples.back().time_ps == time_ps) counter_.samples.pop_back();
    counter_.samples.push_back({time_ps, {watts}});
  }

  const model::PowerModel& power_;
  model::Counter counter_;
};

// Adds the memory and the power of each rank to a timeline of the program, as counters. Memory is that of the highest
// moment of each slot, until the next one begins; state is parameters, gradients, optimizer states and reserve. Power,
// where the profile has a model of it, is the mean over a slot or over the update, and that of an idle GPU between
// them.
void add_memory_and_power(PlanWork& work, const model::StepProgram& program, const model::Memory& memory,
                          model::Timeline& timeline) {
  const std::vector<model::SlotMemory> slot_memories = model::slot_memories(program);
  const std::vector<std::int32_t> templates = distinct_slots(work);
  const std::vector<RankSpans> spans = spans_by_rank(timeline);
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank) {
    const auto& [slots, updates] = spans[static_cast<std::size_t>(rank)];
    if (slots.empty()) continue;
    const std::int32_t gpu = timeline.gpus.empty() ? rank : timeline.gpus[static_cast<std::size_t>(rank)];
    const auto pipeline = static_cast<std::size_t>(gpu / timeline.replicas);
    timeline.counters.push_back(
        memory_counter(rank, slots, model::rank_levels(memory, program, slot_memories, pipeline)));
    if (!work.costs->power) continue;
    PowerCounter power(rank, *work.costs->power);
    for (std::size_t op = 0; op < slots.size(); ++op)
      power.add(*slots[op], work.timed->power(templates[program.slot_templates[pipeline][op]]).joules);
    double updating = 0;
    for (const Span* update : updates) updating += to_seconds(update->duration_ps);
    for (const Span* update : updates)
      power.add(*update, work.updates[pipeline]->joules * to_seconds(update->duration_ps) / updating);
    timeline.counters.push_back(power.take());
  }
}

// Returns whether both inputs give the same predictions for every plan.
bool same_predictions(const Inputs& a, const Inputs& b) {
  return a.every_link == b.every_link && a.power_exponent == b.power_exponent && a.contention == b.contention &&
         a.fabric == b.fabric && a.architecture == b.architecture && a.cluster == b.cluster && a.profile == b.profile;
}

}  // namespace

struct Predictor::Parts {
  explicit Parts(Inputs inputs) : cache(std::move(inputs)) {}

  Predicted predicted() const { return {cache.inputs(), *work.plan, *work.costs}; }

  model::Result<PlanLimits> limits(const PlanBound& bound, double step_s) const {
    TRY(check_limits(predicted(), step_s, bound.step.seconds, bound.flops_at_peak_s));
    PlanLimits limits{bound.step.seconds, bound.flops_at_peak_s, work.costs->profile->warnings};
    const auto add = [&](std::vector<std::string> sentences) {
      std::ranges::move(sentences, std::back_inserter(limits.warnings));
    };
    add(model::layout_warnings(*work.plan, work.layout));
    add(model::unread_key_warnings(*work.plan, cache.inputs().architecture));
    add(model::software_warnings(*work.plan));
    add(model::dispatcher_warnings(*work.plan));
    add(model::software_replacements(*work.plan));
    if (const auto& fabric = cache.inputs().fabric) add(topologies::placement_warnings(*fabric, *work.plan));
    add(peak_warnings(predicted(), step_s, bound.flops_at_peak_s));
    return limits;
  }

  // Finds the parts of the plan and everything that its step consists of.
  model::Result<void> prepare(const model::Plan& plan) {
    TRY(cache.find(plan, work));
    prepare_step(work);
    time_slots(work);
    cache.find_states(work);
    cache.find_updates(work);
    fill_costs(work);
    return {};
  }

  double reducing_share() const { return 1 / static_cast<double>(work.plan->parallelism.synchronization_interval); }

  Execution run_closed_form(bool tail) {
    Execution reducing = run_step(work, true, tail);
    if (reducing_share() == 1) return reducing;
    return mean_of(std::move(reducing), run_step(work, false, tail), reducing_share());
  }

  model::StepProgram program() {
    return model::assemble(*work.plan, cache.inputs().architecture, work.layout, work.kind->build(work.layout.schedule),
                           work.timed->stage_library());
  }

  ExecutionInput execution_input(const model::StepProgram& program, bool synchronize) {
    ExecutionInput input;
    input.program = &program;
    for (const std::int32_t slot : distinct_slots(work)) input.template_times.push_back(work.timed->times(slot));
    input.device_sms = work.costs->partition.device_sms;
    input.collective_sms = work.costs->partition.collective_sms;
    input.collective_slowdown = work.costs->collective_slowdown;
    input.p2p_latency = work.costs->communication.p2p_apart(program.stage_message);
    input.stage_message_bytes = work.costs->communication.message_part(program.stage_message).value();
    input.p2p_rate = work.costs->communication.p2p_rate().value;
    input.links = work.costs->links.get();
    for (const CostModels::PlacedGroup& group : work.costs->groups) input.groups.push_back(group.links);
    for (const std::int32_t kind : work.stage_kinds) input.optimizers.push_back(work.sharded->optimizer_timing(kind));
    input.synchronize = synchronize;
    return input;
  }

  model::Result<Execution> run_events(const model::StepProgram& program, const SimulationOptions& options) {
    TRY(check_countable(predicted(), run_step(work, true, false).step_end));
    ExecutionInput input = execution_input(program, true);
    input.record = options.record;
    const auto run = [&](const ExecutionInput& one) { return options.execute ? options.execute(one) : execute(one); };
    model::Result<Execution> reducing = options.loop == nullptr ? run(input) : execute(input, *options.loop);
    if (!reducing || reducing_share() == 1) return reducing;
    // A loop runs only once. Between reductions no collective shares a link with transfers, so another loop is exact.
    return mean_of(std::move(*reducing), TRY(run(execution_input(program, false))), reducing_share());
  }

  model::StepTimes times(const StepAccounting& accounting, const Execution& execution) {
    // Tokens attend to their document, whose FLOPs are those of a sequence as long.
    const double documents = model::document_tokens(*work.plan);
    const std::int64_t sequence = documents > 0 ? std::llround(documents) : work.plan->batch.sequence_length;
    const model::Adapters adapters = model::adapters_of(*work.plan);
    const auto [known, fresh] = metrics.try_emplace({sequence, adapters});
    if (fresh) known->second = model::model_metrics(cache.inputs().architecture, sequence, adapters);
    model::StepTimes step = accounting.times(known->second);
    if (execution.events > 0) step.breakdown = accounting.breakdown();
    return step;
  }

  model::Result<PlanEstimate> estimate(const Execution& execution) {
    PlanEstimate result;
    result.step = times(StepAccounting(cache.inputs(), work, execution), execution);
    result.peak = peak();
    result.fits = result.peak.fits(cache.inputs().cluster.device);
    TRY(check_estimate(predicted(), result.step, result.peak.bytes));
    return result;
  }

  model::Memory memory(const model::StepProgram& program) const {
    return model::memory(*work.plan, work.layout, program, cache.inputs().cluster.device);
  }

  // Copies of activations to the host and back give slots memory that the schedule's moments do not count.
  Peak peak() {
    if (work.plan->offload.activations == 0) return peak_of(work, cache.inputs().cluster.device);
    const model::Memory counted = memory(program());
    Peak peak{counted.peak_bytes, 0, counted.host_bytes};
    for (const model::RankMemory& rank : counted.ranks)
      peak.least_bytes = std::max(peak.least_bytes, rank.least_bytes());
    return peak;
  }

  PartsCache cache;
  PlanWork work;
  std::map<std::pair<std::int64_t, model::Adapters>, model::ModelMetrics> metrics;  // by sequence length
};

Predictor::Predictor(Inputs inputs) : parts_(std::make_unique<Parts>(std::move(inputs))) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

model::Result<PlanEstimate> Predictor::closed_form(const model::Plan& plan) {
  TRY(parts_->prepare(plan));
  return parts_->estimate(parts_->run_closed_form(false));
}

void Predictor::set_profile(model::Profile profile) { parts_->cache.set_profile(std::move(profile)); }
void Predictor::set_links(const model::ClusterShape& cluster, const std::optional<topologies::FabricShape>& fabric) {
  parts_->cache.set_links(cluster, fabric);
}

model::Result<model::StepTimes> Predictor::step_parts(const model::Plan& plan) {
  TRY(parts_->prepare(plan));
  const Execution execution = parts_->run_closed_form(false);
  return StepAccounting(parts_->cache.inputs(), parts_->work, execution).parts();
}

model::Result<PlanEstimate> Predictor::events(const model::Plan& plan, Loop* loop) {
  TRY(parts_->prepare(plan));
  return parts_->estimate(TRY(parts_->run_events(parts_->program(), {.loop = loop})));
}

model::Result<Peak> Predictor::peak(const model::Plan& plan) {
  TRY(parts_->cache.find(plan, parts_->work));
  find_slots(parts_->work);
  parts_->cache.find_states(parts_->work);
  return parts_->peak();
}

model::Result<Peak> Predictor::least_peak(const model::Plan& plan) {
  if (plan.offload.activations > 0) return peak(plan);
  TRY(parts_->cache.find(plan, parts_->work));
  parts_->cache.find_states(parts_->work);
  return least_peak_of(parts_->work, parts_->cache.inputs().cluster.device);
}

model::Result<model::Memory> Predictor::memory(const model::Plan& plan) {
  TRY(parts_->cache.find(plan, parts_->work));
  return parts_->memory(parts_->program());
}

model::Result<PlanLimits> Predictor::limits(const model::Plan& plan, Fidelity fidelity, double step_s) {
  TRY(parts_->prepare(plan));
  return parts_->limits(plan_bound(parts_->work, fidelity != Fidelity::closed_form), step_s);
}

model::Result<std::shared_ptr<const StepLinks>> Predictor::links(const model::Plan& plan) {
  TRY(parts_->cache.find(plan, parts_->work));
  return parts_->work.costs->links;
}

model::Result<Simulation> Predictor::simulate(const model::Plan& plan, const SimulationOptions& options) {
  TRY(parts_->prepare(plan));
  PlanWork& work = parts_->work;
  const Inputs& inputs = parts_->cache.inputs();
  const model::StepProgram& whole = parts_->program();
  const bool by_events = options.fidelity != Fidelity::closed_form;
  auto execution = TRY(by_events ? parts_->run_events(whole, options) : parts_->run_closed_form(true));
  const StepAccounting accounting(inputs, work, execution);
  const PlanBound bound = plan_bound(work, by_events);
  Simulation simulation;
  model::StepResult& result = simulation.result;
  result.fidelity = to_string(options.fidelity);
  result.profile = inputs.profile.name();
  result.stack = inputs.profile.stack();
  result.device = inputs.cluster.device.name;
  result.step = parts_->times(accounting, execution);
  result.bound_s = bound.step.seconds;
  result.bound_by = to_string(bound.step.resource);
  result.bound_rank = static_cast<std::int64_t>(bound.step.rank);
  result.lost = accounting.lost(bound);
  result.flops_at_peak_s = bound.flops_at_peak_s;
  result.provenance = accounting.provenance();
  result.memory = parts_->memory(whole);
  result.run = predicted_run(inputs, plan, result.step);
  TRY(check_estimate(parts_->predicted(), result.step, result.memory.peak_bytes));
  auto limits = TRY(parts_->limits(bound, result.step.time_s));
  result.warnings = std::move(limits.warnings);
  simulation.rank_names = rank_names(whole.schedule);
  simulation.events = execution.events;
  simulation.timeline = std::move(execution.timeline);
  if (options.record.on) add_memory_and_power(work, whole, result.memory, simulation.timeline);
  return simulation;
}

model::Result<std::optional<PlanEstimate>> Predictor::closed_form_while(const model::Plan& plan, double limit,
                                                                        std::vector<double> seconds,
                                                                        const Promising& promising) {
  PlanWork& work = parts_->work;
  TRY(parts_->cache.find(plan, work));
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
  parts_->cache.find_states(work);
  parts_->cache.find_updates(work);
  fill_costs(work);
  return TRY(parts_->estimate(parts_->run_closed_form(false)));
}

PredictorPool::PredictorPool()
    : routing_(std::make_shared<ExpertGroupMemo>()), tables_(std::make_shared<ScheduleTables>()) {}

std::unique_ptr<PredictorPool::Entry> PredictorPool::take(const Inputs& inputs) {
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(
        idle_, [&](const std::unique_ptr<Entry>& one) { return same_predictions(one->inputs, inputs); });
    if (found != idle_.end()) {
      std::unique_ptr<Entry> entry = std::move(*found);
      idle_.erase(found);
      return entry;
    }
  }
  Inputs shared = inputs;
  if (!shared.routing) shared.routing = routing_;
  if (!shared.tables) shared.tables = tables_;
  return std::make_unique<Entry>(Entry{inputs, Predictor(std::move(shared))});
}

void PredictorPool::give_back(std::unique_ptr<Entry> entry) {
  const std::scoped_lock lock(mutex_);
  if (idle_.size() == most_idle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(entry));
}

}  // namespace plumbline::sim
