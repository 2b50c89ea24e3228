#include "model/layers/attention.h"

#include "model/layers/core_attention.h"
#include "model/layers/elementary.h"
#include "model/layers/linear.h"

namespace plumbline::model {

namespace {

using enum OperatorKind;

// Attention over q, k, v and the output projection. In FP8 the attention output is kept in E5M6 (DeepSeek-V3
// report, section 3.3.3), because its gradient is sensitive to it.
TensorId core_and_output(GraphBuilder& b, const LayerContext& c, TensorId q, TensorId k, TensorId v,
                         AttentionAttributes attributes) {
  attributes.sequence_length = c.sequence_length;
  attributes.dropout = c.architecture.dropout.attention;
  const TensorId o = core_attention(b, c, q, k, v, attributes);
  if (c.gemm == Precision::fp8) keep(b, o, DataType::e5m6);
  b.group(RecomputeGroup::other);
  return linear(b, "o", o, c.architecture.hidden_size,
                {.precision = c.gemm, .bias = c.architecture.biases.attention_output});
}

// k [T, heads*(nope+rope)] and v [T, heads*value] from the up-projection and the shared rotary key.
std::pair<TensorId, TensorId> key_and_value(GraphBuilder& b, TensorId kv, TensorId rotary_key,
                                            const HeadsAttributes& heads) {
  const Dimension tokens = b.shape(kv)[0];
  const TensorId k = b.activation("k", {tokens, {heads.heads * (heads.nope_dim + heads.rope_dim)}}, b.tensor(kv).type);
  const TensorId v = b.activation("v", {tokens, {heads.heads * heads.value_dim}}, b.tensor(kv).type);
  b.emit(assemble_heads, "assemble_heads", {kv, rotary_key}, {k, v}, heads);
  b.on_backward([&b, kv, rotary_key, k, v, heads] {
    const TensorId dkv = b.activation("d_kv", b.shape(kv), b.activation_gradient_type());
    const TensorId dkr = b.activation("d_rotary_key", b.shape(rotary_key), b.activation_gradient_type());
    b.emit(assemble_heads_grad, "assemble_heads_grad", {b.gradient(k), b.gradient(v)}, {dkv, dkr}, heads);
    b.add_gradient(kv, dkv);
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

  TensorId query_latent = x;
  if (l.q_lora_rank > 0)
    query_latent = linear(b, "q_a", x, l.q_lora_rank, {.precision = c.gemm, .input_group = norm, .bias = biased});
  const TensorId kv_latent_and_key = linear(b, "kv_a", x, l.kv_lora_rank + l.qk_rope_head_dim,
                                            {.precision = c.gemm, .input_group = norm, .bias = biased});
  const auto parts = split_columns(b, "split_kv_a", kv_latent_and_key, {l.kv_lora_rank, l.qk_rope_head_dim});
  if (l.q_lora_rank > 0) query_latent = normalise(b, "q_norm", query_latent, a.norm_epsilon);
  const TensorId kv_latent = normalise(b, "kv_norm", parts[0], a.norm_epsilon);

  const TensorId q =
      linear(b, "q_b", query_latent, a.heads * qk, {.precision = c.gemm, .input_group = norm, .output_group = up});
  const TensorId kv = linear(b, "kv_b", kv_latent, a.heads * (l.qk_nope_head_dim + l.v_head_dim),
                             {.precision = c.gemm, .input_group = norm, .output_group = up});
  b.group(up);
  const RotaryAttributes key_rotation{1, l.qk_rope_head_dim, l.qk_rope_head_dim, c.sequence_length, a.rope_theta};
  const TensorId rotary_key = rotate(b, "rotary_key", parts[1], key_rotation);
  const auto [k, v] = key_and_value(b, kv, rotary_key, {a.heads, l.qk_nope_head_dim, l.qk_rope_head_dim, l.v_head_dim});
  const TensorId rotated =
      rotate(b, "rotary_query", q, {a.heads, qk, l.qk_rope_head_dim, c.sequence_length, a.rope_theta});
  return core_and_output(b, c, rotated, k, v, {a.heads, a.heads, qk, l.v_head_dim});
}

TensorId grouped_query_attention(GraphBuilder& b, const LayerContext& c, TensorId x, bool windowed) {
  const Architecture& a = c.architecture;
  const std::int64_t d = a.head_dim;
  const std::int64_t kv_heads = a.key_value_heads;
  const TensorId qkv =
      linear(b, "qkv", x, (a.heads + 2 * kv_heads) * d,
             {.precision = c.gemm, .input_group = RecomputeGroup::rmsnorm, .bias = a.biases.query_key_value});
  const auto parts = split_columns(b, "split_qkv", qkv, {a.heads * d, kv_heads * d, kv_heads * d});
  TensorId q = parts[0], k = parts[1];
  if (a.query_key_norm) {
    q = normalise(b, "query_norm", q, a.norm_epsilon, a.heads);
    k = normalise(b, "key_norm", k, a.norm_epsilon, kv_heads);
  }
  if (a.positions == PositionKind::rotary) {
    const std::int64_t turning = a.rotary_dim > 0 ? a.rotary_dim : d;
    q = rotate(b, "rotary_query", q, {a.heads, d, turning, c.sequence_length, a.rope_theta});
    k = rotate(b, "rotary_key", k, {kv_heads, d, turning, c.sequence_length, a.rope_theta});
  }
  return core_and_output(b, c, q, k, parts[2],
                         {.query_heads = a.heads,
                          .key_value_heads = kv_heads,
                          .query_key_dim = d,
                          .value_dim = d,
                          .window = windowed ? a.window.tokens : 0,
                          .alibi = a.positions == PositionKind::alibi});
}

TensorId attention_layer(GraphBuilder& b, const LayerContext& c, TensorId x, bool windowed) {
  return c.architecture.attention == AttentionKind::multi_head_latent ? multi_head_latent_attention(b, c, x)
                                                                      : grouped_query_attention(b, c, x, windowed);
}

}  // namespace plumbline::model
