#include "sim/prediction.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/schedule/evaluate.h"
#include "sim/stragglers.h"

namespace plumbline::sim {

namespace {

using model::OpType;

constexpr std::uint64_t seed = 61;
constexpr int messages_per_batch = 2;  // a pair sends an activation and a gradient over the same link

double total(const std::array<double, 5>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

Prediction::Prediction(const Inputs& inputs, const model::StepProgram& program, const CostModels& costs)
    : inputs_(inputs), program_(program), costs_(costs) {
  time_templates();
}

void Prediction::time_templates() {
  for (std::size_t i = 0; i < program_.templates.size(); ++i) {
    template_times_.push_back(segment_times(program_, program_.templates[i], costs_));
    wait_for_stragglers(i);
    attributions_.push_back(attribute(program_, program_.templates[i], costs_, inputs_.cluster.device));
  }
}

void Prediction::wait_for_stragglers(std::size_t index) {
  const model::Plan& plan = inputs_.plan;
  const Imbalance imbalance = {plan.routing.imbalance, relative_rows(plan.routing.rows_per_rank), seed + index};
  if (plan.parallelism.expert == 1 || imbalance.even()) return;
  const GroupRun group = run_group(program_.templates[index], template_times_[index], plan.parallelism.expert,
                                   costs_.partition.device_sms, imbalance);
  for (std::size_t s = 0; s < template_times_[index].size(); ++s) template_times_[index][s].wait = group.waits[s];
}

std::vector<OptimizerTiming> Prediction::optimizer_timings() const {
  std::vector<OptimizerTiming> timings;
  const model::Conditions whole{.sms = costs_.partition.device_sms};
  for (const model::Graph& graph : program_.stage_optimizers) {
    OptimizerTiming timing;
    for (const model::Operator& op : graph.operators) {
      if (op.kind == model::OperatorKind::adamw) {
        timing.update += costs_.kernels.time(graph, op, whole).seconds;
        continue;
      }
      const double seconds = costs_.exchanges.collective(graph, op);
      if (op.kind != model::OperatorKind::all_gather) {
        timing.reduce += seconds;
        continue;
      }
      // Overlapped, only the first bucket is waited for: the next step's first layers need no more.
      const double bytes = graph.tensor(op.writes[0]).bytes().value();
      const double bucket = std::min(1.0, inputs_.plan.overlap.gradient_bucket_bytes / bytes);
      timing.exposed_gather += seconds * (inputs_.plan.overlap.parameter_gather ? bucket : 1);
    }
    timings.push_back(timing);
  }
  return timings;
}

model::Result<void> Prediction::run_step(bool record_timeline, Loop* loop) {
  ExecutionInput input;
  input.program = &program_;
  input.template_times = template_times_;
  input.device_sms = costs_.partition.device_sms;
  input.hop_latency = costs_.exchanges.hop(model::Bytes(0), 1);
  input.hop_bytes = program_.activation_hop.value();
  input.hop_rate = costs_.exchanges.hop_rate().value;
  input.links = costs_.links ? &*costs_.links : nullptr;
  input.optimizers = optimizer_timings();
  input.overlap_gradient_reduce = inputs_.plan.overlap.gradient_reduce;
  input.record = record_timeline;
  model::Result<Execution> execution = loop == nullptr ? execute(input) : execute(input, *loop);
  if (!execution) return tl::unexpected(execution.error());
  execution_ = std::move(*execution);
  return {};
}

std::int32_t Prediction::interior_stage_kind() const { return program_.stages[program_.stages.size() / 2].kind; }

std::optional<double> Prediction::interior_chunk(OpType type) const {
  const std::int32_t interior = interior_stage_kind();
  for (std::size_t i = 0; i < program_.templates.size(); ++i) {
    const model::SlotTemplate& slot = program_.templates[i];
    const bool forward_fits = slot.f_stage_kind < 0 || slot.f_stage_kind == interior;
    const bool backward_fits = slot.b_stage_kind < 0 || slot.b_stage_kind == interior;
    if (slot.type == type && forward_fits && backward_fits)
      return template_seconds(slot, template_times_[i], costs_.partition.device_sms);
  }
  return std::nullopt;
}

model::Result<void> Prediction::run_closed_form() {
  model::ScheduleCosts costs;
  costs.F = interior_chunk(OpType::F).value_or(0);
  costs.B = interior_chunk(OpType::B).value_or(0);
  costs.I = interior_chunk(OpType::I).value_or(0);
  costs.W = interior_chunk(OpType::W).value_or(0);
  costs.FB = interior_chunk(OpType::FB).value_or(costs.F + costs.B);
  const bool pairs = program_.schedule.directions == 2;
  costs.p2p =
      program_.stages.size() > 1 ? costs_.exchanges.hop(program_.activation_hop, pairs ? messages_per_batch : 1) : 0;
  const model::Result<model::ScheduleEvaluation> run =
      model::evaluate(program_.schedule, costs, program_.schedule.point_to_point);
  if (!run) return tl::unexpected(run.error());

  const model::Result<const model::ScheduleKind*> kind = model::find_schedule(program_.schedule.kind);
  execution_.pipeline_end = (*kind)->exact_makespan(program_.schedule.shape, costs).value_or(run->makespan);
  execution_.ranks.resize(program_.schedule.ranks.size());
  for (std::size_t rank = 0; rank < execution_.ranks.size(); ++rank) {
    RankTimes& times = execution_.ranks[rank];
    for (const model::ScheduleOp& op : program_.schedule.ranks[rank]) {
      times.slot_seconds[static_cast<std::size_t>(op.type)] += costs.of(op.type);
      ++times.slot_counts[static_cast<std::size_t>(op.type)];
    }
  }
  double update = 0;
  double reduce = 0;
  for (const OptimizerTiming& timing : optimizer_timings()) {
    reduce = std::max(reduce, timing.reduce);
    update = std::max(update, timing.update + timing.exposed_gather);
  }
  const auto held = static_cast<double>(program_.schedule.directions * program_.schedule.stages) /
                    static_cast<double>(program_.schedule.ranks.size());
  const double exposed_reduce = inputs_.plan.overlap.gradient_reduce ? reduce : held * reduce;
  execution_.step_end = execution_.pipeline_end + exposed_reduce + held * update;
  return {};
}

double Prediction::compute_seconds() const {
  const RankTimes& rank = execution_.ranks[0];
  return total(rank.slot_seconds) - total(rank.exposed);
}

double Prediction::bubble() const { return execution_.pipeline_end - total(execution_.ranks[0].slot_seconds); }

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
  step.time_s = execution_.step_end;
  step.bubble_s = bubble();
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
  step.breakdown.push_back({"bubble and messages", bubble()});
  step.breakdown.push_back({"optimizer", *step.optimizer_s});
  return step;
}

double Prediction::lower_bound() const {
  double bound = 0;
  for (const auto& slots : program_.slot_templates) {
    double work = 0;
    for (std::uint16_t slot : slots) work += attributions_[slot].flop_seconds;
    bound = std::max(bound, work);
  }
  return bound;
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
