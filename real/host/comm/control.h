// The control channel of ranks that are connected by a transport.
#pragma once

#include <cstdint>
#include <memory>

#include "real/executor/control_channel.h"
#include "real/host/comm/transport.h"

namespace plumbline::real::host {

// The channel of its tags in the transport.
constexpr std::int32_t control_channel = 2;

// The transport must outlive the channel; it ends the job itself when a rank is lost.
std::unique_ptr<ControlChannel> make_control_channel(Transport& transport);

}  // namespace plumbline::real::host
