// The interface of a transport, which moves rows between ranks on one leg of an all-to-all.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>
#include <vector>

#include "real/cuda/comm/traffic.h"
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

}  // namespace plumbline::real::cuda
