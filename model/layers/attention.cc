#include "model/layers/attention.h"

#include "model/layers/elementary.h"
#include "model/layers/linear.h"

namespace plumbline::model {

namespace {

using enum OperatorKind;

// Causal attention over q, k, v and the output projection. In FP8 the attention output is kept in
// E5M6 (DeepSeek-V3 report, section 3.3.3), because its gradient is sensitive to it.
TensorId core_and_output(GraphBuilder& b, const LayerContext& c, TensorId q, TensorId k, TensorId v,
                         const AttentionAttributes& attributes) {
  const Dimension tokens = b.shape(q)[0];
  b.group(RecomputeGroup::core_attention);
  const TensorId o =
      b.activation("attention_out", {tokens, {attributes.query_heads * attributes.value_dim}}, b.tensor(q).type);
  const TensorId lse = b.activation("log_sum_exp", {tokens, {attributes.query_heads}}, DataType::fp32);
  b.emit(attention, "attention", {q, k, v}, {o, lse}, attributes);
  b.on_backward([&b, q, k, v, o, lse, attributes] {
    std::vector<TensorId> gradients;
    for (TensorId id : {q, k, v})
      gradients.push_back(b.activation("d_attention_" + b.tensor(id).name, b.shape(id), b.activation_gradient_type()));
    b.emit(attention_grad, "attention_grad", {b.gradient(o), q, k, v, b.kept(o), lse}, gradients, attributes);
    b.add_gradient(q, gradients[0]);
    b.add_gradient(k, gradients[1]);
    b.add_gradient(v, gradients[2]);
  });
  if (c.gemm == Precision::fp8) keep(b, o, DataType::e5m6);
  b.group(RecomputeGroup::other);
  return linear(b, "o", o, c.architecture.hidden_size, {.precision = c.gemm});
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
  const std::int64_t qk = l.qk_nope_head_dim + l.qk_rope_head_dim;

  TensorId query_latent = x;
  if (l.q_lora_rank > 0) query_latent = linear(b, "q_a", x, l.q_lora_rank, {.precision = c.gemm, .input_group = norm});
  const TensorId kv_latent_and_key =
      linear(b, "kv_a", x, l.kv_lora_rank + l.qk_rope_head_dim, {.precision = c.gemm, .input_group = norm});
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
  return core_and_output(b, c, rotated, k, v, {a.heads, a.heads, qk, l.v_head_dim, c.sequence_length});
}

TensorId grouped_query_attention(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const Architecture& a = c.architecture;
  const std::int64_t d = a.head_dim;
  const std::int64_t kv_heads = a.key_value_heads;
  const TensorId qkv =
      linear(b, "qkv", x, (a.heads + 2 * kv_heads) * d, {.precision = c.gemm, .input_group = RecomputeGroup::rmsnorm});
  const auto parts = split_columns(b, "split_qkv", qkv, {a.heads * d, kv_heads * d, kv_heads * d});
  const TensorId q = rotate(b, "rotary_query", parts[0], {a.heads, d, d, c.sequence_length, a.rope_theta});
  const TensorId k = rotate(b, "rotary_key", parts[1], {kv_heads, d, d, c.sequence_length, a.rope_theta});
  return core_and_output(b, c, q, k, parts[2], {a.heads, kv_heads, d, d, c.sequence_length});
}

TensorId attention_layer(GraphBuilder& b, const LayerContext& c, TensorId x) {
  return c.architecture.attention == AttentionKind::multi_head_latent ? multi_head_latent_attention(b, c, x)
                                                                      : grouped_query_attention(b, c, x);
}

}  // namespace plumbline::model
