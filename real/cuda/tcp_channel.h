// The control channel as a star of TCP connections. A thread of every rank listens, so that the end of one rank reaches
// all others while they wait for a GPU.
#pragma once

#include <functional>
#include <memory>

#include "real/cuda/bootstrap.h"

namespace plumbline::real::cuda {

// Rank 0's end; `listening` is told the port before anybody is waited for (Bootstrap::port 0 takes a free one).
model::Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap, const ChannelTimes& times,
                                                               const std::function<void(int port)>& listening = {});
// Another rank's.
model::Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap, const ChannelTimes& times);

}  // namespace plumbline::real::cuda
