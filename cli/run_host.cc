#include <string>

#include "cli/output.h"
#include "cli/run_backends.h"
#include "cli/run_monitor.h"
#include "cli/run_output.h"
#include "real/host/clock.h"
#include "real/host/run.h"

namespace plumbline::cli {

namespace {

using real::host::DeviceOptions;

model::Result<DeviceOptions> device_of(const RunArguments& arguments, const World& world) {
  DeviceOptions device;
  const auto clock = real::host::parse_clock(arguments.clock.value_or("wall"));
  if (!clock) return tl::unexpected(clock.error());
  device.clock = *clock;
  device.compute_cores = arguments.cores.value_or(1);
  device.communication_cores = arguments.communication_cores.value_or(1);
  device.accumulation = arguments.accumulation == "fp16" ? model::DataType::fp16 : model::DataType::fp32;
  return world.device(device);
}

}  // namespace

int run_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  const auto device = device_of(arguments, world);
  if (!device) return world.report(device.error());
  RunMonitor monitor = monitor_of(inputs, arguments.options.steps);
  if (world.speaks) {
    const auto opened = monitor.open(arguments.board);
    if (!opened && world.transport != nullptr) world.transport->abort(to_string(opened.error()));  // the others train
    if (!opened) return report(opened.error());
  }
  const real::RunInput input{inputs.plan, inputs.architecture, inputs.cluster};
  const auto observer = [&](const real::StepFigures& figures) {
    if (world.speaks) monitor.step(figures);
  };
  const auto result = world.transport == nullptr
                          ? real::host::run_in_process(input, arguments.options, *device, observer)
                          : real::host::run_rank(input, arguments.options, *device, *world.transport, observer);
  if (!result) return world.report(result.error());
  if (!world.speaks) return 0;
  if (monitor.failed()) return report(*monitor.failed());
  return write_run(arguments, inputs, *result, {.clock = std::string(to_string(device->clock))});
}

}  // namespace plumbline::cli
