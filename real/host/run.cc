#include "real/host/run.h"

#include <fmt/format.h>

#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "real/host/comm/communicator.h"

namespace plumbline::real::host {

using model::Result;

namespace {

// Returns the result of a rank. What is thrown for want of memory or threads ends the job: other ranks would wait.
template <class Value, class Run>
Result<Value> guarded(Transport& transport, const Run& run) {
  model::Error error{.hint = "give it more memory and threads (ulimit -v, ulimit -u), or take a smaller plan"};
  try {
    return run();
  } catch (const std::bad_alloc&) {
    error.message = "out of memory";
  } catch (const std::system_error& failed) {
    error.message = fmt::format("cannot start a thread: {}", failed.what());
  }
  transport.abort(fmt::format("{} ({})", error.message, error.hint));
  return tl::unexpected(error);
}

// Calls run(rank's transport, whether it is rank 0's) for every rank, each on its own thread; returns rank 0's result.
template <class Value, class Run>
Result<Value> in_process(const RunInput& input, const Run& run) {
  const auto transports = in_process_transports(static_cast<std::int32_t>(input.plan.cluster.gpus));
  std::vector<Result<Value>> results(transports.size());
  {
    std::vector<std::jthread> threads;
    results[0] = guarded<Value>(*transports[0], [&] {
      for (std::size_t rank = 1; rank < transports.size(); ++rank)
        threads.emplace_back([&, rank] { results[rank] = run(*transports[rank], false); });
      return run(*transports[0], true);
    });
  }
  // Prefers an error that names a key: it is the failing rank's own. Other ranks only report that a rank failed.
  for (Result<Value>& result : results)
    if (!result && !result.error().key.empty()) return std::move(result);
  for (Result<Value>& result : results)
    if (!result) return std::move(result);
  return std::move(results[0]);
}

}  // namespace

Result<RunResult> run_rank(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                           Transport& transport, const StepObserver& observer) {
  RunOptions own = options;
  own.prefetch_thread = device.threads;
  return guarded<RunResult>(transport, [&] {
    HostDevice host(device);
    const auto communicator = make_communicator(host, transport);
    return real::run_rank(input, own, host, *communicator, observer);
  });
}

Result<RunResult> run_in_process(const RunInput& input, const RunOptions& options, const DeviceOptions& device,
                                 const StepObserver& observer) {
  return in_process<RunResult>(input, [&](Transport& transport, bool first) {
    return run_rank(input, options, device, transport, first ? observer : StepObserver());
  });
}

Result<Generation> generate_rank(const RunInput& input, const GenerateOptions& options, const DeviceOptions& device,
                                 Transport& transport) {
  return guarded<Generation>(transport, [&] {
    HostDevice host(device);
    const auto communicator = make_communicator(host, transport);
    return real::generate(input, options, host, *communicator);
  });
}

Result<Generation> generate_in_process(const RunInput& input, const GenerateOptions& options,
                                       const DeviceOptions& device) {
  return in_process<Generation>(
      input, [&](Transport& transport, bool) { return generate_rank(input, options, device, transport); });
}

}  // namespace plumbline::real::host
