#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cli/data.h"
#include "cli/inputs.h"
#include "cli/measure/detail/measure.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "model/architecture/config_reader.h"
#include "model/architecture/load_architecture.h"
#include "model/base/text_file.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "real/host/measure/case_file.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/measure.h"
#include "real/host/measure/runner.h"
#include "reports/text/inputs/measurements_text.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using model::Result;
using real::Workload;

constexpr double giga = 1e9, mega = 1e6;

Result<std::vector<Workload>> workloads_of_plan(const std::string& file, const real::host::PlanCases& cases) {
  const std::string path = TRY(resolve(Shipped::plan, cases.plan, file));
  const auto plan = TRY(model::load_plan(path, cases.set));
  const std::string config = TRY(resolve_model(plan.file, plan.model.config));
  const auto architecture = TRY(model::load_architecture_of(plan, config));
  const auto layout = TRY(model::make_layout(plan, architecture));
  const auto program = TRY(model::compile(plan, architecture, layout));
  return real::plan_workloads(program, fs::path(path).stem().string(), cases.cores);
}

Result<std::vector<Workload>> workloads_of_file(const std::string& file) {
  const auto text = TRY(model::read_text_file(file));
  const auto cases = TRY(real::host::parse_cases(text, file));
  std::vector<Workload> workloads;
  for (const real::host::PlanCases& plan : cases.plans) {
    auto own = TRY(workloads_of_plan(file, plan).map_error([&](model::Error error) {
      if (error.file.empty()) error.file = file, error.line = plan.line, error.key = "plan.plan";
      return error;
    }));
    std::move(own.begin(), own.end(), std::back_inserter(workloads));
  }
  std::vector<Workload> others = real::host::workloads_of(cases);
  std::move(others.begin(), others.end(), std::back_inserter(workloads));
  return workloads;
}

// Returns the work of one round; kernels that run several times count each time.
std::string summary(const std::vector<Workload>& workloads, std::size_t cases) {
  double flops = 0, buffers = 0;
  std::size_t kernels = 0;
  for (const Workload& workload : workloads) {
    buffers += real::host::buffer_bytes(workload);
    for (const real::Subject& subject : real::subjects_of(workload)) {
      flops += subject.flops;
      ++kernels;
    }
  }
  return reports::wrapped(
      fmt::format("{} cases; a round runs {} kernels and messages with {:.4g} GFLOP; buffers take {:.1f} GB", cases,
                  kernels, flops / giga, buffers / giga));
}

// The interval between writes of the file while samples are still being taken.
constexpr std::chrono::seconds between_writes{10};

// Updates the progress bar and the file during a measurement, and handles an interruption.
class MeasureFollower {
 public:
  // With an empty `out` nothing is written: another process writes.
  MeasureFollower(std::string out, const real::host::Environment& environment, real::host::ClockKind clock,
                  Interrupt& interrupt)
      : out_(std::move(out)), environment_(environment), clock_(clock), date_(now_in_utc()), interrupt_(interrupt) {}

  bool step(const real::MeasureProgress& progress, const std::vector<real::Series>& series) {
    bar_.update(progress.done, progress.total);
    const std::size_t of_round = progress.total / (progress.rounds + 1);
    if (progress.done > of_round) interrupt_.keep();  // The first round counts for nothing.
    const auto now = std::chrono::steady_clock::now();
    if (!out_.empty() && progress.round_ended && now - last_written_ >= between_writes) {
      last_written_ = now;
      written_ = write_output(out_, measurements_content(out_, records(series)));
    }
    return written_.has_value() && !interrupt_.requested();
  }

  calibrate::Measurements records(const std::vector<real::Series>& series) const {
    return host_records(series, environment_, clock_, date_);
  }
  const Result<void>& written() const { return written_; }

 private:
  std::string out_;
  const real::host::Environment& environment_;
  real::host::ClockKind clock_;
  std::string date_;
  ProgressBar bar_{"measuring"};
  Interrupt& interrupt_;
  std::chrono::steady_clock::time_point last_written_ = std::chrono::steady_clock::now();
  Result<void> written_;
};

Result<calibrate::Measurements> measured(const std::vector<real::Workload>& workloads,
                                         const MeasureArguments& arguments, const World& world,
                                         real::host::ClockKind clock, Interrupt& interrupt) {
  const real::host::Environment environment = real::host::host_environment();
  const real::host::MeasureOptions options{
      world.device({.clock = clock}),
      {static_cast<std::size_t>(arguments.rounds), arguments.budget_s(), arguments.seed},
      world.transport};
  MeasureFollower follower(world.is_root ? arguments.out : "", environment, options.device.clock, interrupt);
  const auto observer = [&](const real::MeasureProgress& progress, const std::vector<real::Series>& series) {
    return follower.step(progress, series);
  };
  const auto series = TRY(real::host::measure(workloads, options, observer));
  if (!follower.written()) return tl::unexpected(follower.written().error());
  return follower.records(series);
}

// Returns the workloads of the file of cases with its plans compiled, of the shipped file of that name, or of the
// built-in sweep.
Result<std::vector<Workload>> host_workloads(const std::string& cases, int cores) {
  if (cases.empty()) return real::host::workloads_of(real::host::built_in_cases(cores));
  return workloads_of_file(TRY(resolve(Shipped::host_cases, cases)));
}

// Returns the table of all cases, and the work of one round.
ListedCases host_cases_table(const std::vector<Workload>& workloads) {
  const std::vector<real::Subject> subjects = real::distinct_subjects(workloads);
  ListedCases cases = cases_table(subjects);
  cases.text += summary(workloads, subjects.size());
  return cases;
}

}  // namespace

ListedCases cases_table(const std::vector<real::Subject>& subjects) {
  reports::CsvTable csv({"op", "phase", "format", "shape", "cores", "copying_cores", "flops", "bytes", "name"});
  reports::Table table("op | phase | format | shape | >cores | during | >GFLOP | >MB | name");
  for (const real::Subject& subject : subjects) {
    calibrate::Subject shape;
    shape.shape = subject.shape;
    table.add({subject.op, subject.phase, subject.format, reports::shape_text(shape), fmt::format("{}", subject.cores),
               subject.communication_sms > 0 ? fmt::format("{} copying", subject.communication_sms) : "",
               subject.flops > 0 ? fmt::format("{:.4g}", subject.flops / giga) : "",
               subject.bytes > 0 ? fmt::format("{:.4g}", subject.bytes / mega) : "", subject.name});
    csv.row(subject.op, subject.phase, subject.format, reports::shape_text(shape), subject.cores,
            subject.communication_sms, subject.flops, subject.bytes, subject.name);
  }
  return {table.to_string(), csv.text()};
}

Result<int> list_cases(const MeasureArguments& arguments, const ListedCases& cases) {
  if (!arguments.csv.empty()) TRY(write_output(arguments.csv, cases.csv));
  return arguments.csv == "-" ? 0 : printed(cases.text);
}

Result<int> measure_on_host(const MeasureArguments& arguments, const World& world) {
  const auto clock = TRY(real::host::parse_clock(arguments.clock, real::host::measuring_clocks));
  const auto workloads = TRY(host_workloads(arguments.cases, real::host::host_environment().cores));
  if (arguments.dry_run) return list_cases(arguments, host_cases_table(workloads));
  const auto devices = TRY(known_devices());
  Interrupt interrupt(Interrupt::Kept::nothing);
  const auto records = TRY(measured(workloads, arguments, world, clock, interrupt));
  if (!world.is_root) return 0;
  TRY(write_output(arguments.out, measurements_content(arguments.out, records)));
  const int code = TRY(printed(reports::measurements_text(records, devices)));
  return interrupt.requested() ? incomplete_exit() : code;
}

}  // namespace plumbline::cli
