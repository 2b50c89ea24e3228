// Operators and messages between ranks on different GPUs, over NCCL: NVLink within a node, the network between nodes.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/device/scratch.h"
#include "real/cuda/status.h"
#include "real/executor/communicator.h"
#include "real/executor/control_channel.h"

namespace plumbline::real::cuda {

struct CommunicatorOptions {
  int communication_sms = 20;  // of dispatch and combine: one CTA on each
  int collective_ctas = 0;     // limit of NCCL's CTAs; 0: NCCL chooses
  std::string machine;         // ranks of one machine map each other's memory; empty: the system's name
};

// Groups have more than one rank. If a rank ends or the network fails, the next call returns the failure.
class OtherRanks {
 public:
  virtual ~OtherRanks() = default;

  // Describes the transports of tokens, for display.
  virtual std::string transports() const = 0;

  // Launches an operator between ranks (model/graph/operators.def). Tensors of collectives have one format without
  // scales. NCCL adds in FP32, BF16 or FP16; the sum has the same bits on all ranks.
  virtual Status launch(const Group& group, const Kernel& kernel, cudaStream_t stream) = 0;

  virtual Status send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream) = 0;
};

// What the transports use of a rank's own device.
struct OwnDevice {
  Scratch& scratch;
  int shared_bytes = 0;              // limit of shared memory per block (cudaDevAttrMaxSharedMemoryPerBlockOptin)
  std::vector<std::string> folders;  // searched for NCCL
};

// Connects the ranks; every rank of the channel calls it. Scratch and channel must outlive the result. Infeasible if
// NCCL is missing from the system or the build, or does not start.
model::Result<std::unique_ptr<OtherRanks>> connect_ranks(const OwnDevice& device, ControlChannel& channel,
                                                         const CommunicatorOptions& options);

}  // namespace plumbline::real::cuda
