#include <string>
#include <utility>

#include "cli/output.h"
#include "cli/run_backends.h"
#include "cli/run_monitor.h"
#include "cli/run_output.h"
#include "model/plan/layout.h"
#include "real/host/clock.h"
#include "real/host/run.h"
#include "sim/predict/cost_models.h"
#include "sim/step/segment_time.h"

namespace plumbline::cli {

namespace {

using real::host::DeviceOptions;

// Returns what a prediction counts for a kernel beside which nothing runs.
model::Result<real::host::KernelSeconds> profile_seconds(const sim::Inputs& inputs) {
  const auto layout = model::make_layout(inputs.plan, inputs.architecture);
  if (!layout) return tl::unexpected(layout.error());
  const auto costs = sim::cost_models(inputs, *layout);
  if (!costs) return tl::unexpected(costs.error());
  return [costs = *costs](model::Stream stream, const real::Kernel& kernel) {
    if (kernel.graph == nullptr) return 0.0;  // the sum of a few scalars, which predictions do not count
    return sim::operator_seconds(*kernel.graph, *kernel.op, stream, costs) / kernel.parts;
  };
}

model::Result<DeviceOptions> device_of(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  DeviceOptions device;
  const auto clock = real::host::parse_clock(arguments.clock.value_or("wall"), real::host::run_clocks);
  if (!clock) return tl::unexpected(clock.error());
  device.clock = *clock;
  if (*clock == real::host::ClockKind::profile) {
    auto seconds = profile_seconds(inputs);
    if (!seconds) return tl::unexpected(seconds.error());
    device.kernel_seconds = *std::move(seconds);
  }
  device.compute_cores = arguments.cores.value_or(1);
  device.communication_cores = arguments.communication_cores.value_or(1);
  device.accumulation = arguments.accumulation == "fp16" ? model::DataType::fp16 : model::DataType::fp32;
  return world.device(device);
}

}  // namespace

int run_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  const auto device = device_of(arguments, inputs, world);
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
