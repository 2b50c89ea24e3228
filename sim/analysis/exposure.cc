#include "sim/analysis/exposure.h"

#include <algorithm>
#include <optional>

namespace plumbline::sim {
namespace {

using model::Stream;

class Gaps {
 public:
  Gaps(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, const TemplateRun& run)
      : slot_(slot), times_(times), run_(run) {}

  Exposure operator()() const {
    std::vector<Time> moments;
    for (std::size_t i = 0; i < slot_.segments.size(); ++i) {
      const SegmentRun& segment = run_.segments[i];
      moments.insert(moments.end(), {segment.start, segment.end});
      if (slot_.segments[i].stream == Stream::communication)
        moments.insert(moments.end(), {segment.arrival, released(i)});
    }
    std::ranges::sort(moments);
    moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
    Exposure result{};
    for (std::size_t i = 0; i + 1 < moments.size(); ++i)
      if (const auto kind = waits_between(moments[i], moments[i + 1]))
        result[static_cast<std::size_t>(*kind)] += to_seconds(moments[i + 1] - moments[i]);
    return result;
  }

 private:
  // Returns when the slowest rank of the group has arrived.
  Time released(std::size_t i) const { return run_.segments[i].arrival + to_time(times_[i].wait); }

  std::optional<Waits> waits_between(Time start, Time end) const {
    std::optional<Waits> found;
    for (std::size_t i = 0; i < slot_.segments.size(); ++i) {
      const SegmentRun& segment = run_.segments[i];
      if (segment.start > start || segment.end < end) continue;
      const Stream stream = slot_.segments[i].stream;
      if (stream == Stream::compute || stream == Stream::weight_gradient) return std::nullopt;
      const Waits kind = kind_of(i, start, end);
      found = found ? std::min(*found, kind) : kind;
    }
    return found;
  }

  Waits kind_of(std::size_t i, Time start, Time end) const {
    const model::Segment& segment = slot_.segments[i];
    if (segment.stream == Stream::collective) return Waits::collective;
    if (model::on_host_link(segment.stream)) return Waits::host_copy;
    if (run_.segments[i].arrival <= start && end <= released(i)) return Waits::stragglers;
    return segment.section == model::Section::dispatch ? Waits::dispatch : Waits::combine;
  }

  const model::SlotTemplate& slot_;
  const std::vector<SegmentTime>& times_;
  const TemplateRun& run_;
};

}  // namespace

Exposure exposure(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times, const TemplateRun& run) {
  return Gaps(slot, times, run)();
}

std::vector<SegmentTime> undisturbed(std::vector<SegmentTime> times) {
  for (SegmentTime& time : times) {
    time.compute.fill(time.compute[0]);
    time.compute_per_row.fill(time.compute_per_row[0]);
    time.width.fill(time.width[0]);
    time.held = 0;
  }
  return times;
}

}  // namespace plumbline::sim
