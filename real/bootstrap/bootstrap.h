// How the processes of a job find each other: what their starter (torchrun, srun, mpirun) put into the environment, and
// a star of TCP connections to rank 0. Needs no GPU.
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
  std::int32_t local_rank = 0;  // among the processes of this node: the GPU that it takes
  std::string starter;          // "torchrun", "mpirun", "srun"; empty: nobody, one rank
  std::string host;             // where rank 0 listens; empty: the starter does not tell
  int port = 0;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// RANK, WORLD_SIZE, LOCAL_RANK; OMPI_COMM_WORLD_*; SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; the first that are set.
// Rank 0 listens at MASTER_ADDR:MASTER_PORT; without them on this machine where all ranks are on it, and on the first
// node of Slurm's list. torchrun itself holds MASTER_PORT: the port after it is taken then; PLUMBLINE_PORT overrides.
// Input error: a number that is none, a rank beyond the others.
model::Result<Bootstrap> read_bootstrap(const Environment& environment = process_environment());

struct ChannelTimes {
  double connect_s = 120;  // until all ranks have come: a cluster starts processes within a minute or so
  double wait_s = 600;     // for one answer; a step, a checkpoint, the making of communicators take less
};

// Every rank calls it. Infeasible: who did not come, or why rank 0 cannot be reached.
model::Result<std::unique_ptr<ControlChannel>> connect(const Bootstrap& bootstrap, const ChannelTimes& times = {});

// The two ends of connect().
// Rank 0's end; `listening` is told the port before anybody is waited for (Bootstrap::port 0 takes a free one).
model::Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap, const ChannelTimes& times,
                                                               const std::function<void(int port)>& listening = {});
// Another rank's.
model::Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap, const ChannelTimes& times);

}  // namespace plumbline::real
