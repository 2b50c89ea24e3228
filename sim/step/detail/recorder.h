// Turns the events of GPUs into the spans of a timeline: slots, phases, barriers, kernels; and into counters of SMs and
// links.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "model/result/timeline.h"
#include "sim/engine/gpu_model.h"
#include "sim/engine/loop.h"
#include "sim/network/step_links.h"
#include "sim/step/detail/data_parallel_runner.h"
#include "sim/step/fleet.h"
#include "sim/step/recording.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

// Messages between pipeline stages: when each is posted and when it arrives. A GPU sends one message at a time and
// receives one at a time. Messages that wait for a GPU start in the order in which they became ready. A transfer names
// pipeline ranks; its message is between the GPUs of one replica (sim/step/fleet.h).

class Messages final : public Handler {
 public:
  // A message of GPU `sender` has arrived at `receiver`. It held their links from start to end; latency follows.
  struct Arrival {
    std::int32_t sender, receiver;
    bool forward;
    std::int32_t direction, stage, micro_batch;
    Time start, end;
  };
  using OnArrival = std::function<void(const Arrival&)>;

  struct Wire {  // properties of every message
    double bytes = 0;
    double rate = unlimited;           // B/s of a message alone
    const StepLinks* links = nullptr;  // crossed by messages; nullptr: each takes bytes / rate
  };

  Messages(Loop& loop, const model::Schedule& schedule, std::int64_t replicas, Time latency, const Wire& wire,
           OnArrival on_arrival);

  // A send starts once it is posted and, under rendezvous, its receive is posted too.
  void post_send(std::int32_t gpu, const model::Transfer& transfer, bool rendezvous);
  void post_receive(std::int32_t gpu, const model::Transfer& transfer);
  bool arrived(std::int32_t gpu, const model::Transfer& transfer) const {  // one that the GPU sends or receives
    return arrived_[index_of(gpu, transfer)] != 0;
  }

  void handle(std::uint32_t code, std::uint64_t argument) override;

 private:
  struct Message {
    std::int32_t sender = -1, receiver = -1;
    bool waiting = false;
    Time start = 0, end = 0;
  };
  // Messages that wait for a GPU, each with its place in the order in which they became ready.
  using Waiting = std::vector<std::pair<std::uint64_t, std::size_t>>;
  struct Port {  // of a GPU, in one direction
    bool busy = false;
    Waiting waiting;
  };
  std::size_t index_of(std::int32_t gpu, const model::Transfer& transfer) const;
  void queue(std::size_t index);
  void start_waiting(const Message& ended);
  bool start(std::size_t index);

  Loop& loop_;
  std::int32_t replicas_, directions_, stages_, micro_batches_;
  Time latency_;
  Wire wire_;
  OnArrival on_arrival_;
  std::vector<Port> sending_, receiving_;  // [gpu]
  std::uint64_t ready_ = 0;                // messages so far
  Waiting candidates_;
  std::vector<Message> messages_;  // [replica][forward][direction][stage][micro-batch]
  std::vector<char> arrived_;      // the same; apart, because every start of a slot asks for it
};

// The SMs in use and the rates on links of each rank over time, as counters of a timeline.
class LoadCounters {
 public:
  struct Load {
    std::int32_t kernels = 0;                  // of compute streams
    std::int64_t communication_sms = 0;        // that communication holds
    double network_bytes = 0, node_bytes = 0;  // sent evenly over the time
  };

  explicit LoadCounters(std::int64_t device_sms) : device_sms_(device_sms) {}

  void add(std::int32_t rank, Time start, Time end, const Load& load);

  // Returns the counters by rank. Compute has all SMs that communication does not hold, while any of its kernels runs.
  // A device without a number of SMs has no such counter.
  std::vector<model::Counter> finish();

 private:
  struct Change {
    Time time = 0;
    Load load;  // with bytes per second
  };

  std::int64_t device_sms_;
  std::map<std::int32_t, std::vector<Change>> changes_;  // by rank
};

class Recorder {
 public:
  struct Hardware {
    std::int64_t sms = 0, collective_sms = 0;  // of the device, held by a collective of data parallelism; 0: unknown
    const StepLinks* links = nullptr;          // may be null
    double message_bytes = 0;                  // what a rank sends of a message between stages
  };
  // All arguments must outlive the recorder. Without a fleet ranks of the timeline are those of the pipeline, else the
  // recorded GPUs in ascending order.
  Recorder(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& template_times,
           const Recording& recording, const Fleet* fleet, const Hardware& hardware);

  void slot(std::int32_t gpu, std::size_t op, Time start, Time end);
  void segment(std::int32_t gpu, std::size_t op, std::uint32_t segment, const SegmentRun& run);
  void message(const Messages::Arrival& arrival);
  void collective(std::int32_t gpu, const Collectives::Run& run, const WireLoad& load);
  void optimizer(std::int32_t gpu, const std::string& name, Time start, Time end);

  model::Timeline finish(Time end);

 private:
  void kernels(std::size_t op, std::uint32_t segment, const SegmentRun& run, model::Span place, std::int32_t track);
  // The kernels of a segment with their data. Those between ranks and between GPU and host are one each.
  void kernels_with_data(std::size_t op, std::uint32_t segment, const SegmentRun& run, const model::Span& place,
                         std::int32_t track);
  enum class Part : std::uint8_t { whole, layout, notify, transfer };
  // Return the index of a kernel's data: of an operator, or of one that is no operator of a slot.
  std::int32_t kernel_of(const model::Segment& segment, std::uint16_t op, Part part = Part::whole);
  std::int32_t kernel_of(const model::Kernel& outside);
  // Returns the kernel of a collective of a shard unit: its class, "reduce_scatter", and where the unit has no other
  // collective its key and bytes.
  model::Kernel kernel_of(const Collectives::Run& run) const;
  // Adds a span outside of slots, and its kernel where data are recorded and it has a class.
  void add_outside(const model::Span& place, std::int32_t track, const std::string& name, const model::Kernel& kernel,
                   Time start, Time end);
  void add(model::Span place, std::int32_t track, const std::string& name, std::uint8_t depth, Time start, Time end);
  std::int32_t track_of(std::int32_t gpu) const;  // -1: it is not recorded
  std::size_t rank_of(std::int32_t gpu) const { return static_cast<std::size_t>(gpu / replicas_); }

  const model::StepProgram& program_;
  const std::vector<std::vector<SegmentTime>>& template_times_;
  const Recording& recording_;
  bool of_gpus_;  // of a fleet
  std::int64_t replicas_;
  Hardware hardware_;
  model::SpanLabels labels_;
  LoadCounters loads_;
  model::TimelineWriter timeline_;
  std::map<std::tuple<std::uint16_t, std::uint16_t, model::Section, double, Part>, std::int32_t> kernels_;
  std::map<std::pair<std::string, std::string>, std::int32_t> other_kernels_;  // by class and key
  std::vector<std::size_t> kernel_op_;  // per pipeline rank: the op whose kernels are shown, unless those of all are
};

}  // namespace plumbline::sim
