// Durations of a slot template's segments under one profile: the cost functions summed over the
// kernels of each segment, which then advance as one event.
#pragma once

#include <vector>

#include "model/cost/exchange_cost.h"
#include "model/cost/kernel_cost.h"
#include "model/program.h"

namespace plumbline::sim {

// Seconds. Compute segments use alone and beside; communication segments prepare, then notify (the
// ranks meet; waiting for stragglers comes on top), then transfer alone or beside compute.
struct SegmentTime {
  double alone = 0, beside = 0;
  double alone_per_row = 0, beside_per_row = 0;  // extra seconds when the rank's expert rows double
  double prepare = 0, notify = 0;
  double wait = 0;              // for the slowest rank of the group, once known
  std::vector<double> kernels;  // seconds of each operator alone, for the trace
};

struct CostModels {
  model::KernelCost kernels;
  model::ExchangeCost exchanges;
  std::int64_t device_sms = 0;
  std::int64_t communication_sms = 0;  // held by the communication stream in overlapped pairs
};

// SMs that compute kernels of this slot may use: under a static split a pair leaves the communication
// SMs alone even when no transfer runs; a lone chunk has the whole GPU.
std::int64_t compute_sms(const model::SlotTemplate& slot, const CostModels& costs);

std::vector<SegmentTime> segment_times(const model::StepProgram& program, const model::SlotTemplate& slot,
                                       const CostModels& costs);

}  // namespace plumbline::sim
