#include "sim/step/detail/recorder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plumbline::sim {

namespace {

using model::kernel_depth;
using model::phase_depth;
using model::Span;
using model::Stream;

// Returns the middle overlapped pair of a rank, or its first op where it has none.
std::size_t representative_op(const std::vector<model::ScheduleOp>& ops) {
  std::vector<std::size_t> pairs;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].type == model::OpType::FB) pairs.push_back(i);
  return pairs.empty() ? 0 : pairs[pairs.size() / 2];
}

}  // namespace

Recorder::Recorder(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& template_times,
                   const Fleet& fleet)
    : program_(program), template_times_(template_times), fleet_(fleet) {
  for (const auto& ops : program.schedule.ranks) kernel_op_.push_back(representative_op(ops));
}

std::int32_t Recorder::track_of(std::int32_t gpu) const {
  if (fleet_.recorded.empty()) return gpu;
  const auto place = std::ranges::lower_bound(fleet_.recorded, gpu);
  return place != fleet_.recorded.end() && *place == gpu ? static_cast<std::int32_t>(place - fleet_.recorded.begin())
                                                         : -1;
}

void Recorder::slot(std::int32_t gpu, std::size_t op, Time start, Time end) {
  const std::int32_t track = track_of(gpu);
  if (track < 0) return;
  const model::ScheduleOp& o = program_.schedule.ranks[rank_of(gpu)][op];
  timeline_.add({.rank = track, .micro_batch = o.f_mb >= 0 ? o.f_mb : o.b_mb}, std::string(to_string(o.type)),
                model::slot_depth, start, end);
}

void Recorder::segment(std::int32_t gpu, std::size_t op, std::uint32_t index, const SegmentRun& run) {
  const std::int32_t track = track_of(gpu);
  if (track < 0) return;
  const std::size_t rank = rank_of(gpu);
  const bool shows_kernels = kernel_op_[rank] == op;
  const model::ScheduleOp& o = program_.schedule.ranks[rank][op];
  const std::uint16_t slot = program_.slot_templates[rank][op];
  const model::Segment& s = program_.templates[slot].segments[index];
  const model::Stage& stage = program_.stages[s.forward_side ? o.f_stage : o.b_stage];
  const Span place{.rank = track,
                   .stream = s.stream,
                   .layer = stage.layers[s.block_of_stage],
                   .micro_batch = s.forward_side ? o.f_mb : o.b_mb};
  timeline_.add(place, model::span_name(s.section, s.phase), phase_depth, run.start, run.end);
  if (s.stream == Stream::communication) {
    if (run.transfer > run.arrival) timeline_.add(place, "notify", kernel_depth, run.arrival, run.transfer);
    if (shows_kernels) timeline_.add(place, "transfer", kernel_depth, run.transfer, run.end);
  } else if (shows_kernels) {
    kernels(s, template_times_[slot][index], run, place);
  }
}

// Adds the kernels of a segment, which advances as one event, in proportion to their times.
void Recorder::kernels(const model::Segment& segment, const SegmentTime& time, const SegmentRun& run,
                       const Span& place) {
  const double total = std::accumulate(time.kernels.begin(), time.kernels.end(), 0.0);
  if (total <= 0) return;
  double before = 0;
  Time start = run.start;
  for (std::size_t i = 0; i < segment.operators.size(); ++i) {
    before += time.kernels[i];
    const Time end = run.start + std::llround(static_cast<double>(run.end - run.start) * std::min(1.0, before / total));
    timeline_.add(place, program_.blocks[segment.block].operators[segment.operators[i]].name, kernel_depth, start, end);
    start = end;
  }
}

void Recorder::message(std::int32_t gpu, bool forward, std::int32_t micro_batch, Time start, Time end) {
  const std::int32_t track = track_of(gpu);
  if (track < 0) return;
  timeline_.add({.rank = track, .stream = Stream::pipeline, .micro_batch = micro_batch},
                forward ? "send activation" : "send gradient", phase_depth, start, end);
}

void Recorder::optimizer(std::int32_t gpu, const std::string& text, Time start, Time end) {
  const std::int32_t track = track_of(gpu);
  if (track >= 0 && end > start)
    timeline_.add({.rank = track, .stream = Stream::optimizer}, text, phase_depth, start, end);
}

model::Timeline Recorder::finish(Time end) {
  model::Timeline timeline = timeline_.finish();
  const std::size_t gpus = program_.schedule.ranks.size() * static_cast<std::size_t>(fleet_.replicas);
  timeline.ranks = static_cast<std::int32_t>(fleet_.recorded.empty() ? gpus : fleet_.recorded.size());
  timeline.end_ps = end;
  return timeline;
}

}  // namespace plumbline::sim
