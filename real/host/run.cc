#include "real/host/run.h"

#include <thread>
#include <utility>
#include <vector>

#include "real/host/comm/communicator.h"

namespace plumbline::real::host {

using model::Result;

Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                           Transport& transport, const StepObserver& observer) {
  RunOptions own = options;
  own.prefetch_thread = device.threads;
  HostDevice host(device);
  const auto communicator = make_communicator(host, transport);
  return real::run_rank(input, own, host, *communicator, observer);
}

Result<RunResult> run_in_process(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                                 const StepObserver& observer) {
  const auto transports = in_process_transports(static_cast<std::int32_t>(input.plan.cluster.gpus));
  std::vector<Result<RunResult>> results(transports.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 1; rank < transports.size(); ++rank)
      threads.emplace_back([&, rank] { results[rank] = run_rank(input, options, device, *transports[rank], {}); });
    results[0] = run_rank(input, options, device, *transports[0], observer);
  }
  // Prefers an error that names a key: it is the failing rank's own. Other ranks only report that a rank failed.
  for (Result<RunResult>& result : results)
    if (!result && !result.error().key.empty()) return std::move(result);
  for (Result<RunResult>& result : results)
    if (!result) return std::move(result);
  return std::move(results[0]);
}

}  // namespace plumbline::real::host
