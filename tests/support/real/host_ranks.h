// Ranks of the host that are threads of a test.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "model/graph/graph.h"
#include "real/host/comm/communicator.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::tests {

inline model::Tensor vector_tensor(std::int64_t size, model::DataType type = model::DataType::fp32) {
  return {.name = "x", .shape = {{size}}, .type = type};
}

// Calls body(transport) on a thread for every rank, and waits for all.
inline void run_ranks(std::int32_t ranks, const std::function<void(real::host::Transport&)>& body) {
  const std::vector<std::unique_ptr<real::host::Transport>> transports = real::host::in_process_transports(ranks);
  std::vector<std::jthread> threads;
  for (const auto& transport : transports) threads.emplace_back([&body, &transport] { body(*transport); });
}

// Does the same with a device and a communicator for each rank.
inline void run_ranks(std::int32_t ranks, const real::host::DeviceOptions& options,
                      const std::function<void(real::host::HostDevice&, real::Communicator&)>& body) {
  run_ranks(ranks, [&](real::host::Transport& transport) {
    real::host::HostDevice device(options);
    const std::unique_ptr<real::Communicator> communicator = real::host::make_communicator(device, transport);
    body(device, *communicator);
  });
}

}  // namespace plumbline::tests
