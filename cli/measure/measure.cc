#include "cli/measure/detail/measure.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "calibrate/measurement/measurement.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "cli/world.h"
#include "model/base/version.h"
#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "real/cuda/backend.h"
#include "real/cuda/measure/case_machine.h"
#include "real/measure/kernel_case/case_sweep.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "real/measure/rounds.h"
#include "reports/text/inputs/measurements_text.h"
#include "reports/text/table.h"
#include "topologies/topology.h"

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

using real::KernelCase;
using topologies::KnownDevice;

constexpr const char* restarts_variable = "PLUMBLINE_MEASURE_RESTARTS";
constexpr int most_restarts = 5;

void log(const std::string& line) { fmt::print(stderr, "plumbline: {}\n", line); }

// Returns a device by file name, alias, or the chip's name alone, which means its usual board: "h200", "NVIDIA H200".
const model::Device* device_called(const std::vector<KnownDevice>& devices, const std::string& name) {
  const model::Device* found = topologies::find_device(devices, name);
  return found != nullptr ? found : topologies::find_device(devices, name + "-sxm");
}

Result<model::Device> datasheet(const std::vector<KnownDevice>& devices, const std::string& name) {
  if (const model::Device* device = device_called(devices, name)) return *device;
  std::vector<std::string> known;
  for (const KnownDevice& each : devices) known.push_back(each.device.name);
  return model::wrong_input("--device", fmt::format("no datasheet rates of '{}'", name),
                            fmt::format("known: {}", fmt::join(known, ", ")));
}

// Fills in what depends on the device: SM counts of concurrent copies, and in the built-in sweep the ranks of
// collectives.
void fit_to(std::vector<KernelCase>& cases, std::int64_t sms, std::int64_t ranks, bool built_in) {
  constexpr std::int64_t access = 16;  // bytes
  for (KernelCase& value : cases) {
    if (value.target_sms == KernelCase::others) value.target_sms = sms - value.ctas;
    if (!built_in || !is_collective(value)) continue;
    value.ranks = ranks;
    value.bytes = value.bytes / ranks / access * access * ranks;
  }
}

// Returns the cases to measure; with several ranks, the collectives between them.
Result<std::vector<KernelCase>> chosen_cases(const MeasureArguments& arguments, std::int64_t sms, std::int64_t ranks) {
  const bool built_in = arguments.cases.empty();
  const auto file =
      TRY(built_in ? data_folder().map([](const std::string& root) { return root + "/gpu-cases/sweep.cases"; })
                   : resolve(Shipped::gpu_cases, arguments.cases));
  auto cases = TRY(real::read_case_file(file));
  std::erase_if(cases, [&](const KernelCase& value) {
    return (!arguments.only.empty() && value.op != arguments.only) || (ranks > 1 && !is_collective(value));
  });
  if (cases.empty())
    return model::wrong_input(arguments.only.empty() ? "CASES" : "--only", "there is nothing to measure",
                              "plumbline measure --dry-run lists the built-in sweep");
  fit_to(cases, sms, ranks, built_in);
  return cases;
}

double bandwidth_of(const real::Subject& subject, const model::Device& device) {
  return (subject.op == "host_to_device" ? device.host_bandwidth : device.memory_bandwidth).value();
}

// Returns the least seconds of the case by datasheet rates. The result is negative when the device cannot run it (FP8
// without FP8 units), and 0 when nothing bounds it.
double floor_s(const KernelCase& value, const model::Device& device) {
  const real::Subject subject = subjects_of(value).front();
  const double moving = is_collective(value) ? 0 : subject.bytes / bandwidth_of(subject, device);
  if (subject.flops == 0) return moving;
  const auto peak = calibrate::peak_flop_rate(device, subject.format);
  return peak ? std::max(subject.flops / *peak, moving) : -1;
}

std::string bound_of(const real::Subject& subject, double floor, const model::Device& device) {
  if (floor < 0) return "cannot";
  if (floor == 0) return "-";
  if (subject.op == "host_to_device") return "link";
  return floor > subject.bytes / device.memory_bandwidth.value() ? "compute" : "memory";
}

// Returns FLOPs, bytes, floor time and the bounding resource of each case that would end within the budget; totals at
// the end.
ListedCases dry_run_table(const std::vector<KernelCase>& cases, const model::Device& device,
                          const MeasureArguments& arguments) {
  const auto quantity = [](double value) { return value > 0 ? fmt::format("{:.4g}", value) : std::string("-"); };
  reports::Table table(">GFLOP | >MB | >floor us | bound | case");
  reports::CsvTable csv({"flops", "bytes", "floor_s", "bound", "case"});
  const std::optional<double> budget = arguments.budget_s();
  double floors = 0, seconds = 0;
  std::size_t listed = 0;
  for (const KernelCase& value : cases) {
    const real::Subject subject = subjects_of(value).front();
    const double floor = floor_s(value, device);
    const double needed = floor >= 0 ? real::estimated_seconds(value, floor, arguments.samples) : 0;
    if (budget && seconds + needed > *budget) continue;
    const double bytes = is_collective(value) ? 0 : subject.bytes;
    table.add({quantity(subject.flops * 1e-9), quantity(bytes * 1e-6), quantity(floor * 1e6),
               bound_of(subject, floor, device), to_line(value)});
    csv.row(subject.flops, bytes, floor >= 0 ? std::optional(floor) : std::nullopt, bound_of(subject, floor, device),
            to_line(value));
    floors += std::max(floor, 0.0);
    seconds += needed;
    ++listed;
  }
  const std::string passed_over =
      listed < cases.size() ? fmt::format("; {} more would not end within the budget", cases.size() - listed) : "";
  const auto whole = static_cast<long>(std::ceil(seconds));
  return {table.to_string() + reports::wrapped(fmt::format(
                                  "{} cases; the sum of the floors is {:.3g} ms on {} (datasheet rates); measuring "
                                  "takes about {}:{:02} min{}",
                                  listed, floors * 1e3, arguments.device, whole / 60, whole % 60, passed_over)),
          csv.text()};
}

Result<int> dry_run(const MeasureArguments& arguments, const model::Device& device) {
  return list_cases(arguments, dry_run_table(TRY(chosen_cases(arguments, device.sms, 1)), device, arguments));
}

// Records are appended as JSON Lines, so that none is lost with the process; a CSV is made of them at the end.
std::string journal_path(const std::string& out) {
  constexpr std::string_view csv = ".csv";
  return out.ends_with(csv) ? out.substr(0, out.size() - csv.size()) + ".jsonl" : out;
}

Result<void> write_table(const std::string& out, const std::vector<KnownDevice>& devices) {
  if (journal_path(out) == out) return {};
  return write_output(out, calibrate::to_csv(TRY(calibrate::load_measurements(journal_path(out), devices))));
}

int restarts_so_far() {
  const char* text = std::getenv(restarts_variable);
  return text == nullptr ? 0 : std::atoi(text);
}

// Replaces this process by one that continues after the case that lost the device's context: a process cannot recover
// the context. Failed cases are not tried again. Returns only when the replacement fails.
model::Failure restart(const MeasureArguments& arguments, std::optional<double> seconds_left) {
  if (restarts_so_far() >= most_restarts) return model::infeasible("", "the device context was lost too often");
  if (seconds_left && *seconds_left <= 0)
    return model::infeasible("", "the device context was lost, and no time is left");
  log("restarting after the case that lost the device context");
  std::vector<std::string> words = {"plumbline", "measure",        "-o",        arguments.out,
                                    "--device",  arguments.device, "--samples", std::to_string(arguments.samples)};
  if (!arguments.cases.empty()) words.push_back(arguments.cases);
  if (!arguments.only.empty()) words.insert(words.end(), {"--only", arguments.only});
  if (arguments.strict) words.emplace_back("--strict");
  if (seconds_left) words.insert(words.end(), {"--budget", fmt::format("{:f}s", *seconds_left)});
  for (const std::string& folder : arguments.library_folders) words.insert(words.end(), {"--lib-dir", folder});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // The driver's device files must not stay open in the new program.
  constexpr int first_own_file = 3, most_descriptors = 4096;
  for (int file = first_own_file; file < most_descriptors; ++file)
    if (const int flags = ::fcntl(file, F_GETFD); flags >= 0) ::fcntl(file, F_SETFD, flags | FD_CLOEXEC);
  ::setenv(restarts_variable, std::to_string(restarts_so_far() + 1).c_str(), 1);
  ::execv("/proc/self/exe", pointers.data());
  return model::infeasible("", "the device context was lost, and plumbline cannot restart itself");
}

std::string summary_line(const real::SweepSummary& summary) {
  return fmt::format(
      "{} cases measured, {} failed, {} existed already (--retry repeats failed ones), {} did not fit into the "
      "budget",
      summary.measured, summary.failed, summary.skipped, summary.postponed);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Measures the cases on this process's GPU.
Result<int> measured(const MeasureArguments& arguments, const std::vector<KnownDevice>& devices,
                     const model::Device& fallback, real::CaseMachine& machine, const real::ControlChannel& channel) {
  const auto cases = TRY(chosen_cases(arguments, machine.sms(), channel.ranks()));
  const bool writes = channel.rank() == 0;
  real::Budget budget(arguments.budget_s(), steady_seconds);
  const auto journal = TRY(real::Journal::open(writes ? journal_path(arguments.out) : "/dev/null", machine.device()));
  if ((journal)->found() > 0) log(fmt::format("{} records of this device exist already", (journal)->found()));
  if (!(journal)->append(environment_line(machine, now_in_utc())))
    return model::wrong_input("-o", fmt::format("{} cannot be written", arguments.out), "is the disk full?");
  const model::Device* own = device_called(devices, machine.device());
  const model::Device& rates = own != nullptr ? *own : fallback;
  const Interrupt interrupt;
  real::SweepOptions options{arguments.samples, arguments.retry, channel.ranks() > 1, writes};
  options.floor_s = [&](const KernelCase& value) { return floor_s(value, rates); };
  options.interrupted = [&] { return channel.ranks() == 1 && interrupt.requested(); };
  const real::CaseRecords records = {
      [&](const KernelCase& what, const real::Series& series, const real::Findings& findings) {
        return measurement_line(machine, what, series, findings, now_in_utc());
      },
      [&](const KernelCase& what, const std::string& reason) {
        return failure_line(machine, what, reason, now_in_utc());
      }};
  const auto summary = real::measure_cases(cases, machine, *journal, budget, records, options, log);
  if (writes) log(summary_line(summary));
  if (summary.end == real::SweepEnd::cannot_write)
    return model::wrong_input("-o", fmt::format("{} cannot be written", arguments.out),
                              "free disk space; earlier records are complete");
  if (summary.end == real::SweepEnd::device_lost) return restart(arguments, budget.left());
  if (writes) TRY(write_table(arguments.out, devices));
  if (summary.end == real::SweepEnd::interrupted) return interrupted_exit();
  return arguments.strict && summary.failed > 0 ? 1 : 0;
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

Result<int> measure_cases(const MeasureArguments& arguments, const World& world) {
  const auto devices = TRY(known_devices());
  const auto rates = TRY(datasheet(devices, arguments.device));
  if (arguments.dry_run) return dry_run(arguments, rates);
  // An unreadable file is reported before a GPU is looked for.
  const auto cases = TRY(chosen_cases(arguments, rates.sms, 1));
  std::string compared = fmt::format("verb = measure\nsamples = {}\n", arguments.samples);
  for (const KernelCase& value : cases) compared += to_line(value) + "\n";
  const auto job = TRY(job_of(world));
  const auto channel = TRY(channel_of(job, world, {.inputs = compared}));
  const int gpu = real::cuda::usual_gpu(job.local_rank);
  const auto code = look_for_gpus(*channel, gpu);
  if (!code || *code != 0) return code;
  const auto machine = TRY(real::cuda::open_case_machine({gpu, arguments.library_folders}, *channel));
  return measured(arguments, devices, rates, *machine, *channel);
}

}  // namespace plumbline::cli
