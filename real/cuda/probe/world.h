// The ranks of a run of several processes, one GPU each, and how they find each other: a file that all of them see,
// because the probe is built from the toolkit alone, without what the connections of a job (real/bootstrap) need.
#pragma once

#include <string>

namespace plumbline::real::cuda {

struct World {
  int rank = 0, size = 1, local_rank = 0;
  std::string rendezvous;  // a path that does not exist yet; needed by several ranks
};

// From RANK, WORLD_SIZE and LOCAL_RANK (torchrun and its like); where they are not set, one rank. `error` says what
// does not fit together.
World world_from_environment(std::string& error);

// Gives every rank the bytes of rank 0, which writes them to the file; the others wait for it for so many seconds.
// A file that rank 0 finds there is another run's, and an error. Empty on success.
std::string share_bytes(const World& world, double timeout_seconds, std::string& bytes);

}  // namespace plumbline::real::cuda
