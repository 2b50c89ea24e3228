// Reads the component tables, calibrate/published/components/<gpu>/<table>.csv. Errors name file, line and column: a
// missing column, a number that is not finite and above 0, a shape that occurs twice, an unknown format, a GPU in the
// file's heading that is not the folder's, and another number of rows than the heading states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// Rows of the component tables (calibrate/published/components): times of single kernels and transfers on one kind of
// GPU, as others measured and published them. Times are in seconds; a count has no unit.

// A GEMM of m x k by k x n in a burst: six launches after three to warm up. The format is bf16, fp8 (scaled per token
// and tensor), fp8_block (1x128 and 128x128), nvfp4 or mxfp4; times of formats below 16 bits include quantizing the
// activation, except those of aiter, which are of the best kernel that a search found.
struct GemmRow {
  std::string software, format;
  std::int64_t m = 0, n = 0, k = 0;
  double seconds = 0;
};

// `groups` GEMMs of few rows in one launch, in the masked layout: m of each on average, by `row_spread` of m more or
// fewer (drawn evenly). Without quantizing.
struct GroupedGemmRow {
  std::string software, format;
  double row_spread = 0;
  std::int64_t groups = 0, m = 0, n = 0, k = 0;
  double seconds = 0;
};

// GemmRow repeated for a second and more; power is the board's, as its meter averages it.
struct HeldGemmRow : GemmRow {
  double power_w = 0, power_limit_w = 0;
};

// Causal attention, forward, in BF16: sequences of `tokens` tokens; head dimension `dim` of queries, keys and values.
struct AttentionRow {
  std::string software;
  std::int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0, dim = 0;
  double seconds = 0;
};

// One direction of attention as training runs it, without a cache: ten launches in a row. `mask` is "causal" or "full";
// a `window` of 0 is none. A deterministic backward adds up the gradients of queries in a fixed order.
struct TrainingAttentionRow {
  std::string software, format, mask;
  bool backward = false, deterministic = false;
  std::int64_t batch = 0, heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, queries = 0, keys = 0, window = 0;
  double seconds = 0;

  // Returns the keys that a query sees, on average.
  double keys_per_query() const;
};

// One direction of a recurrence in chunks of `chunk` tokens, in 16 bits: `sequences` of `tokens` tokens each. Queries
// and keys are normalised inside, or before it or not at all. The recurrence is gated_delta, channel_delta or
// state_space, whose groups are the key heads.
struct ScanRow {
  std::string software, recurrence;
  bool backward = false, norms_inside = false;
  std::int64_t sequences = 0, tokens = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, chunk = 0;
  double seconds = 0;

  model::Recurrence shape() const;
};

// Multi-head latent attention, forward, with DeepSeek-V3's dimensions: the core alone (192 of queries and keys, 128 of
// values) or the block with its projections. The format of a core is that of keys and values (bf16, fp8); that of a
// block names attention, cache and GEMMs: "bf16/fp8/nvfp4".
struct MlaRow {
  std::string software, format, part;
  std::int64_t batch = 0, tokens = 0, heads = 0;
  double seconds = 0;
};

// Attention of `queries` new tokens of each of `batch` requests over `keys` tokens of it in a cache. A latent cache has
// keys of 576 columns whose first 512 are the values (kv_heads 1). The format is that of the cache: bf16 or fp8.
struct CachedAttentionRow {
  std::string software, format;
  std::int64_t heads = 0, kv_heads = 0, qk_dim = 0, v_dim = 0, queries = 0, batch = 0, keys = 0;
  double seconds = 0;

  bool latent() const { return qk_dim != v_dim; }
};

// The experts of one rank, forward: routing of `tokens` tokens, gate and up, activation, down. `distribution` is
// "balanced" or "power_law_1.2", where it is the rank with most rows.
struct ExpertRow {
  std::string software, kernel, format, distribution;
  std::int64_t tokens = 0, hidden = 0, ffn = 0, top_k = 0, experts = 0, expert_parallel = 0;
  double seconds = 0;
};

// A collective on the GPUs of one node, of NCCL or an inference engine's own; bytes are the buffer of nccl-tests
// (all_gather and reduce_scatter: the whole).
struct CollectiveRow {
  std::string software, op;
  std::int64_t gpus = 0, bytes = 0;
  double seconds = 0;
};

// DeepEP: mode is "normal" or "low_latency" (where sms is 0), direction is "dispatch" (FP8) or "combine" (BF16), tokens
// are those of one rank.
struct ExchangeRow {
  std::string software, mode, direction;
  std::int64_t nodes = 0, gpus = 0, tokens = 0, hidden = 0, top_k = 0, experts = 0, sms = 0;
  double seconds = 0;
};

// TensorRT-LLM's expert all-to-all over NVLink between trays, with hidden size 7168, 8 of 256 experts and balanced
// routing. The kernel is NVLinkTwoSided or NVLinkOneSided; the direction prepare, dispatch, combine or
// combine_low_precision; tokens are those of one rank.
struct TrayExchangeRow {
  std::string kernel, direction, format;
  std::int64_t expert_parallel = 0, tokens = 0;
  double seconds = 0;
};

model::Result<std::vector<GemmRow>> load_gemm_rows(const std::string& path);
model::Result<std::vector<GroupedGemmRow>> load_grouped_gemm_rows(const std::string& path);
model::Result<std::vector<HeldGemmRow>> load_held_gemm_rows(const std::string& path);
model::Result<std::vector<AttentionRow>> load_attention_rows(const std::string& path);
model::Result<std::vector<TrainingAttentionRow>> load_training_attention_rows(const std::string& path);
model::Result<std::vector<ScanRow>> load_scan_rows(const std::string& path);
model::Result<std::vector<MlaRow>> load_mla_rows(const std::string& path);
// Reads decode_attention.csv and decode_mla.csv.
model::Result<std::vector<CachedAttentionRow>> load_cached_attention_rows(const std::string& path);
model::Result<std::vector<ExpertRow>> load_expert_rows(const std::string& path);
model::Result<std::vector<CollectiveRow>> load_collective_rows(const std::string& path);
model::Result<std::vector<ExchangeRow>> load_exchange_rows(const std::string& path);
// Reads the low-latency rows of deepep.csv: software is the library, its version and the hardware.
model::Result<std::vector<ExchangeRow>> load_printed_exchange_rows(const std::string& path);
model::Result<std::vector<TrayExchangeRow>> load_tray_exchange_rows(const std::string& path);

// Reads the file with the loader that its name calls for and returns the number of its rows.
model::Result<std::size_t> check_component_table(const std::string& path);

}  // namespace plumbline::calibrate
