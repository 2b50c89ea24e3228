#include "real/host/measure/measure.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "real/executor/infeasible.h"
#include "real/host/measure/environment.h"
#include "real/host/measure/runner.h"

namespace plumbline::real::host {
namespace {

model::Result<void> check_memory(const std::vector<Workload>& workloads) {
  double needed = 0;
  for (const Workload& workload : workloads) needed += buffer_bytes(workload);
  const double available = available_memory_bytes();
  constexpr double giga = 1e9;
  if (available <= 0 || needed <= available) return {};
  return infeasible(
      fmt::format("the buffers take {:.1f} GB of memory, {:.1f} GB are free", needed / giga, available / giga),
      "measure fewer or smaller cases, or a smaller plan");
}

model::Result<std::vector<Series>> measured(const std::vector<Workload>& workloads, const MeasureOptions& options,
                                            const MeasureObserver& observer) {
  TRY(check_memory(workloads));
  Machines machines(options.device, options.transport);
  std::vector<RunnableWorkload> runnable;
  for (const Workload& workload : workloads) {
    auto runner = TRY(make_runner(workload, machines));
    runnable.push_back({std::move(runner), subjects_of(workload)});
  }
  return measure_in_rounds(runnable, options.rounds, observer);
}

}  // namespace

model::Result<std::vector<Series>> measure(const std::vector<Workload>& workloads, const MeasureOptions& options,
                                           const MeasureObserver& observer) {
  try {
    return measured(workloads, options, observer);
  } catch (const std::exception& failure) {
    return infeasible(fmt::format("the measurement failed: {}", failure.what()));
  }
}

}  // namespace plumbline::real::host
