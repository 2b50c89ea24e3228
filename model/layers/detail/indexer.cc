#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/layers/detail/attention.h"
#include "model/layers/elementary.h"
#include "model/layers/key_value_cache.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

struct Indexed {
  TensorId query, key, weights;  // [T, heads*d], [T, d] or a row for each block, [T, heads]
};

RotaryAttributes index_rotation(const LayerContext& c, std::int64_t heads) {
  const Architecture& a = c.architecture;
  return {heads, a.sparse.head_dim, a.latent.qk_rope_head_dim, c.sequence_tokens(), a.rope_theta, a.rope_scaled};
}

TensorId index_key(GraphBuilder& b, const LayerContext& c, std::optional<TensorId> lengths, const IndexedAttention& in,
                   const LinearOptions& own) {
  const Architecture& a = c.architecture;
  const std::int64_t d = a.sparse.head_dim;
  if (in.compression > 0)
    return compressed_entries(b, c, "index_", in.x, lengths,
                              {.tokens = in.compression, .columns = d, .overlaps = true, .detached = true});
  const TensorId key = layer_normalize(b, "index_key_norm", linear(b, "index_k", in.x, d, own), a.norm_epsilon, true);
  return rotate(b, "index_key", enter_tensor_region(b, c, "index_key", key), index_rotation(c, 1), lengths);
}

Indexed project_index(GraphBuilder& b, const LayerContext& c, std::optional<TensorId> lengths,
                      const IndexedAttention& in) {
  const SparseAttention& s = c.architecture.sparse;
  const LinearOptions own{.operands = {c.unscaled_gemm()}, .detached = true};
  LinearOptions wide = own;
  if (c.inference) wide.operands = c.attention_operands();
  TensorId read = in.query_latent;
  if (c.tensor > 1 && c.sequence && !c.inference) {  // without a gradient that would be scattered
    read = b.activation("index_q_in", {{c.tokens, Extent::tokens}, b.shape(read)[1]}, b.tensor(read).type);
    b.emit(all_gather, "gather_index_q_in", {in.query_latent}, {read}, c.tensor_group());
  }
  const TensorId q = rotate(b, "index_query", linear(b, "index_q", read, s.heads * s.head_dim, wide),
                            index_rotation(c, s.heads), lengths);
  const TensorId k = index_key(b, c, lengths, in, own);
  return {q, k, enter_tensor_region(b, c, "index_weights", linear(b, "index_weights", in.x, s.heads, own))};
}

TensorId index_sums(GraphBuilder& b, TensorId query, double columns) {
  return b.activation("index_scores", {b.shape(query)[0], {std::llround(std::ceil(columns))}}, DataType::fp32);
}

void choose_cached(GraphBuilder& b, const LayerContext& c, TensorId lengths, const IndexedAttention& in,
                   const Indexed& indexed, TensorId chosen) {
  const SparseAttention& s = c.architecture.sparse;
  const TensorId narrow = b.activation("index_q_fp8", b.shape(indexed.query), DataType::fp8_tile);
  b.emit(cast, "cast_index_q", {indexed.query}, {narrow}, CastAttributes{});
  const TensorId cache = append_index(b, c, lengths, indexed.key, in.compression);
  const CachedAttentionAttributes attributes = over_requests(c, {.query_heads = s.heads,
                                                                 .key_value_heads = 1,
                                                                 .query_key_dim = s.head_dim,
                                                                 .value_dim = 0,
                                                                 .latent = true,
                                                                 .compression = in.compression});
  const double keys =
      in.compression > 0 ? attributes.context_tokens / static_cast<double>(in.compression) : attributes.context_tokens;
  const TensorId all = index_sums(b, indexed.query, keys);
  b.emit(cached_index_scores, "index_scores", {narrow, lengths, cache, indexed.weights}, {all}, attributes);
  b.emit(top_tokens, "top_tokens", {all}, {chosen});
}

// Teaches the indexer what attention gives the chosen tokens: `columns` of them for each query. `of`: that attention;
// `attributes`: the indexer's heads, over these tokens.
void learn(GraphBuilder& b, const std::vector<TensorId>& operands, TensorId chosen, std::int64_t columns,
           const std::pair<TensorId, TensorId>& query_and_key, AttentionAttributes of,
           const AttentionAttributes& attributes) {
  of.value_dim = 0;
  b.on_backward([&b, operands, chosen, columns, query_and_key, of, attributes] {
    const TensorId target = b.activation("index_target", {b.shape(chosen)[0], {columns}}, DataType::fp32);
    b.emit(index_scores, "index_target", {query_and_key.first, query_and_key.second, chosen}, {target}, of);
    std::vector<TensorId> reads = {target}, gradients;
    for (const TensorId id : operands) {
      reads.push_back(id);
      gradients.push_back(b.activation("d_" + b.tensor(id).name, b.shape(id), b.activation_gradient_type()));
    }
    reads.push_back(chosen);
    b.emit(index_scores_grad, "index_scores_grad", reads, gradients, attributes);
    for (std::size_t i = 0; i < operands.size(); ++i) b.add_gradient(operands[i], gradients[i]);
  });
}

void choose_trained(GraphBuilder& b, const LayerContext& c, const IndexedAttention& in, const Indexed& indexed,
                    TensorId chosen) {
  const SparseAttention& s = c.architecture.sparse;
  AttentionAttributes attributes{.query_heads = s.heads,
                                 .key_value_heads = 1,
                                 .query_key_dim = s.head_dim,
                                 .value_dim = 0,
                                 .sequence_length = c.sequence_tokens(),
                                 .compression = in.compression};
  const auto tokens = static_cast<double>(c.sequence_tokens());
  const TensorId all =
      index_sums(b, indexed.query, in.compression > 0 ? tokens / static_cast<double>(in.compression) : tokens);
  b.emit(index_scores, "index_scores", {indexed.query, indexed.key, indexed.weights}, {all}, attributes);
  b.emit(top_tokens, "top_tokens", {all}, {chosen});
  b.group(RecomputeGroup::other);
  AttentionAttributes target_of = in.of;
  if (in.compression > 0) target_of.window = 0;
  (in.compression > 0 ? attributes.chosen : attributes.window) = s.tokens;
  learn(b, {indexed.query, indexed.key, indexed.weights}, chosen, s.tokens, {in.query, in.key}, target_of, attributes);
}

// Returns the queries of the rank's heads and the key, for the tokens of all ranks. Each projects all heads of its own
// tokens, whose columns are a tenth of the stream's, before they are gathered.
std::vector<TensorId> project_blocks(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const SparseAttention& s = c.architecture.sparse;
  const TensorId all = enter_tensor_region(
      b, c, "index",
      linear(b, "index", x, (s.heads + 1) * s.head_dim, {.operands = {c.unscaled_gemm()}, .detached = true}));
  const Dimension tokens = b.shape(all)[0];
  const DataType type = b.tensor(all).type;
  const TensorId query = b.activation("index_query_in", {tokens, {index_heads(c) * s.head_dim}}, type);
  const TensorId key = b.activation("index_key_in", {tokens, {s.head_dim}}, type);
  b.emit(split, "split_index", {all}, {query, key});
  b.on_backward([&b, &c, all, query, key] {
    TensorId gradient = b.activation("d_index", b.shape(all), b.activation_gradient_type());
    b.emit(concatenate, "split_index_grad", {b.gradient(query), b.gradient(key)}, {gradient});
    if (const CollectiveAttributes ranks = summing_ranks(c); ranks.ranks > 1) {
      const TensorId part =
          std::exchange(gradient, b.activation("sum_d_index", b.shape(all), b.activation_gradient_type()));
      b.emit(all_reduce, "reduce_d_index", {part}, {gradient}, ranks);
    }
    b.add_gradient(all, gradient);
  });
  return {query, key};
}

}  // namespace

TensorId choose_tokens(GraphBuilder& b, const LayerContext& c, std::optional<TensorId> lengths,
                       const IndexedAttention& in) {
  const Indexed indexed = project_index(b, c, lengths, in);
  b.group(RecomputeGroup::core_attention);
  const TensorId chosen =
      b.activation("chosen_tokens", {b.shape(indexed.query)[0], {c.architecture.sparse.tokens}}, DataType::int32);
  if (lengths)
    choose_cached(b, c, *lengths, in, indexed, chosen);
  else
    choose_trained(b, c, in, indexed, chosen);
  return chosen;
}

std::int64_t index_heads(const LayerContext& c) {
  return std::max<std::int64_t>(1, c.architecture.sparse.heads / c.tensor);
}

void choose_blocks(GraphBuilder& b, const LayerContext& c, std::optional<TensorId> lengths, const IndexedBlocks& in) {
  const Architecture& a = c.architecture;
  const SparseAttention& s = a.sparse;
  const std::int64_t heads = index_heads(c);
  const std::vector<TensorId> projected = in.projected.empty() ? project_blocks(b, c, in.x) : in.projected;
  const auto turned = [&](const std::string& name, TensorId rows, std::int64_t parts) {
    const TensorId normal = normalize(b, name + "_norm", rows, a.norm_epsilon, parts);
    const std::int64_t turning = std::min(a.head_shape(false).rotary_dim, s.head_dim);
    return rotate(b, name, normal, {parts, s.head_dim, turning, c.sequence_tokens(), a.rope_theta, a.rope_scaled},
                  lengths);
  };
  const TensorId query = turned("index_query", projected[0], heads), key = turned("index_key", projected[1], 1);
  b.group(RecomputeGroup::core_attention);
  const TensorId chosen =
      b.activation("chosen_blocks", {b.shape(query)[0], {heads * (s.tokens / s.block)}}, DataType::int32);
  const auto block_scores = [&](double tokens) {  // of each block the largest of its tokens, for each head
    return index_sums(b, query, static_cast<double>(heads) * std::ceil(tokens / static_cast<double>(s.block)));
  };
  if (lengths) {
    const CachedAttentionAttributes attributes = over_requests(
        c, {.query_heads = heads, .key_value_heads = 1, .query_key_dim = s.head_dim, .value_dim = 0, .latent = true});
    const TensorId cache = append_index(b, c, *lengths, key, 0);
    const TensorId scores = block_scores(attributes.context_tokens);
    b.emit(cached_index_scores, "index_scores", {query, *lengths, cache}, {scores}, attributes);
    b.emit(top_tokens, "top_tokens", {scores}, {chosen});
    return;
  }
  AttentionAttributes attributes{.query_heads = heads,
                                 .key_value_heads = 1,
                                 .query_key_dim = s.head_dim,
                                 .value_dim = 0,
                                 .sequence_length = c.sequence_tokens()};
  const TensorId scores = block_scores(static_cast<double>(c.sequence_tokens()));
  b.emit(index_scores, "index_scores", {query, key}, {scores}, attributes);
  b.emit(top_tokens, "top_tokens", {scores}, {chosen});
  b.group(RecomputeGroup::other);
  attributes.window = in.of.window;
  learn(b, {query, key}, chosen, heads * s.tokens, {in.query, in.key}, in.of, attributes);
}

}  // namespace plumbline::model
