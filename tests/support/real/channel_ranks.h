// Ranks that are threads of a test, connected by a control channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "real/bootstrap/bootstrap.h"

namespace plumbline::tests {

// Returns the place of a rank in a job on this machine; rank 0 takes a free port for port 0.
inline real::Bootstrap local_rank(std::int32_t rank, std::int32_t ranks, int port = 0) {
  return {.rank = rank, .ranks = ranks, .host = "127.0.0.1", .port = port, .job = "a test", .token = "of the tests"};
}

// Calls body(channel) on a thread for every rank that joins, and returns their results.
inline std::vector<std::string> on_ranks(std::int32_t ranks, const std::vector<std::int32_t>& come,
                                         const real::ChannelOptions& options,
                                         const std::function<std::string(real::ControlChannel&)>& body) {
  std::optional<std::promise<int>> promised(std::in_place);
  std::shared_future<int> port = promised->get_future().share();
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (const std::int32_t rank : come)
    threads.emplace_back([&, rank] {
      const auto channel =
          rank == 0 ? listen_as_first(local_rank(0, ranks), options, [&](int free) { promised->set_value(free); })
                    : connect_to_first(local_rank(rank, ranks, port.get()), options);
      if (rank == 0) promised.reset();  // where rank 0 has failed, the others must not wait for its port
      said[static_cast<std::size_t>(rank)] = channel ? body(**channel) : to_string(channel.error());
    });
  threads.clear();
  return said;
}

}  // namespace plumbline::tests
