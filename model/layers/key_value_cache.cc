#include "model/layers/key_value_cache.h"

#include <algorithm>
#include <cmath>

namespace plumbline::model {
namespace {

using enum OperatorKind;

double context_tokens(const LayerContext& c) {
  return c.inference.cached_tokens + static_cast<double>(c.inference.new_tokens);
}

// Returns the tokens of a request that are kept: the queries of a pass see a window each.
double kept_tokens(const Architecture& a, bool windowed, double tokens, double queries) {
  return windowed ? std::min(tokens, static_cast<double>(a.window.tokens) + queries - 1) : tokens;
}

// `compression`: tokens for which a row stands; 0: each token has one.
Dimension cache_rows(const LayerContext& c, bool windowed, std::int64_t compression = 0) {
  const double kept =
      kept_tokens(c.architecture, windowed, context_tokens(c), static_cast<double>(c.inference.new_tokens));
  const double seen = compression > 0 ? kept / static_cast<double>(compression) : kept;
  const std::int64_t rows = c.inference.cache_rows > 0 ? c.inference.cache_rows : std::llround(std::ceil(seen));
  return {c.inference.requests * rows};
}

// Returns the format of an indexer's keys, whatever that of keys and values is: grouped queries have theirs in 16 bits
// (vllm-project/vllm @545393a vllm/models/minimax_m3/common/indexer.py, class MiniMaxM3IndexerCache), others in FP8.
DataType index_type(const Architecture& a) {
  return a.attention == AttentionKind::grouped_query ? DataType::bf16 : DataType::fp8_tile;
}

TensorId append_rows(GraphBuilder& b, const std::string& name, TensorId lengths, TensorId keys, Dimension rows,
                     DataType type) {
  const TensorId held = b.cache(name + "_cache", {rows, b.shape(keys)[1]}, type);
  b.emit(append_cache, "append_" + name, {lengths, keys}, {held});
  return held;
}

}  // namespace

DataType cache_type(std::string_view name) {
  if (name == "fp32") return DataType::fp32;
  if (name == "fp16") return DataType::fp16;
  if (name == "fp8") return DataType::fp8;
  if (name == "int6") return DataType::int6;
  return name == "nvfp4" ? DataType::nvfp4 : DataType::bf16;
}

double cache_bytes(const Architecture& a, DataType type, std::int64_t tensor, LayerKind kind, double tokens) {
  const Mixer mixer = kind.mixer;
  if (!attends(mixer) || kind.borrows) return 0;
  const bool windowed = mixer == Mixer::windowed_attention || compresses(mixer);
  const HeadShape shape = a.head_shape(windowed);
  const std::int64_t columns =
      a.attention == AttentionKind::multi_head_latent ? a.latent.kv_lora_rank + a.latent.qk_rope_head_dim
      : a.attention == AttentionKind::shared_key_value
          ? a.head_dim
          : std::max<std::int64_t>(1, shape.key_value_heads / tensor) * (shape.query_key_dim + shape.value_dim);
  const double row = static_cast<double>(columns) * bytes_per_element(type);
  const bool indexed =
      a.sparse.tokens > 0 && (a.attention == AttentionKind::grouped_query) == (mixer == Mixer::sparse_attention);
  const double index = indexed ? static_cast<double>(a.sparse.head_dim) * bytes_per_element(index_type(a)) : 0;
  const double kept = kept_tokens(a, windowed, tokens, 1);
  if (a.attention != AttentionKind::shared_key_value) return (row + index) * kept;
  const std::int64_t compression = a.shared.compression_of(mixer);
  const double of_entry = mixer == Mixer::sparse_compressed_attention ? row + index : row;
  return row * kept + (compression > 0 ? of_entry * tokens / static_cast<double>(compression) : 0);
}

double cache_bytes(const Architecture& a, DataType type, std::int64_t tensor, double tokens) {
  double sum = 0;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) sum += cache_bytes(a, type, tensor, a.layer(layer), tokens);
  return sum;
}

std::optional<TensorId> cached_lengths(GraphBuilder& b, const LayerContext& c) {
  if (!c.inference) return std::nullopt;
  return b.constant("cached_lengths", {{c.inference.requests}}, DataType::int32);
}

std::vector<TensorId> key_value_caches(GraphBuilder& b, const LayerContext& c, const std::vector<TensorId>& rows,
                                       bool windowed) {
  std::vector<TensorId> caches;
  for (const TensorId row : rows)
    caches.push_back(b.cache(caches.empty() ? "key_cache" : "value_cache", {cache_rows(c, windowed), b.shape(row)[1]},
                             cache_type(c.inference.cache)));
  return caches;
}

std::vector<TensorId> append(GraphBuilder& b, const LayerContext& c, TensorId lengths,
                             const std::vector<TensorId>& rows, bool joined, bool windowed) {
  std::vector<TensorId> reads = {lengths}, caches;
  reads.insert(reads.end(), rows.begin(), rows.end());
  if (joined) {
    std::int64_t width = 0;
    for (const TensorId row : rows) width += b.shape(row)[1].size;
    caches = {b.cache("latent_cache", {cache_rows(c, windowed), {width}}, cache_type(c.inference.cache))};
  } else {
    caches = key_value_caches(b, c, rows, windowed);
  }
  b.emit(append_cache, "append_cache", reads, caches);
  return caches;
}

TensorId append_index(GraphBuilder& b, const LayerContext& c, TensorId lengths, TensorId keys,
                      std::int64_t compression) {
  return append_rows(b, "index", lengths, keys, cache_rows(c, false, compression), index_type(c.architecture));
}

TensorId append_entries(GraphBuilder& b, const LayerContext& c, TensorId lengths, TensorId keys,
                        std::int64_t compression) {
  return append_rows(b, "runs", lengths, keys, cache_rows(c, false, compression), cache_type(c.inference.cache));
}

bool reads_cache(const LayerContext& c) {
  return c.inference.kind == InferencePass::Kind::decode || c.inference.cached_tokens > 0;
}

CachedAttentionAttributes over_requests(const LayerContext& c, CachedAttentionAttributes attributes) {
  attributes.requests = c.inference.requests;
  attributes.new_tokens = c.inference.new_tokens;
  attributes.context_tokens = context_tokens(c);
  return attributes;
}

TensorId attend(GraphBuilder& b, const LayerContext& c, TensorId lengths, TensorId q,
                const std::vector<TensorId>& caches, CachedAttentionAttributes attributes) {
  attributes = over_requests(c, attributes);
  const TensorId o =
      b.activation("attention_out", {b.shape(q)[0], {attributes.query_heads * attributes.value_dim}}, b.tensor(q).type);
  std::vector<TensorId> reads = {q, lengths};
  reads.insert(reads.end(), caches.begin(), caches.end());
  b.emit(cached_attention, "attention", reads, {o}, attributes);
  return o;
}

}  // namespace plumbline::model
