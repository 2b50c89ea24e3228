// One GPU that runs slot templates: in-order streams, waits between them, and rates that depend on which kernels run
// concurrently. A segment advances as one event between two changes of rate.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "sim/engine/loop.h"
#include "sim/network/step_links.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

class GpuModel;

// The times of a segment. Communication prepares, acquires its SMs, arrives at its group's barrier, then transfers.
struct SegmentRun {
  Time start = 0, prepared = 0, arrival = 0, transfer = 0, end = 0;
};

// Receives the events of a GPU.
class GpuListener {
 public:
  // A segment of communication, or one of collectives where the slot is `coupled`, has reached the barrier of its
  // group. The listener calls gpu.proceed(), at once or later.
  virtual void arrived(GpuModel& gpu, std::uint32_t segment) = 0;
  virtual void slot_ended(GpuModel& gpu) = 0;
  virtual void segment_ended(const GpuModel& gpu, std::uint32_t segment, const SegmentRun& run) = 0;
  // A compute kernel starts to run, or the last one ends.
  virtual void computing(const GpuModel& /*gpu*/, bool /*runs*/) {}
  // Called when nothing else keeps a segment from starting. A listener that returns false calls gpu.wake() later.
  virtual bool may_start(const GpuModel& /*gpu*/, std::uint32_t /*segment*/) { return true; }

 protected:
  ~GpuListener() = default;
};

// The inputs of one run of a template: its segments, their times, and for each segment this rank's rows over the
// expected ones (nullptr: all 1). SM counts of 0 mean that SMs are not counted.
struct SlotWork {
  const std::vector<model::Segment>* segments = nullptr;
  const std::vector<SegmentTime>* times = nullptr;
  const std::vector<double>* row_scales = nullptr;
  const std::vector<double>* factors = nullptr;  // [segment] on its compute time; nullptr: all 1
  std::int64_t device_sms = 0;
  std::int64_t collective_sms = 0;   // held by a dense collective while it runs
  const RankLinks* links = nullptr;  // crossed by transfers; nullptr: transfers take their SegmentTime
  // Crossed by collectives, by SegmentTime::group; nullptr: these take their SegmentTime too.
  const std::vector<const RankLinks*>* groups = nullptr;
  bool kernel_by_kernel = false;  // a segment is one kernel; waiting for SMs means until that kernel ends
  bool coupled = false;           // collectives of other ranks run at the same time, so segments of them have barriers
};

class GpuModel final : public Handler {
 public:
  GpuModel(Loop& loop, GpuListener& listener, std::int32_t id) : loop_(loop), listener_(listener), id_(id) {}

  std::int32_t id() const { return id_; }
  void start(const SlotWork& work);
  void proceed(std::uint32_t segment);  // the group has reached the barrier
  void wake();                          // a segment that could not start may start now
  void set_collective(bool runs);       // a dense collective starts or ends next to the GPU's slots

  Time slot_start() const { return slot_start_; }
  Time compute_busy() const { return compute_busy_; }  // of all slots so far

  void handle(std::uint32_t code, std::uint64_t argument) override;

  static constexpr std::size_t streams = 6;  // compute to from_host
  // The code of the events that a GPU schedules, of which only the latest per stream counts. Listeners use other codes.
  static constexpr std::uint32_t stage_code = 0;
  static std::size_t stream_of(const Task& task) { return task.argument & 0xff; }

 private:
  // A communication kernel acquires its SMs before the barrier and the transfer, and in `acquire` it waits for them.
  // `steady` stages are those that nothing on the GPU slows down: collectives, and copies to and from the host.
  enum class Stage : std::uint8_t { idle, compute, steady, prepare, acquire, barrier, notify, transfer };
  struct Active {  // the state of a stream
    Stage stage = Stage::idle;
    Stage acquired_for = Stage::idle;  // the stage that follows the acquired SMs
    std::uint32_t segment = 0;
    std::size_t next = 0;  // position in the stream's list of segments
    double remaining = 0;  // share of the stage that is left
    double seconds = 0;    // of the whole stage at the present rate
    Time since = 0;        // of the last change of rate
    std::uint32_t version = 0;
    SegmentRun run;
  };

  void start_ready();
  bool ready(std::uint32_t segment) const;
  void enter(std::size_t stream, Stage stage);
  void finish_stage(std::size_t stream);
  void end_segment(std::size_t stream);
  void refresh_rates();
  double stage_seconds(std::size_t stream, model::CoRunner state) const;
  void reschedule(std::size_t stream, double seconds);
  double rows(std::uint32_t segment) const;
  bool computing() const;
  bool sharing() const;  // both compute streams run
  model::CoRunner communication_state() const;
  std::int64_t held_by(model::CoRunner state) const;
  double sharing_slowdown(std::size_t stream, model::CoRunner state) const;
  bool sms_taken(Stage wanted) const;
  double mean_drain() const;
  void acquire_sms(Stage wanted);
  void acquire_if_free();
  void begin(Stage communication_stage);
  void start_flows();
  void start_collective_flows();
  void start_flow(std::size_t stream, std::size_t leg, const AllToAllLeg& links, double bytes, double seconds);
  void limit_flows();
  void account_compute();
  void note_time() { now_ = loop_.now(); }  // the loop's time stands still until its next call

  Loop& loop_;
  GpuListener& listener_;
  std::int32_t id_;
  SlotWork work_;
  std::array<Active, streams> active_;
  std::array<std::vector<std::uint32_t>, streams> queues_;
  double drain_ = 0;  // seconds that the present wait for SMs lasts
  struct Leg {        // of a transfer that runs as flows
    FlowId flow{};
    double bytes = 0;  // of the flow; 0: no such leg
  };
  std::array<Leg, 2> legs_;           // of the all-to-all: over the network, inside the node
  std::array<int, streams> flows_{};  // running flows by stream
  bool limited_overlapped_ = false;   // the flows have the rates of transfers that overlap compute
  std::vector<char> done_;
  std::size_t left_ = 0, used_ = 0;  // segments of the slot that have not ended; streams up to the last one in use
  Time now_ = 0, slot_start_ = 0, compute_busy_ = 0, busy_since_ = 0;
  bool busy_ = false;
  bool collective_ = false;
};

}  // namespace plumbline::sim
