#include "cli/measure/measure.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "calibrate/measurement/measurement_file.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "model/base/version.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "real/cuda/backend.h"
#include "real/cuda/measure/case_machine.h"
#include "real/measure/kernel_case/case_sweep.h"
#include "real/measure/rounds.h"
#include "reports/text/inputs/measurements_text.h"

namespace plumbline::cli {
namespace {

using model::Result;
using model::wrong_input;

Result<void> check(const MeasureArguments& arguments) {
  if (arguments.backend != "cuda" && arguments.backend != "host")
    return wrong_input("--backend", fmt::format("unknown backend '{}'", arguments.backend), "known: cuda, host");
  if (!arguments.plan.empty() && !arguments.cases.empty())
    return wrong_input("--plan", "a plan and a file of cases cannot be measured together", "give one of them");
  if (!arguments.plan.empty() && arguments.backend == "host")
    return wrong_input("--plan", "is for a GPU", "on the host: a file of cases with [[plan]] (docs/measuring.md)");
  if (arguments.plan.empty() && !arguments.overrides.empty())
    return wrong_input("--set", "there is no plan to change", "--plan PLAN");
  if (!arguments.budget.empty() && !real::parse_duration(arguments.budget))
    return wrong_input("--budget", fmt::format("'{}' is not a time", arguments.budget), "write 90s, 8m or 1h");
  if (arguments.dry_run) return {};
  if (!arguments.csv.empty()) return wrong_input("--csv", "is for the cases of --dry-run", "records: -o FILE.csv");
  if (arguments.out.empty()) return wrong_input("-o", "the output file is missing", "-o FILE, or --dry-run");
  if (!arguments.out.ends_with(".jsonl") && !arguments.out.ends_with(".csv"))
    return wrong_input("-o", fmt::format("'{}' is no file of measurements", arguments.out),
                       "end its name in .jsonl or .csv");
  return {};
}

Result<int> run(const MeasureArguments& arguments, const World& world) {
  if (arguments.list_libraries) {
    const std::string text = TRY(real::cuda::list_libraries(arguments.library_folders));
    return printed(text);
  }
  TRY(check(arguments));
  if (arguments.backend == "host") return measure_on_host(arguments, world);
  return arguments.plan.empty() ? measure_cases(arguments, world) : measure_plan(arguments);
}

constexpr int no_gpu_exit = 77;
constexpr int first_gpu = 0;  // the first of the GPUs that CUDA shows to this process

Result<model::StepProgram> program_of(const sim::Inputs& inputs) {
  return model::compile(inputs.plan, inputs.architecture, TRY(model::make_layout(inputs.plan, inputs.architecture)));
}

// Returns the cases that a device would measure; all-to-alls and collectives are listed once, operators once.
ListedCases cases_of(const model::StepProgram& program, const std::string& name, std::int64_t sms) {
  std::vector<real::Workload> stages;
  for (real::Workload& workload : real::plan_workloads(program, name, {sms}))
    if (std::holds_alternative<real::Sequence>(workload)) stages.push_back(std::move(workload));
  return cases_table(real::distinct_subjects(stages));
}

Result<real::cuda::StageMeasurement> measured(const sim::Inputs& inputs, const model::StepProgram& program,
                                              const std::string& name, const MeasureArguments& arguments) {
  ProgressBar bar("measuring");
  Interrupt interrupt;
  const auto observer = [&](const real::MeasureProgress& progress, const std::vector<real::Series>&) {
    bar.update(progress.done, progress.total);
    return !interrupt.requested();
  };
  const real::cuda::StageMeasureOptions options{
      first_gpu,
      arguments.library_folders,
      {static_cast<std::size_t>(arguments.rounds), arguments.budget_s(), arguments.seed}};
  return real::cuda::measure_stages(inputs.plan, inputs.cluster, program, name, options, observer);
}

using calibrate::Measurement;
using calibrate::Measurements;

// Up to this number of samples all are kept, so that later analyses are not limited to the quantiles.
constexpr std::size_t most_kept = 64;

constexpr const char *of_cases = "--backend cuda", *of_plan = "--backend cuda --plan",
                     *of_host_backend = "--backend host";

std::string program(const char* options) { return fmt::format("plumbline {} measure {}", model::version, options); }

std::optional<double> positive(double value) { return value > 0 ? std::optional(value) : std::nullopt; }

// Fills in the description of a case, the program, and the device.
void describe(calibrate::Subject& record, const real::Subject& subject, const char* options, const std::string& device,
              const std::string& date) {
  record.source = program(options);
  record.device = device;
  record.date = date;
  record.op = subject.op;
  record.name = subject.name;
  record.phase = subject.phase;
  record.format = subject.format;
  record.case_line = subject.key;
  record.shape = subject.shape;
}

// Returns the record of a case with at least one sample.
Measurement record_of(const real::Series& series, const char* options, const std::string& device,
                      const std::string& date) {
  Measurement m;
  describe(m, series.subject, options, device, date);
  m.samples = static_cast<std::int64_t>(series.seconds.size());
  const real::Spread spread = real::spread_of(series.seconds);
  m.time = {spread.p50, spread.p10, spread.p90, spread.min, spread.mad, {}};
  if (series.seconds.size() <= most_kept) m.time.samples = series.seconds;
  m.flops = positive(series.subject.flops);
  m.bytes = positive(series.subject.bytes);
  return m;
}

calibrate::Clock clock_of(const real::ClockReading& reading) {
  calibrate::Clock clock;
  if (reading.sm_mhz) clock.sm_mhz = *reading.sm_mhz;
  if (reading.memory_mhz) clock.memory_mhz = *reading.memory_mhz;
  clock.power_w = reading.power_w;
  clock.temperature_c = reading.temperature_c;
  clock.throttle = reading.throttle.value_or("");
  return clock;
}

// Returns one record per series that has samples.
template <class RecordOf>
Measurements records_of(calibrate::Environment environment, const std::vector<real::Series>& series,
                        const RecordOf& record) {
  Measurements records;
  records.environments.push_back(std::move(environment));
  for (const real::Series& one : series)
    if (!one.seconds.empty()) records.values.push_back(record(one));
  return records;
}

}  // namespace

std::optional<double> MeasureArguments::budget_s() const { return real::parse_duration(budget); }

std::string measurements_content(const std::string& file, const calibrate::Measurements& measurements) {
  return file.ends_with(".csv") ? calibrate::to_csv(measurements) : calibrate::to_jsonl(measurements);
}

void add_measure(CLI::App& root, int& exit_code, const World& world) {
  CLI::App* verb = root.add_subcommand("measure", "Measure the kernels of training on the GPU or the CPU at hand");
  const auto arguments = std::make_shared<MeasureArguments>();
  verb->add_option("CASES", arguments->cases,
                   "A .toml file (of a GPU also .cases), or the name of a shipped one (default: the built-in sweep)");
  verb->add_option(
      "--plan", arguments->plan,
      "On a GPU: every operator and all-to-all of a plan's step as one rank runs it, alone and overlapped with each "
      "other; stand-ins replace the other ranks");
  add_repeatable(*verb, "--set", arguments->overrides, "Override a key of the plan (repeatable)");
  verb->add_option("--lib-dir", arguments->library_folders,
                   "On a GPU: where to look for libraries first (repeatable; as PLUMBLINE_LIBDIR=A:B)")
      ->allow_extra_args(false);
  verb->add_flag("--list-libraries", arguments->list_libraries, "Print the GPU libraries that are found, and where");
  verb->add_option("--backend", arguments->backend, "cuda | host")->capture_default_str();
  verb->add_option("-o,--output", arguments->out,
                   "The measurements, .jsonl or .csv; on a GPU, cases that the file has already are skipped");
  verb->add_option("--csv", arguments->csv,
                   "With --dry-run: write the cases as CSV to a file, or - for stdout; for measurements, -o FILE.csv");
  verb->add_option("--budget", arguments->budget,
                   "Time limit: 90s, 8m, 1h; on a GPU the most valuable cases come first");
  verb->add_flag("--dry-run", arguments->dry_run,
                 "List the cases with FLOPs and bytes, for a GPU with floor times; needs no GPU");
  verb->add_option("--device", arguments->device, "Device whose datasheet rates determine the floor times of --dry-run")
      ->capture_default_str();
  verb->add_option("--only", arguments->only, "On a GPU: only cases of this operation (gemm, copy, all_reduce, ...)");
  constexpr int least_samples = 20, most_samples = 10000;
  verb->add_option("--samples", arguments->samples, "On a GPU: samples of every variant of a case")
      ->check(CLI::Range(least_samples, most_samples))
      ->capture_default_str();
  verb->add_flag("--retry", arguments->retry, "On a GPU: repeat cases that failed before");
  verb->add_flag("--strict", arguments->strict, "On a GPU: exit code 1 where a case failed");
  verb->add_option("--clock", arguments->clock,
                   "On the host: cpu (time that a thread was running) or wall; other load affects wall only")
      ->capture_default_str();
  verb->add_option("--rounds", arguments->rounds, "On the host and with --plan: rounds over all cases")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  verb->add_option("--seed", arguments->seed, "On the host and with --plan: seed of the order within a round")
      ->capture_default_str();
  verb->footer(
      "Exit code 77 means that there is no GPU to measure; the reason is on stderr.\n\n"
      "Examples:\n"
      "  plumbline measure -o h200-2026-11-21.jsonl --budget 8m\n"
      "  plumbline measure deepseek-v3 -o deepseek.jsonl\n"
      "  plumbline measure --plan h100-chunk -o chunk.jsonl\n"
      "  plumbline measure --backend host quick -o host.jsonl\n"
      "  plumbline show model deepseek-v3-2048xh800 --shapes > mine.cases; plumbline measure mine.cases --dry-run");
  verb->callback([arguments, &exit_code, world] { exit_code = exit_of(run(*arguments, world)); });
}

Result<int> measure_plan(const MeasureArguments& arguments) {
  const auto inputs = TRY(load_inputs(arguments.plan, arguments.overrides));
  const auto program = TRY(program_of(inputs));
  const std::string name = std::filesystem::path(arguments.plan).stem().string();
  if (arguments.dry_run) return list_cases(arguments, cases_of(program, name, inputs.cluster.device.sms));
  if (const auto gpu = real::cuda::describe_gpu(first_gpu); gpu.presence != real::cuda::GpuPresence::ready) {
    fmt::print(stderr, "plumbline: no GPU to measure: {}\n", gpu.message);
    return no_gpu_exit;
  }
  const auto found = TRY(measured(inputs, program, name, arguments));
  const calibrate::Measurements records = plan_records(found, now_in_utc());
  TRY(write_output(arguments.out, measurements_content(arguments.out, records)));
  return printed(reports::measurements_text(records, TRY(known_devices())));
}

std::string environment_line(const real::CaseMachine& machine, const std::string& date) {
  Measurements records;
  records.environments.push_back({program(of_cases), machine.device(), date, machine.sms(), machine.environment()});
  return to_jsonl(records);
}

std::string measurement_line(const real::CaseMachine& machine, const real::KernelCase& what, const real::Series& series,
                             const real::Findings& findings, const std::string& date) {
  Measurement m = record_of(series, of_cases, machine.device(), date);
  m.sms = machine.sms();
  m.communication_sms = series.subject.communication_sms;
  m.target_sms = what.target_sms;
  if (series.subject.communication_sms > 0 && series.copy_rate > 0) {
    m.copy_to = what.copy_to;
    m.copy_rate = series.copy_rate;
  }
  m.cache = series.subject.cache;
  m.variant = series.subject.variant;
  m.time.mad.reset();
  m.time.samples.clear();
  if (const auto& check = findings.check)
    m.check = calibrate::Check{check->relative_error, check->tolerance, check->ok, check->note};
  m.clock = clock_of(findings.clock);
  m.algorithm = findings.algorithm;
  m.note = findings.note;
  Measurements records;
  records.values.push_back(std::move(m));
  return to_jsonl(records);
}

std::string failure_line(const real::CaseMachine& machine, const real::KernelCase& what, const std::string& reason,
                         const std::string& date) {
  Measurements records;
  calibrate::Failure& failure = records.failures.emplace_back();
  describe(failure, real::subjects_of(what).front(), of_cases, machine.device(), date);
  failure.reason = reason;
  return to_jsonl(records);
}

Measurements host_records(const std::vector<real::Series>& series, const real::host::Environment& environment,
                          real::host::ClockKind clock, const std::string& date) {
  nlohmann::ordered_json properties = {{"cores", environment.cores}, {"clock", to_string(clock)}};
  for (const auto& [level, bytes] : environment.caches) properties["caches"][level + "_bytes"] = bytes;
  properties["load_average"] = environment.load;
  properties["compiler"] = environment.compiler;
  properties["flags"] = environment.flags;
  properties["eigen"] = environment.eigen;
  return records_of({program(of_host_backend), environment.cpu, date, environment.cores, properties.dump()}, series,
                    [&](const real::Series& one) {
                      Measurement m = record_of(one, of_host_backend, environment.cpu, date);
                      m.sms = one.subject.cores;
                      if (one.subject.communication_sms > 0) {
                        m.communication_sms = one.subject.communication_sms;
                        m.copy_to = "memory";
                        if (one.copy_rate > 0) m.copy_rate = one.copy_rate;
                      }
                      m.variant = to_string(clock);
                      return m;
                    });
}

Measurements plan_records(const real::cuda::StageMeasurement& measured, const std::string& date) {
  const nlohmann::ordered_json properties = {{"communication_sms", measured.communication_sms},
                                             {"target_sms", measured.target_sms},
                                             {"nic_gbps", measured.nic_gbps},
                                             {"other_ranks", "stood in for"}};
  return records_of({program(of_plan), measured.device, date, measured.sms, properties.dump()}, measured.series,
                    [&](const real::Series& one) {
                      Measurement m = record_of(one, of_plan, measured.device, date);
                      m.sms = measured.sms;
                      m.communication_sms = one.subject.communication_sms;
                      m.target_sms = measured.target_sms;
                      m.variant = one.subject.overlapped ? "in_step_beside" : "in_step";
                      m.clock = clock_of(measured.clock);
                      return m;
                    });
}

}  // namespace plumbline::cli
