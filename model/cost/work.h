// Counts the FLOPs and bytes of an operator from the shapes of its tensors, independently of any rate.
#pragma once

#include "model/base/units.h"
#include "model/cost/forms/kernel_forms.h"
#include "model/graph/graph.h"

namespace plumbline::model {

// A GEMM as its kernel runs it: `groups` GEMMs of m x n x k.
struct GemmShape {
  double groups = 1, m = 0, n = 0, k = 0;
};

// Returns whether any of the operator's tensors varies with routing: if not, no `row_scale` changes its cost.
bool varies_with_rows(const Graph& graph, const Operator& op);

// Returns the elements of a tensor. `row_scale` multiplies dimensions that vary with routing.
double elements(const Tensor& tensor, double row_scale);

// Returns the shape of a (grouped, batched) matmul. `row_scale` multiplies dimensions that vary with routing.
GemmShape gemm_shape(const Graph& graph, const Operator& op, double row_scale);

// Returns the shape of an attention kernel or of its gradient. Each query sees S keys, or the w keys of a window; when
// `causal` only those up to the query, on average S/2 or w - w^2/(2S). Of compressed entries of r tokens, of which c
// are chosen, it sees what it would of the tokens of a window of c r, divided by r.
AttentionWork attention_work(const Graph& graph, const Operator& op, bool causal);

// Returns the work of a kernel that computes what the window hides.
AttentionWork without_window(const Operator& op, AttentionWork work);

// Returns the shape of a cached_attention; when `causal` a query sees the keys up to it only.
CachedAttentionWork cached_attention_work(const Graph& graph, const Operator& op, bool causal);

// What the kernels of a scan compute and move. With e bytes an element, H value heads and G key heads, keys of K,
// values of V, chunks of Q tokens, by token:
//   gated_delta (fla-org/flash-linear-attention @0315a70 fla/ops/gated_delta_rule/chunk.py and what it calls; products
//   of whole chunks, queries and keys read and normalised at each value head, but not the copies that training makes of
//   them first; (I + A)^-1 takes Q^3/3 a chunk)
//     forward    H (Q (6K + 4V) + 6KV + Q^2/3) FLOPs,  H (e (11K + 6V + 2Q + 2KV/Q) + 8Q) bytes
//     backward   H (Q (20K + 10V) + 16KV + 4Q^2),      H e (27K + 15V + 2Q + 4KV/Q)
//   channel_delta (the same repository's fla/ops/kda, chunk_intra.py and wy_fast.py @7f2becb, chunk_bwd.py @0395eef;
//   scores of P = (Q + 16) / 2 keys when causal, in tiles of 16, else Q; decays and gradients before and after the last
//   kernel have FP32)
//     forward    H (4PK + Q (2K + 4V) + 6KV + Q^2/3),  H (e (15K + 6V + 17Q/4 + 2KV/Q) + 20K + 2Q)
//     backward   H (8PK + Q (6K + 10V) + 16KV + 4Q^2), H (e (25K + 15V + 3Q + 4KV/Q) + 68K + 16Q)
//   state_space (state-spaces/mamba @01b717a mamba_ssm/ops/triton/ssd_combined.py and what it calls; scores of a group
//   are of whole chunks; P = (Q + min(Q, 64)) / 2 of them are used when causal, in tiles of 64, else Q)
//     forward    2QKG + H (2PV + 4KV) FLOPs,           e (4GK + 3HV) + (8 + 2e) HKV/Q + 8GQ bytes
//     backward   6QKG + H (6PV + 10KV),                e (13GK + 11HV) + (20 + 5e) HKV/Q + 24GQ
//   constant_decay (OpenNLPLab/lightning-attention @d15c385 lightning_attn/ops/triton/lightning_attn2_parallel.py, from
//   which vllm-project/vllm's are made, which keep 4 bytes an element; P as in state_space for all scores; queries,
//   keys, values and the result are copied to and from the order of heads)
//     forward    H (2P (K + V) + 4KV),                 H (e (8K + 9V) + 16KV/Q)
//     backward   H (6P (K + V) + 8KV),                 H (e (10K + 10V) + 20KV/Q)
//   selective_scan (state-spaces/mamba @01b717a csrc/selective_scan/selective_scan_fwd_kernel.cuh and _bwd_kernel.cuh,
//   by H channels and N states of each; every operation of the loop over states, of which the associative one has three
//   and comes twice; values, time steps, gates and the result are copied to and from the order of channels, before and
//   after the kernel, and so are queries and keys; the gradients of these are summed in FP32)
//     forward    11HN,                                 e (13H + 6N) + 8HN/Q
//     backward   36HN,                                 e (16H + 4N) + 32N + 8HN/Q
// The other backward passes compute the states again. One by one tokens take 6KV a head in the delta rules, 8HN in a
// selective scan, else 4KV, and the state is read once and written after each new token, so that a rejected one can be
// taken back; decays of channels are written in FP32 by a kernel before it.
struct ScanWork {
  double flops = 0, bytes = 0;
  int kernels = 1;
};
ScanWork scan_work(const Graph& graph, const Operator& op, bool causal);

// Returns the work of a token and value head of a scan in chunks, of elements of that many bytes.
ScanWork chunked_scan_work(const Recurrence& recurrence, double element_bytes, bool backward, bool causal);
// Returns the bytes of it with which a delta rule normalises queries and keys.
double scan_norm_bytes(const Recurrence& recurrence, double element_bytes, bool backward);

// The chunks of a sequence hand on a state. In the delta rules a kernel does so with a block for each sequence, value
// head and 64 columns of values, which takes one chunk after another: with fewer blocks than SMs it lasts as long as
// the chunks of a sequence, else as long as all its blocks, which the work contains. (BV of chunk_delta_h.py in
// fla-org/flash-linear-attention @0315a70.) Other recurrences add their states up by elements.
// Returns how many chunks one after another a scan waits for, besides its work.
double waiting_chunks(const Recurrence& recurrence, double sequences, double sequence_length, double sms);

// Returns 2*m*n*k for GEMMs. Attention has 2*(dk+dv) per query, key and head forward, and 2*(3 dk + 2 dv) backward
// (five GEMMs); over a latent cache the head dimensions are those of the latent. GEMMs over stored scores ignore the
// mask. Scans: scan_work(). Memory-bound operators have none.
Flops flops(const Graph& graph, const Operator& op, double row_scale, bool causal);

// Returns the bytes read and written, each tensor once. A gradient that is accumulated counts twice; of a cache only
// the rows that are seen or written count, of experts the expected number that have rows. Scans: scan_work().
Bytes bytes_moved(const Graph& graph, const Operator& op, double row_scale);

}  // namespace plumbline::model
