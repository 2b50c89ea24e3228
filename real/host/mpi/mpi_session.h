// Initializes and finalizes MPI in a program. There is one session per process (per rank where MPI is simulated).
#pragma once

#include <cstdint>

namespace plumbline::real::host {

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
