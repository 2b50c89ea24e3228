// The operator kinds (model/graph/operators.def lists them and what each computes) and their attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/architecture/architecture.h"

namespace plumbline::model {

enum class OperatorKind : std::uint8_t {
#define OPERATOR(kind, ...) kind,
#include "model/graph/operators.def"
};
std::string_view to_string(OperatorKind kind);

// The kernels of attention that a plan can name. `fused` is the one that a profile was measured with; the next four
// have constants of their own in profiles; `unfused` stores its scores (model/layers/core_attention.h).
enum class AttentionKernel : std::uint8_t { fused, cudnn, flash2, flash3, triton, unfused };
std::string_view to_string(AttentionKernel kernel);
// Returns their names, in order.
std::vector<std::string> attention_kernels();
// Returns the kernel of that name, which is one of these.
AttentionKernel attention_kernel(std::string_view name);

// Groups of operators that a plan can recompute, in the plan's words: rmsnorm is any norm, swiglu any activation.
// `other` is recomputed under policy "full" only. `always` is recomputed under each policy, as software does it:
// tensors gathered from other ranks' parts, which kept whole would undo the division, and what one autograd function
// computes again. No operator is in `early_stop`: with it a replay ends early (model/graph/recompute.h).
enum class RecomputeGroup : std::uint8_t {
  none,
  rmsnorm,
  mla_up_projection,
  swiglu,
  core_attention,
  mlp,
  moe,
  other,
  always,
  early_stop
};

struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // C += (weight gradients)
  double groups_hit = 0;    // of a grouped_matmul: experts that have rows, expected; 0: all
  bool masked = false;      // rows of each of them are in a block of their own, which they do not fill
  std::int64_t chunks = 1;  // of tokens, one GEMM each
};
struct HeadMatmulAttributes {
  std::int64_t heads = 0, copied = 0;  // copied: last columns of a head that are not multiplied
};
struct AttentionAttributes {
  std::int64_t query_heads = 0, key_value_heads = 0, query_key_dim = 0, value_dim = 0;
  std::int64_t sequence_length = 0;  // tokens of one sequence; T is a multiple of it or of a rank's part of it
  std::int64_t window = 0;           // latest tokens that a query sees, itself included; 0: all
  bool alibi = false;                // score of query t and key s of head h less 2^(-8 (h+1) / Hq) * (t - s)
  double dropout = 0;                // probability of zeroing a probability; the others grow by 1 / (1 - dropout)
  // Ranks that share each sequence and pass keys and values around a ring while they compute (arXiv 2310.01889), and
  // the distance in GPUs from one to the next. 1: k and v are complete.
  std::int64_t ring_ranks = 1, ring_stride = 1;
  AttentionKernel kernel = AttentionKernel::fused;
  double document_tokens = 0;  // mean tokens of a query's document; 0: the sequence
  // Tokens of a block that has one compressed entry, which a query after it sees; 0: each token has a key. With a
  // window next to the entries the tokens in it have keys too. chosen: entries that a query sees at most; 0: all.
  std::int64_t compression = 0, chosen = 0;
};
// Attention of the new tokens of requests over their keys and values in a cache.
struct CachedAttentionAttributes {
  std::int64_t query_heads = 0, key_value_heads = 0, query_key_dim = 0, value_dim = 0;
  std::int64_t requests = 0, new_tokens = 1;  // new tokens of each request
  double context_tokens = 0;                  // of a request, the new ones included; their mean
  bool latent = false;                        // one cache has key and value of all heads (DeepSeek-V2, section 2.1.2)
  double scale = 1;                           // factor on scores
  std::int64_t window = 0;                    // latest tokens that a query sees, itself included; 0: all
  bool alibi = false;                         // as in AttentionAttributes
  std::int64_t compression = 0, chosen = 0;   // likewise
};
// A recurrence of a rank's heads, over chunks of a sequence or over new tokens one by one.
struct ScanAttributes : Recurrence {
  std::int64_t sequence_length = 0;  // tokens; T is a multiple of it
};
struct ConvolutionAttributes {
  std::int64_t taps = 0, sequence_length = 0;
};
// The three GEMMs of attention over stored scores; query head h uses key-value head h / (Hq/Hk).
enum class BatchedForm : std::uint8_t {
  rows,     // a[T,Hq*d], b[T,Hk*d] -> [T,Hq*S]: a b^T within each sequence
  values,   // p[T,Hq*S], b[T,Hk*d] -> [T,Hq*d]: p b
  columns,  // p[T,Hq*S], a[T,Hq*d] -> [T,Hk*d]: p^T a, summed over the query heads of a key-value head
};
struct BatchedMatmulAttributes {
  BatchedForm form = BatchedForm::rows;
  std::int64_t query_heads = 0, key_value_heads = 0, dim = 0, sequence_length = 0;
  double scale = 1;  // factor on the result
};
struct DropoutAttributes {
  double probability = 0;
};
struct PositionAttributes {
  std::int64_t sequence_length = 0;
};
struct RotaryAttributes {
  std::int64_t heads = 0, head_dim = 0, rope_dim = 0;
  std::int64_t sequence_length = 0;
  double theta = 10000.0;
  bool scaled =
      false;  // software multiplies sine and cosine by a factor (YaRN, arXiv 2309.00071), which is not computed
};
struct ClampAttributes {
  double limit = 0;
};
struct HeadsAttributes {  // assemble_heads
  std::int64_t heads = 0, nope_dim = 0, rope_dim = 0, value_dim = 0;
};
struct RouterAttributes {
  std::int64_t experts = 0, experts_per_token = 0, groups = 1, groups_per_token = 1;
  int group_score_experts = 1;
  ScoreFunction score = ScoreFunction::softmax;
  bool normalize = false;
  double scaling_factor = 1.0;
};
// How tokens reach the experts of other ranks.
//   deepep       kernels that send a token once to each rank and node (DeepEP); hybridep is another family of them
//   alltoall     an all-to-all of NCCL between the ranks, of rows that were copied once per expert
//   allgather    every rank gets the tokens of all ranks; the results are reduce-scattered
//   low_latency  kernels of decode passes, which send a copy of a token to each of its experts, into the rows that
//                masked grouped GEMMs read; where costs are made their version is chosen
//                (model/cost/communication_cost.h)
// alltoall and allgather are Megatron's (megatron/core/transformer/moe/token_dispatcher.py).
enum class Dispatcher : std::uint8_t { deepep, hybridep, alltoall, allgather, low_latency };
inline bool is_collective(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::alltoall || dispatcher == Dispatcher::allgather;
}

struct DispatchAttributes {  // dispatch, combine and their gradients, permute
  std::int64_t experts = 0, experts_per_rank = 0, experts_per_token = 0;
  std::int64_t token_bytes = 0;  // payload per token on the wire, metadata included
  Dispatcher dispatcher = Dispatcher::deepep;
  bool in_order = false;     // no kernel of the same micro-batch overlaps with the transfer
  bool counts_rows = false;  // every rank first gathers how many rows the others send (alltoall, allgather)
};
struct CastAttributes {
  bool scales_transposed = false;  // a second kernel writes the tile scales in the layout that the GEMM reads
  bool finds_scale = false;        // a kernel before it finds the tensor's largest entry
  std::int64_t experts = 1;        // whose rows it casts
};
struct NormAttributes {
  double epsilon = 1e-6;
  std::int64_t heads = 1;
};
struct CompressionAttributes {
  std::int64_t tokens = 0;  // of a block
  bool overlaps = false;    // a block's entry is of the block before it too
  std::int64_t sequence_length = 0;
};
struct StreamAttributes {
  std::int64_t streams = 1;
  double epsilon = 1e-6;
};
struct ShiftAttributes {
  std::int64_t distance = 1, sequence_length = 0;
};
struct LossAttributes {  // cross_entropy and its gradient: the last `ignored` tokens of a sequence have no label
  std::int64_t ignored = 0, sequence_length = 0;
  double weight = 1.0;
};
struct CollectiveAttributes {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;  // distance between consecutive members, in ranks of one pipeline stage
  bool uneven = false;      // the ranks' pieces differ in length
};

// AdamW (arXiv 1711.05101). The values are DeepSeek-V3's (arXiv 2412.19437, section 4.2), epsilon the usual one. They
// do not change the time of the update.
struct AdamwAttributes {
  double learning_rate = 2.2e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  std::int64_t step = 1;      // number of the step from 1, for the bias correction
  double largest_norm = 1.0;  // limit on the norm of the whole gradient, where it is clipped (DeepSeek-V3: 1.0)
  bool on_host = false;       // states are in host memory and the CPU updates them
};

using Attributes =
    std::variant<std::monostate, MatmulAttributes, BatchedMatmulAttributes, HeadMatmulAttributes, AttentionAttributes,
                 CachedAttentionAttributes, ScanAttributes, ConvolutionAttributes, RotaryAttributes, ClampAttributes,
                 HeadsAttributes, RouterAttributes, DispatchAttributes, NormAttributes, CastAttributes,
                 DropoutAttributes, PositionAttributes, ShiftAttributes, LossAttributes, CollectiveAttributes,
                 AdamwAttributes, CompressionAttributes, StreamAttributes>;

std::size_t attributes_index(OperatorKind kind);

}  // namespace plumbline::model
