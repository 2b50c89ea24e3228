#include "real/host/run.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/run_monitor.h"
#include "cli/run_output.h"
#include "cli/verb.h"
#include "cli/world.h"
#include "model/metrics.h"
#include "model/plan.h"
#include "real/host/clock.h"
#include "reports/json.h"
#include "reports/trace.h"

namespace plumbline::cli {

namespace {

using model::Error;
using model::ErrorKind;
using model::Result;

struct Arguments {
  PlanArguments plan;
  std::string backend = "host", clock = "wall", json, trace, board, accumulation = "fp32";
  real::host::RunOptions options;
};

tl::unexpected<Error> wrong(std::string key, std::string message, std::string hint) {
  return tl::unexpected(Error{ErrorKind::input, std::move(message), "", 0, std::move(key), std::move(hint)});
}

Result<real::host::RunOptions> options_of(const Arguments& arguments) {
  if (arguments.backend == "cuda")
    return tl::unexpected(Error{ErrorKind::infeasible, "the cuda backend is not part of this version", "", 0,
                                "--backend", "run it on this machine's cores: --backend host"});
  if (arguments.backend != "host")
    return wrong("--backend", fmt::format("unknown backend '{}'", arguments.backend), "known: host, cuda");
  real::host::RunOptions options = arguments.options;
  const auto clock = real::host::parse_clock(arguments.clock);
  if (!clock) return tl::unexpected(clock.error());
  options.device.clock = *clock;
  if (arguments.accumulation != "fp32" && arguments.accumulation != "fp16")
    return wrong("--accumulation", fmt::format("unknown format '{}'", arguments.accumulation), "known: fp32, fp16");
  options.device.accumulation = arguments.accumulation == "fp16" ? model::DataType::fp16 : model::DataType::fp32;
  if (options.steps < 1) return wrong("--steps", "must be at least 1", "");
  if (options.device.compute_cores < 1 || options.device.communication_cores < 1)
    return wrong("--cores", "must be at least 1", "");
  if (options.resume && options.checkpoint.empty())
    return wrong("--resume", "there is no folder to resume from", "name it with --checkpoint DIR");
  return options;
}

Result<void> write_files(const Arguments& arguments, const sim::Inputs& inputs, const real::host::RunResult& result,
                         const std::string& clock) {
  if (!arguments.json.empty()) {
    const std::string json =
        reports::to_json(result.step.result, inputs.plan, training_report(result, clock), result.step.timeline);
    if (auto written = write_output(arguments.json, json); !written) return written;
  }
  if (arguments.trace.empty()) return {};
  return write_output(arguments.trace, reports::to_trace(result.step.timeline, {}, arguments.trace.ends_with(".gz")));
}

// Every process of a job sees the same errors; one of them tells.
int refuse(const World& world, const Error& error) { return world.speaks ? report(error) : code_of(error); }

int run(const Arguments& arguments, const World& world) {
  auto options = options_of(arguments);
  if (!options) return refuse(world, options.error());
  const auto inputs = load_inputs(arguments.plan.plan, arguments.plan.overrides);
  if (!inputs) return refuse(world, inputs.error());
  if (arguments.plan.print) {
    if (world.speaks) fmt::print("{}", model::to_toml(inputs->plan));
    return 0;
  }
  const auto metrics = model::model_metrics(inputs->architecture, inputs->plan.batch.sequence_length);
  const double peak = inputs->cluster.device.bf16_peak.value() * static_cast<double>(inputs->plan.cluster.gpus);
  RunMonitor monitor(arguments.options.steps, peak, metrics.flops_per_token);
  if (world.speaks) {
    const auto opened = monitor.open(arguments.board);
    if (!opened && world.transport != nullptr) world.transport->abort(to_string(opened.error()));  // the others train
    if (!opened) return report(opened.error());
  }
  const real::host::RunInput input{inputs->plan, inputs->architecture, inputs->cluster};
  const auto observer = [&](const real::StepFigures& figures) {
    if (world.speaks) monitor.step(figures);
  };
  options->device = world.device(options->device);
  const auto result = world.transport == nullptr ? real::host::run_in_process(input, *options, observer)
                                                 : real::host::run_rank(input, *options, *world.transport, observer);
  if (!result) return refuse(world, result.error());
  if (!world.speaks) return 0;
  if (monitor.failed()) return report(*monitor.failed());
  if (result->training.seconds.empty()) {
    fmt::print(stderr, "nothing to do: the checkpoint has {} steps already\n", result->training.progress.step);
    return 0;
  }
  const std::string clock(to_string(options->device.clock));
  if (const auto written = write_files(arguments, *inputs, *result, clock); !written) return report(written.error());
  if (arguments.json != "-" && arguments.trace != "-") fmt::print("{}", run_summary(*result, inputs->plan, clock));
  return 0;
}

}  // namespace

CLI::App* add_run(CLI::App& root, int& exit_code, const World& world) {
  CLI::App* verb = root.add_subcommand("run", "Execute a plan's training steps for real and measure them");
  const auto arguments = std::make_shared<Arguments>();
  add_plan_arguments(*verb, arguments->plan);
  real::host::RunOptions& options = arguments->options;
  verb->add_option("--backend", arguments->backend, "host | cuda")->capture_default_str();
  verb->add_option("--steps", options.steps, "Steps to have done in the end; the first warms up")
      ->capture_default_str();
  verb->add_option("--json", arguments->json, "Write the result as JSON to a file, or - for stdout");
  verb->add_option("--trace", arguments->trace, "Write a trace of the median step for Perfetto");
  verb->add_option("--tensorboard", arguments->board, "A folder for TensorBoard's event files");
  verb->add_option("--clock", arguments->clock, "wall | cpu: of the machine, or of the CPU time of each stream")
      ->capture_default_str();
  verb->add_option("--cores", options.device.compute_cores, "Cores of a rank's compute stream")->capture_default_str();
  verb->add_option("--communication-cores", options.device.communication_cores, "Cores of a rank's other streams")
      ->capture_default_str();
  verb->add_option("--text", options.text, "A file whose bytes are the tokens (default: made-up text)");
  verb->add_option("--learning-rate", options.learning_rate, "Of AdamW (default: the plan's optimizer's own)");
  verb->add_option("--balance", options.balance_speed, "Move routing biases so much per step towards even experts")
      ->capture_default_str();
  verb->add_option("--checkpoint", options.checkpoint, "A folder for checkpoints; one is written at the end");
  verb->add_option("--checkpoint-every", options.checkpoint_interval, "Write one every so many steps");
  verb->add_flag("--resume", options.resume, "Go on from the newest checkpoint of the folder");
  verb->add_option("--accumulation", arguments->accumulation, "fp32 | fp16: of products, to see what FP16 costs")
      ->capture_default_str();
  verb->footer(
      "Without mpirun all ranks are threads of one process. Exit code 2: the plan cannot be executed here, or the "
      "training failed.\n\n"
      "Examples:\n"
      "  plumbline run host-dualpipe --json measured.json --trace measured.trace.json\n"
      "  plumbline run host-dualpipe --clock cpu --steps 10\n"
      "  mpirun -n 2 plumbline run host-dualpipe\n"
      "  plumbline run host-train --steps 300 --learning-rate 1e-3 --tensorboard runs --checkpoint saved");
  verb->callback([arguments, &exit_code, world] { exit_code = run(*arguments, world); });
  return verb;
}

}  // namespace plumbline::cli
