// Messages, collectives and the expert all-to-all of the host, on any transport.
#pragma once

#include <cstdint>
#include <memory>

#include "real/executor/communicator.h"
#include "real/executor/control_channel.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::real::host {

// Device and transport must outlive the communicator. Packets hold 16-bit formats in 16 bits. The device's
// synchronize() returns errors of the transport.
std::unique_ptr<Communicator> make_communicator(HostDevice& device, Transport& transport);

// --- The control channel of ranks that are connected by a transport ---

// The channel of its tags in the transport.
constexpr std::int32_t control_channel = 2;

// The transport must outlive the channel; it ends the job itself when a rank is lost.
std::unique_ptr<ControlChannel> make_control_channel(Transport& transport);

}  // namespace plumbline::real::host
