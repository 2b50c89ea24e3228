// Kernels on token ids: gradients of tables that tokens index, and positions in a sequence.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// order[i] = the token at place i by id and then by token: a stable sort. Its work grows with the square of the tokens:
// 0.2 ms at 32768 (estimated), less than the passes of a radix sort.
cudaError_t order_by_id(const std::int32_t* ids, std::int64_t tokens, std::int32_t* order, cudaStream_t stream);

// table[ids[t] - first] += dx[t], one after the other in the order of tokens; ids outside of the table are skipped.
cudaError_t add_rows_by_id(const TensorView& dx, const std::int32_t* ids, const std::int32_t* order, std::int64_t first,
                           const TensorView& table, cudaStream_t stream);

// y[t] = x[t] + table[t % length], or that many rows on as earlier[t / length] counts where it is not nullptr.
cudaError_t add_positions(const TensorView& x, const TensorView& table, std::int64_t length,
                          const std::int32_t* earlier, const TensorView& y, cudaStream_t stream);

// table[p] += the sum of all dx[t] with t % length = p.
cudaError_t add_rows_by_position(const TensorView& dx, std::int64_t length, const TensorView& table,
                                 cudaStream_t stream);

// to[t] = ids[t + distance], within sequences of that length; the last tokens take the last id.
cudaError_t shift_ids(const std::int32_t* ids, std::int64_t tokens, std::int64_t distance, std::int64_t length,
                      std::int32_t* to, cudaStream_t stream);

}  // namespace plumbline::real::cuda
