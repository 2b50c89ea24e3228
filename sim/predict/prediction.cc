#include "sim/predict/prediction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/schedule/evaluate.h"
#include "sim/predict/closed_form.h"
#include "sim/step/optimizer_timing.h"
#include "sim/step/stragglers.h"

namespace plumbline::sim {

namespace {

using model::OpType;

double total(const std::array<double, 5>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

Prediction::Prediction(const Inputs& inputs, const model::StepProgram& program, const CostModels& costs)
    : inputs_(inputs), program_(program), costs_(costs) {
  time_templates();
  timings_ = optimizer_timings(program_, costs_);
}

void Prediction::time_templates() {
  SegmentTimer timer(program_, costs_);
  for (std::size_t i = 0; i < program_.templates.size(); ++i) {
    template_times_.push_back(timer.times(program_.templates[i]));
    wait_for_stragglers(i);
    attributions_.push_back(attribute(program_, program_.templates[i], costs_, inputs_.cluster.device));
    template_runs_.push_back(run_template(program_.templates[i], template_times_[i], costs_.partition.device_sms));
  }
}

void Prediction::wait_for_stragglers(std::size_t index) {
  const model::Plan& plan = inputs_.plan;
  const Imbalance imbalance = {plan.routing.imbalance, relative_rows(plan.routing.rows_per_rank),
                               slot_seed(program_.templates[index].type)};
  if (plan.parallelism.expert == 1 || imbalance.even()) return;
  const GroupRun group = run_group(program_.templates[index], template_times_[index], plan.parallelism.expert,
                                   costs_.partition.device_sms, imbalance);
  for (std::size_t s = 0; s < template_times_[index].size(); ++s) template_times_[index][s].wait = group.waits[s];
}

ExecutionInput Prediction::execution_input(bool synchronise) const {
  ExecutionInput input;
  input.program = &program_;
  input.template_times = template_times_;
  input.device_sms = costs_.partition.device_sms;
  input.collective_sms = costs_.partition.collective_sms;
  input.hop_latency = costs_.exchanges.hop(model::Bytes(0), 1);
  input.hop_bytes = program_.activation_hop.value();
  input.hop_rate = costs_.exchanges.hop_rate().value;
  input.links = costs_.links ? &*costs_.links : nullptr;
  input.optimizers = timings_;
  input.synchronise = synchronise;
  return input;
}

model::Result<void> Prediction::run_step(bool record_timeline, Loop* loop) {
  ExecutionInput input = execution_input(true);
  input.record = record_timeline;
  model::Result<Execution> execution = loop == nullptr ? execute(input) : execute(input, *loop);
  if (!execution) return tl::unexpected(execution.error());
  execution_ = std::move(*execution);
  if (inputs_.plan.parallelism.synchronisation_interval == 1) return {};
  // A loop runs once; between reductions nobody shares a link with them anyway.
  const model::Result<Execution> local = execute(execution_input(false));
  if (!local) return tl::unexpected(local.error());
  execution_ = mean_of(std::move(execution_), *local);
  return {};
}

Execution Prediction::mean_of(Execution reducing, const Execution& local) const {
  const double share = 1 / static_cast<double>(inputs_.plan.parallelism.synchronisation_interval);
  const auto blend = [share](double& value, double other) { value = share * value + (1 - share) * other; };
  blend(reducing.pipeline_end, local.pipeline_end);
  blend(reducing.step_end, local.step_end);
  blend(reducing.exposed_reduce, local.exposed_reduce);
  blend(reducing.tail.gather, local.tail.gather);
  blend(reducing.tail.host, local.tail.host);
  blend(reducing.tail.agree, local.tail.agree);
  blend(reducing.tail.reduce, local.tail.reduce);
  for (std::size_t rank = 0; rank < reducing.ranks.size(); ++rank) {
    RankTimes& times = reducing.ranks[rank];
    const RankTimes& others = local.ranks[rank];
    blend(times.end, others.end);
    blend(times.gather_wait, others.gather_wait);
    for (std::size_t type = 0; type < times.slot_seconds.size(); ++type) {
      blend(times.slot_seconds[type], others.slot_seconds[type]);
      blend(times.exposed[type], others.exposed[type]);
    }
  }
  return reducing;
}

std::int32_t Prediction::interior_stage_kind() const { return program_.stages[program_.stages.size() / 2].kind; }

std::optional<double> Prediction::interior_chunk(OpType type) const {
  const std::int32_t interior = interior_stage_kind();
  for (std::size_t i = 0; i < program_.templates.size(); ++i) {
    const model::SlotTemplate& slot = program_.templates[i];
    const bool forward_fits = slot.f_stage_kind < 0 || slot.f_stage_kind == interior;
    const bool backward_fits = slot.b_stage_kind < 0 || slot.b_stage_kind == interior;
    if (slot.type == type && forward_fits && backward_fits) return template_runs_[i].seconds;
  }
  return std::nullopt;
}

TemplateCosts Prediction::chunk_costs() const { return {program_, template_runs_, mean_waits(), hop()}; }

std::array<double, 5> Prediction::mean_waits() const {
  std::array<double, 5> waits{}, counts{};
  if (inputs_.plan.parallelism.zero_stage < 2 || program_.stages.size() == 1) return waits;
  const std::size_t rank = program_.schedule.ranks.size() / 2;
  const RankWalk walked = walk(program_, rank, template_runs_, timings_, {}, true);
  for (std::size_t op = 0; op < walked.slot_waits.size(); ++op) {
    const auto type = static_cast<std::size_t>(program_.schedule.ranks[rank][op].type);
    waits[type] += walked.slot_waits[op];
    ++counts[type];
  }
  for (std::size_t type = 0; type < waits.size(); ++type) waits[type] /= std::max(1.0, counts[type]);
  return waits;
}

model::Result<void> Prediction::run_closed_form() {
  const TemplateCosts costs = chunk_costs();
  const model::Result<model::ScheduleEvaluation> run =
      model::evaluate(program_.schedule, costs, program_.schedule.point_to_point);
  if (!run) return tl::unexpected(run.error());
  execution_ = closed_form(costs, *run, true);
  if (inputs_.plan.parallelism.synchronisation_interval > 1)
    execution_ = mean_of(std::move(execution_), closed_form(costs, *run, false));
  return {};
}

Execution Prediction::closed_form(const TemplateCosts& costs, const model::ScheduleEvaluation& run,
                                  bool synchronise) const {
  const model::Schedule& schedule = program_.schedule;
  const bool alone = schedule.ranks.size() == 1;  // then every slot is known by itself
  Execution execution;
  execution.ranks.resize(schedule.ranks.size());
  std::vector<GradientsReady> ready;
  for (std::size_t rank = 0; rank < execution.ranks.size(); ++rank) {
    RankTimes& times = execution.ranks[rank];
    RankWalk walked =
        walk(program_, rank, template_runs_, timings_, alone ? std::vector<double>{} : run.start[rank], synchronise);
    execution.pipeline_end = std::max(execution.pipeline_end, walked.ready.end);
    for (std::size_t op = 0; op < schedule.ranks[rank].size(); ++op) {
      const auto type = static_cast<std::size_t>(schedule.ranks[rank][op].type);
      times.slot_seconds[type] += alone ? walked.slot_seconds[op] : costs.of(schedule.ranks[rank][op]);
      ++times.slot_counts[type];
    }
    times.gather_wait = walked.gather_wait;
    ready.push_back(std::move(walked.ready));
  }
  for (const GradientsReady& rank : ready)
    execution.exposed_reduce = std::max(execution.exposed_reduce, rank.reduced - execution.pipeline_end);
  const std::vector<RankWork> works = rank_works(schedule, timings_, program_.gather_after_update);
  execution.step_end = step_end(works, ready, {});
  execution.tail = step_tail(works, ready);
  return execution;
}

double Prediction::compute_seconds() const {
  const RankTimes& rank = execution_.ranks[0];
  return total(rank.slot_seconds) - total(rank.exposed);
}

double Prediction::bubble() const {
  constexpr double rounding = 1e-12;  // s: of sums of slots
  const double rest = execution_.pipeline_end - total(execution_.ranks[0].slot_seconds);
  return std::abs(rest) < rounding ? 0 : rest;
}

// Tokens of the next step are loaded beside this one; without prefetching nothing runs until they are there.
double Prediction::exposed_input() const {
  const auto& plan = inputs_.plan;
  const auto step_tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const auto replica = static_cast<double>(plan.parallelism.tensor * plan.parallelism.pipeline);
  const double rank_tokens = step_tokens * replica / static_cast<double>(plan.cluster.gpus);
  const double seconds = costs_.host.input(rank_tokens, step_tokens);
  return plan.input.prefetch ? std::max(0.0, seconds - execution_.step_end) : seconds;
}

double Prediction::exposed_average() const {
  double longest = 0;
  for (const auto& stages : stages_of(program_.schedule)) {
    double seconds = 0;
    for (const std::int32_t stage : stages) seconds += timings_[static_cast<std::size_t>(stage)].average;
    longest = std::max(longest, seconds);
  }
  return std::max(0.0, longest - execution_.step_end - exposed_input());
}

double Prediction::mean_over_ranks(std::array<double, 5> RankTimes::*times, std::size_t type) const {
  double sum = 0;
  for (const RankTimes& rank : execution_.ranks) sum += (rank.*times)[type];
  return sum / static_cast<double>(execution_.ranks.size());
}

Attribution Prediction::rank_zero_attribution() const {
  Attribution sum;
  for (std::uint16_t slot : program_.slot_templates[0]) {
    const Attribution& part = attributions_[slot];
    for (const auto& [name, seconds] : part.classes) sum.classes[name] += seconds;
    for (const auto& [index, seconds] : part.constants) sum.constants[index] += seconds;
    for (const auto& [index, seconds] : part.exchanges) sum.exchanges[index] += seconds;
  }
  return sum;
}

model::StepTimes Prediction::step_times() const {
  model::StepTimes step;
  const RankTimes& rank = execution_.ranks[0];
  const double input = exposed_input(), average = exposed_average();
  step.time_s = execution_.step_end + input + average;
  step.bubble_s = bubble() + input + average;
  step.exposed_input_s = input;
  step.exposed_host_s = average;
  step.exposed_gradient_reduce_s = execution_.exposed_reduce;
  step.exposed_parameter_gather_s = rank.gather_wait;
  step.optimizer_s = execution_.step_end - execution_.pipeline_end;
  // The closed form does not look inside a slot.
  const bool looked_inside = execution_.events > 0;
  if (looked_inside) step.exposed_communication_s = total(rank.exposed);
  for (std::size_t i = 0; i < step.slots_s.size(); ++i) {
    step.slot_counts[i] = rank.slot_counts[i];
    step.slots_s[i] = rank.slot_seconds[i];
    step.slots_mean_s[i] = mean_over_ranks(&RankTimes::slot_seconds, i);
    if (looked_inside) step.exposed_mean_s[i] = mean_over_ranks(&RankTimes::exposed, i);
    step.chunk_s[i] = interior_chunk(static_cast<OpType>(i));
  }
  if (!looked_inside) return step;
  const Attribution attribution = rank_zero_attribution();
  double busy = 0;
  for (const auto& [name, seconds] : attribution.classes) busy += seconds;
  for (const auto& [name, seconds] : attribution.classes)
    step.breakdown.push_back({name, seconds / busy * compute_seconds()});
  std::ranges::sort(step.breakdown, std::ranges::greater(), &model::StepTimes::ClassTime::seconds);
  step.breakdown.push_back({"exposed communication", total(rank.exposed)});
  const IdleTime idle = idle_time(0, bubble());
  step.breakdown.push_back({"point-to-point", idle.point_to_point});
  step.breakdown.push_back({"bubble", idle.bubble()});
  step.breakdown.push_back({"optimizer", *step.optimizer_s});
  if (input > 0) step.breakdown.push_back({"exposed input", input});
  if (average > 0) step.breakdown.push_back({"exposed copy to the host", average});
  return step;
}

std::vector<model::ProvenanceEntry> Prediction::provenance() const {
  const Attribution attribution = rank_zero_attribution();
  double busy = 0;
  for (const auto& [index, seconds] : attribution.constants) busy += seconds;
  double transfers = 0;
  for (const auto& [index, seconds] : attribution.exchanges) transfers += seconds;
  const double exposed = total(execution_.ranks[0].exposed);
  std::vector<model::ProvenanceEntry> entries;
  const auto& parameters = inputs_.profile.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    double seconds = 0;
    if (const auto found = attribution.constants.find(index); found != attribution.constants.end())
      seconds += found->second / busy * compute_seconds();
    if (const auto found = attribution.exchanges.find(index); found != attribution.exchanges.end() && transfers > 0)
      seconds += found->second / transfers * exposed;
    entries.push_back({parameters[i], seconds / execution_.step_end});
  }
  for (const model::Parameter& parameter : inputs_.cluster.parameters) entries.push_back({parameter, 0});
  std::ranges::stable_sort(entries, std::ranges::greater(), &model::ProvenanceEntry::share_of_step);
  return entries;
}

}  // namespace plumbline::sim
