#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "cli/outputs.h"
#include "cli/run.h"
#include "cli/world.h"
#include "model/plan/layout.h"
#include "real/bootstrap/bootstrap.h"
#include "real/cuda/backend.h"
#include "real/host/clock.h"
#include "real/host/run.h"
#include "sim/predict/cost_models.h"
#include "sim/step/segment_time.h"

namespace plumbline::cli {
namespace {

using model::infeasible;
using real::host::DeviceOptions;

// Returns the predicted seconds of a kernel without co-runners.
model::Result<real::host::KernelSeconds> profile_seconds(const sim::Inputs& inputs) {
  const auto layout = TRY(model::make_layout(inputs.plan, inputs.architecture));
  const auto costs = TRY(sim::cost_models(inputs, layout));
  return [costs = costs](model::Stream stream, const real::Kernel& kernel) {
    if (kernel.graph == nullptr) return 0.0;  // the sum of a few scalars, which predictions do not count
    return sim::operator_seconds(*kernel.graph, *kernel.op, stream, costs) / kernel.parts;
  };
}

model::Result<void> check_ranks(const RunArguments& arguments, const model::Plan& plan, const real::Bootstrap& job) {
  const std::int64_t pipeline = plan.parallelism.pipeline;
  if (!arguments.emulated && job.ranks != plan.cluster.gpus)
    return infeasible(
        "cluster.gpus",
        fmt::format("the plan has {} ranks, but {} {} started", plan.cluster.gpus, job.ranks,
                    job.ranks == 1 ? "was" : "were"),
        "start a process for each with torchrun, srun or mpirun, or measure one alone with --emulate RANK");
  if (arguments.emulated && job.ranks != 1)
    return infeasible("--emulate", "other ranks were started with the one that is emulated", "start one process");
  if (arguments.emulated && *arguments.emulated >= pipeline)
    return model::wrong_input("--emulate", fmt::format("the plan has no pipeline rank {}", *arguments.emulated),
                              fmt::format("they are 0 to {}", pipeline - 1));
  return {};
}

reports::TrainingReport report_of(const RunArguments& arguments, const real::Bootstrap& job) {
  reports::TrainingReport report{.clock = "gpu", .emulated_rank = arguments.emulated};
  if (arguments.emulated)
    report.notes.emplace_back("emulated: other ranks are stood in for; waits for them are not measured");
  if (job.ranks > 1)
    report.notes.emplace_back("not validated on more than one GPU: this backend was tested on one only");
  return report;
}

model::Result<int> train(const RunArguments& arguments, const sim::Inputs& inputs, const real::Bootstrap& job,
                         int device, real::ControlChannel& channel) {
  const bool is_root = job.rank == 0;
  reports::TrainingReport report = report_of(arguments, job);
  RunMonitor monitor = monitor_of(inputs, arguments.options.steps);
  if (is_root) {
    for (const std::string& note : report.notes) fmt::print(stderr, "{}\n", note);
    const auto opened = monitor.open(arguments.board);
    if (!opened) channel.abort(to_string(opened.error()));
    TRY(opened);
  }
  const auto watch = [&](const real::StepFigures& figures, const real::ClockReading& reading) {
    monitor.step(figures, reading);
  };
  const real::cuda::GpuOptions gpu{device, arguments.library_folders, arguments.target_sms, arguments.emulated,
                                   is_root && !arguments.kernels.empty()};
  const auto result =
      TRY(real::cuda::run_on_gpu({inputs.plan, inputs.architecture, inputs.cluster}, arguments.options, gpu, channel,
                                 is_root ? real::cuda::GpuObserver(watch) : real::cuda::GpuObserver()));
  if (!is_root) return 0;
  if (monitor.failed()) return tl::unexpected(*monitor.failed());
  report.device_memory_bytes = result.memory_bytes;
  if (!result.transports.empty()) report.notes.push_back(result.transports);
  if (!result.kernels_missing.empty())
    fmt::print(stderr, "plumbline: --kernels: no kernels were recorded: {}\n", result.kernels_missing);
  if (!result.kernels.empty()) TRY(write_output(arguments.kernels, result.kernels));
  return write_run(arguments, inputs, result.run, std::move(report));
}

}  // namespace

model::Result<DeviceOptions> host_device(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  DeviceOptions device;
  const auto clock = TRY(real::host::parse_clock(arguments.clock.value_or("wall"), real::host::run_clocks));
  device.clock = clock;
  if (clock == real::host::ClockKind::profile) device.kernel_seconds = TRY(profile_seconds(inputs));
  device.compute_cores = arguments.cores.value_or(1);
  device.communication_cores = arguments.communication_cores.value_or(1);
  device.accumulation = arguments.accumulation == "fp16" ? model::DataType::fp16 : model::DataType::fp32;
  return world.device(device);
}

model::Result<int> run_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  const auto device = TRY(host_device(arguments, inputs, world));
  RunMonitor monitor = monitor_of(inputs, arguments.options.steps);
  if (world.is_root) {
    const auto opened = monitor.open(arguments.board);
    if (!opened && world.transport != nullptr)
      world.transport->abort(to_string(opened.error()));  // the other ranks train already
    TRY(opened);
  }
  const real::RunInput input{inputs.plan, inputs.architecture, inputs.cluster};
  const auto observer = [&](const real::StepFigures& figures) {
    if (world.is_root) monitor.step(figures);
  };
  const auto result = TRY(world.transport == nullptr
                              ? real::host::run_in_process(input, arguments.options, device, observer)
                              : real::host::run_rank(input, arguments.options, device, *world.transport, observer));
  if (!world.is_root) return 0;
  if (monitor.failed()) return tl::unexpected(*monitor.failed());
  return write_run(arguments, inputs, result, {.clock = std::string(to_string(device.clock))});
}

model::Result<int> run_on_gpu(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  // A rank that does not find the others reports it itself: rank 0 may not be running.
  const auto job = job_of(world);
  if (!job) return report(job.error());
  const auto said = [&job](const model::Error& error) { return job->rank == 0 ? report(error) : code_of(error); };
  if (const auto valid = check_ranks(arguments, inputs.plan, *job); !valid) return said(valid.error());
  const std::string compared = fmt::format("verb = run\nsteps = {}\n{}", arguments.options.steps, to_toml(inputs.plan));
  const auto channel = channel_of(*job, world, {.inputs = compared});
  if (!channel) return report(channel.error());
  const int device = arguments.device.value_or(real::cuda::usual_gpu(job->local_rank));
  const auto code = look_for_gpus(**channel, device);
  if (!code) return report(code.error());
  if (*code != 0) return *code;
  const auto done = train(arguments, inputs, *job, device, **channel);
  return done ? *done : said(done.error());
}

}  // namespace plumbline::cli
