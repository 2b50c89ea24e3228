#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cli/gpu_job.h"
#include "cli/output.h"
#include "cli/run_backends.h"
#include "cli/run_monitor.h"
#include "cli/run_output.h"
#include "real/bootstrap/bootstrap.h"
#include "real/cuda/backend.h"

namespace plumbline::cli {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;
using real::Bootstrap;

Result<void> check_ranks(const RunArguments& arguments, const model::Plan& plan, const Bootstrap& job) {
  const auto wrong = [](ErrorKind kind, std::string key, std::string message, std::string hint) {
    return tl::unexpected(Error{kind, std::move(message), "", 0, std::move(key), std::move(hint)});
  };
  const std::int64_t pipeline = plan.parallelism.pipeline;
  if (!arguments.emulated && job.ranks != plan.cluster.gpus)
    return wrong(ErrorKind::infeasible, "cluster.gpus",
                 fmt::format("the plan has {} ranks, but {} {} started", plan.cluster.gpus, job.ranks,
                             job.ranks == 1 ? "was" : "were"),
                 "start a process for each with torchrun, srun or mpirun, or measure one alone with --emulate RANK");
  if (arguments.emulated && job.ranks != 1)
    return wrong(ErrorKind::infeasible, "--emulate", "other ranks were started beside the one that is emulated",
                 "start one process");
  if (arguments.emulated && *arguments.emulated >= pipeline)
    return wrong(ErrorKind::input, "--emulate", fmt::format("the plan has no pipeline rank {}", *arguments.emulated),
                 fmt::format("they are 0 to {}", pipeline - 1));
  return {};
}

RunDescription description_of(const RunArguments& arguments, const Bootstrap& job) {
  RunDescription description{.clock = "gpu", .rank = arguments.emulated.value_or(0)};
  if (arguments.emulated)
    description.notes.emplace_back("emulated: other ranks are stood in for; waits for them are not measured");
  if (job.ranks > 1)
    description.notes.emplace_back("unmeasured on more than one GPU: this way of running was tested on one alone");
  description.emulated = arguments.emulated.has_value();
  return description;
}

int finish(const RunArguments& arguments, const sim::Inputs& inputs, const real::cuda::GpuRunResult& result,
           RunDescription description) {
  description.device_memory_bytes = result.memory_bytes;
  if (!result.ways.empty()) description.notes.push_back(result.ways);
  if (!result.kernels_missing.empty())
    fmt::print(stderr, "plumbline: --kernels: no kernels were recorded: {}\n", result.kernels_missing);
  if (!result.kernels.empty())
    if (const auto written = write_output(arguments.kernels, result.kernels); !written) return report(written.error());
  return write_run(arguments, inputs, result.run, description);
}

int train(const RunArguments& arguments, const sim::Inputs& inputs, const Bootstrap& job, int device,
          real::ControlChannel& channel) {
  const bool speaks = job.rank == 0;
  const RunDescription description = description_of(arguments, job);
  if (speaks)
    for (const std::string& note : description.notes) fmt::print(stderr, "{}\n", note);
  RunMonitor monitor = monitor_of(inputs, arguments.options.steps);
  if (speaks)
    if (const auto opened = monitor.open(arguments.board); !opened) {
      channel.abort(to_string(opened.error()));
      return report(opened.error());
    }
  const auto watch = [&](const real::StepFigures& figures, const real::ClockReading& reading) {
    monitor.step(figures, reading);
  };
  const real::cuda::GpuOptions gpu{device, arguments.library_folders, arguments.target_sms, arguments.emulated,
                                   speaks && !arguments.kernels.empty()};
  const auto result =
      real::cuda::run_on_gpu({inputs.plan, inputs.architecture, inputs.cluster}, arguments.options, gpu, channel,
                             speaks ? real::cuda::GpuObserver(watch) : real::cuda::GpuObserver());
  if (!result) return speaks ? report(result.error()) : code_of(result.error());
  if (!speaks) return 0;
  if (monitor.failed()) return report(*monitor.failed());
  return finish(arguments, inputs, *result, description);
}

}  // namespace

int run_on_gpu(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  const auto job = job_of(world);
  if (!job) return report(job.error());
  const bool speaks = job->rank == 0;
  if (const auto valid = check_ranks(arguments, inputs.plan, *job); !valid)
    return speaks ? report(valid.error()) : code_of(valid.error());
  // Who does not find the others tells it itself: rank 0 may not be there to do it.
  auto channel = channel_of(*job, world);
  if (!channel) return report(channel.error());
  const int device = arguments.device.value_or(real::cuda::usual_gpu(job->local_rank));
  const auto code = look_for_gpus(**channel, device);
  if (!code) return report(code.error());
  return *code != 0 ? *code : train(arguments, inputs, *job, device, **channel);
}

}  // namespace plumbline::cli
