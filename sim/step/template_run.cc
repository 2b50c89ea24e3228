#include "sim/step/template_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/engine/gpu_loop.h"
#include "sim/engine/heap_loop.h"

namespace plumbline::sim {

namespace {

constexpr std::uint32_t next_segment_code = 1;
constexpr double longest = 1e6;  // s: a ninth of what a Time holds

// Returns an upper bound of the seconds: of every segment after the other, with everything that may slow it down.
double serial_seconds(const std::vector<SegmentTime>& times) {
  double sum = 0;
  for (const SegmentTime& time : times) {
    sum += std::ranges::max(time.compute) + std::ranges::max(time.compute_per_row) + time.drain;
    sum += time.prepare + time.prepare_overlapped + time.notify + time.wait + time.transfer + time.transfer_overlapped;
  }
  return sum;
}

// The run of a template that is too long to be counted in picoseconds, or whose times are not numbers.
TemplateRun endless(std::size_t segments) {
  return {.seconds = std::numeric_limits<double>::infinity(), .segments = std::vector<SegmentRun>(segments)};
}

class LoneGpu final : public GpuListener, public Handler {
 public:
  LoneGpu(Loop& loop, const std::vector<SegmentTime>& times) : loop_(loop), times_(times), gpu_(loop_, *this, 0) {}

  TemplateRun run(const SlotWork& work) {
    gpu_.set_collective(work.collective_sms > 0);
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
  if (!(serial_seconds(times) < longest)) return endless(times.size());
  GpuLoop loop;
  return LoneGpu(loop, times).run({.segments = &slot.segments, .times = &times, .device_sms = device_sms});
}

double seconds_with_collective(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                               std::int64_t device_sms, std::int64_t collective_sms) {
  GpuLoop loop;
  return LoneGpu(loop, times)
      .run({.segments = &slot.segments, .times = &times, .device_sms = device_sms, .collective_sms = collective_sms})
      .seconds;
}

TemplateRun run_template(const model::SlotTemplate& slot, const std::vector<SegmentTime>& times,
                         std::int64_t device_sms, const StepLinks& links, const std::vector<const RankLinks*>& groups,
                         std::int32_t rank) {
  HeapLoop loop(links.fabric().links());
  return LoneGpu(loop, times)
      .run({.segments = &slot.segments,
            .times = &times,
            .device_sms = device_sms,
            .links = &links.expert_all_to_all(rank),
            .groups = &groups});
}

}  // namespace plumbline::sim
