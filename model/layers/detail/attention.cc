#include "model/layers/detail/attention.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "model/layers/core_attention.h"
#include "model/layers/elementary.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

double score_scale(std::int64_t dim) { return 1 / std::sqrt(static_cast<double>(dim)); }

// In FP8 training the attention output is kept in E5M6, because its gradient is sensitive to it (DeepSeek-V3 report,
// section 3.3.3).
TensorId output_projection(GraphBuilder& b, const LayerContext& c, TensorId o,
                           const std::optional<TensorId>& gate = std::nullopt) {
  if (gate) o = gated(b, "attention_gate", o, *gate);
  if (c.gemm == Precision::fp8) keep(b, o, DataType::e5m6);
  b.group(RecomputeGroup::other);
  return row_parallel_linear(b, c, "o", o, c.architecture.hidden_size,
                             {.operands = c.attention_operands(), .bias = c.architecture.biases.attention_output});
}

TensorId core_and_output(GraphBuilder& b, const LayerContext& c, TensorId q, TensorId k, TensorId v,
                         AttentionAttributes attributes, const std::optional<TensorId>& gate = std::nullopt) {
  if (attributes.sequence_length == 0) attributes.sequence_length = c.sequence_tokens();
  attributes.dropout = b.drops_out() ? c.architecture.dropout.attention : 0;
  attributes.kernel = c.attention;
  attributes.document_tokens = c.document_tokens;
  if (c.context > 1 && c.context_method == ContextMethod::all_to_all) {
    b.group(RecomputeGroup::other);
    q = whole_sequences(b, c, "queries", q, attributes.query_heads);
    k = whole_sequences(b, c, "keys", k, attributes.key_value_heads);
    v = whole_sequences(b, c, "values", v, attributes.key_value_heads);
    attributes.query_heads /= c.context;
    attributes.key_value_heads = std::max<std::int64_t>(1, attributes.key_value_heads / c.context);
    TensorId o = core_attention(b, c, q, k, v, attributes);
    const RecomputeGroup kept = b.group();
    b.group(RecomputeGroup::other);
    o = own_tokens(b, c, "outputs", o);
    b.group(kept);
    return output_projection(b, c, o, gate);
  }
  // Kernels that store scores need all keys at once.
  const bool passes = c.context_method == ContextMethod::ring && c.fused_attention();
  if (c.context > 1 && !passes) {
    k = gather_sequence(b, c, "keys", k);
    v = gather_sequence(b, c, "values", v);
  } else if (c.context > 1) {
    attributes.ring_ranks = c.context;
    attributes.ring_stride = c.tensor;
  }
  return output_projection(b, c, core_attention(b, c, q, k, v, attributes), gate);
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

// Apply the up-projections of keys to queries, and of values to outputs.
TensorId absorbed_query(GraphBuilder& b, const LayerContext& c, TensorId q, std::int64_t heads) {
  const LatentAttention& l = c.architecture.latent;
  return head_linear(b, c, "kv_b_key", q, {heads, l.qk_rope_head_dim}, l.qk_nope_head_dim, l.kv_lora_rank);
}
TensorId absorbed_output(GraphBuilder& b, const LayerContext& c, TensorId latent, std::int64_t heads,
                         std::optional<TensorId> gate) {
  const LatentAttention& l = c.architecture.latent;
  return output_projection(b, c, head_linear(b, c, "kv_b_value", latent, {heads}, l.kv_lora_rank, l.v_head_dim), gate);
}

// Attends over latents as if each were the key and value of all heads: the up-projections of keys and of values are
// applied to queries and to outputs (DeepSeek-V2 report, section 2.1.2).
TensorId absorbed_attention(GraphBuilder& b, const LayerContext& c, TensorId lengths, TensorId q,
                            const std::vector<TensorId>& cache, std::int64_t heads, std::optional<TensorId> gate) {
  const LatentAttention& l = c.architecture.latent;
  const TensorId latent = attend(b, c, lengths, absorbed_query(b, c, q, heads), cache,
                                 {.query_heads = heads,
                                  .key_value_heads = 1,
                                  .query_key_dim = l.kv_lora_rank + l.qk_rope_head_dim,
                                  .value_dim = l.kv_lora_rank,
                                  .latent = true,
                                  .scale = score_scale(l.qk_nope_head_dim + l.qk_rope_head_dim),
                                  .window = c.architecture.sparse.tokens});
  return absorbed_output(b, c, latent, heads, gate);
}

// What a latent layer projects from the normalised stream.
struct LatentInputs {
  TensorId query, key_value, rotary_key;  // latents without their norms, and the rotary key of all heads
};

// Training projects queries apart from keys and values; engines of inference store both matrices as one.
LatentInputs latent_inputs(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const LatentAttention& l = c.architecture.latent;
  const LinearOptions down{.operands = c.attention_operands(),
                           .input_group = RecomputeGroup::rmsnorm,
                           .bias = c.architecture.biases.query_key_value};
  const std::int64_t key_value = l.kv_lora_rank + l.qk_rope_head_dim;
  TensorId query = x;
  if (c.inference && l.q_lora_rank > 0) {
    const TensorId all = enter_tensor_region(b, c, "latents", linear(b, "q_kv_a", x, l.q_lora_rank + key_value, down));
    const auto parts = split_columns(b, "split_q_kv_a", all, {l.q_lora_rank, l.kv_lora_rank, l.qk_rope_head_dim});
    return {parts[0], parts[1], parts[2]};
  }
  if (l.q_lora_rank > 0) query = linear(b, "q_a", x, l.q_lora_rank, down);
  const TensorId all = enter_tensor_region(b, c, "kv_latent", linear(b, "kv_a", x, key_value, down));
  const auto parts = split_columns(b, "split_kv_a", all, {l.kv_lora_rank, l.qk_rope_head_dim});
  return {query, parts[0], parts[1]};
}

TensorId multi_head_latent_attention(GraphBuilder& b, const LayerContext& c, TensorId x, Mixer mixer) {
  const Architecture& a = c.architecture;
  const LatentAttention& l = a.latent;
  const auto up = RecomputeGroup::mla_up_projection;
  const std::int64_t qk = l.qk_nope_head_dim + l.qk_rope_head_dim;
  const std::int64_t heads = a.heads / c.tensor;
  const bool chooses = a.sparse.tokens > 0 && mixer != Mixer::sparse_attention;

  const std::optional<TensorId> lengths = cached_lengths(b, c);
  std::optional<TensorId> gate;
  if (a.output_gate || a.head_gate) {
    const LinearOptions wide{.operands = c.attention_operands(), .input_group = RecomputeGroup::rmsnorm};
    gate = column_parallel_linear(b, c, "output_gate", enter_tensor_region(b, c, "output_gate", x, wide),
                                  a.heads * (a.head_gate ? 1 : l.v_head_dim), wide);
  }
  LatentInputs inputs = latent_inputs(b, c, x);
  if (l.q_lora_rank > 0) inputs.query = normalize(b, "q_norm", inputs.query, a.norm_epsilon);
  TensorId kv_latent = normalize(b, "kv_norm", inputs.key_value, a.norm_epsilon);

  const LinearOptions options{
      .operands = c.attention_operands(), .input_group = RecomputeGroup::rmsnorm, .output_group = up};
  const TensorId query_latent = inputs.query;
  if (!c.inference || l.q_lora_rank == 0) inputs.query = enter_tensor_region(b, c, "q_b", inputs.query, options);
  const TensorId q = column_parallel_linear(b, c, "q_b", inputs.query, a.heads * qk, options);
  const RotaryAttributes key_rotation{1, l.qk_rope_head_dim, l.qk_rope_head_dim, c.sequence_tokens(), a.rope_theta};
  const RotaryAttributes query_rotation{heads, qk, l.qk_rope_head_dim, c.sequence_tokens(), a.rope_theta};
  const auto up_projected = [&](TensorId latent) {
    return column_parallel_linear(b, c, "kv_b", latent, a.heads * (l.qk_nope_head_dim + l.v_head_dim), options);
  };
  const HeadsAttributes dims{heads, l.qk_nope_head_dim, l.qk_rope_head_dim, l.v_head_dim};
  const auto turned = [&](const char* name, TensorId rows, const RotaryAttributes& rotation) {
    return a.positions == PositionKind::rotary ? rotate(b, name, rows, rotation, lengths) : rows;
  };
  if (!lengths && a.sparse.tokens > 0) {
    const TensorId rotary_key = turned("rotary_key", inputs.rotary_key, key_rotation);
    const TensorId rotated = turned("rotary_query", q, query_rotation);
    b.group(up);
    const TensorId query = absorbed_query(b, c, rotated, heads);
    const TensorId key = concatenate_columns(b, "latent_key", {kv_latent, rotary_key});
    const AttentionAttributes attributes{.query_heads = heads,
                                         .key_value_heads = 1,
                                         .query_key_dim = l.kv_lora_rank + l.qk_rope_head_dim,
                                         .value_dim = l.kv_lora_rank,
                                         .sequence_length = c.sequence_tokens(),
                                         .window = a.sparse.tokens};
    if (chooses) choose_tokens(b, c, lengths, {x, query_latent, query, key, attributes});
    return absorbed_output(b, c, core_attention(b, c, query, key, kv_latent, attributes), heads, gate);
  }
  if (!lengths) {
    const TensorId kv = up_projected(kv_latent);
    b.group(up);
    const TensorId rotary_key = turned("rotary_key", inputs.rotary_key, key_rotation);
    const auto [k, v] = key_and_value(b, c, kv, rotary_key, dims);
    return core_and_output(b, c, turned("rotary_query", q, query_rotation), k, v, {heads, heads, qk, l.v_head_dim},
                           gate);
  }
  TensorId rotary_key = turned("rotary_key", inputs.rotary_key, key_rotation);
  const TensorId rotated = turned("rotary_query", q, query_rotation);
  const std::vector<TensorId> cache = append(b, c, *lengths, {kv_latent, rotary_key}, true, false);
  if (chooses) choose_tokens(b, c, lengths, {x, query_latent});
  if (c.inference.kind == InferencePass::Kind::decode || a.sparse.tokens > 0)
    return absorbed_attention(b, c, *lengths, rotated, cache, heads, gate);
  if (reads_cache(c)) {  // keys and values of earlier tokens are computed again from their latents
    const Dimension kept = b.shape(cache[0])[0];
    const DataType type = b.tensor(kv_latent).type;
    kv_latent = b.activation("cached_latents", {kept, {l.kv_lora_rank}}, type);
    rotary_key = b.activation("cached_rotary_keys", {kept, {l.qk_rope_head_dim}}, type);
    b.emit(gather_cache, "gather_cache", cache, {kv_latent, rotary_key});
  }
  const auto [k, v] = key_and_value(b, c, up_projected(kv_latent), rotary_key, dims);
  if (!reads_cache(c)) return core_and_output(b, c, rotated, k, v, {heads, heads, qk, l.v_head_dim}, gate);
  return output_projection(b, c,
                           attend(b, c, *lengths, rotated, {k, v},
                                  {.query_heads = heads,
                                   .key_value_heads = heads,
                                   .query_key_dim = qk,
                                   .value_dim = l.v_head_dim,
                                   .scale = score_scale(qk)}),
                           gate);
}

// Returns what is projected of x in parts of these widths, the first of which, the queries, by way of a latent. That
// and the others, of one key-value head, are whole on each tensor rank (class Step3TextAttention of vllm-project/vllm
// vllm/model_executor/models/step3_text.py).
std::vector<TensorId> projected_by_latent(GraphBuilder& b, const LayerContext& c, TensorId x,
                                          const LinearOptions& options, const std::vector<std::int64_t>& widths) {
  LinearOptions down = options;
  down.parts = widths;
  down.parts.front() = c.architecture.latent.q_lora_rank;
  const TensorId all =
      enter_tensor_region(b, c, "qkv", linear(b, "qkv_a", x, std::reduce(down.parts.begin(), down.parts.end()), down));
  std::vector<TensorId> parts = split_columns(b, "split_qkv", all, down.parts);
  const TensorId latent = normalize(b, "q_norm", parts[0], c.architecture.norm_epsilon);
  parts[0] = column_parallel_linear(b, c, "q_b", latent, widths[0] * c.tensor,
                                    {.operands = c.attention_operands(), .input_group = RecomputeGroup::rmsnorm});
  return parts;
}

TensorId grouped_query_attention(GraphBuilder& b, const LayerContext& c, TensorId x, LayerKind kind) {
  const Architecture& a = c.architecture;
  const bool windowed = kind.mixer == Mixer::windowed_attention, sparse = kind.mixer == Mixer::sparse_attention;
  const HeadShape shape = a.head_shape(windowed);
  const std::int64_t d = shape.query_key_dim, value_dim = shape.value_dim;
  const std::int64_t heads = shape.heads / c.tensor;
  const std::int64_t kv_heads = std::max<std::int64_t>(1, shape.key_value_heads / c.tensor);
  LinearOptions options{
      .operands = c.attention_operands(), .input_group = RecomputeGroup::rmsnorm, .bias = a.biases.query_key_value};
  // Where ranks outnumber key-value heads, several ranks hold the same head.
  std::vector<std::int64_t> widths = {heads * d};
  const bool has_values = windowed || !a.values.are_keys;
  if (!kind.borrows) widths.push_back(kv_heads * d);
  if (!kind.borrows && has_values) widths.push_back(kv_heads * value_dim);
  if (a.output_gate || a.head_gate) widths.push_back(a.head_gate ? heads : heads * value_dim);
  const std::size_t of_attention = widths.size();
  if (sparse && c.inference) widths.insert(widths.end(), {index_heads(c) * a.sparse.head_dim, a.sparse.head_dim});
  options.parts = widths;
  if (a.shared_blocks.attention_adapters) {
    options.operands.adapter_rank = a.shared_blocks.adapter_rank;
    options.own_adapter = true;
  }
  const auto projected = [&] {
    if (a.latent.q_lora_rank > 0) return projected_by_latent(b, c, x, options, widths);
    const TensorId qkv = column_parallel_linear(b, c, "qkv", enter_tensor_region(b, c, "qkv", x, options),
                                                std::reduce(widths.begin(), widths.end()) * c.tensor, options);
    return widths.size() == 1 ? std::vector{qkv} : split_columns(b, "split_qkv", qkv, widths);
  };
  const std::vector<TensorId> parts = projected();
  std::optional<TensorId> gate;
  if (a.output_gate || a.head_gate) gate = parts[of_attention - 1];
  const auto key_or_value = [&](const char* name, std::int64_t dim, std::size_t part) {
    return kind.borrows ? borrowed(b, name, {b.shape(parts[0])[0], {kv_heads * dim}}, b.tensor(parts[0]).type)
                        : parts[part];
  };
  TensorId q = parts[0], k = key_or_value("key", d, 1), v = key_or_value("value", value_dim, has_values ? 2 : 1);
  if (a.query_key_norm) {
    const auto norm = a.query_key_gains ? normalize : normalize_alone;
    q = norm(b, "query_norm", q, a.norm_epsilon, heads);
    if (!kind.borrows) k = norm(b, "key_norm", k, a.norm_epsilon, kv_heads);
  }
  if (a.values.normalized && !kind.borrows) v = normalize_alone(b, "value_norm", v, a.norm_epsilon, kv_heads);
  const std::optional<TensorId> lengths = cached_lengths(b, c);
  if (a.positions == PositionKind::rotary && (windowed || !a.window.rotary_only)) {
    const std::int64_t turning = shape.rotary_dim;
    q = rotate(b, "rotary_query", q, {heads, d, turning, c.sequence_tokens(), a.rope_theta, a.rope_scaled}, lengths);
    if (!kind.borrows)
      k = rotate(b, "rotary_key", k, {kv_heads, d, turning, c.sequence_tokens(), a.rope_theta, a.rope_scaled}, lengths);
  }
  const std::int64_t seen = windowed ? a.window.tokens : sparse ? a.sparse.seen() : 0;
  AttentionAttributes attributes{.query_heads = heads,
                                 .key_value_heads = kv_heads,
                                 .query_key_dim = d,
                                 .value_dim = value_dim,
                                 .sequence_length = c.sequence_tokens(),
                                 .window = seen,
                                 .alibi = a.positions == PositionKind::alibi};
  if (sparse)
    choose_blocks(b, c, lengths,
                  {.x = x,
                   .projected = {parts.begin() + static_cast<std::ptrdiff_t>(of_attention), parts.end()},
                   .query = q,
                   .key = k,
                   .of = attributes});
  if (lengths) {
    const std::vector<TensorId> caches =
        kind.borrows ? key_value_caches(b, c, {k, v}, windowed) : append(b, c, *lengths, {k, v}, false, windowed);
    if (reads_cache(c))  // chunks of sequences are windows as long
      return output_projection(b, c,
                               attend(b, c, *lengths, q, caches,
                                      {.query_heads = heads,
                                       .key_value_heads = kv_heads,
                                       .query_key_dim = d,
                                       .value_dim = value_dim,
                                       .scale = score_scale(d),
                                       .window = seen,
                                       .alibi = a.positions == PositionKind::alibi}),
                               gate);
  }
  if (windowed && a.window.chunks && c.context == 1 && c.sequence_tokens() % a.window.tokens == 0) {
    // A chunk is a sequence of its own. Where chunks do not divide the sequence, they are a window as long.
    attributes.sequence_length = a.window.tokens;
    attributes.window = 0;
  }
  return core_and_output(b, c, q, k, v, attributes, gate);
}

}  // namespace

TensorId attention_layer(GraphBuilder& b, const LayerContext& c, TensorId x, LayerKind kind) {
  switch (c.architecture.attention) {
    case AttentionKind::multi_head_latent:
      return multi_head_latent_attention(b, c, x, kind.mixer);
    case AttentionKind::shared_key_value:
      return shared_key_value_attention(b, c, x, kind.mixer);
    case AttentionKind::grouped_query:
      break;
  }
  return grouped_query_attention(b, c, x, kind);
}

}  // namespace plumbline::model
