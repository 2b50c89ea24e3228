// The communicators of a GPU: real ranks over NCCL and NVLink, or one rank with emulated peers.
#pragma once

#include <cstdint>
#include <memory>

#include "model/base/error.h"
#include "real/cuda/comm/nccl/other_ranks.h"
#include "real/cuda/device/device.h"
#include "real/executor/communicator.h"
#include "real/executor/control_channel.h"

namespace plumbline::real::cuda {

// Connects the ranks of the channel, one device each. Device and channel must outlive the communicator. Infeasible if
// NCCL is missing or does not start.
model::Result<std::unique_ptr<Communicator>> make_communicator(CudaDevice& device, ControlChannel& channel,
                                                               const CommunicatorOptions& options);

struct EmulationOptions {
  std::int32_t ranks = 1, rank = 0;  // of the emulated job, and this rank in it
  std::int32_t ranks_per_node = 8;
  double nic_gbps = 50;  // GB/s to ranks of other nodes: the rate of copies to host memory
  int communication_sms = 20;
  int collective_ctas = 0;
};

// A single rank: what it sends goes to memory that is never read, and what it receives is generated.
std::unique_ptr<Communicator> make_emulated_communicator(CudaDevice& device, const EmulationOptions& options);

}  // namespace plumbline::real::cuda
