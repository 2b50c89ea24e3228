// Ranks as processes under MPI. Every call of MPI is made under one lock, which MPI_THREAD_SERIALIZED asks for.
#pragma once

#include <cstdint>
#include <memory>

#include "real/host/comm/transport.h"

namespace plumbline::real::host {

enum class MpiWaiting : std::uint8_t {
  polling,  // asks now and then and sleeps between, as there may be more ranks than cores; several threads
  blocking  // waits in MPI, for one thread per rank. A simulated MPI needs it: there, asking costs simulated time
};

// Of all ranks of a running MpiSession. Packets hold less than 2 GiB. Polling, a thread of its own moves what is being
// sent while the rank computes, and the destructor waits until all of it is gone. Blocking, a send returns at once only
// as far as MPI sends eagerly; cmake/Smpi.cmake names the settings with which a simulated MPI always does.
std::unique_ptr<Transport> mpi_transport(MpiWaiting waiting);

}  // namespace plumbline::real::host
