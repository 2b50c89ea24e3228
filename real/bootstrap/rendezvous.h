// How the ranks of a job connect: all come to rank 0, which knows how many they are.
#pragma once

#include <functional>
#include <memory>

#include "real/bootstrap/bootstrap.h"

namespace plumbline::real {

// Rank 0's end; `listening` is told the port before anybody is waited for (Bootstrap::port 0 takes a free one).
model::Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap, const ChannelTimes& times,
                                                               const std::function<void(int port)>& listening = {});
// Another rank's.
model::Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap, const ChannelTimes& times);

}  // namespace plumbline::real
