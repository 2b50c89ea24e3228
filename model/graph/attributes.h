// The operator kinds and what each computes. Shapes are those of the tensors an operator names;
// [n, m] is row-major, T tokens, H hidden. "accumulates" adds to what it writes.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "model/architecture/architecture.h"

namespace plumbline::model {

enum class OperatorKind : std::uint8_t {
  // matrix products
  matmul,          // C[M,N] = op(A) op(B), plus a bias[N] to every row where a third tensor is read; MatmulAttributes
  grouped_matmul,  // per expert e, over its rows; reads A, B, offsets[e+1]; MatmulAttributes. Rows in A: C[rows_e,:] =
                   // A[rows_e,:] op(B[e]). accumulate (weight gradient): C[e] += op(A) op(B) summed over rows_e only
  batched_matmul,  // per sequence of S tokens and query head, without a weight; BatchedMatmulAttributes
  attention,  // reads q[T,Hq,dk], k[T,Hk,dk], v[T,Hk,dv]; writes o[T,Hq*dv], log-sum-exp[T,Hq]; causal per sequence,
  // scores / sqrt(dk); query head h reads key-value head h / (Hq/Hk). AttentionAttributes: window, ALiBi and
  // dropout of the probabilities (drawn again from the same counter in the gradient, not stored)
  attention_grad,  // reads do, q, k, v, o, log-sum-exp; writes dq, dk, dv
  // memory-bound
  rmsnorm,              // reads x, gamma; writes y = gamma * x / sqrt(mean(x^2) + eps) over the last dimension, or
                        // over each of its NormAttributes::heads parts with one gamma for all
  rmsnorm_grad,         // reads dy, x, gamma; writes dx, accumulates dgamma
  layernorm,            // reads x, gamma, optionally beta; writes y = gamma * (x - mean) / sqrt(variance + eps) + beta
  layernorm_grad,       // reads dy, x, gamma; writes dx, accumulates dgamma, optionally dbeta
  cast,                 // writes x in another number format (the value is the same up to rounding); CastAttributes
  cast_transpose,       // writes the transpose of x[n,m] as [m,n], in another number format
  transpose,            // writes the transpose of a weight ([e,n,m] -> [e,m,n] for experts)
  add,                  // writes the sum of all it reads
  split,                // writes the column ranges of x[n, m1+m2+...]
  concatenate,          // writes [x1 | x2 | ...] by columns
  rotary,               // rotates the last rope_dim columns of every head by position: columns i and i + rope_dim/2
                        // by position * theta^(-2i/rope_dim); RotaryAttributes
  rotary_grad,          // the transposed rotation
  assemble_heads,       // reads kv[T,H*(dn+dv)], kr[T,dr]; writes k[T,H*(dn+dr)], v[T,H*dv]; kr is every head's
  assemble_heads_grad,  // reads dk, dv; writes dkv, dkr (summed over heads)
  swiglu,               // reads gu[n,2f] (gate | up), optionally row weights [n]; writes w * silu(g) * u
  swiglu_grad,          // reads dh, gu, optionally w; writes dgu, optionally dw
  add_bias,             // reads y[T,N], bias[N]; writes their sum
  gelu,                 // writes x * (1 + erf(x / sqrt(2))) / 2
  gelu_grad,            // reads dy, x; writes dx
  softmax,              // reads scores[T,Hq*S]; writes each query's probabilities over the S keys of its sequence and
                        // head, 0 for those that it may not see; AttentionAttributes say which and add ALiBi
  softmax_grad,         // reads dp, p; writes dscores
  dropout,              // reads x; writes x * mask / (1 - probability), mask (one byte an entry); DropoutAttributes
  dropout_grad,         // reads dy, mask; writes dx
  column_sum,           // reads dy[T,N]; accumulates the bias gradient [N], the sum over rows
  sigmoid_gate,         // reads y[T,H], g[T,1]; writes sigmoid(g) * y
  sigmoid_gate_grad,    // reads dout, y, g; writes dy, dg
  // routing
  router,       // reads logits[T,E], bias[E]; writes indices[T,k], weights[T,k]; RouterAttributes. score + bias chooses
                // the groups and in them the experts; the weights are the chosen scores alone, normalised, scaled
  router_grad,  // reads dweights[T,k], logits, indices; writes dlogits
  permute,      // reads received x[R,H], indices[R,k], weights[R,k]; writes rows [N,H] by expert and then by token,
                // row map [N] (each row's received token), row weights [N], offsets [e+1]
  permute_grad,       // reads drows [N,H], row map, dw [N], received indices; writes dx [R,H] (sum), dweights [R,k]
  permute_transpose,  // reads received x[R,H], row map; writes the rows' transpose [H,N] (weight gradient)
  unpermute,          // reads rows [N,H], row map; writes y[R,H], the sum of a token's rows
  gather_rows,        // reads y[R,H], row map; writes rows [N,H] (gradient of unpermute)
  gather_columns,     // reads a transpose [H,R], row map; writes the rows' transpose [H,N] (weight gradient)
  // ends of the model
  embedding,           // reads token ids [T], table [V,H]; writes x[T,H]
  embedding_grad,      // reads dx, token ids; accumulates dtable
  add_positions,       // reads x[T,H], table [P,H]; writes x plus the row of each token's place in its sequence;
                       // PositionAttributes
  add_positions_grad,  // reads dx; accumulates dtable
  cross_entropy,       // reads logits[T,V], labels[T]; writes loss[1] (weight * mean over the rank's labelled tokens),
                       // log-sum-exp [T], optionally the logarithms of the probabilities [T,V]. Of a part of
                       // the vocabulary: [T,3] in place of [T], sum of exponentials, the label's logit and 1 if
                       // it lies here, else 0; the loss follows from their sums over the ranks
  cross_entropy_grad,  // reads logits, labels, log-sum-exp, or those logarithms and labels; writes dlogits
  shift_tokens,        // token t takes the id of token t + `distance` of its sequence, the last ones any id
  // between ranks. Expert e lives on rank e / experts_per_rank. What a rank received from whom follows from the
  // indices of the group's ranks: ordered by source rank, then by token.
  dispatch,  // reads x[T,H], indices, weights; writes the distinct tokens received [R,H], their indices (local ones,
             // -1 for an expert of another rank) and weights [R,k]
  dispatch_grad,  // reads dx[R,H], dweights[R,k], indices; writes the sums per token dx[T,H], dweights[T,k]
  combine,        // reads y[R,H], indices, addends [T,H]...; writes out[T,H] = sum over ranks of y + addends
  combine_grad,   // reads dout[T,H], indices; writes dy[R,H]
  all_reduce,
  reduce_scatter,
  all_gather,  // over the group named in CollectiveAttributes: sum, rank r's piece of the sum, all pieces in order of
               // rank
  // optimizer
  sum_of_squares,  // reads gradient shards; writes the sum of the squares of all elements [1]
  unscale,         // reads gradient shards and the loss scale [1]; writes them divided by it, and [1]: 0, or 1 where an
                   // element is not finite
  adamw,  // reads the gradient shard and, where the gradient is clipped, the sum of squares [1]; writes the parameter
          // shard in its stored format; accumulates the first and second moment (m, v) and the master weights (where
          // there are none, the parameter shard itself); AdamwAttributes
  // between a GPU and the memory of its host
  copy_to_host,   // reads a tensor, writes it or, where the second has fewer rows, its first rows
  copy_to_device  // back; rows that the first does not have are still there
};
std::string_view to_string(OperatorKind kind);

// Where recomputation may cut: the plan's words; rmsnorm stands for any norm, swiglu for any activation. `other` is
// recomputed under policy "full" only; what is gathered from other ranks' parts always is, because keeping the parts
// is why it was parted.
enum class RecomputeGroup : std::uint8_t {
  none,
  rmsnorm,
  mla_up_projection,
  swiglu,
  core_attention,
  mlp,
  moe,
  other,
  gather
};

struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  // C += (weight gradients)
};
struct AttentionAttributes {
  std::int64_t query_heads = 0, key_value_heads = 0, query_key_dim = 0, value_dim = 0;
  std::int64_t sequence_length = 0;  // tokens of one sequence; T is a multiple of it, or of a rank's part of it
  std::int64_t window = 0;           // latest tokens that a query sees, itself included; 0: all
  bool alibi = false;                // score of query t and key s of head h less 2^(-8 (h+1) / Hq) * (t - s)
  double dropout = 0;                // probability of zeroing a probability; the others grow by 1 / (1 - dropout)
  // Ranks that share each sequence and pass keys and values round while they compute (arXiv 2310.01889), and how many
  // GPUs lie from one to the next; 1: k and v hold all that is needed.
  std::int64_t ring_ranks = 1, ring_stride = 1;
};
// The three products of attention over stored scores; query head h uses key-value head h / (Hq/Hk).
enum class BatchedForm : std::uint8_t {
  rows,     // a[T,Hq*d], b[T,Hk*d] -> [T,Hq*S]: of every two rows of a sequence
  values,   // p[T,Hq*S], b[T,Hk*d] -> [T,Hq*d]: p b
  columns,  // p[T,Hq*S], a[T,Hq*d] -> [T,Hk*d]: p^T a, summed over the query heads of a key-value head
};
struct BatchedMatmulAttributes {
  BatchedForm form = BatchedForm::rows;
  std::int64_t query_heads = 0, key_value_heads = 0, dim = 0, sequence_length = 0;
  double scale = 1;  // of the result
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
};
struct HeadsAttributes {  // assemble_heads
  std::int64_t heads = 0, nope_dim = 0, rope_dim = 0, value_dim = 0;
};
struct RouterAttributes {
  std::int64_t experts = 0, experts_per_token = 0, groups = 1, groups_per_token = 1;
  int group_score_experts = 1;
  ScoreFunction score = ScoreFunction::softmax;
  bool normalise = false;
  double scaling_factor = 1.0;
};
struct DispatchAttributes {  // dispatch, combine and their gradients, permute
  std::int64_t experts = 0, experts_per_rank = 0, experts_per_token = 0;
  std::int64_t token_bytes = 0;  // payload per token on the wire, metadata included
};
struct CastAttributes {
  bool scales_transposed = false;  // a second kernel lays the tile scales out as the matrix product wants them
  bool finds_scale = false;        // a kernel before it reads the whole tensor for its largest entry
};
struct NormAttributes {
  double epsilon = 1e-6;
  std::int64_t heads = 1;
};
struct ShiftAttributes {
  std::int64_t distance = 1, sequence_length = 0;
};
struct LossAttributes {  // cross_entropy and its gradient: the last `ignored` tokens of a sequence carry no label
  std::int64_t ignored = 0, sequence_length = 0;
  double weight = 1.0;
};
struct CollectiveAttributes {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;  // distance between neighbouring members, in ranks of one pipeline stage
};

// AdamW (arXiv 1711.05101). Values of DeepSeek-V3 (arXiv 2412.19437, section 4.2) but epsilon, the usual one;
// the numbers do not change how long the update takes.
struct AdamwAttributes {
  double learning_rate = 2.2e-4, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  std::int64_t step = 1;      // from 1, for the bias correction
  double largest_norm = 1.0;  // of the whole gradient, where it is clipped (DeepSeek-V3: 1.0)
  bool on_host = false;       // states lie in host memory, the CPU updates
};

using Attributes = std::variant<std::monostate, MatmulAttributes, BatchedMatmulAttributes, AttentionAttributes,
                                RotaryAttributes, HeadsAttributes, RouterAttributes, DispatchAttributes, NormAttributes,
                                CastAttributes, DropoutAttributes, PositionAttributes, ShiftAttributes, LossAttributes,
                                CollectiveAttributes, AdamwAttributes>;

}  // namespace plumbline::model
