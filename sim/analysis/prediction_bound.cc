// Messages and idle time of a prediction, its bound, and what the step loses against it.
#include <algorithm>
#include <numeric>

#include "sim/predict/prediction.h"

namespace plumbline::sim {

namespace {

constexpr int messages_per_batch = 2;  // a pair sends an activation and a gradient over the same link

double total(const std::array<double, 5>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

bool communicates(const model::SlotTemplate& slot) {
  return std::ranges::any_of(slot.segments, [](const model::Segment& segment) {
    return segment.stream == model::Stream::communication || segment.stream == model::Stream::collective;
  });
}

}  // namespace

double Prediction::hop() const {
  const bool pairs = std::ranges::any_of(
      program_.templates, [](const model::SlotTemplate& slot) { return slot.type == model::OpType::FB; });
  return program_.stages.size() > 1 ? costs_.exchanges.hop(program_.activation_hop, pairs ? messages_per_batch : 1) : 0;
}

std::vector<double> Prediction::slot_seconds() const {
  if (!execution_.template_seconds.empty()) return execution_.template_seconds;
  const std::array<double, 5> waits = mean_waits();
  std::vector<double> seconds;
  for (std::size_t i = 0; i < template_runs_.size(); ++i)
    seconds.push_back(template_runs_[i].seconds + waits[static_cast<std::size_t>(program_.templates[i].type)]);
  return seconds;
}

IdleTime Prediction::idle_time(std::size_t rank, double idle) const {
  return split_idle(program_, slot_seconds(), hop(), rank, idle);
}

double Prediction::flops_at_peak() const {
  double most = 0;
  for (const auto& slots : program_.slot_templates) {
    double work = 0;
    for (const std::uint16_t slot : slots) work += attributions_[slot].flop_seconds;
    most = std::max(most, work);
  }
  return most;
}

void Prediction::fill_slots(std::size_t rank, StepAccount& account) const {
  std::vector<std::optional<SlotAccount>> known(program_.templates.size());
  const std::int64_t sms = costs_.partition.device_sms;
  double free_busy = 0;
  for (const std::uint16_t slot : program_.slot_templates[rank]) {
    if (!known[slot]) {
      const auto busy = [&](const TemplateRun& run, const Exposure& exposed) {
        return run.seconds - std::accumulate(exposed.begin(), exposed.end(), 0.0);
      };
      const model::SlotTemplate& segments = program_.templates[slot];
      const TemplateRun& run = template_runs_[slot];
      const Exposure exposed = exposure(segments, template_times_[slot], run);
      known[slot] = SlotAccount{exposed, busy(run, exposed), busy(run, exposed)};
      if (communicates(segments)) {
        const auto times = undisturbed(template_times_[slot]);
        const TemplateRun alone = run_template(segments, times, sms);
        known[slot]->undisturbed = busy(alone, exposure(segments, times, alone));
      }
    }
    for (std::size_t i = 0; i < wait_kinds; ++i) account.exposure[i] += known[slot]->exposed[i];
    account.undisturbed += known[slot]->undisturbed;
    free_busy += known[slot]->busy;
  }
  const RankTimes& times = execution_.ranks[rank];
  const bool looked_inside = execution_.events > 0;
  account.gather_wait = times.gather_wait;
  account.slots = total(times.slot_seconds);
  account.busy = looked_inside ? account.slots - total(times.exposed) : free_busy;
}

StepAccount Prediction::account_of(const StepBound& bound, const Load& load) const {
  StepAccount account;
  account.bound = bound.seconds;
  account.resource = bound.resource;
  account.load = load;
  fill_slots(bound.rank, account);
  account.optimizer = rank_works(program_.schedule, timings_, program_.gather_after_update)[bound.rank].kernels();
  account.optimizer_at_best = optimizer_at_best(program_, bound.rank, costs_);
  account.tail = execution_.tail;
  account.input = exposed_input();
  account.average = exposed_average();
  // The closed form gives slots the mean of their waits, of which the last may end after its rank.
  const double kernels_end = execution_.step_end - account.tail.total();
  account.slots = std::min(account.slots, kernels_end - account.optimizer);
  account.idle = idle_time(bound.rank, kernels_end - account.optimizer - account.slots);
  return account;
}

void Prediction::fill_bound(model::StepResult& result) const {
  const double reduce_share = 1 / static_cast<double>(inputs_.plan.parallelism.synchronisation_interval);
  const std::vector<Load> loads =
      rank_loads(program_, template_loads(program_, costs_), costs_, timings_, reduce_share, execution_.events > 0);
  std::vector<double> optimizers;
  for (std::size_t rank = 0; rank < loads.size(); ++rank)
    optimizers.push_back(optimizer_at_best(program_, rank, costs_));
  const StepBound bound = step_bound(loads, optimizers);
  result.bound_s = bound.seconds;
  result.bound_by = to_string(bound.resource);
  result.bound_rank = static_cast<std::int64_t>(bound.rank);
  result.lost = lost_times(account_of(bound, loads[bound.rank]), inputs_.plan);
  result.flops_at_peak_s = flops_at_peak();
}

}  // namespace plumbline::sim
