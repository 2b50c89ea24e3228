#include "sim/predict/event_step.h"

#include <algorithm>
#include <utility>

#include "model/program/synchronisation.h"

namespace plumbline::sim {

namespace {

// Slots of the library that the plan has, in the order of its first uses: that of model::compile()'s templates.
std::vector<std::int32_t> distinct(const std::vector<std::int32_t>& slots) {
  std::vector<std::int32_t> found;
  for (const std::int32_t slot : slots)
    if (std::ranges::find(found, slot) == found.end()) found.push_back(slot);
  return found;
}

void add_stages(const EventStep& step, model::StepProgram& program) {
  const StageLibrary& library = step.timed.stage_library();
  program.blocks = library.blocks();
  program.stage_kinds = library.program().stage_kinds;
  for (const std::int32_t kind : step.stage_kinds) {
    program.stages.push_back({kind, {}});
    program.stage_units.push_back(step.sharded.stage(kind).units->places);
  }
}

void add_slots(const EventStep& step, const std::vector<std::int32_t>& templates, model::StepProgram& program) {
  for (const std::int32_t slot : templates) program.templates.push_back(step.timed.stage_library().slot_template(slot));
  std::vector<std::uint16_t> template_of_class;
  for (const std::int32_t slot : step.slots)
    template_of_class.push_back(static_cast<std::uint16_t>(std::ranges::find(templates, slot) - templates.begin()));
  for (const auto& rank : step.table.ranks) {
    auto& slots = program.slot_templates.emplace_back();
    for (const std::uint32_t op : rank.ops) slots.push_back(template_of_class[step.table.ops[op].slot_class]);
  }
}

model::StepProgram program_of(const EventStep& step, const std::vector<std::int32_t>& templates) {
  model::StepProgram program;
  program.schedule = step.timetable.schedule;
  program.batches = step.timetable.batches;
  add_stages(step, program);
  add_slots(step, templates, program);
  program.gather_after_update = step.plan.parallelism.zero_stage < 3 && !step.plan.overlap.parameter_gather;
  program.synchronisations = model::synchronisations(step.plan, program);
  return program;
}

}  // namespace

Timetable make_timetable(const model::ScheduleKind& kind, const model::ScheduleShape& shape) {
  Timetable timetable{kind.build(shape), {}};
  timetable.batches = model::point_to_point_batches(timetable.schedule);
  return timetable;
}

model::Result<Execution> run_by_events(const EventStep& step, bool synchronise) {
  const std::vector<std::int32_t> templates = distinct(step.slots);
  const model::StepProgram program = program_of(step, templates);
  ExecutionInput input;
  input.program = &program;
  for (const std::int32_t slot : templates) input.template_times.push_back(step.timed.times(slot));
  input.device_sms = step.costs.partition.device_sms;
  input.collective_sms = step.costs.partition.collective_sms;
  input.hop_latency = step.costs.exchanges.hop(model::Bytes(0), 1);
  input.hop_bytes = step.timed.stage_library().hop().value();
  input.hop_rate = step.costs.exchanges.hop_rate().value;
  input.links = step.costs.links ? &*step.costs.links : nullptr;
  for (const std::int32_t kind : step.stage_kinds) input.optimizers.push_back(*step.sharded.stage(kind).timing);
  input.synchronise = synchronise;
  return execute(input);
}

}  // namespace plumbline::sim
