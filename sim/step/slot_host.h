// What the host adds to a slot. It issues the kernels of a slot while the GPU runs them, so a slot takes as long as the
// slower of both. Where the host waits for the GPU, the GPU then waits for the host. docs/costs.md derives it.
#pragma once

#include <vector>

#include "model/program/program.h"
#include "sim/predict/cost_models.h"
#include "sim/step/segment_memo.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct SlotHost {
  model::HostCalls calls;  // of the whole slot
  double per_launch = 0;   // s by which the host delays each launch on the compute streams
  double late = 0;         // s of all launches on the compute streams
};

// The calls of the operators of segments, for slots of one program under the same costs.
using SegmentCalls = SegmentMemo<std::vector<model::HostCalls>>;

// Returns what the host adds to the slot whose segments take `times`, with waits for stragglers. Nothing is late where
// the profile states no time of the host, or where the GPU is the slower one and is never waited for.
SlotHost slot_host(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
                   const std::vector<SegmentTime>& times, SegmentCalls& calls);

// Returns the seconds by which a segment, or a kernel of one, takes longer.
double host_seconds(const model::StepProgram& program, const model::Segment& segment, const CostModels& costs,
                    const SlotHost& host);

// Adds them to the times of the slot's segments.
void add_host(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs,
              const SlotHost& host, std::vector<SegmentTime>& times);

// Returns the times of the slot's segments at the slot's clock (sim/step/slot_power.h), with what the host adds.
std::vector<SegmentTime> segment_times(const model::StepProgram& program, const model::SlotTemplate& slot,
                                       const CostModels& costs);

}  // namespace plumbline::sim
