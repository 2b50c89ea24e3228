// Connects the processes of a job: reads the environment variables of their starter (torchrun, srun, mpirun) and opens
// a star of TCP connections to rank 0. It needs no GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/base/error.h"
#include "real/executor/control_channel.h"

namespace plumbline::real {

struct Bootstrap {
  std::int32_t rank = 0, ranks = 1;
  std::int32_t local_rank = 0;  // index among the processes of this node, and of the GPU that it uses
  std::string starter;          // "torchrun", "mpirun", "srun"; empty: none, one rank
  std::string host;             // where rank 0 listens; empty: the starter does not set it
  int port = 0;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Reads the first set of variables that exists: RANK, WORLD_SIZE, LOCAL_RANK; OMPI_COMM_WORLD_*; SLURM_PROCID,
// SLURM_NTASKS, SLURM_LOCALID. Rank 0 listens at MASTER_ADDR:MASTER_PORT; without them, on this machine if it has all
// ranks, else on the first node of Slurm's list. torchrun itself uses MASTER_PORT, so the next port is taken there;
// PLUMBLINE_PORT overrides it. Input error: a variable is not a number, or the rank is not below the number of ranks.
model::Result<Bootstrap> read_bootstrap(const Environment& environment = process_environment());

struct ChannelOptions {
  double connect_s = 120;  // seconds until all ranks have connected: a cluster starts processes within about a minute
  double wait_s = 600;     // seconds for one reply: a step, a checkpoint or the setup of communicators takes less
  bool outlives_ranks = false;  // rank 0 goes on without ranks that end: only messages with those fail
};

// Every rank calls it. Infeasible errors name the ranks that did not connect, or why rank 0 cannot be reached.
model::Result<std::unique_ptr<ControlChannel>> connect(const Bootstrap& bootstrap, const ChannelOptions& options = {});

// Rank 0's end of connect(). `listening` is called with the port before it waits (Bootstrap::port 0 takes a free one).
model::Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap,
                                                               const ChannelOptions& options,
                                                               const std::function<void(int port)>& listening = {});
// Any other rank's end of connect().
model::Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap,
                                                                const ChannelOptions& options);

}  // namespace plumbline::real
