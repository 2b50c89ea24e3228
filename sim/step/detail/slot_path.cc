#include "sim/step/detail/slot_path.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/random.h"
#include "model/cost/operator_class.h"

namespace plumbline::sim {

using model::Segment;

SlotFactors::SlotFactors(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& times,
                         const Fleet& fleet)
    : program_(program),
      fleet_(fleet),
      even_(fleet.slowness.empty() && fleet.jitter == 0 && fleet.work == nullptr),
      micro_batches_(program.schedule.micro_batches_per_direction()) {
  if (even_) return;
  for (std::size_t t = 0; t < program.templates.size(); ++t) {
    std::vector<Part>& parts = parts_.emplace_back();
    for (std::size_t s = 0; s < times[t].size(); ++s) {
      const Segment& segment = program.templates[t].segments[s];
      const SegmentTime& time = times[t][s];
      Part& part = parts.emplace_back();
      if (!(time.compute[0] > 0)) continue;  // it does not compute
      part.rows = static_cast<float>(time.compute_per_row[0] / time.compute[0]);
      double sum = 0, squares = 0, attention = 0;
      const model::Graph& graph = program.blocks[segment.block];
      for (std::size_t k = 0; k < time.kernels.size(); ++k) {
        sum += time.kernels[k];
        squares += time.kernels[k] * time.kernels[k];
        const model::Operator& op = graph.operators[segment.operators[k]];
        if (model::operator_class(graph, op) == model::OperatorClass::attention) attention += time.kernels[k];
      }
      if (!(sum > 0)) continue;
      part.deviation = static_cast<float>(fleet.jitter * std::sqrt(squares) / sum);
      part.attention = static_cast<float>(attention / sum);
    }
  }
}

double SlotFactors::work(const model::ScheduleOp& op, const Segment& segment, const Part& part,
                         std::int64_t replica) const {
  const bool forward = segment.forward_side;
  const std::int32_t stage = forward ? op.f_stage : op.b_stage;
  const std::int32_t micro_batch = forward ? op.f_dir * micro_batches_ + op.f_mb : op.b_dir * micro_batches_ + op.b_mb;
  const std::int32_t layer = program_.stages[static_cast<std::size_t>(stage)].layers[segment.block_of_stage];
  double factor = 1;
  if (part.rows > 0 && layer >= 0) factor += part.rows * (fleet_.work->expert_rows(replica, layer, micro_batch) - 1);
  if (part.attention > 0) factor += part.attention * (fleet_.work->attention(replica, micro_batch) - 1);
  return std::max(0.0, factor);
}

// The exponential is taken to the second order, which keeps it above 0.
void SlotFactors::fill(std::int32_t gpu, std::size_t slot, std::vector<double>& factors) const {
  const auto rank = static_cast<std::size_t>(gpu / fleet_.replicas);
  const std::uint16_t index = program_.slot_templates[rank][slot];
  const std::vector<Part>& parts = parts_[index];
  const std::vector<Segment>& segments = program_.templates[index].segments;
  const model::ScheduleOp& op = program_.schedule.ranks[rank][slot];
  const std::uint64_t draws =
      model::mixed(model::mixed(model::mixed(fleet_.seed) + static_cast<std::uint64_t>(gpu)) + slot);
  const double slow = slowness(gpu);
  factors.resize(parts.size());
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const double deviation = parts[s].deviation;
    const double x = deviation * model::nearly_normal(model::mixed(draws + s)) - deviation * deviation / 2;
    factors[s] = slow * (1 + x + x * x / 2);
  }
  if (fleet_.work == nullptr) return;
  const std::int64_t replica = gpu % fleet_.replicas;
  for (std::size_t s = 0; s < parts.size(); ++s)
    if (parts[s].rows > 0 || parts[s].attention > 0) factors[s] *= work(op, segments[s], parts[s], replica);
}

SlotPath::SlotPath(const model::StepProgram& program, std::uint16_t slot_template, const TemplateRun& alone,
                   const SlotBarriers& barriers)
    : barriers_(barriers), duration_(alone.duration), compute_busy_(alone.compute_busy) {
  const std::vector<model::Segment>& segments = program.templates[slot_template].segments;
  std::array<std::vector<std::uint32_t>, GpuModel::streams> queues;
  for (std::uint32_t s = 0; s < segments.size(); ++s) queues[static_cast<std::size_t>(segments[s].stream)].push_back(s);
  std::array<std::size_t, GpuModel::streams> next{};
  std::vector<bool> done(segments.size(), false);
  while (steps_.size() < segments.size()) {
    for (std::size_t stream = 0; stream < queues.size(); ++stream) {
      if (next[stream] == queues[stream].size()) continue;
      const std::uint32_t s = queues[stream][next[stream]];
      const model::Segment& segment = segments[s];
      if (!std::ranges::all_of(segment.waits, [&](std::uint16_t wait) { return done[wait]; })) continue;
      Step& step = steps_.emplace_back();
      step.segment = s;
      step.kind = barriers.kind(slot_template, s);
      step.computes = segment.stream == model::Stream::compute || segment.stream == model::Stream::weight_gradient;
      const SegmentRun& run = alone.segments[s];
      const Time barrier = segment.stream == model::Stream::communication ? run.arrival
                           : segment.stream == model::Stream::collective  ? run.start
                                                                          : run.end;
      step.before = static_cast<double>(barrier - run.start);
      step.after = static_cast<double>(run.end - barrier);
      step.follows.assign(segment.waits.begin(), segment.waits.end());
      if (next[stream] > 0) step.follows.push_back(queues[stream][next[stream] - 1]);
      ++next[stream];
      done[s] = true;
    }
  }
}

// Fills starts_ with the time at which each member may begin the step.
void SlotPath::start(const Step& step) {
  const std::size_t n = first_.size();
  std::ranges::copy(first_, starts_.begin());
  for (const std::uint32_t before : step.follows) {
    const double* ends = &ends_[before * n];
    for (std::size_t m = 0; m < n; ++m) starts_[m] = std::max(starts_[m], ends[m]);
  }
}

// Moves every member to the last one of its group.
void SlotPath::pass(const GpuGroups& groups, const std::vector<Member>& members) {
  latest_.resize(groups.members.size());
  const auto latest = [&](std::size_t m) -> double& {
    return latest_[static_cast<std::size_t>(groups.of[static_cast<std::size_t>(members[m].replica)])];
  };
  for (std::size_t m = 0; m < members.size(); ++m) latest(m) = 0;
  for (std::size_t m = 0; m < members.size(); ++m) latest(m) = std::max(latest(m), starts_[m]);
  for (std::size_t m = 0; m < members.size(); ++m) {
    waited_[m] += latest(m) - starts_[m];
    starts_[m] = latest(m);
  }
}

void SlotPath::run(std::vector<Member>& members, std::size_t slot, const SlotFactors& factors) {
  const std::size_t n = members.size();
  Time first = members.front().start, last = first;
  for (const Member& member : members) {
    first = std::min(first, member.start);
    last = std::max(last, member.start);
  }
  if (factors.even() && first == last) {
    for (Member& member : members) {
      member.end = first + duration_;
      member.compute_busy = compute_busy_;
      member.waited = 0;
    }
    return;
  }
  ends_.resize(steps_.size() * n);
  for (std::vector<double>* values : {&first_, &starts_, &waited_, &longer_, &last_}) values->assign(n, 0);
  factors_.assign(steps_.size() * n, 1);
  for (std::size_t m = 0; m < n; ++m) {
    first_[m] = static_cast<double>(members[m].start - first);
    if (factors.even()) continue;
    factors.fill(members[m].gpu, slot, own_);
    for (std::size_t s = 0; s < own_.size(); ++s) factors_[s * n + m] = own_[s];
  }
  last_ = first_;
  for (const Step& step : steps_) {
    start(step);
    const double* factor = &factors_[step.segment * n];
    if (step.computes)
      for (std::size_t m = 0; m < n; ++m) {
        const double seconds = step.before * factor[m];
        starts_[m] += seconds;
        longer_[m] += seconds - step.before;
      }
    else
      for (std::size_t m = 0; m < n; ++m) starts_[m] += step.before;
    if (step.kind >= 0) pass(barriers_.kinds()[static_cast<std::size_t>(step.kind)], members);
    double* ends = &ends_[step.segment * n];
    for (std::size_t m = 0; m < n; ++m) {
      ends[m] = starts_[m] + step.after;
      last_[m] = std::max(last_[m], ends[m]);
    }
  }
  for (std::size_t m = 0; m < n; ++m) {
    members[m].end = first + std::llround(last_[m]);
    members[m].compute_busy = compute_busy_ + std::llround(longer_[m]);
    members[m].waited = std::llround(waited_[m]);
  }
}

}  // namespace plumbline::sim
