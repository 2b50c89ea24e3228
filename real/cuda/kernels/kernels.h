// Kernels of operators, as functions that enqueue launches on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "real/cuda/kernels/arithmetic/optimizer.h"
#include "real/cuda/kernels/arithmetic/router.h"
#include "real/cuda/kernels/arithmetic/tokens.h"
#include "real/cuda/tensor_view.h"

namespace plumbline::real::cuda {

// --- Activations of an MLP over [rows, columns] of any format, and their gradients ---

// out = weight * silu(gate) * up, where gate_up is [gate | up], twice as wide as out; `weights` [rows] may have no
// data.
cudaError_t swiglu(const TensorView& gate_up, const TensorView& weights, const TensorView& out, cudaStream_t stream);

// d_weights [rows] may have no data. If d_gate_up has scales, its halves must be whole tiles of 128 columns, else the
// result is cudaErrorInvalidValue.
cudaError_t swiglu_grad(const TensorView& d_hidden, const TensorView& gate_up, const TensorView& weights,
                        const TensorView& d_gate_up, const TensorView& d_weights, cudaStream_t stream);

cudaError_t gelu(const TensorView& x, const TensorView& y, cudaStream_t stream);
cudaError_t gelu_grad(const TensorView& dy, const TensorView& x, const TensorView& dx, cudaStream_t stream);

// --- Casts between formats ---

// Casts x to the format of y, with new scales. For fp8_tensor the largest value is found first.
cudaError_t cast(const TensorView& x, const TensorView& y, cudaStream_t stream);

// Casts to fp8_block, with a scale for each block of 128 x 128 of each matrix.
cudaError_t cast_blocks(const TensorView& x, const TensorView& y, cudaStream_t stream);

// Sets the only scale of y (fp8_tensor) from the largest value of x.
cudaError_t find_scale(const TensorView& x, const TensorView& y, cudaStream_t stream);

// --- Deterministic sums over rows: each block sums its rows in FP32, then one kernel adds those sums in order ---

// to[c] += sum over i < parts of partial[i * stride + c], for each element c of `to`.
cudaError_t add_partial_sums(const float* partial, std::int64_t parts, std::int64_t stride, const TensorView& to,
                             cudaStream_t stream);

// to[c] += the sum of column c of x; `scratch` has column_sum_scratch bytes.
cudaError_t column_sum(const TensorView& x, const TensorView& to, float* scratch, int sms, cudaStream_t stream);
std::int64_t column_sum_scratch(const TensorView& x, int sms);

// --- Cross-entropy over a vocabulary, with one block per token ---

// Writes the log-sum-exp of each token's logits [T] and its loss [T] (0 without a label). If `logarithms` has memory,
// it gets the logarithms of the probabilities [T,V].
cudaError_t token_losses(const TensorView& logits, const Labels& labels, float* log_sum_exp, float* losses,
                         const TensorView& logarithms, cudaStream_t stream);

// Writes the partial sums [T,3] of one rank's part of the vocabulary: exponentials, the label's logit, and 1 if the
// rank has the label of a token with a loss. The caller adds them over ranks.
cudaError_t loss_figures(const TensorView& logits, const Labels& labels, float* figures, cudaStream_t stream);

// loss[0] = weight * the mean of the labeled tokens' losses, added in double precision in a fixed order.
cudaError_t mean_loss(const float* losses, const Labels& labels, std::int64_t tokens, double weight, float* loss,
                      cudaStream_t stream);

// Writes the number of tokens with a loss to count[0].
cudaError_t count_labeled(const Labels& labels, std::int64_t tokens, std::int64_t* count, cudaStream_t stream);

// d_logits = weight / count * (probability - 1 at the label). The log-sum-exp of token t is the logarithm of sums[t *
// stride] if they are sums, else that number; 0 if `sums` is null.
struct LossGradient {
  const float* sums = nullptr;
  std::int64_t stride = 1;
  bool are_logarithms = true;
  double weight = 1;
  const std::int64_t* count = nullptr;  // labeled tokens, on the device
};
cudaError_t loss_gradient(const TensorView& logits, const Labels& labels, const LossGradient& gradient,
                          const TensorView& d_logits, cudaStream_t stream);

// --- Norms over rows, and their gradients ---

struct NormForm {
  float epsilon = 1e-6f;
  bool centered = false;  // a layer norm: the mean is subtracted first
};

// Rows have at most widest_row columns (limits.h), else the result is cudaErrorInvalidValue. gamma, and beta if it has
// data, have an element per column of x.
cudaError_t norm(const TensorView& x, const TensorView& gamma, const TensorView& beta, const TensorView& y,
                 const NormForm& form, cudaStream_t stream);

// Writes dx, adds to dgamma and, if it has data, dbeta; `scratch` has norm_grad_scratch bytes.
cudaError_t norm_grad(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& dx,
                      const TensorView& dgamma, const TensorView& dbeta, const NormForm& form, float* scratch, int sms,
                      cudaStream_t stream);
std::int64_t norm_grad_scratch(const TensorView& x, const NormForm& form, int sms);

// --- The optimizer ---

// Kernels on shards of gradients, moments and weights: vectors in FP32, BF16 or FP16. Views are taken as one
// row, whatever their shape. Vectors that are not 16-byte aligned are slower.

// partial[block] = weight * the sum of squares of a block's elements, for sum_blocks(elements) blocks.
cudaError_t squares(const TensorView& x, double weight, double* partial, cudaStream_t stream);

// total[0] = the sum of `count` numbers.
cudaError_t add_partial(const double* partial, std::int64_t count, float* total, cudaStream_t stream);

// y = x / divisor[0]; found[0] becomes 1 if an element of x is not finite.
cudaError_t divide(const TensorView& x, const float* divisor, const TensorView& y, float* found, cudaStream_t stream);

struct UpdateViews {
  TensorView gradient, master, first, second;
  TensorView weight;  // without data: the master weights are the only ones
};
// `sum_of_squares` is that of the whole gradient, on the device; null: the gradient is not clipped.
cudaError_t update(const UpdateRule& rule, const UpdateViews& views, const float* sum_of_squares, double largest_norm,
                   cudaStream_t stream);

// A GEMM for the shapes and formats that cuBLASLt does not support: odd widths of FP8, operands of different formats.
// It is correct and slow; no model is trained at such shapes.
struct PlainGemm {
  MatrixPart a, b, c;  // C = factor * op(A) op(B); C is fp32, bf16 or fp16
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;  // C +=
  float factor = 1;
  TensorView bias;  // a number per column of C; without data: none
};

// Sums are in FP32, in a fixed order.
cudaError_t plain_gemm(const PlainGemm& gemm, cudaStream_t stream);

// --- Rotation of query and key heads by position (RoPE) ---

struct RotaryForm {
  std::int64_t heads = 1, head_dim = 0, rope_dim = 0;  // the last rope_dim columns of every head
  std::int64_t sequence_length = 0;
  double theta = 10000.0;
  float direction = 1.0f;                 // -1: backwards, for the gradient
  const std::int32_t* lengths = nullptr;  // tokens of each sequence before these; nullptr: none
};

// Formats are any. rope_dim is at most 1024, else the result is cudaErrorInvalidValue. y is not x.
cudaError_t rotary(const TensorView& x, const TensorView& y, const RotaryForm& form, cudaStream_t stream);

// --- The choice of experts on a GPU, with a warp per token ---

// The limits of one warp: 16 experts per lane, one slot per lane.
constexpr int most_routed_experts = 512;
constexpr int most_experts_per_token = 32;

// logits are [T,E] in any format without scales, bias [E] FP32, indices [T,k] int32 and weights [T,k] FP32. If `loads`
// [E] FP32 is given, the number of tokens of each expert is added to it: whole numbers, exact below 2^24.
cudaError_t route(const RouterRule& rule, const TensorView& logits, const float* bias, std::int32_t* indices,
                  float* weights, float* loads, cudaStream_t stream);

// d_weights are [T,k] FP32, d_logits [T,E] in any format without scales.
cudaError_t route_gradient(const RouterRule& rule, const float* d_weights, const TensorView& logits,
                           const std::int32_t* indices, const TensorView& d_logits, cudaStream_t stream);

// --- Sums and gates over [rows, columns] of any format. The caller ensures that shapes agree ---

constexpr int most_addends = 8;
struct Addends {
  TensorView view[most_addends];
  int count = 0;
};
// y may be one of the addends.
cudaError_t add(const Addends& addends, const TensorView& y, cudaStream_t stream);

// sum = y + bias[columns].
cudaError_t add_bias(const TensorView& y, const TensorView& bias, const TensorView& sum, cudaStream_t stream);

// out = sigmoid(gate[rows]) * y.
cudaError_t sigmoid_gate(const TensorView& y, const TensorView& gate, const TensorView& out, cudaStream_t stream);
cudaError_t sigmoid_gate_grad(const TensorView& d_out, const TensorView& y, const TensorView& gate,
                              const TensorView& dy, const TensorView& d_gate, cudaStream_t stream);

}  // namespace plumbline::real::cuda
