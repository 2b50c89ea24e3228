#include "sim/predict/detail/accounting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "model/profile/constant_rules.h"

namespace plumbline::sim {

PlanBound plan_bound(const PlanWork& work, bool by_events) {
  const std::vector<Load> loads = rank_loads(work, by_events);
  PlanBound bound;
  bound.step = step_bound(work, loads);
  bound.load = loads[bound.step.rank];
  for (const auto& counts : *work.counts) {
    double seconds = 0;
    for (const auto& [slot_class, ops] : counts)
      seconds += static_cast<double>(ops) * work.timed->load(work.slots[slot_class]).flop_seconds;
    bound.flops_at_peak_s = std::max(bound.flops_at_peak_s, seconds);
  }
  return bound;
}

StepAccounting::StepAccounting(const Inputs& inputs, const PlanWork& work, const Execution& execution)
    : inputs_(inputs), work_(work), execution_(execution) {}

// Tokens of the next step are loaded during this one. Without prefetching nothing runs until they are loaded.
double StepAccounting::exposed_input() const {
  const model::Plan& plan = *work_.plan;
  const auto step_tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const auto replica = static_cast<double>(plan.parallelism.tensor * plan.parallelism.pipeline);
  const double rank_tokens = step_tokens * replica / static_cast<double>(plan.cluster.gpus);
  const double seconds = work_.costs->host.input(rank_tokens, step_tokens);
  return plan.input.prefetch ? std::max(0.0, seconds - execution_.step_end) : seconds;
}

double StepAccounting::exposed_average() const {
  double longest = 0;
  for (const ShardedStages::Update* update : work_.updates) longest = std::max(longest, update->average);
  return std::max(0.0, longest - execution_.step_end - exposed_input());
}

double StepAccounting::bubble() const {
  constexpr double rounding = 1e-12;  // s: rounding of sums of slots
  const double rest = execution_.pipeline_end - total(execution_.ranks[0].slot_seconds);
  return std::abs(rest) < rounding ? 0 : rest;
}

double StepAccounting::compute_seconds() const {
  const RankTimes& rank = execution_.ranks[0];
  return total(rank.slot_seconds) - total(rank.exposed);
}

void StepAccounting::fill_rates(const model::ModelMetrics& metrics, model::StepTimes& step) const {
  const model::Plan& plan = *work_.plan;
  const auto gpus = static_cast<double>(plan.cluster.gpus);
  const auto tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const double peak = inputs_.cluster.device.bf16_peak.value();
  const auto per_gpu = [&](double flops_per_token) { return flops_per_token * tokens / step.time_s / gpus; };
  step.tokens_per_s = tokens / step.time_s;
  step.tokens_per_s_per_gpu = step.tokens_per_s / gpus;
  step.model_tflops_per_gpu = per_gpu(metrics.flops_per_token) / 1e12;
  step.model_tflops_per_gpu_causal = per_gpu(metrics.flops_per_token_causal) / 1e12;
  step.mfu = per_gpu(metrics.flops_per_token) / peak;
  step.mfu_causal = per_gpu(metrics.flops_per_token_causal) / peak;
}

void StepAccounting::fill_slots(model::StepTimes& step) const {
  const RankTimes& rank = execution_.ranks[0];
  const auto mean = [&](std::array<double, 5> RankTimes::*times, std::size_t type) {
    double sum = 0;
    for (const RankTimes& one : execution_.ranks) sum += (one.*times)[type];
    return sum / static_cast<double>(execution_.ranks.size());
  };
  if (looked_inside()) step.exposed_communication_s = total(rank.exposed);
  for (std::size_t i = 0; i < step.slots_s.size(); ++i) {
    step.slot_counts[i] = rank.slot_counts[i];
    step.slots_s[i] = rank.slot_seconds[i];
    step.slots_mean_s[i] = mean(&RankTimes::slot_seconds, i);
    if (looked_inside()) step.exposed_mean_s[i] = mean(&RankTimes::exposed, i);
  }
}

// Takes, for each op type, the first slot of middle stages only.
void StepAccounting::fill_chunks(model::StepTimes& step) const {
  const std::vector<std::int32_t>& kinds = work_.stage_kinds;
  const std::int32_t middle = kinds[kinds.size() / 2];
  const auto fits = [&](std::int32_t stage) { return stage < 0 || kinds[static_cast<std::size_t>(stage)] == middle; };
  for (std::size_t c = 0; c < work_.table->classes.size(); ++c) {
    const model::ScheduleTable::SlotClass& one = work_.table->classes[c];
    std::optional<double>& chunk = step.chunk_s[static_cast<std::size_t>(one.type)];
    if (!chunk && fits(one.f_stage) && fits(one.b_stage)) chunk = work_.step.runs[c]->seconds;
  }
}

// A GPU draws what it does without work all the time, and the energy of its kernels. Pipeline ranks stand for as many
// GPUs each. What links and their engines draw is not counted.
void StepAccounting::fill_power(model::StepTimes& step) const {
  const std::optional<model::PowerModel>& power = work_.costs->power;
  if (!power) return;
  double joules = 0;
  std::array<double, 5> seconds{}, clocked{};
  for (std::size_t rank = 0; rank < work_.counts->size(); ++rank) {
    joules += work_.updates[rank]->joules;
    for (const auto& [slot_class, ops] : (*work_.counts)[rank]) {
      const SlotPower& slot = work_.timed->power(work_.slots[slot_class]);
      const double taken = static_cast<double>(ops) * work_.step.runs[slot_class]->seconds;
      const auto type = static_cast<std::size_t>(work_.table->classes[slot_class].type);
      joules += static_cast<double>(ops) * slot.joules;
      seconds[type] += taken;
      clocked[type] += taken * slot.clock;
    }
  }
  for (std::size_t type = 0; type < seconds.size(); ++type)
    if (seconds[type] > 0) step.clock[type] = clocked[type] / seconds[type];
  const double drawn = power->idle() + joules / static_cast<double>(work_.counts->size()) / step.time_s;
  step.gpu_power_w = std::min(drawn, power->drawn_at_limit());
  step.energy_j = *step.gpu_power_w * step.time_s * static_cast<double>(work_.plan->cluster.gpus);
}

model::StepTimes StepAccounting::parts() const {
  model::StepTimes step;
  const double input = exposed_input(), average = exposed_average();
  step.time_s = execution_.step_end + input + average;
  step.bubble_s = bubble() + input + average;
  step.exposed_input_s = input;
  step.exposed_host_s = average;
  step.exposed_gradient_reduce_s = execution_.exposed_reduce;
  step.exposed_parameter_gather_s = execution_.ranks[0].gather_wait;
  step.optimizer_s = execution_.step_end - execution_.pipeline_end;
  fill_slots(step);
  return step;
}

model::StepTimes StepAccounting::times(const model::ModelMetrics& metrics) const {
  model::StepTimes step = parts();
  fill_chunks(step);
  fill_rates(metrics, step);
  fill_power(step);
  return step;
}

std::vector<model::StepTimes::ClassTime> StepAccounting::breakdown() const {
  const Attribution busy_by = attribution();
  double busy = 0;
  for (const auto& [name, seconds] : busy_by.classes) busy += seconds;
  std::vector<model::StepTimes::ClassTime> rows;
  for (const auto& [name, seconds] : busy_by.classes) rows.push_back({name, seconds / busy * compute_seconds()});
  std::ranges::sort(rows, std::ranges::greater(), &model::StepTimes::ClassTime::seconds);
  rows.push_back({"exposed communication", total(execution_.ranks[0].exposed)});
  const IdleTime idle = idle_time(0, bubble());
  rows.push_back({"point-to-point", idle.point_to_point});
  rows.push_back({"bubble", idle.bubble()});
  rows.push_back({"optimizer", execution_.step_end - execution_.pipeline_end});
  if (const double input = exposed_input(); input > 0) rows.push_back({"exposed input", input});
  if (const double average = exposed_average(); average > 0) rows.push_back({"exposed copy to the host", average});
  return rows;
}

Attribution StepAccounting::attribution() const {
  Attribution sum;
  for (const auto& [slot_class, ops] : work_.counts->front()) {
    const Attribution& part = work_.timed->attribution(work_.slots[slot_class]);
    const auto times = static_cast<double>(ops);
    for (const auto& [name, seconds] : part.classes) sum.classes[name] += times * seconds;
    for (const auto& [index, seconds] : part.constants) sum.constants[index] += times * seconds;
    for (const auto& [index, seconds] : part.communication) sum.communication[index] += times * seconds;
  }
  return sum;
}

// Slots take the mean time of their template by events, of their class in closed form.
IdleTime StepAccounting::idle_time(std::size_t rank, double idle) const {
  std::vector<double> seconds(work_.slots.size(), 0);
  if (execution_.template_seconds.empty()) {
    std::vector<double> counts(seconds.size(), 0);
    for (const auto& rank_counts : *work_.counts)
      for (const auto& [slot_class, ops] : rank_counts) counts[slot_class] += static_cast<double>(ops);
    for (std::size_t c = 0; c < seconds.size(); ++c)
      seconds[c] = work_.step.runs[c]->seconds + work_.walk.class_longer[c] / counts[c];
  } else {
    const std::vector<std::int32_t> templates = distinct_slots(work_);
    for (std::size_t c = 0; c < seconds.size(); ++c)
      seconds[c] = execution_.template_seconds[static_cast<std::size_t>(std::ranges::find(templates, work_.slots[c]) -
                                                                        templates.begin())];
  }
  return split_idle(*work_.table, seconds, work_.step.p2p, rank, idle);
}

StepAccount StepAccounting::account_of(const PlanBound& bound) const {
  const std::size_t rank = bound.step.rank;
  StepAccount account;
  account.bound = bound.step.seconds;
  account.resource = bound.step.resource;
  account.load = bound.load;
  for (const auto& [slot_class, ops] : work_.counts->at(rank)) {
    const TimedStages::Account& slot = work_.timed->account(work_.slots[slot_class]);
    const auto times = static_cast<double>(ops);
    for (std::size_t i = 0; i < wait_kinds; ++i) account.exposure[i] += times * slot.exposed[i];
    account.undisturbed += times * slot.undisturbed;
    account.busy += times * slot.busy;
    account.load.loss.host += times * slot.host;
  }
  const RankTimes& times = execution_.ranks[rank];
  account.busy += times.slowed;
  account.gather_wait = times.gather_wait;
  account.slots = total(times.slot_seconds);
  if (looked_inside()) account.busy = account.slots - total(times.exposed);
  account.optimizer = work_.updates[rank]->work.kernels();
  account.optimizer_at_best = optimizer_at_best(work_, rank);
  account.tail = execution_.tail;
  account.input = exposed_input();
  account.average = exposed_average();
  const double kernels_end = execution_.step_end - account.tail.total();
  account.idle = idle_time(rank, kernels_end - account.optimizer - account.slots);
  return account;
}

std::vector<model::LostTime> StepAccounting::lost(const PlanBound& bound) const {
  return lost_times(account_of(bound), *work_.plan);
}

std::vector<model::ProvenanceEntry> StepAccounting::provenance() const {
  const Attribution sum = attribution();
  double busy = 0;
  for (const auto& [index, seconds] : sum.constants) busy += seconds;
  double transfers = 0;
  for (const auto& [index, seconds] : sum.communication) transfers += seconds;
  const double exposed = total(execution_.ranks[0].exposed);
  std::vector<model::ProvenanceEntry> entries;
  const auto& parameters = work_.costs->profile->profile.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (model::is_of_serving(parameters[i].name)) continue;
    const auto index = static_cast<std::int32_t>(i);
    double seconds = 0;
    if (const auto found = sum.constants.find(index); found != sum.constants.end())
      seconds += found->second / busy * compute_seconds();
    if (const auto found = sum.communication.find(index); found != sum.communication.end() && transfers > 0)
      seconds += found->second / transfers * exposed;
    entries.push_back({parameters[i], seconds / execution_.step_end});
  }
  for (const model::Parameter& parameter : inputs_.cluster.parameters) entries.push_back({parameter, 0});
  std::ranges::stable_sort(entries, std::ranges::greater(), &model::ProvenanceEntry::share_of_step);
  return entries;
}

}  // namespace plumbline::sim
