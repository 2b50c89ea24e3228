// Messages, collectives and the expert all-to-all of the host, on any transport.
#pragma once

#include <memory>

#include "real/executor/communicator.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::real::host {

// Device and transport must outlive the communicator. Packets hold 16-bit formats in 16 bits. The device's
// synchronize() returns errors of the transport.
std::unique_ptr<Communicator> make_communicator(HostDevice& device, Transport& transport);

}  // namespace plumbline::real::host
