#include "sim/step/template_run.h"

#include <utility>

#include "sim/engine/heap_loop.h"
#include "sim/engine/lane_loop.h"

namespace plumbline::sim {

namespace {

constexpr std::uint32_t proceed_code = 1;

class LoneLane final : public LaneListener, public Handler {
 public:
  LoneLane(Loop& loop, const std::vector<SegmentTime>& times) : loop_(loop), times_(times), lane_(loop_, *this, 0) {}

  TemplateRun run(const SlotWork& work) {
    result_.segments.resize(work.segments->size());
    lane_.start(work);
    loop_.run();
    return std::move(result_);
  }
  void arrived(Lane& /*lane*/, std::uint32_t segment) override {
    loop_.at(loop_.now() + to_time(times_[segment].wait), {this, proceed_code, 0, segment});
  }
  void handle(std::uint32_t /*code*/, std::uint64_t argument) override {
    lane_.proceed(static_cast<std::uint32_t>(argument));
  }
  // Not when the loop runs dry: what a lane scheduled before a change of rate comes due later and is void.
  void slot_ended(Lane& lane) override {
    result_.duration = loop_.now();
    result_.compute_busy = lane.compute_busy();
    result_.seconds = to_seconds(result_.duration);
  }
  void segment_ended(const Lane&, std::uint32_t segment, const SegmentRun& run) override {
    result_.segments[segment] = run;
  }

 private:
  Loop& loop_;
  const std::vector<SegmentTime>& times_;
  Lane lane_;
  TemplateRun result_;
};

}  // namespace

TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms) {
  LaneLoop loop;
  return LoneLane(loop, times).run({.segments = &slot.segments, .times = &times, .device_sms = device_sms});
}

TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms, const StepLinks& links, std::int32_t rank) {
  HeapLoop loop(links.fabric().links());
  return LoneLane(loop, times)
      .run({.segments = &slot.segments, .times = &times, .device_sms = device_sms, .links = &links.exchange(rank)});
}

}  // namespace plumbline::sim
