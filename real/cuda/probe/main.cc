// plumbline-probe: measures the kernels of training on one GPU, within a time budget.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "real/cuda/device_state.h"
#include "real/cuda/probe/dry_run.h"
#include "real/cuda/probe/environment.h"
#include "real/cuda/probe/options.h"
#include "real/cuda/probe/restart.h"
#include "real/cuda/probe/runner.h"

namespace plumbline::real::cuda {
namespace {

constexpr int fine = 0, wrong_input = 1, no_device = 77;

void say(const std::string& line) { std::fprintf(stderr, "plumbline-probe: %s\n", line.c_str()); }

int fail(const std::string& reason) {
  say(reason);
  return wrong_input;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The rates asked for, else those of the device, else those of an H200.
const DevicePeak& chosen_peak(const ProbeOptions& options, const std::string& device) {
  if (const DevicePeak* peak = find_peak(options.device_peak.empty() ? device : options.device_peak)) return *peak;
  return *find_peak("h200");
}

int dry_run(const ProbeOptions& options) {
  const DeviceReport device = look_for_device(options.device.value_or(0));
  const ParsedCases cases = chosen_cases(options, 132);
  if (!cases.error.empty()) return fail(cases.error);
  std::printf("%s", dry_run_table(cases.values, chosen_peak(options, device.name), options.samples).c_str());
  return fine;
}

std::string summary_line(const RunSummary& summary) {
  return std::to_string(summary.measured) + " cases measured, " + std::to_string(summary.failed) + " failed, " +
         std::to_string(summary.skipped) + " were there already (--retry repeats failed ones), " +
         std::to_string(summary.postponed) + " did not fit into the budget";
}

int finish(const ProbeOptions& options, const std::vector<std::string>& arguments, const RunSummary& summary,
           const Budget& budget) {
  say(summary_line(summary));
  switch (summary.end) {
    case RunEnd::cannot_write:
      return fail(options.out + " cannot be written; what was written before is whole");
    case RunEnd::device_lost:
      if (restarts_so_far() >= most_restarts) return fail("the device context was lost too often; giving up");
      say("starting over behind the case that lost the device context");
      return fail("cannot start over: " + restart(arguments, budget.left()));
    default:
      return options.strict && summary.failed > 0 ? wrong_input : fine;
  }
}

int measure_device(const ProbeOptions& options, const std::vector<std::string>& arguments) {
  std::string error;
  World world = world_from_environment(error);
  if (!error.empty()) return fail(error);
  world.rendezvous = options.rendezvous;
  const int ordinal = options.device.value_or(world.local_rank);
  const DeviceReport device = look_for_device(ordinal);
  if (device.state != DeviceState::ok) {
    say(device.message);
    return no_device;
  }
  Budget budget(options.budget_seconds, now);
  Toolbox tools;
  if (const Status opened = tools.open(ordinal, library_folders(options.given_folders)); !opened.ok()) {
    return fail(device.name + ": " + opened.failure);
  }
  RunPlan plan;
  const int sms = tools.properties.multiProcessorCount;
  ParsedCases cases = chosen_cases(options, sms, world.size);
  if (!cases.error.empty()) return fail(cases.error);
  plan.cases = std::move(cases.values);
  plan.peak = chosen_peak(options, device.name);
  plan.measure.samples = options.samples;
  plan.retry = options.retry;
  plan.context = {device.name, sms, utc_date()};
  plan.world = world;
  // Only rank 0 writes.
  const auto journal = Journal::open(world.rank == 0 ? options.out : "/dev/null", device.name, error);
  if (!journal) return fail(error);
  if (journal->found() > 0) say(std::to_string(journal->found()) + " records of this device are there already");
  JsonLine environment;
  if (const Status described = describe_environment(tools, environment); !described.ok())
    return fail(described.failure);
  if (!journal->append(environment_line(environment, plan.context))) return fail(options.out + " cannot be written");
  const RunSummary summary = run_cases(plan, tools, *journal, budget, say);
  return finish(options, arguments, summary, budget);
}

}  // namespace

int run(const std::vector<std::string>& arguments) {
  const ParsedOptions parsed = parse_options(arguments);
  if (!parsed.error.empty()) return fail(parsed.error + " (--help lists the options)");
  const ProbeOptions& options = parsed.value;
  if (options.help) {
    std::printf("%s", usage().c_str());
    return fine;
  }
  if (options.list_libraries) {
    std::printf("%s", list_libraries(library_folders(options.given_folders)).c_str());
    return fine;
  }
  return options.dry_run ? dry_run(options) : measure_device(options, arguments);
}

}  // namespace plumbline::real::cuda

int main(int argc, char** argv) { return plumbline::real::cuda::run({argv + 1, argv + argc}); }
