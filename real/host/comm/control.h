// The control channel of ranks that a transport connects.
#pragma once

#include <cstdint>
#include <memory>

#include "real/executor/control_channel.h"
#include "real/host/comm/transport.h"

namespace plumbline::real::host {

// The channel of the transport's tags that it uses.
constexpr std::int32_t control_channel = 2;

// The transport must outlive it, and ends the job itself when a rank is lost.
std::unique_ptr<ControlChannel> make_control_channel(Transport& transport);

}  // namespace plumbline::real::host
