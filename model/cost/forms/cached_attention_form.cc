#include "model/cost/forms/cached_attention_form.h"

#include <algorithm>
#include <cmath>

namespace plumbline::model {

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
