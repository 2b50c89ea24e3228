#include <cmath>
#include <optional>
#include <vector>

#include "model/layers/detail/attention.h"
#include "model/layers/elementary.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

struct SharedInputs {
  TensorId query_latent, key;  // normalised; the key of all heads is rotated
};

RotaryAttributes rotation(const LayerContext& c, std::int64_t heads) {
  const Architecture& a = c.architecture;
  return {heads, a.head_dim, a.latent.qk_rope_head_dim, c.sequence_tokens(), a.rope_theta, a.rope_scaled};
}

// Engines of inference store both matrices as one (class DeepseekV4Attention of vllm-project/vllm @0484480
// vllm/models/deepseek_v4/attention.py, fused_wqa_wkv).
SharedInputs shared_inputs(GraphBuilder& b, const LayerContext& c, TensorId x, std::optional<TensorId> lengths) {
  const Architecture& a = c.architecture;
  const std::int64_t rank = a.latent.q_lora_rank;
  const LinearOptions down{.operands = c.attention_operands(), .input_group = RecomputeGroup::rmsnorm};
  TensorId query = 0, key = 0;
  if (c.inference) {
    const TensorId all = enter_tensor_region(b, c, "latents", linear(b, "q_kv", x, rank + a.head_dim, down));
    const auto parts = split_columns(b, "split_q_kv", all, {rank, a.head_dim});
    query = parts[0];
    key = parts[1];
  } else {
    query = linear(b, "q_a", x, rank, down);
    key = enter_tensor_region(b, c, "key", linear(b, "kv", x, a.head_dim, down));
  }
  query = normalize(b, "q_norm", query, a.norm_epsilon);
  key = normalize(b, "kv_norm", key, a.norm_epsilon);
  return {query, rotate(b, "rotary_key", key, rotation(c, 1), lengths)};
}

// Returns the queries of the rank's heads, each normalised without a gain.
TensorId shared_queries(GraphBuilder& b, const LayerContext& c, TensorId latent, std::optional<TensorId> lengths) {
  const Architecture& a = c.architecture;
  const LinearOptions up{.operands = c.attention_operands(),
                         .input_group = RecomputeGroup::rmsnorm,
                         .output_group = RecomputeGroup::mla_up_projection};
  if (!c.inference) latent = enter_tensor_region(b, c, "q_b", latent, up);
  const std::int64_t heads = a.heads / c.tensor;
  const TensorId q = column_parallel_linear(b, c, "q_b", latent, a.heads * a.head_dim, up);
  return rotate(b, "rotary_query", normalize_alone(b, "query_norm", q, a.norm_epsilon, heads), rotation(c, heads),
                lengths);
}

// Each group of heads is projected to a latent. Before that results are rotated back by the query's position, since
// values are rotated as keys are.
TensorId grouped_output(GraphBuilder& b, const LayerContext& c, TensorId o, std::optional<TensorId> lengths) {
  const Architecture& a = c.architecture;
  const std::int64_t heads = a.heads / c.tensor, groups = a.shared.output_groups / c.tensor;
  if (c.gemm == Precision::fp8) keep(b, o, DataType::e5m6);
  b.group(RecomputeGroup::other);
  const TensorId turned = rotate(b, "rotary_output", o, rotation(c, heads), lengths);
  const TensorId latents =
      head_linear(b, c, "o_a", turned, {groups}, heads / groups * a.head_dim, a.shared.output_rank);
  return row_parallel_linear(b, c, "o_b", latents, a.hidden_size, {.operands = c.attention_operands()});
}

// Gives a key that all ranks of a tensor group hold its gradient: the sum of what their heads contribute.
void give_key_gradient(GraphBuilder& b, const LayerContext& c, TensorId key, TensorId gradient) {
  const CollectiveAttributes ranks = summing_ranks(c);
  if (ranks.ranks == 1) return b.add_gradient(key, gradient);
  const TensorId sum = b.activation("sum_" + b.tensor(gradient).name, b.shape(gradient), b.tensor(gradient).type);
  b.emit(all_reduce, "reduce_" + b.tensor(gradient).name, {gradient}, {sum}, ranks);
  b.add_gradient(key, sum);
}

// `keys`: of tokens, and compressed entries where there are any.
TensorId attend_trained(GraphBuilder& b, const LayerContext& c, TensorId q, const std::vector<TensorId>& keys,
                        std::optional<TensorId> chosen, const AttentionAttributes& attributes) {
  b.group(RecomputeGroup::core_attention);
  const TensorId o = b.activation("attention_out", b.shape(q), b.tensor(q).type);
  const TensorId lse = b.activation("log_sum_exp", {b.shape(q)[0], {attributes.query_heads}}, DataType::fp32);
  std::vector<TensorId> reads = {q};
  reads.insert(reads.end(), keys.begin(), keys.end());
  if (chosen) reads.push_back(*chosen);
  b.emit(compressed_attention, "attention", reads, {o, lse}, attributes);
  b.on_backward([&b, &c, q, keys, chosen, o, lse, attributes] {
    std::vector<TensorId> inputs = {b.gradient(o), q}, gradients;
    inputs.insert(inputs.end(), keys.begin(), keys.end());
    inputs.insert(inputs.end(), {b.kept(o), lse});
    if (chosen) inputs.push_back(*chosen);
    gradients.push_back(b.activation("d_attention_query", b.shape(q), b.activation_gradient_type()));
    for (const TensorId key : keys)
      gradients.push_back(
          b.activation("d_attention_" + b.tensor(key).name, b.shape(key), b.activation_gradient_type()));
    b.emit(compressed_attention_grad, "attention_grad", inputs, gradients, attributes);
    b.add_gradient(q, gradients[0]);
    for (std::size_t i = 0; i < keys.size(); ++i) give_key_gradient(b, c, keys[i], gradients[i + 1]);
  });
  return o;
}

TensorId attend_cached(GraphBuilder& b, const LayerContext& c, TensorId lengths, TensorId q,
                       const std::vector<TensorId>& caches, std::optional<TensorId> chosen,
                       const AttentionAttributes& of) {
  const CachedAttentionAttributes attributes =
      over_requests(c, {.query_heads = of.query_heads,
                        .key_value_heads = 1,
                        .query_key_dim = of.query_key_dim,
                        .value_dim = of.value_dim,
                        .latent = true,
                        .scale = 1 / std::sqrt(static_cast<double>(of.query_key_dim)),
                        .window = of.window,
                        .compression = of.compression,
                        .chosen = of.chosen});
  const TensorId o = b.activation("attention_out", b.shape(q), b.tensor(q).type);
  std::vector<TensorId> reads = {q, lengths};
  reads.insert(reads.end(), caches.begin(), caches.end());
  if (chosen) reads.push_back(*chosen);
  b.emit(of.compression > 0 ? cached_compressed_attention : cached_attention, "attention", reads, {o}, attributes);
  return o;
}

}  // namespace

TensorId shared_key_value_attention(GraphBuilder& b, const LayerContext& c, TensorId x, Mixer mixer) {
  const Architecture& a = c.architecture;
  const std::int64_t compression = a.shared.compression_of(mixer);
  const bool sparse = mixer == Mixer::sparse_compressed_attention;
  const std::optional<TensorId> lengths = cached_lengths(b, c);
  const SharedInputs inputs = shared_inputs(b, c, x, lengths);
  const TensorId q = shared_queries(b, c, inputs.query_latent, lengths);
  std::vector<TensorId> keys = {inputs.key};
  if (compression > 0)
    keys.push_back(
        compressed_entries(b, c, "", x, lengths, {.tokens = compression, .columns = a.head_dim, .overlaps = sparse}));
  const AttentionAttributes attributes{.query_heads = a.heads / c.tensor,
                                       .key_value_heads = 1,
                                       .query_key_dim = a.head_dim,
                                       .value_dim = a.head_dim,
                                       .sequence_length = c.sequence_tokens(),
                                       .window = a.window.tokens,
                                       .document_tokens = c.document_tokens,
                                       .compression = compression,
                                       .chosen = sparse ? a.sparse.tokens : 0};
  std::vector<TensorId> caches;
  if (lengths) {
    caches = append(b, c, *lengths, {inputs.key}, true, true);
    if (compression > 0) caches.push_back(append_entries(b, c, *lengths, keys[1], compression));
  }
  std::optional<TensorId> chosen;
  if (sparse) chosen = choose_tokens(b, c, lengths, {x, inputs.query_latent, q, keys[1], attributes, compression});
  const TensorId o = lengths ? attend_cached(b, c, *lengths, q, caches, chosen, attributes)
                             : attend_trained(b, c, q, keys, chosen, attributes);
  return grouped_output(b, c, o, lengths);
}

}  // namespace plumbline::model
