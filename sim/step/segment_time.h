// Durations of a slot template's segments under one profile: the cost functions summed over the
// kernels of each segment, which then advance as one event.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "model/cost/sm_partition.h"
#include "model/program/program.h"
#include "sim/predict/cost_models.h"

namespace plumbline::sim {

using model::communication_states;

struct SegmentTime {  // seconds
  // Compute: by what the communication stream does meanwhile (model::CoRunner).
  std::array<double, communication_states> compute{};
  std::array<double, communication_states> compute_per_row{};  // extra when the rank's expert rows double
  std::array<std::int64_t, communication_states> width{};      // SMs that its persistent kernels fill; 0: none
  double drain = 0;  // until a running persistent kernel ends, on average: a wait for its SMs

  // Communication: prepare, then notify (the ranks meet; waiting for stragglers comes on top), then transfer.
  double prepare = 0, prepare_overlapped = 0;  // alone, beside compute
  double notify = 0;
  double wait = 0;                               // for the slowest rank of the group, once known
  double transfer = 0, transfer_overlapped = 0;  // of a segment of collectives or copies only the first, for all of it
  // The legs of the transfer: seconds at the rates of the kernels, and the bytes that the GPU sends.
  double network = 0, network_overlapped = 0, node = 0;
  double network_bytes = 0, node_bytes = 0;
  std::int64_t held = 0;       // SMs that notify and transfer hold
  bool wait_measured = false;  // the transfer's time holds the wait for them

  std::vector<double> kernels;  // seconds of each operator alone, for the trace
};

// Seconds of an operator that one GPU runs alone on a stream (no exchange, collective or copy), as slots and updates
// count them.
double operator_seconds(const model::Graph& graph, const model::Operator& op, model::Stream stream,
                        const CostModels& costs);

SegmentTime segment_time(const model::Graph& graph, const model::Segment& segment, const CostModels& costs);
std::vector<SegmentTime> segment_times(const model::StepProgram& program, const model::SlotTemplate& slot,
                                       const CostModels& costs);

// The same for many slots of the same blocks: layers of one kind have the same segments in every slot, and each is
// timed once.
class SegmentTimer {
 public:
  // Both must outlive it; the program may get more blocks.
  SegmentTimer(const model::StepProgram& program, const CostModels& costs) : program_(program), costs_(costs) {}

  std::vector<SegmentTime> times(const model::SlotTemplate& slot);

 private:
  struct Known {
    model::Stream stream;
    double share;
    std::vector<std::uint16_t> operators;
    SegmentTime time;
  };
  const SegmentTime& time(const model::Segment& segment);

  const model::StepProgram& program_;
  const CostModels& costs_;
  std::vector<std::deque<Known>> known_;  // [block]
};

}  // namespace plumbline::sim
