// Durations of a slot template's segments under one profile: the cost functions summed over the kernels of each
// segment, which then advance as one event.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "model/cost/sm_partition.h"
#include "model/program/program.h"
#include "sim/predict/cost_models.h"
#include "sim/step/segment_memo.h"

namespace plumbline::sim {

using model::communication_states;

struct SegmentTime {  // seconds
  // The following apply to compute, by what the communication stream does meanwhile (model::CoRunner).
  std::array<double, communication_states> compute{};
  std::array<double, communication_states> compute_per_row{};  // extra when the rank's expert rows double
  std::array<std::int64_t, communication_states> width{};      // SMs that its persistent kernels fill; 0: none
  double drain = 0;  // mean wait until a running persistent kernel ends and frees its SMs

  // The following apply to communication: prepare, notify (the group's barrier, without stragglers), transfer.
  double prepare = 0, prepare_overlapped = 0;  // alone, overlapped with compute
  double notify = 0;
  double wait = 0;                               // for the slowest rank of the group, once it is computed
  double transfer = 0, transfer_overlapped = 0;  // a segment of collectives or copies has only `transfer`
  // The two legs of the transfer: seconds at the kernels' rates, and the bytes that the GPU sends.
  double network = 0, network_overlapped = 0, node = 0;
  double network_bytes = 0, node_bytes = 0;
  std::int32_t group = -1;     // of a segment of dense collectives: WireLoad::group
  std::int64_t held = 0;       // SMs that notify and transfer hold
  bool wait_measured = false;  // the measured transfer includes the wait for these SMs

  std::vector<double> kernels;  // seconds of each operator alone
};

// Returns the seconds of an operator that one GPU runs alone on a stream, as slots and updates count them. All-to-alls,
// collectives and copies are excluded.
double operator_seconds(const model::Graph& graph, const model::Operator& op, model::Stream stream,
                        const CostModels& costs);

// Returns the seconds that a segment spends on one of its dense collectives. Kernels of their own count: one that
// brings what is gathered, or what is to be reduced, from the order of the ranks into that of the sequences, or back;
// and, after the last piece of a sum in pieces, one that adds up what the ranks sent, with which nothing overlaps.
double collective_seconds(const model::Graph& graph, const model::Segment& segment, const model::Operator& op,
                          const CostModels& costs);

// Bounds do not ask how much longer more rows of experts take: with Rows::expected compute_per_row is 0.
enum class Rows : bool { expected, varying };

// `clock` is that of the slot (sim/step/slot_power.h; model::Conditions::clock).
SegmentTime segment_time(const model::Graph& graph, const model::Segment& segment, const CostModels& costs,
                         double clock = 1, Rows rows = Rows::varying);
// Returns the times of the segments of many slots of the same blocks, whose clocks are given. Slots share the segments
// of equal layers, each timed once per clock.
class SegmentTimer {
 public:
  // Both arguments must outlive the timer; blocks may be added to the program.
  SegmentTimer(const model::StepProgram& program, const CostModels& costs) : program_(program), costs_(costs) {}

  std::vector<SegmentTime> times(const model::SlotTemplate& slot, double clock);

 private:
  const SegmentTime& time(const model::Segment& segment, double clock);

  const model::StepProgram& program_;
  const CostModels& costs_;
  SegmentMemo<std::map<double, SegmentTime>> known_;  // by clock
};

}  // namespace plumbline::sim
