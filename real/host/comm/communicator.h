// Messages, collectives and expert exchanges of the host, on any transport.
#pragma once

#include <memory>

#include "real/executor/communicator.h"
#include "real/host/comm/transport.h"
#include "real/host/device.h"

namespace plumbline::real::host {

// Both must outlive it. Packets carry 16-bit formats in 16 bits. Errors of a transport surface in the device's
// synchronise().
std::unique_ptr<Communicator> make_communicator(HostDevice& device, Transport& transport);

}  // namespace plumbline::real::host
