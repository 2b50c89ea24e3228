#include "sim/predict/predictor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "model/architecture/metrics.h"
#include "model/memory/memory.h"
#include "model/plan/software.h"
#include "model/program/compile.h"
#include "model/program/plan_context.h"
#include "model/routing/documents.h"
#include "sim/campaign/closed_form.h"
#include "sim/engine/loop.h"
#include "sim/predict/detail/accounting.h"
#include "sim/predict/detail/memory_power_counters.h"
#include "sim/predict/detail/parts_cache.h"
#include "topologies/placement.h"

namespace plumbline::sim {
namespace {

std::vector<std::string> rank_names(const model::Schedule& schedule) {
  std::vector<std::set<std::int32_t>> stages(schedule.ranks.size());
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
    for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
      stages[static_cast<std::size_t>(schedule.rank_of(direction, stage))].insert(stage);
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < stages.size(); ++rank)
    names.push_back(
        fmt::format("rank {} (stage{} {})", rank, stages[rank].size() > 1 ? "s" : "", fmt::join(stages[rank], ", ")));
  return names;
}

}  // namespace

class Predictor::Parts {
 public:
  explicit Parts(Inputs inputs) : cache_(std::move(inputs)) {}

  model::Result<PlanEstimate> closed_form(const model::Plan& plan) {
    TRY(prepare(plan));
    return estimate(run_closed_form(false));
  }

  void set_profile(model::Profile profile) { cache_.set_profile(std::move(profile)); }
  void set_links(const model::ClusterShape& cluster, const std::optional<topologies::FabricShape>& fabric) {
    cache_.set_links(cluster, fabric);
  }

  model::Result<model::StepTimes> step_parts(const model::Plan& plan) {
    TRY(prepare(plan));
    const Execution execution = run_closed_form(false);
    return StepAccounting(cache_.inputs(), work_, execution).parts();
  }

  model::Result<PlanEstimate> events(const model::Plan& plan, Loop* loop) {
    TRY(prepare(plan));
    return estimate(TRY(run_events(program(), {.loop = loop})));
  }

  model::Result<Peak> peak(const model::Plan& plan) {
    TRY(cache_.find(plan, work_));
    find_slots(work_);
    cache_.find_states(work_);
    return peak();
  }

  model::Result<Peak> least_peak(const model::Plan& plan) {
    if (plan.offload.activations > 0) return peak(plan);
    TRY(cache_.find(plan, work_));
    cache_.find_states(work_);
    return least_peak_of(work_, cache_.inputs().cluster.device);
  }

  model::Result<model::Memory> memory(const model::Plan& plan) {
    TRY(cache_.find(plan, work_));
    return memory(program());
  }

  model::Result<PlanLimits> limits(const model::Plan& plan, Fidelity fidelity, double step_s) {
    TRY(prepare(plan));
    return limits(plan_bound(work_, fidelity != Fidelity::closed_form), step_s);
  }

  model::Result<std::shared_ptr<const StepLinks>> links(const model::Plan& plan) {
    TRY(cache_.find(plan, work_));
    return work_.costs->links;
  }

  model::Result<Simulation> simulate(const model::Plan& plan, const SimulationOptions& options) {
    TRY(prepare(plan));
    const model::StepProgram& whole = program();
    const bool by_events = options.fidelity != Fidelity::closed_form;
    auto execution = TRY(by_events ? run_events(whole, options) : run_closed_form(true));
    const StepAccounting accounting(cache_.inputs(), work_, execution);
    const PlanBound bound = plan_bound(work_, by_events);
    Simulation simulation;
    model::StepResult& result = simulation.result;
    result.fidelity = to_string(options.fidelity);
    result.profile = cache_.inputs().profile.name();
    result.stack = cache_.inputs().profile.stack();
    result.device = cache_.inputs().cluster.device.name;
    result.step = times(accounting, execution);
    result.bound_s = bound.step.seconds;
    result.bound_by = to_string(bound.step.resource);
    result.bound_rank = static_cast<std::int64_t>(bound.step.rank);
    result.lost = accounting.lost(bound);
    result.flops_at_peak_s = bound.flops_at_peak_s;
    result.provenance = accounting.provenance();
    result.memory = memory(whole);
    result.run = predicted_run(cache_.inputs(), plan, result.step);
    TRY(check_estimate(predicted(), result.step, result.memory.peak_bytes));
    auto limits = TRY(this->limits(bound, result.step.time_s));
    result.warnings = std::move(limits.warnings);
    simulation.rank_names = rank_names(whole.schedule);
    simulation.events = execution.events;
    simulation.timeline = std::move(execution.timeline);
    if (options.record.on) add_memory_and_power(work_, whole, result.memory, simulation.timeline);
    return simulation;
  }

  model::Result<std::optional<PlanEstimate>> closed_form_while(const model::Plan& plan, double limit,
                                                               std::vector<double> seconds,
                                                               const Promising& promising) {
    TRY(cache_.find(plan, work_));
    find_slots(work_);
    seconds.resize(work_.slots.size(), 0);
    for (const std::int32_t slot : slots_by_weight(work_, seconds)) {
      const TemplateRun& run = work_.timed->run(slot);
      for (std::size_t c = 0; c < seconds.size(); ++c)
        if (work_.slots[c] == slot) seconds[c] = run.seconds;
      if (!promising(seconds)) return std::nullopt;
    }
    prepare_step(work_);
    time_slots(work_);
    if (most_collective_seconds(work_) > limit) return std::nullopt;
    cache_.find_states(work_);
    cache_.find_updates(work_);
    fill_costs(work_);
    return TRY(estimate(run_closed_form(false)));
  }

 private:
  Predicted predicted() const { return {cache_.inputs(), *work_.plan, *work_.costs}; }

  model::Result<PlanLimits> limits(const PlanBound& bound, double step_s) const {
    TRY(check_limits(predicted(), step_s, bound.step.seconds, bound.flops_at_peak_s));
    PlanLimits limits{bound.step.seconds, bound.flops_at_peak_s, work_.costs->profile->warnings};
    for (std::string& sentence : model::layout_warnings(*work_.plan, work_.layout))
      limits.warnings.push_back(std::move(sentence));
    for (std::string& sentence : model::software_warnings(*work_.plan)) limits.warnings.push_back(std::move(sentence));
    for (std::string& sentence : model::software_replacements(*work_.plan))
      limits.warnings.push_back(std::move(sentence));
    if (const auto& fabric = cache_.inputs().fabric)
      for (std::string& sentence : topologies::placement_warnings(*fabric, *work_.plan))
        limits.warnings.push_back(std::move(sentence));
    for (std::string& sentence : peak_warnings(predicted(), step_s, bound.flops_at_peak_s))
      limits.warnings.push_back(std::move(sentence));
    return limits;
  }

  // Finds the parts of the plan and everything that its step consists of.
  model::Result<void> prepare(const model::Plan& plan) {
    TRY(cache_.find(plan, work_));
    prepare_step(work_);
    time_slots(work_);
    cache_.find_states(work_);
    cache_.find_updates(work_);
    fill_costs(work_);
    return {};
  }

  double reducing_share() const { return 1 / static_cast<double>(work_.plan->parallelism.synchronization_interval); }

  Execution run_closed_form(bool tail) {
    Execution reducing = run_step(work_, true, tail);
    if (reducing_share() == 1) return reducing;
    return mean_of(std::move(reducing), run_step(work_, false, tail), reducing_share());
  }

  model::StepProgram program() {
    return model::assemble(*work_.plan, cache_.inputs().architecture, work_.layout,
                           work_.kind->build(work_.layout.schedule), work_.timed->stage_library());
  }

  ExecutionInput execution_input(const model::StepProgram& program, bool synchronize) {
    ExecutionInput input;
    input.program = &program;
    for (const std::int32_t slot : distinct_slots(work_)) input.template_times.push_back(work_.timed->times(slot));
    input.device_sms = work_.costs->partition.device_sms;
    input.collective_sms = work_.costs->partition.collective_sms;
    input.collective_slowdown = work_.costs->collective_slowdown;
    input.p2p_latency = work_.costs->communication.p2p_apart(program.stage_message);
    input.stage_message_bytes = work_.costs->communication.message_part(program.stage_message).value();
    input.p2p_rate = work_.costs->communication.p2p_rate().value;
    input.links = work_.costs->links.get();
    for (const CostModels::PlacedGroup& group : work_.costs->groups) input.groups.push_back(group.links);
    for (const std::int32_t kind : work_.stage_kinds) input.optimizers.push_back(work_.sharded->optimizer_timing(kind));
    input.synchronize = synchronize;
    return input;
  }

  model::Result<Execution> run_events(const model::StepProgram& program, const SimulationOptions& options) {
    TRY(check_countable(predicted(), run_step(work_, true, false).step_end));
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
    const double documents = model::document_tokens(*work_.plan);
    const std::int64_t sequence = documents > 0 ? std::llround(documents) : work_.plan->batch.sequence_length;
    const model::Adapters adapters = model::adapters_of(*work_.plan);
    const auto [metrics, fresh] = metrics_.try_emplace({sequence, adapters});
    if (fresh) metrics->second = model::model_metrics(cache_.inputs().architecture, sequence, adapters);
    model::StepTimes step = accounting.times(metrics->second);
    if (execution.events > 0) step.breakdown = accounting.breakdown();
    return step;
  }

  model::Result<PlanEstimate> estimate(const Execution& execution) {
    PlanEstimate result;
    result.step = times(StepAccounting(cache_.inputs(), work_, execution), execution);
    result.peak = peak();
    result.fits = result.peak.fits(cache_.inputs().cluster.device);
    TRY(check_estimate(predicted(), result.step, result.peak.bytes));
    return result;
  }

  model::Memory memory(const model::StepProgram& program) const {
    return model::memory(*work_.plan, work_.layout, program, cache_.inputs().cluster.device);
  }

  // Copies of activations to the host and back give slots memory that the schedule's moments do not count.
  Peak peak() {
    if (work_.plan->offload.activations == 0) return peak_of(work_, cache_.inputs().cluster.device);
    const model::Memory counted = memory(program());
    Peak peak{counted.peak_bytes, 0, counted.host_bytes};
    for (const model::RankMemory& rank : counted.ranks)
      peak.least_bytes = std::max(peak.least_bytes, rank.least_bytes());
    return peak;
  }

  PartsCache cache_;
  PlanWork work_;
  std::map<std::pair<std::int64_t, model::Adapters>, model::ModelMetrics> metrics_;  // by sequence length
};

Predictor::Predictor(Inputs inputs) : parts_(std::make_unique<Parts>(std::move(inputs))) {}
Predictor::~Predictor() = default;
Predictor::Predictor(Predictor&&) noexcept = default;
Predictor& Predictor::operator=(Predictor&&) noexcept = default;

model::Result<PlanEstimate> Predictor::closed_form(const model::Plan& plan) { return parts_->closed_form(plan); }
void Predictor::set_profile(model::Profile profile) { parts_->set_profile(std::move(profile)); }
void Predictor::set_links(const model::ClusterShape& cluster, const std::optional<topologies::FabricShape>& fabric) {
  parts_->set_links(cluster, fabric);
}
model::Result<model::StepTimes> Predictor::step_parts(const model::Plan& plan) { return parts_->step_parts(plan); }
model::Result<PlanEstimate> Predictor::events(const model::Plan& plan, Loop* loop) {
  return parts_->events(plan, loop);
}
model::Result<model::Memory> Predictor::memory(const model::Plan& plan) { return parts_->memory(plan); }
model::Result<Peak> Predictor::peak(const model::Plan& plan) { return parts_->peak(plan); }
model::Result<Peak> Predictor::least_peak(const model::Plan& plan) { return parts_->least_peak(plan); }
model::Result<PlanLimits> Predictor::limits(const model::Plan& plan, Fidelity fidelity, double step_s) {
  return parts_->limits(plan, fidelity, step_s);
}
model::Result<std::shared_ptr<const StepLinks>> Predictor::links(const model::Plan& plan) {
  return parts_->links(plan);
}
model::Result<Simulation> Predictor::simulate(const model::Plan& plan, const SimulationOptions& options) {
  return parts_->simulate(plan, options);
}
model::Result<std::optional<PlanEstimate>> Predictor::closed_form_while(const model::Plan& plan, double limit,
                                                                        std::vector<double> seconds,
                                                                        const Promising& promising) {
  return parts_->closed_form_while(plan, limit, std::move(seconds), promising);
}

}  // namespace plumbline::sim
