// Intervals of deployments that serve, from draws through the steady state.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/economics/ownership.h"
#include "model/plan/instance.h"
#include "model/profile/device_profile.h"
#include "model/result/prediction_interval.h"
#include "model/routing/served_load.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/detail/spread.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"
#include "sim/predict/memos.h"
#include "sim/serving/pass_costs.h"
#include "sim/serving/pool_model.h"
#include "sim/serving/serving.h"
#include "sim/tasks/indices.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {
namespace {

// A load that the plan states is known.
void add_expert_load(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const auto& keys = inputs.plan.inference;
  if (inputs.architecture.experts.routed_experts == 0 || keys.expert_imbalance || keys.expert_skew) return;
  const model::ServedSkew skew = model::served_skew(inputs.architecture.experts);
  found.push_back({"load of experts that serve", "expert load",
                   [spread = Spread{skew.low, skew.middle, skew.high}](double z, InputChange& change) {
                     change.imbalance = std::max(0.0, linear(spread, z));
                   }});
}

// Drafts that are accepted more are so at every position.
void add_acceptance(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const auto range = model::acceptance_range(inputs.plan, inputs.architecture);
  if (!range) return;
  found.push_back({"acceptance of drafts", "acceptance",
                   [spread = Spread{range->low, range->middle, range->high}](double z, InputChange& change) {
                     const double first = std::clamp(linear(spread, z), 0.01, 0.99);
                     change.acceptance_power = std::log(first) / std::log(spread.middle);
                   }});
}

// What an interval is of.
struct Rates {
  double tpot_s = 0, ttft_unloaded_s = 0, ttft_s = 0, tokens_per_s_per_gpu = 0;
};

Rates rates_of(const model::ServingResult& result) {
  return {result.tpot_s, result.ttft_unloaded_s, result.ttft_s, result.output_tokens_per_s_per_gpu};
}

// A deployment under changes. It is predicted at a fixed number of requests, without limits that would change it.
class ChangedServing {
 public:
  ChangedServing(Inputs inputs, double concurrency, unsigned threads) : inputs_(std::move(inputs)), threads_(threads) {
    auto& keys = inputs_.plan.inference;
    keys.concurrency = std::max<std::int64_t>(1, std::llround(concurrency));
    keys.max_ttft_s = keys.max_tpot_s = std::nullopt;
    if (!inputs_.passes) inputs_.passes = std::make_shared<PassGraphs>();
    if (!inputs_.routing) inputs_.routing = std::make_shared<RoutingMemo>();
  }
  const Inputs& inputs() const { return inputs_; }

  model::Result<Rates> of(const InputChange& change) const {
    Inputs changed = inputs_;
    changed.profile = changed_profile(inputs_.profile, change);
    changed.shapes = &change.shapes;
    if (change.imbalance) changed.plan.inference.expert_skew = *change.imbalance;
    if (change.acceptance_power) {
      model::AcceptanceShares accepted{model::acceptance_of(changed.plan, changed.architecture)};
      for (double& share : accepted.shares) share = std::pow(share, *change.acceptance_power);
      changed.plan.inference.acceptance = std::move(accepted);
    }
    const Rates rates = rates_of(TRY(ServingPredictor(changed).predict(changed.plan)));
    const double factor = change.step_factor;
    return Rates{rates.tpot_s * factor, rates.ttft_unloaded_s * factor, rates.ttft_s * factor,
                 rates.tokens_per_s_per_gpu / factor};
  }

  // Returns the same for each change, from several threads.
  model::Result<std::vector<Rates>> of(const std::vector<InputChange>& changes) const {
    std::vector<std::optional<model::Result<Rates>>> found(changes.size());
    limit_threads(threads_, [&] { for_each_index(changes.size(), [&](std::size_t i) { found[i] = of(changes[i]); }); });
    std::vector<Rates> rates;
    for (std::optional<model::Result<Rates>>& one : found) rates.push_back(TRY(std::move(*one)));
    return rates;
  }

  model::Result<std::vector<model::ShapeKey>> shapes() const {
    InputChange change;
    change.shapes.record();
    TRY(of(change));
    std::vector<model::ShapeKey> found;
    for (const auto& [shape, factor] : change.shapes.all()) found.push_back(shape);
    std::ranges::sort(found);
    return found;
  }

 private:
  Inputs inputs_;
  unsigned threads_;
};

// Returns by how much ln(time per token) grows with each uncertainty alone. Most shapes have next to no part in it: a
// block of them needs one prediction.
model::Result<std::vector<double>> gradient_of(const ChangedServing& deployment, double tpot_s,
                                               const std::vector<Uncertainty>& uncertainties) {
  constexpr std::size_t block = 16;
  constexpr double no_effect = 5e-4;
  std::vector<InputChange> blocks((uncertainties.size() + block - 1) / block);
  for (std::size_t u = 0; u < uncertainties.size(); ++u) uncertainties[u].apply(1, blocks[u / block]);
  const auto together = TRY(deployment.of(blocks));
  std::vector<std::size_t> effective;
  for (std::size_t u = 0; u < uncertainties.size(); ++u)
    if (std::abs(std::log(together[u / block].tpot_s / tpot_s)) >= no_effect) effective.push_back(u);
  std::vector<InputChange> changes(effective.size());
  for (std::size_t i = 0; i < effective.size(); ++i) uncertainties[effective[i]].apply(1, changes[i]);
  const auto alone = TRY(deployment.of(changes));
  std::vector<double> gradient(uncertainties.size(), 0);
  for (std::size_t i = 0; i < effective.size(); ++i) gradient[effective[i]] = std::log(alone[i].tpot_s / tpot_s);
  return gradient;
}

// Returns the draws of a rate over that without a change.
std::vector<double> ratios_of(const std::vector<Rates>& draws, const Rates& now, double Rates::*rate) {
  std::vector<double> ratios;
  for (const Rates& draw : draws) ratios.push_back(draw.*rate / now.*rate);
  return ratios;
}

// Returns the quantiles of a value of the answer by the draws of its ratio, with what is left of it.
model::Quantiles range_of(double value, const std::vector<double>& ratios, const Left& left) {
  const model::Quantiles of = quantiles_of(ratios, left);
  return {value * of.p10, value * of.p50, value * of.p90};
}

// Returns the quantiles of the cost; `rates` and `left` are of the rate of tokens, which it is inverse to.
std::optional<model::Quantiles> dollars(const Inputs& inputs, const std::vector<double>& rates, const Left& left,
                                        std::optional<double> answer, const IntervalOptions& options) {
  const auto price = model::hourly_price(inputs.plan, inputs.cluster).value;
  if (!price || !answer) return std::nullopt;
  std::vector<double> costs = price_draws(*price, "price", options.seed, rates.size());
  for (std::size_t i = 0; i < rates.size(); ++i) costs[i] /= rates[i];
  return range_of(*answer, costs, {.location = -left.location, .common = left.common, .own = left.own});
}

// Multiplies the draws by what is left of them: numbers of the engine, and numbers of the plan alone. The same facts
// make output tokens slow and their rate low, so that both take the same numbers.
void add_left(const Inputs& inputs, std::string_view fact, double sign, const Left& left, std::uint64_t seed,
              std::vector<double>& ratios) {
  const auto numbers = [&](const std::string& of) {
    return normal_column(fmt::format("{} {} {}", left_source, fact, of), seed, ratios.size());
  };
  const std::vector<double> common = numbers(inputs.profile.stack()), own = numbers(model::to_toml(inputs.plan));
  for (std::size_t i = 0; i < ratios.size(); ++i)
    ratios[i] *= std::exp(left.location + sign * (left.common * common[i] + left.own * own[i]));
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

// Returns the share of the draws that keep the plan's limits; nothing without limits.
std::optional<double> kept_share(const model::Plan& plan, const DrawnServing& drawn, const Rates& answer) {
  const auto& keys = plan.inference;
  if (!keys.max_ttft_s && !keys.max_tpot_s) return std::nullopt;
  double kept = 0;
  for (std::size_t i = 0; i < drawn.tpot_ratio.size(); ++i) {
    const double tpot = answer.tpot_s * drawn.tpot_ratio[i], ttft = answer.ttft_s * drawn.ttft_ratio[i];
    if (tpot <= keys.max_tpot_s.value_or(tpot) && ttft <= keys.max_ttft_s.value_or(ttft)) ++kept;
  }
  return kept / static_cast<double>(drawn.tpot_ratio.size());
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

// Times of the same draw are alike, so that the two quantiles lie little above the confidence.
ServingMargin margin_of(const model::Plan& plan, const DrawnServing& drawn, double confidence) {
  const auto& keys = plan.inference;
  const auto at = [&](double probability) {
    return ServingMargin{keys.max_ttft_s ? model::quantile_of(drawn.ttft_ratio, probability) : 1,
                         keys.max_tpot_s ? model::quantile_of(drawn.tpot_ratio, probability) : 1};
  };
  if (!keys.max_ttft_s || !keys.max_tpot_s) return at(confidence);
  const auto draws = static_cast<double>(drawn.tpot_ratio.size());
  double probability = confidence;
  for (ServingMargin margin = at(probability);; margin = at(probability)) {
    double together = 0;
    for (std::size_t i = 0; i < drawn.tpot_ratio.size(); ++i)
      if (drawn.tpot_ratio[i] <= margin.tpot && drawn.ttft_ratio[i] <= margin.ttft) ++together;
    if (together >= confidence * (draws + 1) - 1 || probability >= 1) return margin;
    probability += 1 / draws;
  }
}

model::Result<ServingPredictor> serving_within(const Inputs& inputs, ServingPredictor serving, double confidence,
                                               const IntervalOptions& options) {
  const auto& keys = inputs.plan.inference;
  if (!keys.max_ttft_s && !keys.max_tpot_s) return serving;
  IntervalOptions without_parts = options;
  without_parts.parts = false;
  const auto exceeds = [](double time, const std::optional<double>& limit) { return limit && time > *limit; };
  const int rounds = keys.concurrency > 0 ? 1 : 4;  // Requests that the plan states stay as many.
  for (int i = 0; i < rounds; ++i) {
    const auto result = serving.predict(inputs.plan);
    if (!result && i == 0) return tl::unexpected(result.error());
    if (!result) break;  // Not even one request keeps the limits.
    const auto drawn = TRY(draw_serving_interval(inputs, *result, without_parts));
    const ServingMargin own = margin_of(inputs.plan, drawn, confidence);
    if (i > 0 && !exceeds(result->tpot_s * own.tpot, keys.max_tpot_s) &&
        !exceeds(result->ttft_s * own.ttft, keys.max_ttft_s))
      break;
    serving = serving.with(own);
  }
  return serving;
}

model::Result<model::ServingResult> predict_serving_within(const Inputs& inputs, double confidence,
                                                           const IntervalOptions& options) {
  Inputs shared = inputs;
  shared.passes = std::make_shared<PassGraphs>();
  const ServingPredictor serving = TRY(serving_within(shared, ServingPredictor(shared), confidence, options));
  auto result = TRY(serving.predict(inputs.plan));
  result.frontier = TRY(serving.frontier(inputs.plan));
  result.interval = TRY(serving_interval_of(shared, result, options));
  return result;
}

model::Result<model::ServingInterval> serving_interval_of(const Inputs& inputs, const model::ServingResult& result,
                                                          const IntervalOptions& options) {
  return TRY(draw_serving_interval(inputs, result, options)).interval;
}

model::Result<DrawnServing> draw_serving_interval(const Inputs& inputs, const model::ServingResult& result,
                                                  const IntervalOptions& options) {
  Inputs own = inputs;
  own.profile = TRY(model::profile_on(inputs.profile, inputs.cluster.device)).profile;
  const ChangedServing deployment(std::move(own), result.concurrency, options.threads);
  Drawn drawn;
  add_shapes(deployment.inputs(), TRY(deployment.shapes()), drawn.uncertainties);
  for (const auto add : {add_constants, add_expert_load, add_acceptance}) add(deployment.inputs(), drawn.uncertainties);
  draw_numbers(options, drawn);
  std::vector<InputChange> changes;
  for (std::size_t row = 0; row < options.draws; ++row) changes.push_back(change_of(drawn, row));
  const Rates now = TRY(deployment.of(InputChange{})), answer = rates_of(result);
  const std::vector<Rates> draws = TRY(deployment.of(changes));
  DrawnServing found;
  found.tpot_ratio = ratios_of(draws, now, &Rates::tpot_s);
  found.rate_ratio = ratios_of(draws, now, &Rates::tokens_per_s_per_gpu);
  found.ttft_ratio = ratios_of(draws, now, &Rates::ttft_s);
  drawn.draws.time_ratio = found.tpot_ratio;
  const bool known = options.without.contains(std::string(left_source));
  const auto left = [&](const std::optional<Left>& of) { return known ? Left{} : of.value_or(Left{}); };
  const Left tpot = left(inputs.left), rate = left(inputs.rate_left), ttft = left(inputs.ttft_left);
  model::ServingInterval& interval = found.interval;
  interval.tpot_s = range_of(answer.tpot_s, found.tpot_ratio, tpot);
  interval.ttft_unloaded_s = range_of(answer.ttft_unloaded_s, ratios_of(draws, now, &Rates::ttft_unloaded_s), {});
  interval.ttft_s = range_of(answer.ttft_s, found.ttft_ratio, ttft);
  interval.output_tokens_per_s_per_gpu = range_of(answer.tokens_per_s_per_gpu, found.rate_ratio, rate);
  interval.usd_per_million_output_tokens =
      dollars(inputs, found.rate_ratio, rate, result.usd_per_million_output_tokens, options);
  found.drawn = {drawn_spread(found.tpot_ratio), drawn_spread(found.rate_ratio), drawn_spread(found.ttft_ratio)};
  add_left(inputs, "tokens", 1, tpot, options.seed, found.tpot_ratio);
  add_left(inputs, "tokens", -1, rate, options.seed, found.rate_ratio);
  add_left(inputs, "first tokens", 1, ttft, options.seed, found.ttft_ratio);
  interval.limits_probability = kept_share(inputs.plan, found, answer);
  if (!options.parts) return found;
  drawn.gradient = TRY(gradient_of(deployment, now.tpot_s, drawn.uncertainties));
  interval.parts = parts_of(drawn, tpot);
  return found;
}

}  // namespace plumbline::sim
