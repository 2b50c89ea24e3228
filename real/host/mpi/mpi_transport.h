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

// Initializes and finalizes MPI in a program. There is one session per process (per rank where MPI is simulated).
class MpiSession {
 public:
  // MPI removes its own arguments. All transports must be destroyed before the session.
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  std::int32_t rank() const;
  std::int32_t ranks() const;
  // Returns whether several threads of the rank may use MPI, one at a time. With a simulated MPI streams run inline.
  bool threads() const { return threads_; }
  // Returns MPI_Wtime(), in seconds; of a simulated MPI, simulated seconds, which include the real computation time.
  static double time();
  // Advances the simulated time of this rank by `seconds` of computation; does nothing under a real MPI.
  static void compute(double seconds);

 private:
  bool threads_ = false;
};

}  // namespace plumbline::real::host
