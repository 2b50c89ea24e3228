#include "cli/measure_host.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/measurement/measurement_file.h"
#include "cli/host_cases.h"
#include "cli/host_records.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/measure.h"
#include "reports/text/measurements_text.h"

namespace plumbline::cli {
namespace {

using model::Result;
using real::MeasureProgress;
using real::Series;

// How often the file is written while samples are still being taken.
constexpr std::chrono::seconds between_writes{10};

std::string now_in_utc() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

std::string content(const std::string& out, const calibrate::Measurements& records) {
  return out.ends_with(".csv") ? calibrate::to_csv(records) : calibrate::to_jsonl(records);
}

// Follows the measurement: progress, the file, an interruption.
class Follower {
 public:
  // out "": another process writes.
  Follower(std::string out, const real::host::Environment& environment, real::host::ClockKind clock)
      : out_(std::move(out)), environment_(environment), clock_(clock), date_(now_in_utc()) {}

  bool step(const MeasureProgress& progress, const std::vector<Series>& series) {
    bar_.update(progress.done, progress.total);
    const auto now = std::chrono::steady_clock::now();
    if (!out_.empty() && progress.round_ended && now - last_written_ >= between_writes) {
      last_written_ = now;
      written_ = write_output(out_, content(out_, records(series)));
    }
    return written_.has_value() && !interrupt_.requested();
  }

  calibrate::Measurements records(const std::vector<Series>& series) const {
    return host_records(series, environment_, clock_, date_);
  }
  const Result<void>& written() const { return written_; }

 private:
  std::string out_;
  const real::host::Environment& environment_;
  real::host::ClockKind clock_;
  std::string date_;
  ProgressBar bar_{"measuring"};
  Interrupt interrupt_;
  std::chrono::steady_clock::time_point last_written_ = std::chrono::steady_clock::now();
  Result<void> written_;
};

Result<calibrate::Measurements> measured(const std::vector<real::Workload>& workloads,
                                         const HostMeasureArguments& arguments, const World& world,
                                         real::host::ClockKind clock) {
  const real::host::Environment environment = real::host::host_environment();
  const real::host::MeasureOptions options{
      world.device({.clock = clock}),
      {static_cast<std::size_t>(arguments.rounds), arguments.budget_s, arguments.seed},
      world.transport};
  Follower follower(world.speaks ? arguments.out : "", environment, options.device.clock);
  const auto observer = [&](const MeasureProgress& progress, const std::vector<Series>& series) {
    return follower.step(progress, series);
  };
  const auto series = real::host::measure(workloads, options, observer);
  if (!series) return tl::unexpected(series.error());
  if (!follower.written()) return tl::unexpected(follower.written().error());
  return follower.records(*series);
}

}  // namespace

Result<void> measure_on_host(const HostMeasureArguments& arguments, const World& world) {
  const auto clock = real::host::parse_clock(arguments.clock, real::host::measuring_clocks);
  if (!clock) return tl::unexpected(clock.error());
  const auto workloads = host_workloads(arguments.cases, real::host::host_environment().cores);
  if (!workloads) return tl::unexpected(workloads.error());
  if (arguments.dry_run) return write_output("-", host_cases_table(*workloads));
  const auto devices = known_devices();
  if (!devices) return tl::unexpected(devices.error());
  const auto records = measured(*workloads, arguments, world, *clock);
  if (!records) return tl::unexpected(records.error());
  if (!world.speaks) return {};
  if (const auto written = write_output(arguments.out, content(arguments.out, *records)); !written) return written;
  return write_output("-", reports::measurements_text(*records, *devices));
}

}  // namespace plumbline::cli
