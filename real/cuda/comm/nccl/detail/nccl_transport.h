// Moves rows over NCCL: the network between nodes, and NCCL's own transport within one.
#pragma once

#include <cstdint>
#include <vector>

#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/cuda/comm/nccl/row_transport.h"
#include "real/cuda/memory.h"

namespace plumbline::real::cuda {

class NcclTransport final : public RowTransport {
 public:
  // Connects these ranks, with at most `ctas` CTAs of NCCL.
  NcclTransport(NcclGroups& groups, std::vector<std::int32_t> ranks, int ctas)
      : groups_(groups), ranks_(std::move(ranks)), ctas_(ctas) {}

  Status outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t stream,
                std::vector<void*>& places) override;
  Status swap(const Traffic& traffic, std::span<const PayloadTensor> payload, cudaStream_t stream) override;

 private:
  NcclGroups& groups_;
  std::vector<std::int32_t> ranks_;
  int ctas_;
  DeviceMemory outbox_;
};

}  // namespace plumbline::real::cuda
