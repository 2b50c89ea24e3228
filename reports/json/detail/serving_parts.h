// A deployment that serves, as several outputs have it.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "model/memory/memory.h"
#include "model/result/result.h"
#include "reports/json/detail/shared_fields.h"
#include "reports/quantities.h"

namespace plumbline::reports {

// What of a deployment is as its clusters run it; the rest is of its components.
struct ServingMiddle {
  model::ServingResult result;
};
inline std::optional<ServingMiddle> middle_of(const model::ServingResult& result) {
  return result.interval ? std::optional(ServingMiddle{model::middle_serving(result)}) : std::nullopt;
}
void fields(auto& to, const ServingMiddle& of) {
  for (const std::string_view wanted :
       {"tpot_s", "ttft_unloaded_s", "itl_worst_s", "output_tokens_per_s", "output_tokens_per_s_per_gpu",
        "output_tokens_per_s_per_node", "input_tokens_per_s_per_gpu", "usd_per_million_output_tokens",
        "usd_per_million_input_tokens", "usd_per_million_tokens_all_in", "demand_gpus", "ttft_s",
        "usd_per_million_output_tokens_of_demand", "demand_prefill_gpus", "demand_decode_gpus"})
    visit_serving(of.result, [&](std::string_view key, const auto& value, const char*, const char* meaning) {
      if (key == wanted) to(key, meaning, value);
    });
}
template <>
inline constexpr std::string_view definition_name<std::optional<ServingMiddle>> = "serving_middle";

inline Word bound_word(model::ServingBound bound) {
  using enum model::ServingBound;
  Word word = {model::to_string(bound), {}};
  for (const model::ServingBound one : {weights, kv, compute, links, latency, host})
    word.words.push_back(to_string(one));
  return word;
}

void decode_fields(auto& to, const model::ServingResult& result) {
  visit_serving(
      result, [&to](const char* key, const auto& value, const char*, const char* meaning) { to(key, meaning, value); });
  to("bound_by", "what binds most of a decode step", bound_word(result.bound_by));
}

// Pools, frontier and notes are in the output of serve alone.
void fields(auto& to, const model::ServingResult& of) {
  decode_fields(to, of);
  to("interval", "range with p10, p50 and p90",
     Maybe(of.interval, [](auto& part_to, const model::ServingInterval& interval) {
       visit_serving_quantiles(interval, [&](const char* key, const auto& found, const char*, const char* meaning) {
         part_to(key, meaning, found);
       });
     }));
  to("middle", "", middle_of(of));
}
template <>
inline constexpr std::string_view definition_name<model::ServingResult> = "deployment";

// `in_full`: of one deployment, not among those of many.
void point_fields(auto& to, const model::ServingPoint& point, bool in_full) {
  to("concurrency", "requests in flight", point.concurrency);
  if (in_full) to("batch_per_gpu", "requests in flight on a GPU", point.batch_per_gpu);
  to("tpot_s", "seconds of an output token after the first", point.tpot_s);
  to("ttft_unloaded_s", "seconds to the first token of a request alone", point.ttft_unloaded_s);
  to("output_tokens_per_s_per_gpu", "output tokens a second and GPU", point.output_tokens_per_s_per_gpu);
  to("usd_per_million_output_tokens", "cost of a million output tokens", point.usd_per_million_output_tokens);
  to("within_limits", "whether all limits are met", point.within_limits);
  if (in_full)
    to("dominated", "whether another point is faster for users or GPUs, and slower for neither", point.dominated);
  to("ttft_s", "seconds to the first token at that load", point.ttft_s);
}

// A deployment that was predicted has space for its weights and a request.
inline model::Fit fit_of_serving(const model::ServingResult& result) {
  return model::fit_of(result.fits_probability.value_or(1));
}

// What is free is the space for keys and values.
inline std::optional<FitInMemory> fit_in_memory(const model::ServingResult& result) {
  if (result.pools.empty()) return std::nullopt;
  const double free = std::ranges::min(result.pools, {}, &model::ServingPool::kv_bytes).kv_bytes;
  return FitInMemory{fit_of_serving(result), result.fits_probability, free};
}

}  // namespace plumbline::reports
