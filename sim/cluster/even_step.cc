#include "sim/cluster/detail/even_step.h"

#include <array>
#include <optional>

#include "sim/step/template_run.h"

namespace plumbline::sim {

namespace {

void scale(SegmentTime& time, double factor) {
  for (double& seconds : time.compute) seconds *= factor;
  for (double& seconds : time.compute_per_row) seconds *= factor;
  for (double SegmentTime::*const part :
       {&SegmentTime::drain, &SegmentTime::prepare, &SegmentTime::prepare_overlapped, &SegmentTime::notify,
        &SegmentTime::wait, &SegmentTime::transfer, &SegmentTime::transfer_overlapped, &SegmentTime::network,
        &SegmentTime::network_overlapped, &SegmentTime::node, &SegmentTime::network_bytes, &SegmentTime::node_bytes})
    time.*part *= factor;
}

}  // namespace

ExecutionInput without_waits(ExecutionInput input) {
  for (auto& segments : input.template_times)
    for (SegmentTime& time : segments) time.wait = 0;
  return input;
}

ExecutionInput without_messages(ExecutionInput input) {
  input.p2p_latency = input.stage_message_bytes = 0;
  return input;
}

ExecutionInput with_mean_stages(ExecutionInput input) {
  const model::StepProgram& program = *input.program;
  std::vector<std::optional<double>> seconds(program.templates.size());
  const auto seconds_of = [&](std::uint16_t slot, std::int32_t rank) {
    if (!seconds[slot]) {
      const auto& times = input.template_times[slot];
      const model::SlotTemplate& whole = program.templates[slot];
      seconds[slot] =
          (input.links == nullptr ? run_template(whole, times, input.device_sms)
                                  : run_template(whole, times, input.device_sms, *input.links,
                                                 links_of_groups(input, static_cast<std::size_t>(rank)), rank))
              .seconds;
    }
    return *seconds[slot];
  };
  std::array<double, 5> sums{}, counts{};
  for (std::size_t rank = 0; rank < program.slot_templates.size(); ++rank)
    for (const std::uint16_t slot : program.slot_templates[rank]) {
      const auto type = static_cast<std::size_t>(program.templates[slot].type);
      sums[type] += seconds_of(slot, static_cast<std::int32_t>(rank));
      ++counts[type];
    }
  for (std::size_t slot = 0; slot < seconds.size(); ++slot) {
    const auto type = static_cast<std::size_t>(program.templates[slot].type);
    if (!seconds[slot] || *seconds[slot] <= 0) continue;
    for (SegmentTime& time : input.template_times[slot]) scale(time, sums[type] / counts[type] / *seconds[slot]);
  }
  return input;
}

}  // namespace plumbline::sim
