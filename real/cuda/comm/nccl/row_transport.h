// What carries rows from rank to rank in one hop of an exchange.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "real/cuda/comm/traffic.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

// One of the tensors whose rows travel together. Rows that go out lie by the peer that they go to, rows that come in by
// the peer that they come from, those of lower ones first.
struct PayloadTensor {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t row_bytes = 0;  // a multiple of 4
};

class RowTransport {
 public:
  virtual ~RowTransport() = default;

  // Where rows that go out are best put, a place for each strip: the carrier's, until its next outbox(). All peers ask
  // for it at the same point of their exchanges.
  virtual Status outbox(const Traffic& traffic, std::span<const std::int64_t> row_bytes, cudaStream_t stream,
                        std::vector<void*>& places) = 0;
  // Moves all rows, on the stream. Strips whose rows are not in the outbox may be brought there first.
  virtual Status swap(const Traffic& traffic, std::span<const PayloadTensor> payload, cudaStream_t stream) = 0;
};

// Strips behind each other, each at a multiple of 256 bytes: where they begin, and at last the bytes of all.
std::vector<std::int64_t> payload_offsets(std::span<const std::int64_t> row_bytes, std::int64_t rows);

}  // namespace plumbline::real::cuda
