// The interface of a transport, which moves rows between ranks on one leg of an all-to-all.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "real/cuda/comm/nccl/nccl_groups.h"
#include "real/cuda/comm/traffic.h"
#include "real/cuda/kernels/all_to_all/all_to_all.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// One of the tensors whose rows travel together. Rows to send are ordered by receiving peer, received rows by sending
// peer.
struct PayloadTensor {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t row_bytes = 0;  // a multiple of 4
};

class RowTransport {
 public:
  virtual ~RowTransport() = default;

  // Returns an address for each payload tensor where rows to send are best written, valid until the next outbox(). All
  // peers call it at the same point of their all-to-alls.
  virtual Status outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t stream,
                        std::vector<void*>& places) = 0;
  // Moves all rows, on the stream. Rows that are not in the outbox may first be copied there.
  virtual Status swap(const Traffic& traffic, std::span<const PayloadTensor> payload, cudaStream_t stream) = 0;
};

// Returns where each payload tensor begins when they are stored one after the other at multiples of 256 bytes, and the
// total bytes last.
std::vector<std::int64_t> payload_offsets(std::span<const std::int64_t> row_bytes, std::int64_t rows);

// Connects these ranks over NCCL, with at most `ctas` of its CTAs: the network between nodes, and NCCL's own transport
// within one.
std::unique_ptr<RowTransport> make_nccl_transport(NcclGroups& groups, std::vector<std::int32_t> ranks, int ctas);

// Connects these ranks of one node over NVLink; this rank is at `own`.
std::unique_ptr<RowTransport> make_node_transport(NcclGroups& groups, std::vector<std::int32_t> ranks, std::int32_t own,
                                                  const Blocks& blocks);

}  // namespace plumbline::real::cuda
