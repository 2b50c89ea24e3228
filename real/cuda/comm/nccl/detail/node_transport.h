// Moves rows within a node over NVLink: plumbline's own kernels read each rank's rows from the mapped outboxes of the
// others.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/cuda/comm/nccl/peer_memory.h"
#include "real/cuda/comm/nccl/row_transport.h"
#include "real/cuda/kernels/all_to_all/all_to_all_peers.h"
#include "real/cuda/memory.h"

namespace plumbline::real::cuda {

class NodeTransport final : public RowTransport {
 public:
  // Connects these ranks of one node; this rank is at `own`.
  NodeTransport(NcclGroups& groups, std::vector<std::int32_t> ranks, std::int32_t own, const Blocks& blocks)
      : groups_(groups), ranks_(std::move(ranks)), own_(own), blocks_(blocks), theirs_(ranks_.size()) {}

  Status outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t stream,
                std::vector<void*>& places) override;
  Status swap(const Traffic& traffic, std::span<const PayloadTensor> payload, cudaStream_t stream) override;

 private:
  // Each rank's memory has the same size: the barrier's turns, then the outbox.
  Status fit(std::int64_t bytes, cudaStream_t stream);
  Status renew(std::int64_t bytes);
  char* outbox_of(std::int32_t peer) const;
  Status fill(const Traffic& traffic, std::span<const PayloadTensor> payload,
              const std::vector<std::int64_t>& row_bytes, cudaStream_t stream);
  Status collect(const Traffic& traffic, std::span<const PayloadTensor> payload,
                 const std::vector<std::int64_t>& row_bytes, cudaStream_t stream);
  Status wait_for_peers(cudaStream_t stream);

  NcclGroups& groups_;
  std::vector<std::int32_t> ranks_;
  std::int32_t own_;
  Blocks blocks_;
  DeviceMemory memory_;
  std::vector<std::unique_ptr<PeerMemory>> theirs_;  // [peer]; nullptr: this rank's own
  std::int64_t capacity_ = 0;                        // bytes of the outbox
  std::uint32_t turn_ = 0;
};

}  // namespace plumbline::real::cuda
