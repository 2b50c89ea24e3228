#include "model/routing/rank_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "model/base/random.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/routing/detail/gate.h"
#include "model/routing/files.h"

namespace plumbline::model {
namespace {

template <class... Numbers>
std::uint64_t seed_of(std::uint64_t seed, Numbers... numbers) {
  ((seed = Random(seed ^ static_cast<std::uint64_t>(numbers)).next()), ...);
  return seed;
}

// Returns the standard deviation of loads that add up to 1, over their mean.
double variation(const std::vector<double>& share) {
  const auto count = static_cast<double>(share.size());
  double squares = 0;
  for (const double value : share) squares += (value * count - 1) * (value * count - 1);
  return std::sqrt(squares / count);
}

std::vector<double> scaled(std::vector<double> values, double factor) {
  for (double& value : values) value *= factor;
  return values;
}

// Returns the factor on popularities, at most 1, with which loads vary by auxiliary_variation().
double auxiliary_factor(const GateModel& gate, const std::vector<double>& popularity) {
  const double most = auxiliary_variation(static_cast<std::int64_t>(popularity.size()));
  double low = 0, high = 1;
  if (variation(gate.load(popularity, {}).share) <= most) return 1;
  for (int i = 0; i < 10; ++i) {
    const double middle = (low + high) / 2;
    const bool below = variation(gate.load(scaled(popularity, middle), {}).share) <= most;
    (below ? low : high) = middle;
  }
  return low;
}

// A token chooses an expert at most once: what exceeds that goes to the other experts.
void limit(std::vector<double>& load, double most) {
  for (std::size_t round = 0; round < load.size() && std::ranges::max(load) > most * (1 + 1e-9); ++round) {
    double full = 0, rest = 0;
    for (double& value : load) {
      value = std::min(value, most);
      (value == most ? full : rest) += value;
    }
    if (rest == 0) return;
    for (double& value : load)
      if (value < most) value *= (1 - full) / rest;
  }
}

double fullest(const ExpertPlacement& placement, const std::vector<double>& load) {
  std::vector<double> ranks;
  placement.rank_loads(load, ranks);
  return std::ranges::max(ranks);
}

// Copies the experts [first, first + count) `redundant` times and packs them on the ranks from `rank` on.
void pack_group(const std::vector<double>& load, std::size_t first, std::size_t count, std::size_t redundant,
                std::size_t rank, std::size_t ranks, ExpertPlacement& placement) {
  std::vector<std::int32_t> items(count);
  std::iota(items.begin(), items.end(), static_cast<std::int32_t>(first));
  const auto per_copy = [&](std::int32_t e) { return load[static_cast<std::size_t>(e)] / placement.copies[e]; };
  for (std::size_t i = 0; i < redundant; ++i) {
    const auto heaviest = *std::max_element(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count),
                                            [&](auto a, auto b) { return per_copy(a) < per_copy(b); });
    ++placement.copies[static_cast<std::size_t>(heaviest)];
    items.push_back(heaviest);
  }
  std::ranges::stable_sort(items, [&](auto a, auto b) { return per_copy(a) > per_copy(b); });
  const std::size_t slots = (count + redundant) / ranks;
  std::vector<double> filled(ranks);
  std::vector<std::size_t> used(ranks);
  for (const std::int32_t item : items) {
    std::size_t least = ranks;
    for (std::size_t r = 0; r < ranks; ++r)
      if (used[r] < slots && (least == ranks || filled[r] < filled[least])) least = r;
    placement.experts[(rank + least) * slots + used[least]++] = item;
    filled[least] += per_copy(item);
  }
}

// Every rank copies its own most loaded experts, which leaves its load as it is.
ExpertPlacement own_copies(const std::vector<double>& load, std::int64_t ranks, std::int64_t redundant) {
  const auto count = static_cast<std::int64_t>(load.size());
  const std::int64_t own = count / ranks, more = redundant / ranks;
  ExpertPlacement placement{ranks, {}, std::vector<std::int32_t>(load.size(), 1)};
  for (std::int64_t r = 0; r < ranks; ++r) {
    for (std::int64_t e = 0; e < own; ++e) placement.experts.push_back(static_cast<std::int32_t>(r * own + e));
    for (std::int64_t i = 0; i < more; ++i) {
      const auto expert = static_cast<std::int32_t>(r * own + i % own);
      placement.experts.push_back(expert);
      ++placement.copies[static_cast<std::size_t>(expert)];
    }
  }
  return placement;
}

LoadSpread spread(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value / mean - 1) * (value / mean - 1);
  return {std::sqrt(squares / static_cast<double>(values.size())), max_violation(values)};
}

void add_weighted(LoadSpread& sum, const LoadSpread& one, double weight) {
  sum.variation += weight * one.variation;
  sum.max_violation += weight * one.max_violation;
}

// Returns whether a step is listed: 1, 2 or 5 times a power of ten.
bool listed(std::int64_t step) {
  while (step >= 10 && step % 10 == 0) step /= 10;
  return step <= 2 || step == 5;
}

std::vector<RoutingStatistics::Step> balance_steps(const Plan& plan, const Architecture& architecture,
                                                   std::int64_t layer, std::int64_t steps) {
  const auto& routing = plan.routing;
  const GateModel gate(architecture.experts, groups_per_token(plan, architecture.experts));
  const std::vector<double> popularity = shared_popularity(plan, architecture.experts, layer, statistics_seed);
  const double rate = routing.bias_rate.value_or(default_bias_rate);
  std::vector<RoutingStatistics::Step> found;
  std::vector<double> bias;
  for (std::int64_t step = 0; step <= steps; ++step) {
    const GateLoad load = gate.balance(popularity, rate, bias);
    if (listed(step) || step == steps) found.push_back({step, spread(load.share)});
  }
  return found;
}

}  // namespace

void scale_to_one(std::vector<double>& values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
}

double auxiliary_variation(std::int64_t experts) {
  constexpr double of_64 = 0.3, most = 0.83;
  return std::min(most, of_64 * static_cast<double>(experts) / 64);
}

bool states_expert_loads(const Plan& plan) { return plan.routing.load_file || plan.routing.skew; }

struct RankRows::Layer {
  std::vector<double> share, slope;  // [expert] load, and its relative change with the popularity
  ExpertPlacement placement;
};

RankRows::RankRows(const Plan& plan, const MixtureOfExperts& experts, const std::vector<std::int64_t>& layers,
                   std::uint64_t seed)
    : experts_(experts),
      groups_per_token_(groups_per_token(plan, experts)),
      seed_(seed),
      capacity_(plan.routing.capacity_factor.value_or(std::numeric_limits<double>::infinity())),
      even_(plan.routing.capacity_factor && plan.routing.pad_to_capacity.value_or(false)) {
  const auto& degrees = plan.parallelism;
  const RankGroup group = expert_group(degrees);
  const std::int64_t sequences = plan.batch.micro_batch_size * group.ranks * group.stride;
  tokens_ = static_cast<double>(sequences * plan.batch.sequence_length) /
            static_cast<double>(degrees.context * (degrees.sequence ? degrees.tensor : 1));
  plan.routing.load_file ? read_layers(plan, layers) : make_layers(plan, layers, seed);
  find_counting();
  place(plan);
}

RankRows::~RankRows() = default;

const std::vector<double>& RankRows::shares(std::size_t layer) const { return layers_[layer].share; }

void RankRows::read_layers(const Plan& plan, const std::vector<std::int64_t>& layers) {
  const auto count = static_cast<std::size_t>(experts_.routed_experts);
  for (const std::int64_t layer : layers) {
    const auto& loads = plan.files->loads;
    auto found = std::ranges::find(loads, layer, &LayerRows::layer);
    if (found == loads.end()) found = std::ranges::find(loads, -1, &LayerRows::layer);
    const bool measured = found != loads.end();
    Layer& made = layers_.emplace_back(Layer{measured ? found->rows : std::vector<double>(count, 1), {}, {}});
    scale_to_one(made.share);
  }
}

void RankRows::make_layers(const Plan& plan, const std::vector<std::int64_t>& layers, std::uint64_t seed) {
  const auto& routing = plan.routing;
  const double skew = *routing.skew, correlation = routing.correlation.value_or(1);
  const std::string balancing = routing.balancing.value_or("none");
  const auto count = static_cast<std::size_t>(experts_.routed_experts);
  fluctuation_ = skew * std::sqrt(1 - correlation);
  const GateModel gate(experts_, groups_per_token_);
  const GateLoad balanced = gate.load({}, {});
  double factor = 0;
  for (const std::int64_t layer : layers) {
    std::vector<double> popularity = shared_popularity(plan, experts_, layer, seed);
    Random random(seed_of(seed, layer, 1));
    Layer& made = layers_.emplace_back();
    made.share.assign(count, 1 / static_cast<double>(count));
    made.slope = balanced.popularity_slope;
    if (skew == 0) continue;
    if (balancing == "bias") {
      const double rate = routing.bias_rate.value_or(default_bias_rate);
      for (std::size_t e = 0; e < count; ++e)
        made.share[e] *= std::exp(balanced.bias_slope[e] * rate * (2 * random.uniform() - 1));
    } else {
      if (factor == 0) factor = balancing == "auxiliary" ? auxiliary_factor(gate, popularity) : 1;
      GateLoad load = gate.load(scaled(std::move(popularity), factor), {});
      made.share = std::move(load.share);
      made.slope = std::move(load.popularity_slope);
    }
    scale_to_one(made.share);
  }
}

// A token uses M of G groups of S experts, and then k of their experts. With p = k/E the choices of an expert have the
// variance p(1 - p); their covariance is positive between experts of a group that is one of few.
void RankRows::find_counting() {
  const auto experts = static_cast<double>(experts_.routed_experts), groups = static_cast<double>(experts_.groups);
  const auto used = static_cast<double>(groups_per_token_), chosen = static_cast<double>(experts_.experts_per_token);
  const double reachable = used * experts / groups, p = chosen / experts;
  const double pair = reachable > 1 ? chosen * (chosen - 1) / (reachable * (reachable - 1)) : 0;
  const double same = used / groups * pair - p * p;
  const double other = groups > 1 ? used * (used - 1) / (groups * (groups - 1)) * pair - p * p : same;
  own_ = std::sqrt(std::max(0.0, p * (1 - p) - same));
  shared_ = std::sqrt(std::max(0.0, same - other));
}

void RankRows::place(const Plan& plan) {
  const std::int64_t ranks = plan.parallelism.expert;
  for (Layer& layer : layers_)
    layer.placement = plan.routing.redundant_experts
                          ? balanced_experts(layer.share, ranks, *plan.routing.redundant_experts, experts_.groups)
                          : contiguous_experts(experts_.routed_experts, ranks);
}

void RankRows::add_counting(std::uint64_t seed, std::vector<double>& load) const {
  Random random(seed);
  const auto size = load.size() / static_cast<std::size_t>(experts_.groups);
  const double chosen = static_cast<double>(experts_.experts_per_token);
  const double even = chosen / static_cast<double>(load.size());
  std::vector<double> noise(load.size()), deviation(load.size());
  double of_group = 0, sum = 0, deviations = 0;
  for (std::size_t e = 0; e < load.size(); ++e) {
    if (e % size == 0) of_group = shared_ * random.normal();
    const double p = std::min(1.0, chosen * load[e]);
    deviation[e] = even < 1 ? std::sqrt(p * (1 - p) / (even * (1 - even) * tokens_)) / chosen : 0;
    noise[e] = deviation[e] * (own_ * random.normal() + of_group);
    sum += noise[e];
    deviations += deviation[e];
  }
  // All tokens choose as many experts.
  for (std::size_t e = 0; e < load.size() && deviations > 0; ++e)
    load[e] = std::max(0.0, load[e] + noise[e] - deviation[e] * sum / deviations);
  scale_to_one(load);
}

void RankRows::draw(std::int64_t group, std::size_t layer, std::int64_t micro_batch, std::vector<double>& rows) const {
  const Layer& of = layers_[layer];
  const double count = static_cast<double>(of.share.size()), ranks = static_cast<double>(of.placement.ranks);
  if (even_) return rows.assign(static_cast<std::size_t>(of.placement.ranks), 1);
  const std::uint64_t seed = seed_of(seed_, layer, group, micro_batch);
  std::vector<double> load = of.share;
  if (fluctuation_ > 0) {
    Random random(seed_of(seed, 1));
    for (std::size_t e = 0; e < load.size(); ++e) load[e] *= std::exp(of.slope[e] * fluctuation_ * random.normal());
    scale_to_one(load);
  }
  limit(load, 1 / static_cast<double>(experts_.experts_per_token));
  add_counting(seed, load);
  for (double& value : load) value = std::min(value * count, capacity_) / std::min(1.0, capacity_);
  of.placement.rank_loads(load, rows);
  for (double& value : rows) value *= ranks / count;
}

std::vector<double> shared_popularity(const Plan& plan, const MixtureOfExperts& experts, std::int64_t layer,
                                      std::uint64_t seed) {
  Random random(seed_of(seed, layer));
  std::vector<double> popularity(static_cast<std::size_t>(experts.routed_experts));
  const double deviation = *plan.routing.skew * std::sqrt(plan.routing.correlation.value_or(1));
  for (double& value : popularity) value = deviation * random.normal();
  return popularity;
}

double deviation_of_rows(const Plan& plan, const MixtureOfExperts& experts) {
  if (!states_expert_loads(plan) || experts.routed_experts == 0) return 0;
  constexpr std::int64_t most_layers = 16, draws = 4;
  std::vector<std::int64_t> layers;
  if (plan.routing.load_file) {
    for (const LayerRows& layer : plan.files->loads) layers.push_back(layer.layer);
  } else {
    layers.resize(most_layers);
    std::iota(layers.begin(), layers.end(), 0);
  }
  const RankRows drawn(plan, experts, layers, statistics_seed);
  std::vector<double> rows;
  double squares = 0;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    for (std::int64_t i = 0; i < draws; ++i) {
      drawn.draw(0, layer, i, rows);
      for (const double value : rows) squares += (value - 1) * (value - 1);
    }
  const auto values = static_cast<double>(draws * std::ssize(layers) * plan.parallelism.expert);
  return std::sqrt(squares / values);
}

void ExpertPlacement::rank_loads(const std::vector<double>& load, std::vector<double>& ranks_load) const {
  const std::size_t slots = experts.size() / static_cast<std::size_t>(ranks);
  ranks_load.assign(static_cast<std::size_t>(ranks), 0);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const auto expert = static_cast<std::size_t>(experts[i]);
    ranks_load[i / slots] += load[expert] / copies[expert];
  }
}

ExpertPlacement contiguous_experts(std::int64_t experts, std::int64_t ranks) {
  return own_copies(std::vector<double>(static_cast<std::size_t>(experts)), ranks, 0);
}

ExpertPlacement balanced_experts(const std::vector<double>& load, std::int64_t ranks, std::int64_t redundant,
                                 std::int64_t groups) {
  if (ranks % groups != 0 || redundant % groups != 0) groups = 1;
  const std::size_t count = load.size() / static_cast<std::size_t>(groups);
  const auto of_group = [groups](std::int64_t whole) { return static_cast<std::size_t>(whole / groups); };
  const auto slots = (static_cast<std::int64_t>(load.size()) + redundant) / ranks;
  ExpertPlacement packed{ranks, std::vector<std::int32_t>(static_cast<std::size_t>(slots * ranks)),
                         std::vector<std::int32_t>(load.size(), 1)};
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g)
    pack_group(load, g * count, count, of_group(redundant), g * of_group(ranks), of_group(ranks), packed);
  // Without copies ranks have as many experts each only where those divide.
  if (static_cast<std::int64_t>(load.size()) % ranks != 0) return packed;
  ExpertPlacement own = own_copies(load, ranks, redundant);
  return fullest(packed, load) <= fullest(own, load) ? packed : own;
}

RoutingStatistics routing_statistics(const Plan& plan, const Architecture& architecture, std::int64_t steps) {
  constexpr std::int64_t draws = 4;
  std::vector<std::int64_t> layers;
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer)
    if (architecture.is_moe_layer(layer)) layers.push_back(layer);
  RoutingStatistics result;
  if (layers.empty()) return result;
  const RankRows drawn(plan, architecture.experts, layers, statistics_seed);
  const double weight = 1 / static_cast<double>(layers.size());
  std::vector<double> rows;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    result.loads.push_back({layers[i], drawn.shares(i)});
    add_weighted(result.experts, spread(drawn.shares(i)), weight);
    for (std::int64_t draw = 0; draw < draws; ++draw) {
      drawn.draw(0, i, draw, rows);
      add_weighted(result.ranks, spread(rows), weight / draws);
      const double mean = std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
      result.dropped += (1 - mean) * weight / draws;
    }
  }
  if (plan.routing.balancing == "bias") result.balance = balance_steps(plan, architecture, layers.front(), steps);
  return result;
}

}  // namespace plumbline::model
