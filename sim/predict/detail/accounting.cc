#include "sim/predict/detail/accounting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <utility>

#include "model/plan/layout.h"
#include "model/profile/constant_rules.h"

namespace plumbline::sim {
namespace {

constexpr double clock_rounding = 1e-9;  // relative, of sums of picoseconds
constexpr double nothing = 1e-11;        // share of the step: sums of slots in another order

class List {
 public:
  explicit List(double step) : step_(step) {}
  void add(std::string cause, double seconds, std::string remedy) {
    if (std::abs(seconds) > nothing * step_) rows_.push_back({std::move(cause), seconds, std::move(remedy)});
  }
  std::vector<model::LostTime> take() {
    std::ranges::stable_sort(rows_, std::ranges::greater(), &model::LostTime::seconds);
    return std::move(rows_);
  }

 private:
  double step_;
  std::vector<model::LostTime> rows_;
};

// Subtracts `seconds` from the parts in order, none below zero.
void take_away(double seconds, std::initializer_list<double*> parts) {
  for (double* part : parts) {
    const double taken = std::min(*part, seconds);
    *part -= taken;
    seconds -= taken;
  }
}

// A negative difference of two runs means that kernels filled each other's gaps, so those gaps were smaller.
void add_kernels(const StepAccount& account, List& list) {
  KernelLoss loss = account.load.loss;
  double occupancy = account.undisturbed - account.load.at_best(Resource::compute) - loss.total();
  double overlapped = account.busy - account.undisturbed;
  for (double* difference : {&occupancy, &overlapped})
    if (std::abs(*difference) <= clock_rounding * account.busy) loss.gemm += std::exchange(*difference, 0);
  const double filled = std::max(0.0, -occupancy) + std::max(0.0, -overlapped);
  occupancy = std::max(0.0, occupancy);
  overlapped = std::max(0.0, overlapped);
  const double all = account.load.lost_to_sms + account.load.lost_to_slowdown;
  double slowdown = all > 0 ? overlapped * account.load.lost_to_slowdown / all : overlapped;
  occupancy += overlapped - slowdown;
  take_away(filled, {&occupancy, &loss.gemm, &loss.clock, &loss.gaps, &slowdown, &loss.memory_bound, &loss.ring,
                     &loss.copies, &loss.recomputation, &loss.host});
  list.add("GEMM below best rate", loss.gemm, "larger GEMMs (tiles, waves)");
  list.add("clock under the power limit", loss.clock, "a higher cluster.power_limit_w, or less power per FLOP");
  list.add("memory-bound below best rate", loss.memory_bound, "fused kernels");
  list.add("launch gaps", loss.gaps, "fewer kernels, or CUDA graphs");
  list.add("late keys and values", loss.ring, "fewer context-parallel ranks or faster links between them");
  list.add("host", loss.host, "fewer launches (fused or compiled kernels, CUDA graphs), larger micro-batches");
  list.add("copies of shards", loss.copies, "software that gathers and reduces in place");
  list.add("recomputation", loss.recomputation, "memory for what it saves");
  list.add("SMs given to communication", occupancy, "communication on fewer SMs");
  list.add("slowdown during transfers", slowdown, "transfers during no kernels");
}

std::string groups_of(const model::Plan& plan) {
  const auto groups = model::layer_groups(plan.parallelism);
  const auto divided = std::ranges::count_if(groups, [](const model::RankGroup& group) { return group.ranks > 1; });
  if (plan.parallelism.context == 1) return "tensor-parallel collectives";
  const bool tensor = divided > 1;
  return tensor ? "tensor- and context-parallel collectives" : "context-parallel collectives";
}

void add_waits(const StepAccount& account, const model::Plan& plan, List& list) {
  const double exposed = account.slots - account.busy;
  const double known = std::accumulate(account.exposure.begin(), account.exposure.end(), 0.0);
  const double gather = known > 0 ? std::min(account.gather_wait, exposed) : exposed;
  const auto part = [&](Waits kind) {
    return known > 0 ? account.exposure[static_cast<std::size_t>(kind)] / known * (exposed - gather) : 0;
  };
  list.add("exposed dispatch", part(Waits::dispatch), "overlapped pairs or a faster network");
  list.add("exposed combine", part(Waits::combine), "overlapped pairs or a faster network");
  list.add("slowest expert rank", part(Waits::stragglers), "balanced experts");
  list.add("exposed " + groups_of(plan), part(Waits::collective), "smaller groups, or overlap.tensor");
  list.add("exposed activation copies", part(Waits::host_copy), "less offload.activations, or a faster link");
  list.add("late parameters", gather, "gathers further ahead, or a lower zero_stage (FSDP is 3)");
}

void add_end(const StepAccount& account, List& list) {
  list.add("point-to-point", account.idle.point_to_point, "eager messages or a faster network");
  list.add("uneven stages", account.idle.uneven_stages, "an even split of layers");
  list.add("bubble", account.idle.fill_and_drain, "more micro-batches or a schedule with a smaller bubble");
  list.add("late gradient reduction", account.tail.reduce, "overlap.gradient_reduce or a faster network");
  list.add("agreement on the norm", account.tail.agree, "no clipping of the whole gradient");
  list.add("optimizer on the host", account.tail.host, "optimizer states on the GPU");
  list.add("host between steps", account.tail.step, "fewer values that the host reads back each step");
  list.add("late parameter gather", account.tail.gather, "overlap.parameter_gather");
}

bool works_in_slots(Resource resource) {
  switch (resource) {
    case Resource::data_parallel_nic:
    case Resource::data_parallel_nvlink:
    case Resource::message_nic:
    case Resource::message_nvlink:
    case Resource::optimizer_host:
      return false;
    default:
      return true;
  }
}

// The part of `left` seconds that a link's transfers do not take is time in which it does not send.
void add_link(const StepAccount& account, double left, List& list) {
  const auto part = [&left](double seconds) {
    const double found = std::clamp(seconds, 0.0, left);
    left -= found;
    return found;
  };
  const double taken = account.load.taken[static_cast<std::size_t>(account.resource)];
  list.add("transfers below best rate", part(taken - account.bound), "larger transfers, or more SMs for them");
  list.add("link idle during kernels", part(account.busy), "all kernels during transfers");
  list.add("link and kernels idle", left, "fewer barriers and waits between transfers");
}

}  // namespace

std::vector<model::LostTime> lost_times(const StepAccount& account, const model::Plan& plan) {
  List list(account.step());
  if (account.resource == Resource::compute) {
    add_kernels(account, list);
    add_waits(account, plan, list);
    list.add("optimizer below best rate", account.optimizer - account.optimizer_at_best, "fused kernels");
    add_end(account, list);
  } else if (works_in_slots(account.resource)) {
    add_link(account, account.slots - account.bound, list);
    list.add("optimizer", account.optimizer, "optimizer states on more ranks (zero_stage)");
    add_end(account, list);
  } else {
    add_link(account, account.step() - account.input - account.average - account.bound, list);
  }
  list.add("input", account.input, "input.prefetch or faster loaders");
  list.add("copy of the parameters", account.average, "no moving average on the host");
  return list.take();
}

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
  step.trained_parameters = metrics.trained_parameters;
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
