// A slot template split into kernels: every kernel is a segment, so that a GPU runs it kernel by kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct KernelSlot {
  std::vector<model::Segment> segments;  // one operator each, or one of its launches; an all-to-all stays whole
  std::vector<std::uint16_t> origins;    // the template's segment that each came from
  std::vector<SegmentTime> times;
};

// Splits a slot. Grouped weight gradients become one kernel per expert; any other operator is one kernel, however many
// it launches.
KernelSlot take_apart(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs);

}  // namespace plumbline::sim
