// Dispatch and combine between GPUs, by plumbline's own kernels, which sort tokens by destination. Over several nodes a
// token takes two legs. The first goes over NCCL, once to each node that it needs, to the rank at the sender's place
// there. That rank forwards it within the node through mapped memory. On the way back rows are summed at each leg.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "real/cuda/comm/dispatch_layout.h"
#include "real/cuda/comm/nccl/detail/node_peers.h"
#include "real/cuda/comm/nccl/detail/row_transport.h"
#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/cuda/device/scratch.h"
#include "real/executor/communicator.h"

namespace plumbline::real::cuda {

class RankAllToAll {
 public:
  // Each kernel has these `blocks`; NCCL uses no more CTAs for an all-to-all.
  RankAllToAll(Scratch& scratch, NcclGroups& groups, NodePeers node_peers, const Blocks& blocks)
      : scratch_(scratch), groups_(groups), node_peers_(std::move(node_peers)), blocks_(blocks) {}

  // Runs dispatch, combine or one of their gradients, which model/graph/operators.def defines. Received rows are
  // ordered by the sender's place within its node, then by its node, then by token. The sums of a leg are rounded to
  // the format of its rows.
  Status run(const Group& group, const Kernel& kernel, cudaStream_t stream);

 private:
  Status dispatch(const Group& group, const Kernel& kernel, cudaStream_t stream);
  Status dispatch_grad(const Group& group, const Kernel& kernel, cudaStream_t stream);
  Status combine(const Group& group, const Kernel& kernel, cudaStream_t stream);
  Status combine_grad(const Group& group, const Kernel& kernel, cudaStream_t stream);

  // The transports of a group's rows.
  struct Transports {
    std::int32_t node_members = 1;                  // members that can map each other's memory
    std::unique_ptr<RowTransport> between, inside;  // between nodes, inside one; nullptr without other nodes or members

    RowTransport& of(const TransferLeg& leg) const { return leg.inside_node ? *inside : *between; }
  };
  // Tensors whose rows travel together: the address of each, and the bytes of its rows.
  struct SendRows {
    std::vector<const void*> at;
    std::vector<std::int64_t> row_bytes;
  };
  using Passing = std::function<Status(std::span<void* const> at)>;

  Transports& transports_of(const Group& group, const ExpertHomes& homes);
  Status send(RowTransport& transport, const TransferLeg& leg, const SendRows& send_rows, std::span<void* const> to,
              cudaStream_t stream);
  // Runs all legs; `passing` gets the rows that are forwarded.
  Status travel(const Transports& transports, const DispatchLayout& layout, SendRows send_rows,
                std::span<void* const> receive_buffers, const Passing& passing, cudaStream_t stream);
  Status sum_back(const Group& group, const Kernel& kernel, const DispatchLayout& layout, const float* small,
                  cudaStream_t stream);

  Scratch& scratch_;
  NcclGroups& groups_;
  NodePeers node_peers_;
  Blocks blocks_;
  DispatchLayoutBuilder layouts_;
  std::map<std::vector<std::int32_t>, Transports> transports_;  // by the group's ranks
};

}  // namespace plumbline::real::cuda
