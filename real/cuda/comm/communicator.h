// The communicators of a GPU: real ranks over NCCL and NVLink, or one rank whose peers are stood in for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/base/error.h"
#include "real/cuda/comm/nccl/other_ranks.h"
#include "real/cuda/device/device.h"
#include "real/executor/communicator.h"
#include "real/executor/control_channel.h"

namespace plumbline::real::cuda {

// Ranks that the channel connects, one device each. Device and channel must outlive it. Infeasible: NCCL is missing or
// does not start.
model::Result<std::unique_ptr<Communicator>> make_communicator(CudaDevice& device, ControlChannel& channel,
                                                               const CommunicatorOptions& options);

struct EmulationOptions {
  std::int32_t ranks = 1, rank = 0;  // that it says it is
  std::int32_t ranks_per_node = 8;
  double nic_gbps = 50;  // GB/s to ranks of other nodes: to host memory, at this rate
  int communication_sms = 20;
  int collective_ctas = 0;
};

// A rank alone: what it sends goes where nobody reads it, what it receives is made up.
std::unique_ptr<Communicator> make_emulated_communicator(CudaDevice& device, const EmulationOptions& options);

}  // namespace plumbline::real::cuda
