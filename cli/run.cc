#include "cli/detail/run.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "cli/world.h"
#include "model/architecture/metrics.h"
#include "model/base/statistics.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/routing/files.h"
#include "real/bootstrap/bootstrap.h"
#include "real/cuda/backend.h"
#include "real/executor/training/trainer.h"
#include "real/host/device.h"
#include "real/host/run.h"
#include "real/measure/clock_reading.h"
#include "reports/json/json.h"
#include "reports/tensorboard/tensorboard.h"
#include "reports/text/step/summary.h"
#include "reports/trace/trace.h"
#include "reports/training_report.h"
#include "sim/predict/cost_models.h"
#include "sim/serving/serving.h"
#include "sim/step/segment_time.h"

namespace plumbline::cli {
namespace {

using model::Result;
using model::wrong_input;

Result<void> check_backend(const RunArguments& a) {
  if (a.backend != "host" && a.backend != "cuda")
    return wrong_input("--backend", fmt::format("unknown backend '{}'", a.backend), "known: host, cuda");
  if (a.backend == "cuda")
    return refuse_given({{"--clock", a.clock.has_value()},
                         {"--cores", a.cores.has_value()},
                         {"--communication-cores", a.communication_cores.has_value()},
                         {"--accumulation", a.accumulation.has_value()}},
                        "is for the host's cores, not for a GPU", "leave it out, or --backend host");
  return refuse_given({{"--device", a.device.has_value()},
                       {"--sm-target", a.target_sms.has_value()},
                       {"--emulate", a.emulated.has_value()},
                       {"--lib-dir", !a.library_folders.empty()},
                       {"--kernels", !a.kernels.empty()}},
                      "is for a GPU, not for the host's cores", "leave it out, or --backend cuda");
}

Result<void> check_values(const RunArguments& a) {
  const std::string accumulation = a.accumulation.value_or("fp32");
  if (accumulation != "fp32" && accumulation != "fp16")
    return wrong_input("--accumulation", fmt::format("unknown format '{}'", accumulation), "known: fp32, fp16");
  if (a.options.steps < 1) return wrong_input("--steps", "must be at least 1");
  if (a.cores.value_or(1) < 1 || a.communication_cores.value_or(1) < 1)
    return wrong_input("--cores", "must be at least 1");
  if (a.device.value_or(0) < 0) return wrong_input("--device", "must be at least 0");
  if (a.target_sms.value_or(1) < 1) return wrong_input("--sm-target", "must be at least 1");
  if (a.emulated.value_or(0) < 0) return wrong_input("--emulate", "must be at least 0", "it is a pipeline rank");
  if (a.learning_rate && !(std::isfinite(*a.learning_rate) && *a.learning_rate >= 0))
    return wrong_input("--learning-rate", "must be a number from 0");
  if (!std::isfinite(a.options.balance_speed)) return wrong_input("--balance", "must be a number");
  return {};
}

model::Result<void> check_generate_arguments(const RunArguments& a) {
  const real::GenerateOptions& generate = a.generate;
  if (generate.tokens < 0) return wrong_input("--generate", "must be at least 1");
  if (generate.tokens == 0) {
    if (generate.prompt.empty() && generate.temperature == 0) return {};
    return wrong_input("--prompt, --temperature", "are of generated tokens", "give --generate N, too");
  }
  if (a.backend != "host")
    return wrong_input("--generate", "tokens are generated on the host's cores", "leave --backend out");
  if (a.options.checkpoint.empty())
    return wrong_input("--generate", "there is no model to generate with",
                       "name the folder of a trained one with --checkpoint DIR");
  if (!std::isfinite(generate.temperature) || generate.temperature < 0)
    return wrong_input("--temperature", "must be a number from 0");
  if (a.options.resume || a.options.balance_speed != 0 || !a.board.empty() || a.outputs.given("--expert-loads") ||
      a.outputs.given("--trace") || a.outputs.given("--csv"))
    return wrong_input("--generate", "nothing is trained where tokens are generated",
                       "leave out --resume, --balance, --tensorboard, --expert-loads, --csv and --trace");
  return {};
}

void add_host_options(CLI::App& verb, RunArguments& arguments) {
  verb.option_defaults()->group("Options of the host");
  verb.add_option("--clock", arguments.clock,
                  "wall | cpu | profile: wall time, CPU time of each stream, or kernel times of the plan's profile "
                  "(default: wall)");
  verb.add_option("--cores", arguments.cores, "Cores of a rank's compute stream (default: 1)");
  verb.add_option("--communication-cores", arguments.communication_cores,
                  "Cores of a rank's other streams (default: 1)");
  verb.add_option("--accumulation", arguments.accumulation,
                  "fp32 | fp16: accumulation of GEMMs, to see the error of FP16 (default: fp32)");
}

void add_gpu_options(CLI::App& verb, RunArguments& arguments) {
  verb.option_defaults()->group("Options of a GPU");
  verb.add_option("--emulate", arguments.emulated,
                  "Measure this pipeline rank alone, on one GPU; stand-ins replace all other ranks");
  verb.add_option("--device", arguments.device,
                  "CUDA's number of the GPU (default: this process's number on its node)");
  verb.add_option("--lib-dir", arguments.library_folders, "Where to look first for cuBLASLt, cuDNN, NCCL, NVML, CUPTI");
  verb.add_option("--sm-target", arguments.target_sms,
                  "SMs that libraries plan for on the compute stream (default: by overlap.sm_policy)");
  verb.add_option("--kernels", arguments.kernels, "Write a trace of every kernel of the last step for Perfetto");
}

void add_generate_options(CLI::App& verb, RunArguments& arguments) {
  verb.option_defaults()->group("Options of generation");
  real::GenerateOptions& generate = arguments.generate;
  verb.add_option("--generate", generate.tokens,
                  "Generate N tokens for each of inference.concurrency requests with the model in --checkpoint");
  verb.add_option("--prompt", generate.prompt,
                  "Text that every request continues (default: passages of --text, or made-up text)");
  verb.add_option("--temperature", generate.temperature, "Of the tokens' probabilities; 0 takes the likeliest token")
      ->capture_default_str();
  verb.add_option("--seed", generate.seed, "Of tokens that are drawn")->capture_default_str();
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<reports::BoardScalar> scalars_of(const real::ClockReading& reading) {
  std::vector<reports::BoardScalar> scalars;
  const auto add = [&](const char* tag, const auto& value) {
    if (value) scalars.push_back({tag, static_cast<double>(*value)});
  };
  add("gpu/power_w", reading.power_w);
  add("gpu/sm_mhz", reading.sm_mhz);
  add("gpu/memory_mhz", reading.memory_mhz);
  add("gpu/temperature_c", reading.temperature_c);
  add("gpu/busy", reading.busy);
  return scalars;
}

// Returns "  loss 6.2401  gradient norm 1.205"; empty for a rank without a loss.
std::string learning_of(const real::StepFigures& figures) {
  if (!std::isfinite(figures.loss)) return "";
  return fmt::format("  loss {:.4f}  gradient norm {:.3f}", figures.loss, figures.gradient_norm);
}

std::string rate_of(const real::StepFigures& figures) {
  return std::isfinite(figures.tokens_per_second) ? fmt::format("  {:.0f} tokens/s", figures.tokens_per_second) : "";
}

std::string device_of(const real::ClockReading& reading) {
  std::string text;
  if (reading.power_w) text += fmt::format("  {:.0f} W", *reading.power_w);
  if (reading.sm_mhz) text += fmt::format("  {} MHz", *reading.sm_mhz);
  if (reading.busy) text += fmt::format("  busy {:.0f} %", 100 * *reading.busy);
  if (reading.throttle && *reading.throttle != "none") text += fmt::format("  slowed by {}", *reading.throttle);
  return text;
}

// Live output of a training: lines on stderr, at most two per second, and a TensorBoard.
class RunMonitor {
 public:
  // peak_flops: of all ranks together, FLOP/s; flops_per_token: of training.
  RunMonitor(std::int64_t steps, double peak_flops, double flops_per_token)
      : steps_(steps), peak_flops_(peak_flops), flops_per_token_(flops_per_token) {}

  // Opens event files of TensorBoard in the folder; empty: none are written.
  model::Result<void> open(const std::string& folder) {
    if (folder.empty()) return {};
    board_ = TRY(reports::TensorBoard::create(folder, seconds_since_1970()));
    return {};
  }
  // Reports a step, with the readings of the device during it, where the device has any.
  void step(const real::StepFigures& figures, const real::ClockReading& reading = {}) {
    show(figures, reading);
    if (!board_ || failed_) return;
    std::vector<reports::BoardScalar> scalars = {
        {"loss", figures.loss},
        {"gradient_norm", figures.gradient_norm},
        {"tokens_per_second", figures.tokens_per_second},
        {"time/step_s", figures.seconds},
        {"loss_scale", figures.loss_scale},
        {"utilisation", figures.tokens_per_second * flops_per_token_ / peak_flops_}};
    std::erase_if(scalars, [](const reports::BoardScalar& scalar) { return std::isnan(scalar.value); });
    for (reports::BoardScalar& scalar : scalars_of(reading)) scalars.push_back(std::move(scalar));
    std::vector<reports::BoardHistogram> histograms;
    for (const real::LayerLoad& load : figures.loads) {
      scalars.push_back({fmt::format("expert_load/layer_{}_max_violation", load.layer), load.max_violation});
      histograms.push_back({fmt::format("expert_load/layer_{}", load.layer), load.rows});
    }
    if (auto written = board_->write(figures.step, seconds_since_1970(), scalars, histograms); !written)
      failed_ = written.error();
  }

  // Returns the error that ended the writing of the board, if any.
  const std::optional<model::Error>& failed() const { return failed_; }

 private:
  // Prints at most one line each half second, and always the last step's.
  void show(const real::StepFigures& figures, const real::ClockReading& reading) {
    const auto now = std::chrono::steady_clock::now();
    constexpr std::chrono::milliseconds pause{500};
    if (figures.step < steps_ && shown_ && now - *shown_ < pause) return;
    shown_ = now;
    const std::string line =
        fmt::format("step {:>{}}/{}{}  {:.1f} ms{}{}{}\n", figures.step, fmt::formatted_size("{}", steps_), steps_,
                    learning_of(figures), 1e3 * figures.seconds, rate_of(figures), device_of(reading),
                    figures.skipped ? "  skipped: gradients overflowed" : "");
    std::fputs(line.c_str(),
               stderr);  // a log that takes nothing more is no reason to end a training, as fmt::print does
  }

  std::int64_t steps_;
  double peak_flops_, flops_per_token_;
  std::optional<std::chrono::steady_clock::time_point> shown_;  // last time of a line
  std::optional<reports::TensorBoard> board_;
  std::optional<model::Error> failed_;
};

// Returns the monitor of a run of the plan.
RunMonitor monitor_of(const sim::Inputs& inputs, std::int64_t steps) {
  const auto metrics = model::model_metrics(inputs.architecture, inputs.plan.batch.sequence_length);
  const double peak = inputs.cluster.device.bf16_peak.value() * static_cast<double>(inputs.plan.cluster.gpus);
  return {steps, peak, metrics.flops_per_token};
}

Result<std::string> loads_csv(const sim::Inputs& inputs, const real::TrainingResult& result) {
  if (result.loads.empty())
    return wrong_input("--expert-loads", "the run measured no loads of experts",
                       "it needs a model with experts, and all of its ranks");
  std::vector<model::LayerRows> loads;
  for (const real::LayerLoad& load : result.loads) loads.push_back({load.layer, load.rows});
  return model::expert_loads_csv(
      loads, {fmt::format("rows of each expert in step {} of {}, measured by plumbline run on {}", result.progress.step,
                          inputs.plan.file, now_in_utc())});
}

// Writes the requested files and prints the summary; returns the exit code. `report` has the backend's part: clock,
// emulated rank, memory, notes.
model::Result<int> write_run(const RunArguments& arguments, const sim::Inputs& inputs, const real::RunResult& result,
                             reports::TrainingReport report) {
  const real::TrainingResult& training = result.training;
  if (training.seconds.empty()) {
    fmt::print(stderr, "nothing to do: the checkpoint has {} steps already\n", training.progress.step);
    return 0;
  }
  report.date = now_in_utc();
  report.first_step = training.first_step;
  report.losses = training.losses;
  report.gradient_norms = training.gradient_norms;
  report.seconds = training.seconds;
  report.measured_seconds = result.measured_seconds;
  if (report.clock != "simulated") report.issue_s = result.issue_seconds;  // else that thread computes too
  report.skipped = training.skipped;
  for (const real::LayerLoad& load : training.loads)
    report.loads.push_back({load.layer, load.max_violation, load.variation, load.rows});
  const auto& [step, timeline] = std::tie(result.step.result, result.step.timeline);
  const Outputs& outputs = arguments.outputs;
  const auto ranks = TRY(parse_trace_ranks(arguments.trace_ranks, inputs.plan.parallelism.pipeline));
  const auto trace = [&](const PieceSink& sink) {
    return reports::write_trace({{"", &timeline, {}, step.fidelity, model::to_toml(inputs.plan)}},
                                {source_revision(), outputs.compressed("--trace"), ranks}, sink);
  };
  TRY(outputs.write({{"--json", [&] { return reports::to_json(step, inputs.plan, report, timeline); }},
                     {"--csv", [&] { return reports::to_csv(step); }},
                     {"--trace", {}, trace},
                     {"--expert-loads", [&] { return loads_csv(inputs, training); }}}));
  TRY(outputs.print(reports::training_summary(step, inputs.plan, report)));
  if (training.progress.step == arguments.options.steps) return 0;
  const std::string& folder = arguments.options.checkpoint;
  fmt::print(stderr, "plumbline: stopped after step {} of {}: {}\n", training.progress.step, arguments.options.steps,
             folder.empty() ? "without --checkpoint nothing of the training is kept"
                            : fmt::format("{} has its checkpoint, from which --resume goes on", folder));
  return interrupted_exit();
}

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

// Returns how the host runs the plan: cores, clock, formats.
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

reports::GenerationReport report_of(const RunArguments& arguments, const sim::Inputs& inputs,
                                    const real::Generation& generation) {
  reports::GenerationReport report;
  report.clock = arguments.clock.value_or("wall");
  report.date = now_in_utc();
  report.trained_steps = generation.trained_steps;
  report.temperature = arguments.generate.temperature;
  report.seed = arguments.generate.seed;
  report.prompts = generation.prompts;
  report.outputs = generation.outputs;
  report.prefill_s = generation.prefill_s;
  report.decode_s = generation.decode_s;
  if (!generation.decode_s.empty()) report.tpot_s = model::quantile(generation.decode_s, 0.5);
  report.gpus = inputs.plan.cluster.gpus;
  return report;
}

// Returns what is predicted for requests as long as those that were generated.
model::Result<model::ServingResult> predicted(const RunArguments& arguments, const reports::GenerationReport& report) {
  std::vector<std::string> overrides = arguments.plan.overrides;
  overrides.push_back(fmt::format("inference.input_tokens={}", report.prompts.front().size()));
  overrides.push_back(fmt::format("inference.output_tokens={}", report.outputs.front().size()));
  overrides.emplace_back("inference.chunked_prefill_tokens=0");
  InputsReader reader(Purpose::serving);
  return sim::predict_serving(TRY(reader.load(arguments.plan.plan, overrides)));
}

// Generates tokens on the host with checked arguments; returns the exit code.
model::Result<int> generate_on_host(const RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  const auto device = TRY(host_device(arguments, inputs, world));
  real::GenerateOptions options = arguments.generate;
  options.checkpoint = arguments.options.checkpoint;
  options.text = arguments.options.text;
  const real::RunInput input{inputs.plan, inputs.architecture, inputs.cluster};
  const auto generation =
      TRY(world.transport == nullptr ? real::host::generate_in_process(input, options, device)
                                     : real::host::generate_rank(input, options, device, *world.transport));
  if (!world.is_root) return 0;
  reports::GenerationReport report = report_of(arguments, inputs, generation);
  report.are_bytes = !options.prompt.empty() || !options.text.empty();
  if (const auto expected = predicted(arguments, report))
    report.predicted = *expected;
  else
    report.unpredicted = expected.error().message;
  TRY(arguments.outputs.write({{"--json", [&] { return reports::generation_json(report, inputs.plan); }}}));
  return arguments.outputs.to_stdout() ? 0 : printed(reports::generation_text(report));
}

// Runs the steps; a signal ends them after the present one.
Result<int> train(RunArguments& arguments, const sim::Inputs& inputs, const World& world) {
  const Interrupt interrupt;
  if (arguments.learning_rate) arguments.options.learning_rate = *arguments.learning_rate;
  arguments.options.stopped = [&] { return interrupt.requested(); };
  return arguments.backend == "cuda" ? run_on_gpu(arguments, inputs, world) : run_on_host(arguments, inputs, world);
}

Result<int> run(RunArguments& arguments, const World& world) {
  TRY(check_run_arguments(arguments));
  const auto inputs = TRY(load_inputs(arguments.plan.plan, arguments.plan.overrides));
  TRY(parse_trace_ranks(arguments.trace_ranks, inputs.plan.parallelism.pipeline));
  if (arguments.plan.print) return world.is_root ? printed(model::to_toml(inputs.plan)) : 0;
  if (arguments.generate.tokens > 0) return generate_on_host(arguments, inputs, world);
  return train(arguments, inputs, world);
}

}  // namespace

Result<void> check_run_arguments(const RunArguments& arguments) {
  TRY(check_backend(arguments));
  TRY(check_values(arguments));
  TRY(check_generate_arguments(arguments));
  if (!arguments.trace_ranks.empty() && !arguments.outputs.given("--trace"))
    return wrong_input("--trace-ranks", "ranks are chosen for a trace", "give --trace FILE");
  const real::RunOptions& options = arguments.options;
  if (options.resume && options.checkpoint.empty())
    return wrong_input("--resume", "there is no folder to resume from", "name it with --checkpoint DIR");
  if (arguments.emulated && !options.checkpoint.empty())
    return wrong_input("--checkpoint", "a rank whose peers are stood in for learns nothing", "leave it out");
  if (arguments.emulated && options.balance_speed != 0)
    return wrong_input("--balance", "loads of experts are not known where other ranks are stood in for",
                       "leave it out");
  return {};
}

void add_run(CLI::App& root, int& exit_code, const World& world) {
  CLI::App* verb = root.add_subcommand("run", "Execute a plan's training steps for real and measure them");
  const auto arguments = std::make_shared<RunArguments>();
  add_plan_arguments(*verb, arguments->plan);
  real::RunOptions& options = arguments->options;
  verb->add_option("--backend", arguments->backend, "host | cuda")->capture_default_str();
  verb->add_option("--steps", options.steps, "Steps in total, those before a checkpoint included; the first warms up")
      ->capture_default_str();
  arguments->outputs.add(*verb, "--json", "Write the result as JSON to a file, or - for stdout");
  arguments->outputs.add(*verb, "--csv", "Write the measured step as CSV to a file, or - for stdout");
  arguments->outputs.add_page(*verb);
  arguments->outputs.add(*verb, "--trace", "Write a trace of the median step for Perfetto");
  add_trace_ranks(*verb, arguments->trace_ranks, "pipeline ranks only");
  verb->add_option("--tensorboard", arguments->board, "A folder for TensorBoard's event files");
  arguments->outputs.add(*verb, "--expert-loads",
                         "Write the rows of experts by layer in the last step as CSV, a file for routing.load_file");
  verb->add_option("--text", options.text, "A file whose bytes are the tokens (default: made-up text)");
  verb->add_option("--learning-rate", arguments->learning_rate,
                   "Learning rate of AdamW (default: that of the plan's optimizer)");
  verb->add_option("--balance", options.balance_speed,
                   "Change of routing biases per step, towards an even load of the experts")
      ->capture_default_str();
  verb->add_option("--checkpoint", options.checkpoint, "A folder for checkpoints; one is written at the end");
  verb->add_option("--checkpoint-every", options.checkpoint_interval, "Write a checkpoint every N steps");
  verb->add_flag("--resume", options.resume, "Continue from the newest checkpoint of the folder");
  add_generate_options(*verb, *arguments);
  add_host_options(*verb, *arguments);
  add_gpu_options(*verb, *arguments);
  verb->footer(
      "On the host, without mpirun, all ranks are threads of one process; a GPU takes one rank. Exit code 2: the plan "
      "cannot be executed here, or the training failed; 77: there is no GPU.\n\n"
      "Examples:\n"
      "  plumbline run host-dualpipe --json measured.json --trace measured.trace.json\n"
      "  plumbline run host-dualpipe --clock cpu --steps 10\n"
      "  mpirun -n 2 plumbline run host-dualpipe\n"
      "  plumbline run host-train --steps 300 --learning-rate 1e-3 --tensorboard runs --checkpoint saved\n"
      "  plumbline run host-train --checkpoint saved --generate 200\n"
      "  plumbline run gpu-train --backend cuda --steps 1000 --learning-rate 1e-3\n"
      "  torchrun --nproc-per-node 8 --no-python plumbline run PLAN --backend cuda\n"
      "  plumbline run h100-chunk --backend cuda --emulate 0 --json measured.json");
  verb->callback([arguments, &exit_code, world] {
    const auto done = run(*arguments, world);
    exit_code = done ? *done : world.report(done.error());
  });
}

}  // namespace plumbline::cli
