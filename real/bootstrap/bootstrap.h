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

// On how many machines the ranks of a job are, as far as their starter states it.
enum class Machines : std::uint8_t { unknown, one, several };

struct Bootstrap {
  std::int32_t rank = 0, ranks = 1;
  std::int32_t local_rank = 0;  // index among the processes of this node, and of the GPU that it uses
  std::string starter;          // "torchrun", "mpirun", "srun"; empty: none, one rank
  std::string host;             // where the others find rank 0; empty: the starter does not set it
  int port = 0;
  std::string listen = host;  // the address at which rank 0 listens, and no other
  Machines machines = Machines::unknown;
  std::string job = {};    // the starter's name of the job; empty: it gives none
  std::string token = {};  // the secret of the job; empty: connect() looks for it
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Reads the first set of variables that exists: RANK, WORLD_SIZE, LOCAL_RANK; OMPI_COMM_WORLD_*; SLURM_PROCID,
// SLURM_NTASKS, SLURM_LOCALID. Rank 0 listens at the loopback address if its machine has all ranks; else at
// MASTER_ADDR, without which it is the first node of Slurm's list; PLUMBLINE_LISTEN overrides where. The port is
// PLUMBLINE_PORT, else MASTER_PORT, but the next one under torchrun, which uses that itself. Input error: a variable is
// not a number, or the rank is not below the number of ranks.
model::Result<Bootstrap> read_bootstrap(const Environment& environment = process_environment());

struct ChannelOptions {
  double connect_s = 120;   // seconds until all ranks have connected: a cluster starts processes within about a minute
  double handshake_s = 10;  // seconds in which a connection must show that it belongs to the job: it takes milliseconds
  double wait_s = 600;      // seconds for one reply: a step, a checkpoint or the setup of communicators takes less
  bool outlives_ranks = false;  // rank 0 goes on without ranks that end: only messages with those fail
  // Rank 0 refuses ranks that have another program (version and revision), or other inputs: lines such as those of the
  // plan, of which it names the first that differs.
  std::string program = {}, inputs = {};
  std::function<void(const std::string& line)> log = {};  // gets whom rank 0 refuses, while the job goes on
};

// Every rank calls it. Ranks prove to each other that they have the token of the job. Infeasible errors name the ranks
// that did not connect, or why rank 0 cannot be reached or refuses this one; input errors are those of the token.
model::Result<std::unique_ptr<ControlChannel>> connect(const Bootstrap& bootstrap, const ChannelOptions& options = {});

// Rank 0's end of connect(), with the token in `bootstrap`. `listening` is called with the port before it waits
// (Bootstrap::port 0 takes a free one).
model::Result<std::unique_ptr<ControlChannel>> listen_as_first(const Bootstrap& bootstrap,
                                                               const ChannelOptions& options,
                                                               const std::function<void(int port)>& listening = {});
// Any other rank's end of connect().
model::Result<std::unique_ptr<ControlChannel>> connect_to_first(const Bootstrap& bootstrap,
                                                                const ChannelOptions& options);

}  // namespace plumbline::real
