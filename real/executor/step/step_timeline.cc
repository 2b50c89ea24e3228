#include "real/executor/step/step_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace plumbline::real {

namespace {

using model::kernel_depth;
using model::phase_depth;
using model::Span;
using model::Stream;

struct Extent {
  double start = 0, end = 0;
  void cover(const KernelRecord& record) {
    start = std::min(start, record.start);
    end = std::max(end, record.end);
  }
};

class Writer {
 public:
  Writer(const RankState& rank, double origin) : rank_(rank), origin_(origin) {}

  model::Timeline write(const std::vector<KernelRecord>& records) {
    std::map<std::int32_t, Extent> slots;
    std::map<std::pair<std::int32_t, std::int32_t>, Extent> segments;
    for (const KernelRecord& record : records) {
      const Label& label = rank_.labels[record.label];
      if (label.segment < 0) {
        add(outside(record, label), label.name, phase_depth, {record.start, record.end});
        continue;
      }
      slots.try_emplace(label.slot, Extent{record.start, record.end}).first->second.cover(record);
      segments.try_emplace({label.slot, label.segment}, Extent{record.start, record.end}).first->second.cover(record);
      add(place(label.slot, label.segment), label.name, kernel_depth, {record.start, record.end});
    }
    for (const auto& [key, extent] : segments) {
      const model::Segment& s = segment(key.first, key.second);
      add(place(key.first, key.second), model::span_name(s.section, s.phase), phase_depth, extent);
    }
    for (const auto& [slot, extent] : slots) {
      const model::ScheduleOp& op = rank_.ops()[static_cast<std::size_t>(slot)];
      add({.rank = rank_.place.pipeline, .micro_batch = op.f_mb >= 0 ? op.f_mb : op.b_mb},
          std::string(to_string(op.type)), model::slot_depth, extent);
    }
    return timeline_.finish();
  }

 private:
  std::int64_t picoseconds(double time) const { return std::llround((time - origin_) * 1e12); }

  const model::Segment& segment(std::int32_t slot, std::int32_t index) const {
    const auto pipeline = static_cast<std::size_t>(rank_.place.pipeline);
    const std::uint16_t which = rank_.program().slot_templates[pipeline][static_cast<std::size_t>(slot)];
    return rank_.program().templates[which].segments[static_cast<std::size_t>(index)];
  }

  Span place(std::int32_t slot, std::int32_t index) const {
    const model::ScheduleOp& op = rank_.ops()[static_cast<std::size_t>(slot)];
    const model::Segment& s = segment(slot, index);
    const model::Stage& stage =
        rank_.program().stages[static_cast<std::size_t>(s.forward_side ? op.f_stage : op.b_stage)];
    return {.rank = rank_.place.pipeline,
            .stream = s.stream,
            .layer = stage.layers[s.block_of_stage],
            .micro_batch = s.forward_side ? op.f_mb : op.b_mb};
  }

  // Puts messages on the pipeline stream, and the work after the slots on the optimizer's.
  Span outside(const KernelRecord& record, const Label& label) const {
    const bool message = record.stream == Stream::pipeline;
    return {.rank = rank_.place.pipeline,
            .stream = message           ? Stream::pipeline
                      : label.slot >= 0 ? record.stream
                                        : Stream::optimizer,
            .micro_batch = label.micro_batch};
  }

  void add(const Span& span, const std::string& text, std::uint8_t depth, const Extent& extent) {
    timeline_.add(span, text, depth, picoseconds(extent.start), picoseconds(extent.end));
  }

  const RankState& rank_;
  double origin_;
  model::TimelineWriter timeline_;
};

}  // namespace

model::Timeline rank_timeline(const RankState& rank, const std::vector<KernelRecord>& records, double origin) {
  return Writer(rank, origin).write(records);
}

model::Timeline join(const std::vector<model::Timeline>& timelines) {
  model::TimelineWriter joined;
  std::int64_t end_ps = 0;
  for (const model::Timeline& one : timelines) {
    end_ps = std::max(end_ps, one.end_ps);
    for (const Span& span : one.spans) joined.add(span, one.names[span.name], span.depth, span.start_ps, span.end_ps());
  }
  model::Timeline timeline = joined.finish();
  timeline.end_ps = end_ps;
  return timeline;
}

}  // namespace plumbline::real
