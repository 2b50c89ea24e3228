#include "sim/step/template_run.h"

#include <utility>

#include "sim/engine/gpu_loop.h"
#include "sim/engine/heap_loop.h"

namespace plumbline::sim {

namespace {

constexpr std::uint32_t next_segment_code = 1;

class LoneGpu final : public GpuListener, public Handler {
 public:
  LoneGpu(Loop& loop, const std::vector<SegmentTime>& times) : loop_(loop), times_(times), gpu_(loop_, *this, 0) {}

  TemplateRun run(const SlotWork& work) {
    result_.segments.resize(work.segments->size());
    gpu_.start(work);
    loop_.run();
    return std::move(result_);
  }
  void arrived(GpuModel& /*gpu*/, std::uint32_t segment) override {
    loop_.at(loop_.now() + to_time(times_[segment].wait), {this, next_segment_code, 0, segment});
  }
  void handle(std::uint32_t /*code*/, std::uint64_t argument) override {
    gpu_.proceed(static_cast<std::uint32_t>(argument));
  }
  // The result is taken here, not when the loop ends: events that a GPU scheduled before a change of rate are void but
  // still come due.
  void slot_ended(GpuModel& gpu) override {
    result_.duration = loop_.now();
    result_.compute_busy = gpu.compute_busy();
    result_.seconds = to_seconds(result_.duration);
  }
  void segment_ended(const GpuModel&, std::uint32_t segment, const SegmentRun& run) override {
    result_.segments[segment] = run;
  }

 private:
  Loop& loop_;
  const std::vector<SegmentTime>& times_;
  GpuModel gpu_;
  TemplateRun result_;
};

}  // namespace

TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms) {
  GpuLoop loop;
  return LoneGpu(loop, times).run({.segments = &slot.segments, .times = &times, .device_sms = device_sms});
}

TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms, const StepLinks& links, std::int32_t rank) {
  HeapLoop loop(links.fabric().links());
  return LoneGpu(loop, times)
      .run({.segments = &slot.segments,
            .times = &times,
            .device_sms = device_sms,
            .links = &links.expert_all_to_all(rank)});
}

}  // namespace plumbline::sim
