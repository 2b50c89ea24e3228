// The life of MPI in a program, from its first line to its last. One per process (per rank, where MPI is simulated).
#pragma once

#include <cstdint>

namespace plumbline::real::host {

class MpiSession {
 public:
  // MPI takes its own arguments out. All transports must be gone before the session is.
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  std::int32_t rank() const;
  std::int32_t ranks() const;
  // Whether several threads of the rank may use it, one at a time. A simulated MPI knows no threads: streams run
  // inline.
  bool threads() const { return threads_; }
  // MPI_Wtime(): seconds; of a simulated MPI, simulated ones, in which computation counts with the time it took.
  static double time();
  // Lets this rank of a simulated MPI compute for so many seconds of simulated time; nothing under a real one.
  static void compute(double seconds);

 private:
  bool threads_ = false;
};

}  // namespace plumbline::real::host
