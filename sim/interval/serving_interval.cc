// Intervals of deployments that serve, from draws through the steady state.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "model/economics/ownership.h"
#include "model/plan/instance.h"
#include "model/profile/device_profile.h"
#include "model/result/result.h"
#include "model/routing/served_load.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/serving/pass_costs.h"
#include "sim/serving/pool_model.h"
#include "sim/serving/serving.h"
#include "sim/tasks/tasks.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {
namespace {

// A load that the plan states is known.
void add_expert_load(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const auto& keys = inputs.plan.inference;
  if (inputs.architecture.experts.routed_experts == 0 || keys.expert_imbalance || keys.expert_skew) return;
  const model::ServedSkew skew = model::served_skew(inputs.architecture.experts);
  found.push_back({"load of experts that serve", "expert load",
                   [spread = Prior{skew.low, skew.middle, skew.high}](double z, InputChange& change) {
                     change.imbalance = std::max(0.0, linear(spread, z));
                   }});
}

// Drafts that are accepted more are so at every position.
void add_acceptance(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const auto range = model::acceptance_range(inputs.plan, inputs.architecture);
  if (!range) return;
  found.push_back({"acceptance of drafts", "acceptance",
                   [spread = Prior{range->low, range->middle, range->high}](double z, InputChange& change) {
                     const double first = std::clamp(linear(spread, z), 0.01, 0.99);
                     change.acceptance_power = std::log(first) / std::log(spread.middle);
                   }});
}

ServingRates rates_of(const model::ServingResult& result) {
  return {result.tpot_s, result.ttft_unloaded_s, result.ttft_s, result.output_tokens_per_s_per_gpu};
}

// A deployment under changes. It is predicted at a fixed number of requests, without limits that would change it.
class ChangedServing {
 public:
  ChangedServing(Inputs inputs, double concurrency, const IntervalOptions& options)
      : inputs_(std::move(inputs)), options_(options) {
    auto& keys = inputs_.plan.inference;
    keys.concurrency = std::max<std::int64_t>(1, std::llround(concurrency));
    keys.max_ttft_s = keys.max_tpot_s = std::nullopt;
    if (!inputs_.passes) inputs_.passes = std::make_shared<PassGraphs>();
    if (!inputs_.routing) inputs_.routing = std::make_shared<ExpertGroupMemo>();
  }
  const Inputs& inputs() const { return inputs_; }

  model::Result<ServingRates> of(const InputChange& change) const {
    const Inputs changed = changed_by(change);
    const ServingRates rates = TRY(ServingPredictor(changed).rates(changed.plan));
    const double factor = change.step_factor;
    return ServingRates{rates.tpot_s * factor, rates.ttft_unloaded_s * factor, rates.ttft_s * factor,
                        rates.output_tokens_per_s_per_gpu / factor};
  }

  // Returns the same for each of so many changes, from several threads; for fewer where it was stopped.
  model::Result<std::vector<ServingRates>> of_each(std::size_t count,
                                                   const std::function<InputChange(std::size_t)>& change_at) const {
    std::vector<std::optional<model::Result<ServingRates>>> found(count);
    limit_threads(options_.threads,
                  [&] { for_each_index(count, options_.watch, [&](std::size_t i) { found[i] = of(change_at(i)); }); });
    std::vector<ServingRates> rates;
    for (std::optional<model::Result<ServingRates>>& one : found)
      if (one) rates.push_back(TRY(std::move(*one)));
    return rates;
  }

  model::Result<std::vector<model::ShapeKey>> shapes() const {
    InputChange change;
    change.shapes.record();
    const Inputs recorded = changed_by(change);
    TRY(ServingPredictor(recorded).predict(recorded.plan));
    std::vector<model::ShapeKey> found;
    for (const auto& [shape, factor] : change.shapes.all()) found.push_back(shape);
    std::ranges::sort(found);
    return found;
  }

 private:
  // The change must outlive what is returned.
  Inputs changed_by(const InputChange& change) const {
    Inputs changed = inputs_;
    changed.profile = changed_profile(inputs_.profile, change);
    changed.shapes = &change.shapes;
    if (change.imbalance) changed.plan.inference.expert_skew = *change.imbalance;
    if (change.acceptance_power) {
      model::AcceptanceShares accepted{model::acceptance_of(changed.plan, changed.architecture)};
      for (double& share : accepted.shares) share = std::pow(share, *change.acceptance_power);
      changed.plan.inference.acceptance = std::move(accepted);
    }
    return changed;
  }

  Inputs inputs_;
  const IntervalOptions& options_;
};

// Returns by how much ln(time per token) grows with each uncertainty alone. Most shapes have next to no part in it: a
// block of them needs one prediction. Nothing where it was stopped.
model::Result<std::optional<std::vector<double>>> gradient_of(const ChangedServing& deployment, double tpot_s,
                                                              const std::vector<Uncertainty>& uncertainties) {
  constexpr std::size_t block = 16;
  constexpr double no_effect = 5e-4;
  std::vector<InputChange> blocks((uncertainties.size() + block - 1) / block);
  for (std::size_t u = 0; u < uncertainties.size(); ++u) uncertainties[u].apply(1, blocks[u / block]);
  const auto together = TRY(deployment.of_each(blocks.size(), [&](std::size_t i) { return blocks[i]; }));
  if (together.size() < blocks.size()) return std::nullopt;
  std::vector<std::size_t> effective;
  for (std::size_t u = 0; u < uncertainties.size(); ++u)
    if (std::abs(std::log(together[u / block].tpot_s / tpot_s)) >= no_effect) effective.push_back(u);
  const auto alone = TRY(deployment.of_each(effective.size(), [&](std::size_t i) {
    InputChange change;
    uncertainties[effective[i]].apply(1, change);
    return change;
  }));
  if (alone.size() < effective.size()) return std::nullopt;
  std::vector<double> gradient(uncertainties.size(), 0);
  for (std::size_t i = 0; i < effective.size(); ++i) gradient[effective[i]] = std::log(alone[i].tpot_s / tpot_s);
  return gradient;
}

// Returns the draws of a rate over that without a change.
std::vector<double> ratios_of(const std::vector<ServingRates>& draws, const ServingRates& now,
                              double ServingRates::*rate) {
  std::vector<double> ratios;
  for (const ServingRates& draw : draws) ratios.push_back(draw.*rate / now.*rate);
  return ratios;
}

std::vector<double> scaled_draws(std::vector<double> draws, double factor) {
  for (double& draw : draws) draw *= factor;
  return draws;
}

// Returns the quantiles of a value of the answer by the draws of its ratio, with what is left of it.
model::Quantiles range_of(double value, const std::vector<double>& ratios, const Left& left, const Least& least = {}) {
  const model::Quantiles of = quantiles_of(ratios, left, least);
  return {value * of.p10, value * of.p50, value * of.p90};
}

model::Quantiles inverse(const model::Quantiles& of) { return {1 / of.p90, 1 / of.p50, 1 / of.p10}; }

// The time in which a deployment makes a token, in draws over that of the answer.
struct TokenTime {
  std::vector<double> ratio;
  Left left;
  Least least;
};

// No more requests decode than are in flight, so that it is at least the time per output token over these.
TokenTime token_time(const model::ServingResult& result, const DrawnServing::Time& tpot, std::vector<double> rates,
                     const Left& left) {
  for (double& rate : rates) rate = 1 / rate;
  const double decoding = result.output_tokens_per_s * result.tpot_s / result.concurrency;  // share of those in flight
  return {std::move(rates),
          {.location = -left.location, .common = left.common, .own = left.own},
          {scaled_draws(tpot.ratio, decoding), tpot.left}};
}

// Returns the quantiles of the cost.
std::optional<model::Quantiles> dollars(const Inputs& inputs, TokenTime token, std::optional<double> answer,
                                        const IntervalOptions& options) {
  const auto price = model::hourly_price(inputs.plan, inputs.cluster).value;
  if (!price || !answer) return std::nullopt;
  const std::vector<double> prices = price_draws(*price, "price", options.seed, token.ratio.size());
  for (std::size_t i = 0; i < prices.size(); ++i) {
    token.ratio[i] *= prices[i];
    token.least.draws[i] *= prices[i];
  }
  return range_of(*answer, token.ratio, token.left, token.least);
}

// Returns the draws times what is left of them: numbers of the engine, and numbers of the deployment alone, which
// do not depend on how it was searched or what else the plan trains. The same facts make output tokens slow and their
// rate low, so that both take the same numbers.
std::vector<double> with_left(const Inputs& inputs, const Left& left, std::uint64_t seed, std::vector<double> ratios) {
  const auto numbers = [&](const std::string& of) {
    return normal_column(fmt::format("{} tokens {}", left_source, of), seed, ratios.size());
  };
  model::Plan plan = inputs.plan;
  plan.places.clear();  // whoever gave the keys
  const std::vector<double> common = numbers(inputs.profile.stack()), own = numbers(model::deployment_toml(plan));
  for (std::size_t i = 0; i < ratios.size(); ++i)
    ratios[i] *= std::exp(left.location + left.common * common[i] + left.own * own[i]);
  return ratios;
}

// Returns what the GPUs of a pool hold while it serves one request, as the memory of a rank.
model::RankMemory held_for_a_request(const model::ServingPool& pool, double context) {
  const double requests = pool.kv_capacity_tokens / (context * static_cast<double>(pool.attention_data));
  model::RankMemory rank;
  rank.parameters_bytes = pool.weights_bytes;
  rank.activations_bytes = pool.activations_bytes;
  rank.library_bytes = pool.reserve_bytes;
  rank.allocated_bytes = pool.weights_bytes + pool.activations_bytes + pool.kv_bytes / requests;
  return rank;
}

// Returns the share of the cases in which times are at most these factors long: what is left of them is independent.
double share_within(const DrawnServing& drawn, const ServingMargin& most) {
  const auto below = [](const DrawnServing::Time& time, double factor) {
    return probabilities_below(factor, time.ratio, time.left, {time.least, {}});
  };
  const std::vector<double> ttft = below(drawn.ttft, most.ttft), tpot = below(drawn.tpot, most.tpot);
  return std::inner_product(ttft.begin(), ttft.end(), tpot.begin(), 0.0) / static_cast<double>(ttft.size());
}

// Returns the factors on times up to which they keep the plan's limits; infinite ones where it has none.
ServingMargin slack_of(const model::Plan& plan, double ttft_s, double tpot_s) {
  constexpr double any = std::numeric_limits<double>::infinity();
  return {plan.inference.max_ttft_s.value_or(any) / ttft_s, plan.inference.max_tpot_s.value_or(any) / tpot_s};
}

// Returns what the plan does with one request in flight, whatever its limits.
model::Result<model::ServingResult> one_request(model::Plan plan, const ServingPredictor& serving) {
  plan.inference.concurrency = 1;
  plan.inference.max_ttft_s = plan.inference.max_tpot_s = std::nullopt;
  return serving.predict(plan);
}

// Returns the margin with which most requests keep the limits; the first where none do.
ServingMargin largest_within(const model::Plan& plan, const ServingPredictor& serving,
                             const std::vector<ServingMargin>& margins) {
  const auto& keys = plan.inference;
  ServingMargin best = margins.front();
  double most = 0;
  for (const ServingMargin& margin : margins) {
    const auto result = serving.with(margin).predict(plan);
    if (!result || result->concurrency <= most) continue;
    constexpr double rounding = 1 + 1e-9;  // Batches are bisected until they meet a limit.
    const double ttft = result->ttft_s * margin.ttft, tpot = result->tpot_s * margin.tpot;
    if (ttft > keys.max_ttft_s.value_or(ttft) * rounding || tpot > keys.max_tpot_s.value_or(tpot) * rounding) continue;
    best = margin;
    most = result->concurrency;
  }
  return best;
}

}  // namespace

void add_fit(const Inputs& inputs, model::ServingResult& result, const IntervalOptions& options) {
  Inputs own = inputs;
  own.memory_left.reset();
  for (const model::ServingPool& pool : result.pools) {
    model::Memory memory;
    memory.capacity_bytes = pool.weights_bytes + pool.reserve_bytes + pool.activations_bytes + pool.kv_bytes;
    memory.ranks.push_back(held_for_a_request(pool, mean_request(inputs.plan).context));
    add_fit(own, memory, options);
    if (memory.fits_probability)
      result.fits_probability = std::min(result.fits_probability.value_or(1), *memory.fits_probability);
  }
}

std::vector<ServingMargin> margins_of(const model::Plan& plan, const DrawnServing& drawn, const ServingMargin& slack,
                                      double confidence) {
  const auto& keys = plan.inference;
  const auto factor = [](const DrawnServing::Time& time, double probability) {
    return quantile_of(time.ratio, time.left, {time.least, {}}, probability);
  };
  if (!keys.max_ttft_s || !keys.max_tpot_s)
    return {
        {keys.max_ttft_s ? factor(drawn.ttft, confidence) : 1, keys.max_tpot_s ? factor(drawn.tpot, confidence) : 1}};
  // Returns the smallest factor on a time with which a share of `confidence` lies within margin_with(factor).
  const auto least = [&](const DrawnServing::Time& time, const auto& margin_with) {
    constexpr int halvings = 40;
    double low = factor(time, confidence), high = factor(time, 1 - 1e-9);
    for (int i = 0; i < halvings; ++i) {
      const double middle = (low + high) / 2;
      (share_within(drawn, margin_with(middle)) < confidence ? low : high) = middle;
    }
    return margin_with(high);
  };
  std::vector<ServingMargin> margins;
  const auto add_with_ttft = [&](double ttft) {
    margins.push_back(least(drawn.tpot, [&](double tpot) { return ServingMargin{ttft, tpot}; }));
  };
  // Of the cases that may break a limit, shares that are left to the one on tokens after the first.
  for (const double share : {1 / 32., 1 / 8., 1 / 2., 7 / 8., 31 / 32.})
    add_with_ttft(factor(drawn.ttft, confidence + (1 - confidence) * share));
  constexpr double any = std::numeric_limits<double>::infinity();
  if (share_within(drawn, {slack.ttft, any}) > confidence) add_with_ttft(slack.ttft);
  if (share_within(drawn, {any, slack.tpot}) > confidence)
    margins.push_back(least(drawn.ttft, [&](double ttft) { return ServingMargin{ttft, slack.tpot}; }));
  return margins;
}

model::Result<ServingPredictor> serving_within(const Inputs& inputs, ServingPredictor serving, double confidence,
                                               const IntervalOptions& options) {
  const model::Plan& plan = inputs.plan;
  if (!plan.inference.max_ttft_s && !plan.inference.max_tpot_s) return serving;
  IntervalOptions without_parts = options;
  without_parts.parts = false;
  // Requests that the plan states stay as many.
  const int rounds = plan.inference.concurrency > 0 ? 1 : 6;
  constexpr double rounding = 1 - 1e-6;
  const double close = confidence + 0.03 * (1 - confidence);
  std::map<double, DrawnServing> known;  // by the requests in flight, which decide all times
  std::optional<ServingPredictor> best;
  double most = 0;  // requests of it
  bool from_one = false;
  for (int i = 0; i < rounds; ++i) {
    auto result = serving.predict(plan);
    if (!result && i == 0) return tl::unexpected(result.error());
    const bool none = !result;
    if (none && (best || from_one)) break;
    if (none) {
      from_one = true;
      result = TRY(one_request(plan, serving));
    }
    const auto [found, fresh] = known.try_emplace(result->concurrency);
    if (fresh) found->second = TRY(draw_serving_interval(inputs, *result, without_parts));
    const DrawnServing& drawn = found->second;
    const double share = *drawn.interval.limits_probability;
    if (i > 0 && !none && share >= confidence * rounding && result->concurrency > most) {
      best = serving;
      most = result->concurrency;
      if (share <= close) break;
    }
    if (!fresh) break;
    serving = serving.with(largest_within(
        plan, serving, margins_of(plan, drawn, slack_of(plan, result->ttft_s, result->tpot_s), confidence)));
  }
  return best.value_or(serving);
}

model::Result<model::ServingResult> predict_serving_within(const Inputs& inputs, double confidence,
                                                           const IntervalOptions& options) {
  Inputs shared = inputs;
  shared.passes = std::make_shared<PassGraphs>();
  const ServingPredictor alone(shared);
  const auto within = TRY(unless_stopped(serving_within(shared, alone, confidence, options)));
  const ServingPredictor& serving = within ? *within : alone;
  auto result = TRY(serving.predict(inputs.plan));
  result.frontier = TRY(serving.frontier(inputs.plan));
  result.interval = TRY(unless_stopped(serving_interval_of(shared, result, options)));
  return result;
}

model::Result<model::ServingInterval> serving_interval_of(const Inputs& inputs, const model::ServingResult& result,
                                                          const IntervalOptions& options) {
  return TRY(draw_serving_interval(inputs, result, options)).interval;
}

model::Result<DrawnServing> draw_serving_interval(const Inputs& inputs, const model::ServingResult& result,
                                                  const IntervalOptions& options) {
  TRY(check_draws(options));
  options.watch.begin();
  Inputs own = inputs;
  own.profile = TRY(model::profile_on(inputs.profile, inputs.cluster.device)).profile;
  const ChangedServing deployment(std::move(own), result.concurrency, options);
  Drawn drawn;
  add_shapes(deployment.inputs(), TRY(deployment.shapes()), drawn.uncertainties);
  for (const auto add : {add_constants, add_expert_load, add_acceptance}) add(deployment.inputs(), drawn.uncertainties);
  TRY(draw_numbers(options, drawn));
  const ServingRates now = TRY(deployment.of(InputChange{})), answer = rates_of(result);
  const std::vector<ServingRates> draws =
      TRY(deployment.of_each(options.draws, [&](std::size_t row) { return change_of(drawn, row); }));
  if (draws.size() < options.draws) TRY(enough_draws(draws.size()));
  DrawnServing found;
  const bool known = options.without.contains(std::string(left_source));
  const auto left = [&](const std::optional<Left>& of) { return known ? Left{} : of.value_or(Left{}); };
  const auto ratios = [&](double ServingRates::*rate) { return ratios_of(draws, now, rate); };
  // A first token comes after the passes of its own prompt. What is left of the time per token is an error of steps,
  // which those of a request alone have, too.
  const std::vector<double> alone = ratios(&ServingRates::ttft_unloaded_s);
  found.tpot = {ratios(&ServingRates::tpot_s), left(inputs.left), {}};
  found.ttft = {ratios(&ServingRates::ttft_s), left(inputs.ttft_left),
                scaled_draws(alone, answer.ttft_unloaded_s / answer.ttft_s)};
  const std::vector<double> rates = ratios(&ServingRates::output_tokens_per_s_per_gpu);
  drawn.draws.time_ratio = found.tpot.ratio;
  found.drawn = {drawn_spread(found.tpot.ratio), drawn_spread(rates), drawn_spread(found.ttft.ratio)};
  const TokenTime token = token_time(result, found.tpot, rates, left(inputs.rate_left));
  model::ServingInterval& interval = found.interval;
  interval.tpot_s = range_of(answer.tpot_s, found.tpot.ratio, found.tpot.left);
  interval.ttft_unloaded_s = range_of(answer.ttft_unloaded_s, alone, {});
  interval.ttft_s = range_of(answer.ttft_s, found.ttft.ratio, found.ttft.left, {found.ttft.least, {}});
  interval.output_tokens_per_s_per_gpu =
      inverse(range_of(1 / answer.output_tokens_per_s_per_gpu, token.ratio, token.left, token.least));
  interval.usd_per_million_output_tokens = dollars(inputs, token, result.usd_per_million_output_tokens, options);
  found.tpot_ratio = with_left(inputs, found.tpot.left, options.seed, found.tpot.ratio);
  found.rate_ratio = with_left(inputs, token.left, options.seed, token.ratio);
  const std::vector<double> least = with_left(inputs, token.least.left, options.seed, token.least.draws);
  for (std::size_t i = 0; i < least.size(); ++i) found.rate_ratio[i] = 1 / std::max(found.rate_ratio[i], least[i]);
  if (inputs.plan.inference.max_ttft_s || inputs.plan.inference.max_tpot_s)
    interval.limits_probability = share_within(found, slack_of(inputs.plan, answer.ttft_s, answer.tpot_s));
  if (!options.parts) return found;
  auto gradient = TRY(gradient_of(deployment, now.tpot_s, drawn.uncertainties));
  if (!gradient || draws.size() < options.draws) return found;
  drawn.gradient = std::move(*gradient);
  interval.parts = parts_of(drawn, found.tpot.left);
  return found;
}

}  // namespace plumbline::sim
