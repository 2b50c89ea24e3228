// The steady state of a deployment as functions of plain numbers (docs/serving.md). Times are seconds, rates per
// second, lengths tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace plumbline::sim {

// What one micro-batch takes in a layer with experts: attention in two parts, before and from its reading of the cache.
struct LayerSeconds {
  double attention_in = 0, attention_out = 0, dispatch = 0, shared = 0, mlp = 0, combine = 0;
};

// Returns the seconds of a decode layer of two micro-batches, one of which computes while the other is sent (DeepSeek's
// profile-data, decode; 2 [max(dispatch, shared + attention_in) + mlp + max(combine, attention_out)]).
inline double overlapped_decode_layer(const LayerSeconds& s) {
  return 2 * (std::max(s.dispatch, s.shared + s.attention_in) + s.mlp + std::max(s.combine, s.attention_out));
}

// Returns those of a prefill layer: attention of one micro-batch runs during dispatch of the other and its experts
// during the same, then the other way round during combine.
inline double overlapped_prefill_layer(const LayerSeconds& s) {
  const double attention = s.attention_in + s.attention_out, experts = s.shared + s.mlp;
  return std::max(attention, s.dispatch) + std::max(experts, s.dispatch) + std::max(experts, s.combine) +
         std::max(attention, s.combine);
}

// Returns the tokens of a request in a step that checks `speculated` tokens, of which each is accepted after accepted
// ones with the probability of its position, the last of those given for all later ones: 1 + p1 + p1 p2 + ...
inline double tokens_per_step(std::int64_t speculated, const std::vector<double>& acceptance) {
  double tokens = 1, accepted = 1;
  for (std::int64_t i = 0; i < speculated && !acceptance.empty(); ++i) {
    accepted *= acceptance[std::min(static_cast<std::size_t>(i), acceptance.size() - 1)];
    tokens += accepted;
  }
  return tokens;
}

// Returns the mean tokens in the cache of a request while it decodes.
inline double mean_context(double input_tokens, double output_tokens) { return input_tokens + output_tokens / 2; }

// Returns the mean tokens yet to come of a request while it decodes, of which at most `most` count.
inline double mean_outstanding(double output_tokens, double most) {
  const double counted = std::min(output_tokens, most);
  return counted - counted * counted / (2 * output_tokens);
}

// Returns the input tokens that are computed, those of a cached prefix left out.
inline double computed_tokens(double input_tokens, double hit_rate) { return input_tokens * (1 - hit_rate); }

// Returns by how much the prefill of the requests that follow lengthens the time per output token of `batch` requests.
inline double prefill_share(double batch, double input_tokens, double output_tokens, double seconds_per_token) {
  return batch * input_tokens / output_tokens * seconds_per_token;
}

// Returns by how much steps wait for the host, on average, where a part of them also computes prompts: such a step is
// launched kernel by kernel in `launches` seconds. `passes`: of prompts that arrive during a step of `step` seconds,
// `prefill`: the seconds of their kernels.
inline double launch_wait(double passes, double launches, double step, double prefill) {
  return std::max(0.0, std::min(1.0, passes) * (launches - step) - prefill);
}

// Returns the mean wait of prompts that arrive at random for passes of `most` of them each, besides the rest of the
// pass that runs, where passes take `seconds` and `use` of their places are taken (H. Sakasegawa, An approximation
// formula L_q = alpha rho^beta / (1 - rho), 1977, for passes of one length; with places for one prompt the whole wait
// is that of an M/D/1 queue).
inline double backlog_seconds(double seconds, double use, double most) {
  return seconds / 2 * std::pow(use, std::sqrt(2 * (most + 1))) / (most * (1 - use));
}

// Returns the sum over the groups of a wave, each of which ends `apart` steps after the one before it, of what is left
// to them of the first `steps` steps after the first has ended.
inline double steps_of_groups(double steps, double apart, double groups) {
  const double some = std::min(groups, std::ceil(steps / apart));
  return some * (steps - apart * (some - 1) / 2);
}

// Returns the steps that begin, in the mean, until a request is with the scheduler that comes `seconds` after the end
// of a step, at no certain time of one: at least the step that begins then.
inline double steps_begun(double seconds, double step) { return std::max(1.0, seconds / step + 0.5); }

// Returns the requests that decode, of `concurrency` in flight that first wait for their prefill.
inline double active_batch(double concurrency, double output_tokens, double tpot, double ttft) {
  return concurrency * output_tokens * tpot / (ttft + output_tokens * tpot);
}

// Returns the requests that decode where `rate` tokens per second leave, each after `tpot` (Little's law).
inline double batch_of_rate(double rate, double tpot) { return rate * tpot; }

// Returns the requests for whose keys and values there is space.
inline double most_requests(double free_bytes, double bytes_per_request) { return free_bytes / bytes_per_request; }

// Returns USD per million tokens of what costs `usd_per_hour` and makes `tokens_per_s`.
inline double usd_per_million(double usd_per_hour, double tokens_per_s) {
  return usd_per_hour / (tokens_per_s * 3600) * 1e6;
}

// Returns tokens per second of a demand of tokens per day.
inline double rate_of_demand(double tokens_per_day) { return tokens_per_day / 86400; }

// Returns how many units of that rate a demand of tokens per day keeps busy.
inline double units_for(double tokens_per_day, double tokens_per_s) {
  return rate_of_demand(tokens_per_day) / tokens_per_s;
}

}  // namespace plumbline::sim
