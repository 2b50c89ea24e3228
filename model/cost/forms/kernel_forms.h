// The times of GEMM and attention kernels as functions of numbers alone, without a profile, a graph or a device.
// KernelCost and the fits of a calibration call the same functions, so that a fitted constant means what a prediction
// takes it for. All quantities are in SI units. Derivations, and what measured kernels show of each term:
// docs/costs.md.
#pragma once

namespace plumbline::model {

struct GemmConstants {
  double tile_m = 128, tile_n = 128;  // rows and columns of an output tile
  double k_block = 128;               // the inner dimension is rounded up to a multiple of it
  double ramp = 0;                    // s, start and end of a kernel; the caller adds it once a launch
  double wave_overhead = 0;           // s of a wave
  double wave_share = 1;              // 1: the last wave takes as long as a full one; 0: as its share of a wave
  double k_time = 0;                  // s per element of the inner dimension for one tile on one SM
  double memory_bandwidth = 0;        // B/s of operands and results; 0: they cost nothing here
  double memory_exponent = 4;         // how far products hide them: 1 not at all; infinite: the longer of both
  double droop = 0;                   // by how much a kernel far longer than droop_time is slower
  double droop_time = 0;              // s
};

// `groups` GEMMs of m x n x k in one launch.
struct GemmWork {
  double groups = 1, m = 0, n = 0, k = 0;
  double operand_bytes = 2, output_bytes = 2;  // per element; operands: the mean over both where they differ
  // By what part of m, or of k, it is more or less in a group, drawn evenly.
  double row_spread = 0, inner_spread = 0;

  double bytes() const;  // of the operands and results of all groups
};

// The seconds of a launch without its ramp, by cause.
struct GemmSeconds {
  double waves = 0;   // wave_overhead of every wave
  double tiles = 0;   // k_time of every wave
  double memory = 0;  // how much longer the operands and results make it
  double droop = 0;
  double total() const { return waves + tiles + memory + droop; }
};

// Returns `rows` in whole tiles: on average over groups whose rows are spread evenly over rows (1 - spread) to
// rows (1 + spread).
double padded_rows(double rows, double spread, double tile);

// Returns groups * padded_rows(m) / tile_m * ceil(n / tile_n), of rows without a spread groups * ceil(m / tile_m) * ...
double gemm_tiles(const GemmConstants& constants, const GemmWork& work);

// Returns, on n SMs,
//   tiles = gemm_tiles(),  w = tiles / n,
//   C = max(1, w + wave_share * (ceil(w) - w)) * (k * k_time + wave_overhead)        k in whole blocks
//   B = groups * ((m + n) * k * operand_bytes + m * n * output_bytes) / memory_bandwidth
//   F = (C^p + B^p)^(1/p), p = memory_exponent,  seconds = F * (1 + droop * F / (F + droop_time)).
// F is at least C, and C at least w * k * k_time.
GemmSeconds gemm_core(const GemmConstants& constants, const GemmWork& work, double sms);
double gemm_core_seconds(const GemmConstants& constants, const GemmWork& work, double sms);

// GEMMs of at most small_gemm_rows rows a group, and of more where a grouped kernel was measured with them: kernels
// with tiles of few rows that divide the inner dimension.
inline constexpr double small_gemm_rows = 512;

struct SmallGemmConstants {
  double start = 0;       // s, start and end of a kernel; the caller adds it once a launch
  double bandwidth = 0;   // B/s of operands and results
  double k_time = 0;      // s per element of the inner dimension, which no division of it among SMs avoids
  double rate = 0;        // FLOP/s of all SMs, over rows in whole tiles
  double tile = 64;       // rows of a tile, the least that the GPU multiplies; as a default Hopper's
  double tile_depth = 0;  // elements of the inner dimension whose products take as long as a tile's start and end
  double row_time = 0;    // s per element of the rows that enter and leave, next to the tiles
};

// The seconds of a launch without its start, by cause.
struct SmallGemmSeconds {
  double inner = 0;   // k_time
  double tiles = 0;   // rate
  double memory = 0;  // how much longer the operands and results make it
  double rows = 0;    // row_time
  double total() const { return inner + tiles + memory + rows; }
};

// Returns, on a share of the SMs,
//   C = k * k_time + 2 * groups * padded_rows * n * (k + tile_depth) / (rate * share)
//   B = bytes / bandwidth       as of gemm_core()
//   seconds = (C^3 + B^3)^(1/3) + groups * m * (k + n) * row_time.
SmallGemmSeconds small_gemm_core(const SmallGemmConstants& constants, const GemmWork& work, double share);

struct AttentionConstants {
  double rate = 0;       // FLOP/s of the whole GPU that a pair's GEMMs add; may be above its peak next to a pair_time
  double pair_time = 0;  // s per (query, key) pair on the whole GPU: exponential and softmax
  double row_time = 0;   // s per query row and head on the whole GPU: prologue, epilogue, masked halves of tiles
  double tail = 0;       // the last partial round, in units of the longest block
  double kv_bandwidth = 0;  // B/s of keys and values; 0: they cost nothing here
  double dim_block = 1;     // head dimensions are computed as multiples of it
};

struct AttentionWork {
  double batch_heads = 0;      // sequences times query heads
  double kv_heads_batch = 0;   // sequences times key-value heads
  double queries = 0;          // of each sequence
  double pairs_per_query = 0;  // keys that a query sees, on average
  double qk_dim = 0, v_dim = 0;
  bool backward = false;
  double keys = 0;           // of each sequence; 0: as many as queries
  double longest = 0;        // keys that the last query sees; 0: all
  double element_bytes = 2;  // of keys and values
};

// The seconds of an attention kernel by the constant that causes them.
struct AttentionSeconds {
  double gemms = 0, pairs = 0, rows = 0, tail = 0, keys_values = 0;
  double total() const { return gemms + pairs + rows + tail + keys_values; }
};

// Returns, with d = qk_dim + v_dim forward and 3 qk_dim + 2 v_dim backward, on f free SMs of n,
//   pair = pair_time + 2 * d / rate
//   seconds = (batch_heads * queries * (pairs_per_query * pair + row_time)) * n / f
//             + tail * 128 * longest * pair * n                                  a block of 128 rows alone on one SM
//             + kv_heads_batch * keys * (qk_dim + v_dim) * element_bytes / kv_bandwidth
// Backward keys and values are read and their gradients written: twice the bytes. The tail does not shrink with more
// SMs and does not grow with fewer.
AttentionSeconds attention_parts(const AttentionConstants& constants, const AttentionWork& work, double device_sms,
                                 double free_sms);
double attention_seconds(const AttentionConstants& constants, const AttentionWork& work, double device_sms,
                         double free_sms);

// The time of attention of a few new tokens over keys and values in a cache, as a function of numbers alone: what
// decode steps run, grouped-query or over a latent cache. KernelCost and the fits of a calibration call it. SI units.
// Derivation, and what measured kernels show of each term: docs/costs.md.

struct CachedAttentionConstants {
  double start = 0;         // s of a launch of the least size, without its launch gap
  double request_time = 0;  // s per request and key-value head: prologue and epilogue of a block
  double bandwidth = 0;     // B/s of the cache, queries and results
  double rate = 0;          // FLOP/s of the rows that blocks compute
  double ramp = 0;          // s until the kernel reads at its bandwidth
  double ramp_time = 0;     // s of reading and computing after which most of the ramp has passed
  double merge_time = 0;  // s per query row of a request: its keys are divided between blocks and their results merged
  double least_rows = 1;  // query rows of a key-value head that a block computes at least
  double sharpness = 4;   // exponent with which reading and computing are added; infinite: the longer of both
};

struct CachedAttentionWork {
  double requests = 0, queries = 1;      // queries: new tokens of each request
  double query_heads = 0, kv_heads = 0;  // kv_heads: 1 for a latent cache
  double pairs_per_query = 0;            // keys that a query sees, on average
  double keys = 0;                       // of a request, that any of its queries sees
  double qk_dim = 0, v_dim = 0;
  double key_value_bytes = 0;  // of one token in the caches, as they are stored
  double element_bytes = 2;    // of queries and results
};

// The seconds of a launch by the constant that causes them. Reading and computing overlap; each has the part of their
// sum by which that grows with it.
struct CachedAttentionSeconds {
  double start = 0, requests = 0, reading = 0, computing = 0, ramp = 0, merge = 0;
  double core() const { return reading + computing; }
  double total() const { return start + requests + core() + ramp + merge; }
};

// Returns the bytes of caches, queries and results, and the FLOPs of scores and values.
double cached_attention_bytes(const CachedAttentionWork& work);
double cached_attention_flops(const CachedAttentionWork& work);

// Returns, with B requests of n queries, H query heads, G key-value heads and p = sharpness,
//   M = cached_attention_bytes / bandwidth
//   C = cached_attention_flops * max(1, least_rows * G / (n * H)) / rate
//   w = (M^p + C^p)^(1/p)
//   seconds = start + request_time * B * G + w + (ramp + merge_time * n * H) * (1 - exp(-w / ramp_time)).
CachedAttentionSeconds cached_attention_parts(const CachedAttentionConstants& constants,
                                              const CachedAttentionWork& work);

}  // namespace plumbline::model
