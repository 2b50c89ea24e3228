// A transport for ranks that are processes under MPI. One lock guards all MPI calls (MPI_THREAD_SERIALIZED).
#pragma once

#include <cstdint>
#include <memory>

#include "real/host/comm/transport.h"

namespace plumbline::real::host {

enum class MpiWaiting : std::uint8_t {
  polling,  // polls and sleeps in between, since there may be more ranks than cores; allows several threads per rank
  blocking  // waits in MPI; one thread per rank. A simulated MPI needs it, because polling costs simulated time
};

// Returns a transport between all ranks of a running MpiSession. Packets hold less than 2 GiB. When polling, a thread
// progresses sends while the rank computes, and the destructor waits until they are complete. When blocking, a send
// returns at once only if MPI sends it eagerly; cmake/Smpi.cmake has the settings that ensure it for a simulated MPI.
std::unique_ptr<Transport> mpi_transport(MpiWaiting waiting);

}  // namespace plumbline::real::host
