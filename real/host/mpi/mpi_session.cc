#include "real/host/mpi/mpi_session.h"

#include <mpi.h>

namespace plumbline::real::host {

MpiSession::MpiSession(int* argc, char*** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
  threads_ = provided >= MPI_THREAD_SERIALIZED;
}

MpiSession::~MpiSession() { MPI_Finalize(); }

std::int32_t MpiSession::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

std::int32_t MpiSession::ranks() const {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

double MpiSession::time() { return MPI_Wtime(); }

void MpiSession::compute([[maybe_unused]] double seconds) {
#ifdef SMPI_SAMPLE_DELAY
  smpi_execute(seconds);
#endif
}

}  // namespace plumbline::real::host
