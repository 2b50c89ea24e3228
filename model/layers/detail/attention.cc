#include "model/layers/detail/attention.h"

#include <algorithm>
#include <utility>

#include "model/layers/core_attention.h"
#include "model/layers/elementary.h"
#include "model/layers/linear.h"
#include "model/layers/parallel.h"

namespace plumbline::model {

namespace {

using enum OperatorKind;

// Emits attention over q, k, v and the output projection. In FP8 the attention output is kept in E5M6, because its
// gradient is sensitive to it (DeepSeek-V3 report, section 3.3.3).
TensorId core_and_output(GraphBuilder& b, const LayerContext& c, TensorId q, TensorId k, TensorId v,
                         AttentionAttributes attributes) {
  if (attributes.sequence_length == 0) attributes.sequence_length = c.sequence_length;
  attributes.dropout = c.architecture.dropout.attention;
  attributes.kernel = c.attention;
  attributes.document_tokens = c.document_tokens;
  // Kernels that store scores need all keys at once.
  const bool passes = c.ring && c.fused_attention();
  if (c.context > 1 && !passes) {
    k = gather_sequence(b, c, "keys", k);
    v = gather_sequence(b, c, "values", v);
  } else if (c.context > 1) {
    attributes.ring_ranks = c.context;
    attributes.ring_stride = c.tensor;
  }
  const TensorId o = core_attention(b, c, q, k, v, attributes);
  if (c.gemm == Precision::fp8) keep(b, o, DataType::e5m6);
  b.group(RecomputeGroup::other);
  return row_parallel_linear(b, c, "o", o, c.architecture.hidden_size,
                             {.operands = c.operands(), .bias = c.architecture.biases.attention_output});
}

// Returns k [T, heads*(nope+rope)] and v [T, heads*value] from the up-projection and the shared rotary key.
std::pair<TensorId, TensorId> key_and_value(GraphBuilder& b, const LayerContext& c, TensorId kv, TensorId rotary_key,
                                            const HeadsAttributes& heads) {
  const Dimension tokens = b.shape(kv)[0];
  const TensorId k = b.activation("k", {tokens, {heads.heads * (heads.nope_dim + heads.rope_dim)}}, b.tensor(kv).type);
  const TensorId v = b.activation("v", {tokens, {heads.heads * heads.value_dim}}, b.tensor(kv).type);
  b.emit(assemble_heads, "assemble_heads", {kv, rotary_key}, {k, v}, heads);
  b.on_backward([&b, &c, kv, rotary_key, k, v, heads] {
    const TensorId dkv = b.activation("d_kv", b.shape(kv), b.activation_gradient_type());
    TensorId dkr = b.activation("d_rotary_key", b.shape(rotary_key), b.activation_gradient_type());
    b.emit(assemble_heads_grad, "assemble_heads_grad", {b.gradient(k), b.gradient(v)}, {dkv, dkr}, heads);
    b.add_gradient(kv, dkv);
    if (const CollectiveAttributes ranks = summing_ranks(c); ranks.ranks > 1) {
      const TensorId part =
          std::exchange(dkr, b.activation("sum_d_rotary_key", b.shape(rotary_key), b.activation_gradient_type()));
      b.emit(all_reduce, "reduce_d_rotary_key", {part}, {dkr}, ranks);
    }
    b.add_gradient(rotary_key, dkr);
  });
  return {k, v};
}

}  // namespace

TensorId multi_head_latent_attention(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const Architecture& a = c.architecture;
  const LatentAttention& l = a.latent;
  const auto up = RecomputeGroup::mla_up_projection;
  const auto norm = RecomputeGroup::rmsnorm;
  const bool biased = a.biases.query_key_value;
  const std::int64_t qk = l.qk_nope_head_dim + l.qk_rope_head_dim;
  const std::int64_t heads = a.heads / c.tensor;

  TensorId query_latent = x;
  const LinearOptions down{.operands = c.operands(), .input_group = norm, .bias = biased};
  if (l.q_lora_rank > 0) query_latent = linear(b, "q_a", x, l.q_lora_rank, down);
  const TensorId kv_latent_and_key =
      enter_tensor_region(b, c, "kv_latent", linear(b, "kv_a", x, l.kv_lora_rank + l.qk_rope_head_dim, down));
  const auto parts = split_columns(b, "split_kv_a", kv_latent_and_key, {l.kv_lora_rank, l.qk_rope_head_dim});
  if (l.q_lora_rank > 0) query_latent = normalize(b, "q_norm", query_latent, a.norm_epsilon);
  const TensorId kv_latent = normalize(b, "kv_norm", parts[0], a.norm_epsilon);

  query_latent = enter_tensor_region(b, c, "query_latent", query_latent);
  const LinearOptions options{.operands = c.operands(), .input_group = norm, .output_group = up};
  const TensorId q = column_parallel_linear(b, c, "q_b", query_latent, a.heads * qk, options);
  const TensorId kv =
      column_parallel_linear(b, c, "kv_b", kv_latent, a.heads * (l.qk_nope_head_dim + l.v_head_dim), options);
  b.group(up);
  const RotaryAttributes key_rotation{1, l.qk_rope_head_dim, l.qk_rope_head_dim, c.sequence_length, a.rope_theta};
  const TensorId rotary_key = rotate(b, "rotary_key", parts[1], key_rotation);
  const auto [k, v] =
      key_and_value(b, c, kv, rotary_key, {heads, l.qk_nope_head_dim, l.qk_rope_head_dim, l.v_head_dim});
  const TensorId rotated =
      rotate(b, "rotary_query", q, {heads, qk, l.qk_rope_head_dim, c.sequence_length, a.rope_theta});
  return core_and_output(b, c, rotated, k, v, {heads, heads, qk, l.v_head_dim});
}

TensorId grouped_query_attention(GraphBuilder& b, const LayerContext& c, TensorId x, bool windowed) {
  const Architecture& a = c.architecture;
  const std::int64_t d = a.head_dim;
  const std::int64_t heads = a.heads / c.tensor;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, a.key_value_heads / c.tensor);
  const TensorId entered = enter_tensor_region(b, c, "qkv_in", x);
  // Where ranks outnumber key-value heads, several ranks hold the same head.
  const TensorId qkv = column_parallel_linear(
      b, c, "qkv", entered, (heads + 2 * kv_heads) * d * c.tensor,
      {.operands = c.operands(), .input_group = RecomputeGroup::rmsnorm, .bias = a.biases.query_key_value});
  const auto parts = split_columns(b, "split_qkv", qkv, {heads * d, kv_heads * d, kv_heads * d});
  TensorId q = parts[0], k = parts[1];
  if (a.query_key_norm) {
    q = normalize(b, "query_norm", q, a.norm_epsilon, heads);
    k = normalize(b, "key_norm", k, a.norm_epsilon, kv_heads);
  }
  if (a.positions == PositionKind::rotary && (windowed || !a.window.rotary_only)) {
    const std::int64_t turning = a.rotary_dim > 0 ? a.rotary_dim : d;
    q = rotate(b, "rotary_query", q, {heads, d, turning, c.sequence_length, a.rope_theta});
    k = rotate(b, "rotary_key", k, {kv_heads, d, turning, c.sequence_length, a.rope_theta});
  }
  AttentionAttributes attributes{.query_heads = heads,
                                 .key_value_heads = kv_heads,
                                 .query_key_dim = d,
                                 .value_dim = d,
                                 .window = windowed ? a.window.tokens : 0,
                                 .alibi = a.positions == PositionKind::alibi};
  if (windowed && a.window.chunks && c.context == 1 && c.sequence_length % a.window.tokens == 0) {
    // A chunk is a sequence of its own. Where chunks do not divide the sequence, they are a window as long.
    attributes.sequence_length = a.window.tokens;
    attributes.window = 0;
  }
  return core_and_output(b, c, q, k, parts[2], attributes);
}

TensorId attention_layer(GraphBuilder& b, const LayerContext& c, TensorId x, bool windowed) {
  return c.architecture.attention == AttentionKind::multi_head_latent ? multi_head_latent_attention(b, c, x)
                                                                      : grouped_query_attention(b, c, x, windowed);
}

}  // namespace plumbline::model
