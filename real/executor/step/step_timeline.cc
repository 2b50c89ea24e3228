#include "real/executor/step/step_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/program/program.h"

namespace plumbline::real {
namespace {

using model::kernel_depth;
using model::phase_depth;
using model::Span;

struct Extent {
  double start = 0, end = 0;
  void cover(const KernelRecord& record) {
    start = std::min(start, record.start);
    end = std::max(end, record.end);
  }
};

class Writer {
 public:
  Writer(const RankState& rank, double origin)
      : rank_(rank),
        pipeline_(static_cast<std::size_t>(rank.place.pipeline)),
        labels_(rank.program()),
        origin_(origin) {}

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
      add(kernel(label), label.name, kernel_depth, {record.start, record.end});
    }
    for (const auto& [key, extent] : segments) {
      const model::Segment& s = segment(key.first, key.second);
      add(place(key.first, key.second), model::span_name(s.section, s.phase), phase_depth, extent);
    }
    for (const auto& [slot, extent] : slots) {
      const auto op = static_cast<std::size_t>(slot);
      add(labels_.slot(pipeline_, op), std::string(to_string(rank_.ops()[op].type)), model::slot_depth, extent);
    }
    model::Timeline timeline = timeline_.finish();
    labels_.describe(timeline);
    return timeline;
  }

 private:
  std::int64_t picoseconds(double time) const { return std::llround((time - origin_) * 1e12); }

  const model::Segment& segment(std::int32_t slot, std::int32_t index) const {
    const std::uint16_t which = rank_.program().slot_templates[pipeline_][static_cast<std::size_t>(slot)];
    return rank_.program().templates[which].segments[static_cast<std::size_t>(index)];
  }

  Span place(std::int32_t slot, std::int32_t index) {
    return labels_.segment(pipeline_, static_cast<std::size_t>(slot), static_cast<std::size_t>(index), 0);
  }

  Span kernel(const Label& label) {
    const model::Segment& s = segment(label.slot, label.segment);
    const auto& operators = rank_.program().blocks[s.block].operators;
    const auto found =
        std::ranges::find_if(s.operators, [&](std::uint16_t index) { return operators[index].name == label.name; });
    const Span whole = place(label.slot, label.segment);
    if (found == s.operators.end()) return whole;
    return labels_.kernel(whole, static_cast<std::size_t>(label.slot), static_cast<std::size_t>(label.segment),
                          static_cast<std::size_t>(found - s.operators.begin()));
  }

  // Puts messages on the pipeline stream, and the work after the slots on the optimizer's. A batch of messages has the
  // labels of the first that it sends.
  Span outside(const KernelRecord& record, const Label& label) {
    const bool message = record.stream == model::Stream::pipeline;
    if (message && label.slot >= 0) {
      const auto& batch = rank_.program().batches[pipeline_][static_cast<std::size_t>(label.slot)];
      const auto sent = std::ranges::find_if(batch, &model::Transfer::send);
      if (sent != batch.end()) return labels_.message(pipeline_, *sent, rank_.program().stage_message.value());
    }
    if (!message && label.slot < 0) return labels_.outside_slots(pipeline_, label.name);
    return {.rank = rank_.place.pipeline,
            .stream = message ? model::Stream::pipeline : record.stream,
            .micro_batch = label.micro_batch};
  }

  void add(const Span& span, const std::string& text, std::uint8_t depth, const Extent& extent) {
    timeline_.add(span, text, depth, picoseconds(extent.start), picoseconds(extent.end));
  }

  const RankState& rank_;
  std::size_t pipeline_;
  model::SpanLabels labels_;
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
  std::vector<model::SpanWork> works;
  for (const model::Timeline& one : timelines) {
    end_ps = std::max(end_ps, one.end_ps);
    for (Span span : one.spans) {
      if (span.work >= 0) span.work += static_cast<std::int32_t>(works.size());
      joined.add(span, one.names[span.name], span.depth, span.start_ps, span.end_ps());
    }
    works.insert(works.end(), one.works.begin(), one.works.end());
  }
  model::Timeline timeline = joined.finish();
  timeline.end_ps = end_ps;
  timeline.works = std::move(works);
  if (!timelines.empty()) timeline.stage_layers = timelines.front().stage_layers;
  return timeline;
}

}  // namespace plumbline::real
