// A step program without a model: any schedule, one compute segment per op, the same on every stage.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/step/step_executor.h"

namespace plumbline::tests {

inline model::StepProgram uniform_program(model::Schedule schedule) {
  model::StepProgram program;
  program.blocks.emplace_back();
  program.stage_kinds.push_back({{0}});
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) program.stages.push_back({0, {stage}});
  for (int type = 0; type < 5; ++type) {
    model::SlotTemplate slot;
    slot.type = static_cast<model::OpType>(type);
    slot.segments.resize(1);
    slot.segments[0].forward_side = slot.type == model::OpType::F;
    program.templates.push_back(slot);
  }
  for (const auto& ops : schedule.ranks) {
    std::vector<std::uint16_t>& slots = program.slot_templates.emplace_back();
    for (const model::ScheduleOp& op : ops) slots.push_back(static_cast<std::uint16_t>(op.type));
  }
  program.batches = model::point_to_point_batches(schedule);
  program.schedule = std::move(schedule);
  return program;
}

// Every op takes its cost; a transfer takes `seconds` on the links and then `latency`. The program must outlive the
// input.
inline sim::ExecutionInput uniform_input(const model::StepProgram& program, const model::ScheduleCosts& costs,
                                         double latency = 0, double seconds = 0) {
  sim::ExecutionInput input;
  input.program = &program;
  for (const model::SlotTemplate& slot : program.templates) {
    sim::SegmentTime time;
    time.compute.fill(costs.of(slot.type));
    input.template_times.push_back({time});
  }
  input.p2p_latency = latency;
  input.stage_message_bytes = seconds;  // at 1 B/s
  input.p2p_rate = 1;
  input.optimizers.resize(program.stages.size());
  return input;
}

}  // namespace plumbline::tests
