#include "model/cost/forms/kernel_forms.h"

#include <algorithm>
#include <cmath>

namespace plumbline::model {
namespace {

constexpr double block_rows = 128;       // query rows of a block of an attention kernel
constexpr double tile_rounding = 1e-12;  // of a mean number of tiles

double in_blocks(double value, double block) { return std::ceil(value / block) * block; }

// Returns (a^p + b^p)^(1/p) for p of 1 or more, which is the larger one exactly where the other is 0. Most kinds have
// the usual exponent, whose roots take a sixth of the time of general powers.
double p_norm(double a, double b, double p) {
  const double larger = std::max(a, b);
  if (larger == 0) return 0;
  const double ratio = std::min(a, b) / larger;
  if (p == GemmConstants{}.memory_exponent) return larger * std::sqrt(std::sqrt(1 + ratio * ratio * ratio * ratio));
  return larger * std::pow(1 + std::pow(ratio, p), 1 / p);
}

// The rounding of partial waves is taken off the whole ones, so that a share of 1 gives a whole number exactly.
double waves_of(const GemmConstants& c, const GemmWork& work, double sms) {
  const double tiles = gemm_tiles(c, work);
  if (tiles == 0) return 0;
  const double waves = tiles / sms, whole = std::ceil(waves * (1 - tile_rounding));
  return std::max(1.0, whole - (1 - c.wave_share) * (whole - waves));
}

// Returns the integral of ceil(x) from 0 to a.
double sum_of_ceil(double a) {
  const double whole = std::floor(a);
  return whole * (whole + 1) / 2 + (a - whole) * (whole + 1);
}

}  // namespace

double GemmWork::bytes() const { return groups * ((m + n) * k * operand_bytes + m * n * output_bytes); }

// Rows are whole, so that tiles of one row are never rounded up.
double padded_rows(double rows, double spread, double tile) {
  const double low = rows * (1 - spread) / tile, high = rows * (1 + spread) / tile;
  if (high <= low || tile == 1) return in_blocks(rows, tile);
  return tile * (sum_of_ceil(high) - sum_of_ceil(low)) / (high - low);
}

double gemm_tiles(const GemmConstants& c, const GemmWork& work) {
  return work.groups * padded_rows(work.m, work.row_spread, c.tile_m) / c.tile_m * std::ceil(work.n / c.tile_n);
}

GemmSeconds gemm_core(const GemmConstants& c, const GemmWork& work, double sms) {
  const double waves = waves_of(c, work, sms);
  GemmSeconds seconds;
  seconds.waves = waves * c.wave_overhead;
  seconds.tiles = waves * padded_rows(work.k, work.inner_spread, c.k_block) * c.k_time;
  const double compute = seconds.waves + seconds.tiles;
  double core = compute;
  if (c.memory_bandwidth > 0) {
    core = p_norm(compute, work.bytes() / c.memory_bandwidth, c.memory_exponent);
    seconds.memory = core - compute;
  }
  if (c.droop > 0 && core > 0) seconds.droop = core * c.droop * core / (core + c.droop_time);
  return seconds;
}

double gemm_core_seconds(const GemmConstants& constants, const GemmWork& work, double sms) {
  return gemm_core(constants, work, sms).total();
}

SmallGemmSeconds small_gemm_core(const SmallGemmConstants& c, const GemmWork& work, double share) {
  const double padded = padded_rows(work.m, work.row_spread, c.tile);
  SmallGemmSeconds seconds{.inner = work.k * c.k_time,
                           .tiles = 2 * work.groups * padded * work.n * (work.k + c.tile_depth) / (c.rate * share),
                           .rows = work.groups * work.m * (work.k + work.n) * c.row_time};
  const double compute = seconds.inner + seconds.tiles, memory = work.bytes() / c.bandwidth;
  seconds.memory = std::cbrt(compute * compute * compute + memory * memory * memory) - compute;
  return seconds;
}

AttentionSeconds attention_parts(const AttentionConstants& c, const AttentionWork& work, double device_sms,
                                 double free_sms) {
  const double qk = in_blocks(work.qk_dim, c.dim_block), v = in_blocks(work.v_dim, c.dim_block);
  const double gemms = 2 * (work.backward ? 3 * qk + 2 * v : qk + v) / c.rate;
  const double rows = work.batch_heads * work.queries, pairs = rows * work.pairs_per_query;
  const double keys = work.keys > 0 ? work.keys : work.queries;
  const double longest = work.longest > 0 ? work.longest : keys;
  const double share = free_sms / device_sms;
  AttentionSeconds seconds;
  seconds.gemms = pairs * gemms / share;
  seconds.pairs = pairs * c.pair_time / share;
  seconds.rows = rows * c.row_time / share;
  seconds.tail = c.tail * block_rows * longest * (c.pair_time + gemms) * device_sms;
  if (c.kv_bandwidth > 0) {
    const double passes = work.backward ? 2 : 1;
    const double bytes = work.kv_heads_batch * keys * (work.qk_dim + work.v_dim) * work.element_bytes;
    seconds.keys_values = passes * bytes / c.kv_bandwidth;
  }
  return seconds;
}

double attention_seconds(const AttentionConstants& constants, const AttentionWork& work, double device_sms,
                         double free_sms) {
  return attention_parts(constants, work, device_sms, free_sms).total();
}

double cached_attention_bytes(const CachedAttentionWork& w) {
  const double rows = w.queries * w.query_heads * (w.qk_dim + w.v_dim) * w.element_bytes;
  return w.requests * (w.keys * w.key_value_bytes + rows);
}

double cached_attention_flops(const CachedAttentionWork& w) {
  return 2 * w.requests * w.queries * w.query_heads * w.pairs_per_query * (w.qk_dim + w.v_dim);
}

CachedAttentionSeconds cached_attention_parts(const CachedAttentionConstants& c, const CachedAttentionWork& work) {
  const double rows = work.queries * work.query_heads;
  const double padding = std::max(1.0, c.least_rows * work.kv_heads / rows);
  const double reading = cached_attention_bytes(work) / c.bandwidth;
  const double computing = cached_attention_flops(work) * padding / c.rate;
  const double longer = std::max(reading, computing);
  CachedAttentionSeconds seconds{.start = c.start, .requests = c.request_time * work.requests * work.kv_heads};
  if (longer == 0) return seconds;
  const double reads = std::pow(reading / longer, c.sharpness), computes = std::pow(computing / longer, c.sharpness);
  const double core = longer * std::pow(reads + computes, 1 / c.sharpness);
  seconds.reading = core * reads / (reads + computes);
  seconds.computing = core - seconds.reading;
  const double passed = c.ramp_time > 0 ? -std::expm1(-core / c.ramp_time) : 1;
  seconds.ramp = c.ramp * passed;
  seconds.merge = c.merge_time * rows * passed;
  return seconds;
}

}  // namespace plumbline::model
