// Slot templates built by hand, and a GPU that runs one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/gpu_model.h"
#include "sim/engine/heap_loop.h"

namespace plumbline::tests {

inline model::Segment segment(model::Stream stream, std::vector<std::uint16_t> waits = {}) {
  model::Segment s;
  s.stream = stream;
  s.waits = std::move(waits);
  return s;
}

// Returns seconds, as all times here: alone, with a communication kernel that waits, with one that transfers.
inline sim::SegmentTime compute_time(double alone, double waiting, double transferring) {
  sim::SegmentTime time;
  time.compute = {alone, waiting, transferring, transferring};
  return time;
}
inline sim::SegmentTime compute_time(double alone, double transferring) {
  return compute_time(alone, alone, transferring);
}
inline sim::SegmentTime compute_time(double alone) { return compute_time(alone, alone, alone); }

// Returns the time of a GEMM on so many SMs, the same with any co-runner.
inline sim::SegmentTime gemm_time(double seconds, std::int64_t sms, double drain = 0) {
  sim::SegmentTime time = compute_time(seconds);
  time.width.fill(sms);
  time.drain = drain;
  return time;
}

struct Preparation {
  double prepare = 0, wait = 0, notify = 0;
};
inline sim::SegmentTime transfer_time(double alone, double overlapped, Preparation before = {}, std::int64_t held = 0) {
  sim::SegmentTime time;
  time.transfer = alone;
  time.transfer_overlapped = overlapped;
  time.prepare = time.prepare_overlapped = before.prepare;
  time.wait = before.wait;
  time.notify = before.notify;
  time.held = held;
  return time;
}

struct Part {
  model::Segment segment;
  sim::SegmentTime time;
};

// Runs one GPU without others: every barrier takes the segment's `wait`. Without a number of SMs their use is not
// counted.
class GpuRun final : public sim::GpuListener, public sim::Handler {
 public:
  explicit GpuRun(const std::vector<Part>& parts, std::int64_t device_sms = 0, bool kernel_by_kernel = false)
      : device_sms_(device_sms), kernel_by_kernel_(kernel_by_kernel) {
    for (const Part& part : parts) {
      slot_.segments.push_back(part.segment);
      times_.push_back(part.time);
    }
    runs_.resize(parts.size());
  }

  // Runs the slot `times` times in a row, with the ratio of this rank's rows to the expected ones per segment.
  void run(const std::vector<double>& row_scales = {}, int times = 1) {
    row_scales_ = row_scales;
    slots_left_ = times;
    start_slot();
    loop_.run();
  }

  double start(std::size_t segment) const { return sim::to_seconds(runs_[segment].start); }
  double prepared(std::size_t segment) const { return sim::to_seconds(runs_[segment].prepared); }
  double arrival(std::size_t segment) const { return sim::to_seconds(runs_[segment].arrival); }
  double transfer(std::size_t segment) const { return sim::to_seconds(runs_[segment].transfer); }
  double end(std::size_t segment) const { return sim::to_seconds(runs_[segment].end); }
  double slot_end() const { return sim::to_seconds(slot_end_); }
  double compute_busy() const { return sim::to_seconds(gpu_.compute_busy()); }
  int slots_ended() const { return slots_ended_; }

  void arrived(sim::GpuModel&, std::uint32_t segment) override {
    loop_.at(loop_.now() + sim::to_time(times_[segment].wait), {this, 0, 0, segment});
  }
  void handle(std::uint32_t, std::uint64_t argument) override { gpu_.proceed(static_cast<std::uint32_t>(argument)); }
  void slot_ended(sim::GpuModel&) override {
    slot_end_ = loop_.now();
    ++slots_ended_;
    if (slots_left_ > 0) start_slot();
  }
  void segment_ended(const sim::GpuModel&, std::uint32_t segment, const sim::SegmentRun& run) override {
    runs_[segment] = run;
  }

 private:
  void start_slot() {
    --slots_left_;
    gpu_.start({.segments = &slot_.segments,
                .times = &times_,
                .row_scales = row_scales_.empty() ? nullptr : &row_scales_,
                .device_sms = device_sms_,
                .kernel_by_kernel = kernel_by_kernel_});
  }

  model::SlotTemplate slot_;
  std::vector<sim::SegmentTime> times_;
  std::vector<double> row_scales_;
  std::int64_t device_sms_;
  bool kernel_by_kernel_;
  std::vector<sim::SegmentRun> runs_;
  sim::HeapLoop loop_;
  sim::GpuModel gpu_{loop_, *this, 0};
  sim::Time slot_end_ = -1;
  int slots_left_ = 0, slots_ended_ = 0;
};

}  // namespace plumbline::tests
