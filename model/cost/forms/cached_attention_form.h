// The time of attention of a few new tokens over keys and values in a cache, as a function of numbers alone: what
// decode steps run, grouped-query or over a latent cache. KernelCost and the fits of a calibration call it. SI units.
// Derivation, and what measured kernels show of each term: docs/costs.md.
#pragma once

namespace plumbline::model {

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
