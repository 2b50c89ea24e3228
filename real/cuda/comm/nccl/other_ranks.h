// What a rank does together with others on other GPUs, over NCCL: NVLink within a node, the network between nodes.
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
  int communication_sms = 20;  // of dispatch and combine: each owns an SM
  int collective_ctas = 0;     // that NCCL may take; 0: as many as it likes
  std::string machine;         // ranks of one machine see each other's memory; empty: as the system names it
};

// Groups have more than one rank. A rank that ends, or an error of the network, is a failure of what is called next.
class OtherRanks {
 public:
  virtual ~OtherRanks() = default;

  // By which ways tokens go, for people.
  virtual std::string transports() const = 0;

  // An operator between ranks (model/graph/operators.def). Collectives are of tensors of one format without scales;
  // sums in FP32, BF16 or FP16, as NCCL adds them: the same bits everywhere.
  virtual Status launch(const Group& group, const Kernel& kernel, cudaStream_t stream) = 0;

  virtual Status send_receive(std::span<const Message> messages, bool rendezvous, cudaStream_t stream) = 0;
};

// What of a rank's own device others meet.
struct OwnDevice {
  Scratch& scratch;
  int shared_bytes = 0;              // the most that a block may claim (cudaDevAttrMaxSharedMemoryPerBlockOptin)
  std::vector<std::string> folders;  // where NCCL is looked for
};

// Every rank of the channel calls it; scratch and channel must outlive it. Infeasible: NCCL is missing or does not
// start, or this build does not know it.
model::Result<std::unique_ptr<OtherRanks>> connect_ranks(const OwnDevice& device, ControlChannel& channel,
                                                         const CommunicatorOptions& options);

}  // namespace plumbline::real::cuda
