// Keys and values that passes of inference keep for later ones: which tokens and columns a rank holds in which format,
// and the operators that write and read them. Multi-head latent attention keeps one latent and one rotary key for all
// heads (DeepSeek-V2 report, arXiv 2405.04434, section 2.1.2), which tensor parallelism does not divide.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// Returns the format of a name of inference.kv_cache. fp8 has one scale for the whole tensor, int6 none.
DataType cache_type(std::string_view name);

// Returns the bytes that a rank of `tensor` ones keeps for one request of that many tokens in one layer. Where ranks
// outnumber key-value heads, several hold the same one. Layers with a window keep its tokens only, and compressed
// entries where there are any; layers without attention keep none, nor do those that borrow.
double cache_bytes(const Architecture& architecture, DataType type, std::int64_t tensor, LayerKind kind, double tokens);

// Returns the same of all layers; of one token it is what each adds while no window is full.
double cache_bytes(const Architecture& architecture, DataType type, std::int64_t tensor, double tokens);

// Returns the tokens of each request before a pass [requests], which operators read that depend on positions; none in
// training.
std::optional<TensorId> cached_lengths(GraphBuilder& builder, const LayerContext& context);

// Returns caches of keys and of values of these rows [T, w].
std::vector<TensorId> key_value_caches(GraphBuilder& builder, const LayerContext& context,
                                       const std::vector<TensorId>& rows, bool windowed);

// Appends new rows [T, w] to caches of their own or, with `joined`, to one that has their columns side by side.
std::vector<TensorId> append(GraphBuilder& builder, const LayerContext& context, TensorId lengths,
                             const std::vector<TensorId>& rows, bool joined, bool windowed);

// Appends the keys of an indexer [T, w], or entries of so many tokens, in FP8 with a scale for 128 columns, for grouped
// queries in BF16, whatever inference.kv_cache is. The kernel that appends them casts them.
TensorId append_index(GraphBuilder& builder, const LayerContext& context, TensorId lengths, TensorId keys,
                      std::int64_t compression);

// Appends compressed entries of so many tokens [K, w], which are values too.
TensorId append_entries(GraphBuilder& builder, const LayerContext& context, TensorId lengths, TensorId keys,
                        std::int64_t compression);

// Returns whether queries of the pass see tokens of earlier ones, so that attention reads caches.
bool reads_cache(const LayerContext& context);

// Fills in the requests of a pass and their tokens.
CachedAttentionAttributes over_requests(const LayerContext& context, CachedAttentionAttributes attributes);

// Attends over keys and values, or a latent, of whole requests: q [T, Hq*dk] -> [T, Hq*dv].
TensorId attend(GraphBuilder& builder, const LayerContext& context, TensorId lengths, TensorId q,
                const std::vector<TensorId>& caches, CachedAttentionAttributes attributes);

}  // namespace plumbline::model
