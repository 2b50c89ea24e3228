#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "calibrate/measurement/measurement.h"
#include "calibrate/measurement/measurement_file.h"
#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/measure/measure.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/world.h"
#include "real/cuda/backend.h"
#include "real/cuda/measure/case_machine.h"
#include "real/measure/kernel_case/case_sweep.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "reports/csv/csv_table.h"
#include "reports/text/table.h"
#include "topologies/device.h"

namespace plumbline::cli {
namespace {

using model::Result;
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
