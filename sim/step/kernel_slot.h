// A slot template taken apart: every kernel a segment of its own, so that a lane runs it kernel by kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "sim/step/segment_time.h"

namespace plumbline::sim {

struct KernelSlot {
  std::vector<model::Segment> segments;  // one operator each, or one of its launches; exchanges stay whole
  std::vector<std::uint16_t> origins;    // the template's segment that each was part of
  std::vector<SegmentTime> times;
};

// Grouped weight gradients are one kernel per expert; other operators stay one, whatever they launch.
KernelSlot take_apart(const model::StepProgram& program, const model::SlotTemplate& slot, const CostModels& costs);

}  // namespace plumbline::sim
