#include "model/routing/served_load.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>

#include "model/base/memo.h"
#include "model/base/random.h"
#include "model/routing/rank_rows.h"

namespace plumbline::model {

namespace {

constexpr std::uint64_t served_seed = 20250606;
constexpr std::size_t served_layers = 16;

// Normal numbers of the experts of a layer, less their mean, and the sum of their squares.
struct Normals {
  std::vector<double> centered;
  double squares = 0;
};

Normals normals(std::int64_t experts, std::uint64_t layer) {
  Random random(mixed(served_seed + layer));
  Normals made{std::vector<double>(static_cast<std::size_t>(experts))};
  for (double& value : made.centered) value = random.normal();
  const double sum = std::accumulate(made.centered.begin(), made.centered.end(), 0.0);
  const double mean = sum / static_cast<double>(experts);
  for (double& value : made.centered) value -= mean;
  for (const double value : made.centered) made.squares += value * value;
  return made;
}

// Returns the shares of experts, of which a token chooses each at most once. The normal numbers that they are made of
// have exactly the mean 0 and the deviation 1, so that few experts have their skew, too; they are kept for all skews.
std::vector<double> served_shares(const MixtureOfExperts& experts, double skew, std::uint64_t layer) {
  static Memo<std::pair<std::int64_t, std::uint64_t>, std::shared_ptr<const Normals>> known;
  const auto made = known.find({experts.routed_experts, layer},
                               [&] { return std::make_shared<const Normals>(normals(experts.routed_experts, layer)); });
  std::vector<double> load = made->centered;
  const auto count = static_cast<double>(load.size());
  const double scale = made->squares > 0 ? std::sqrt(std::log1p(skew * skew) * count / made->squares) : 0;
  for (double& value : load) value = std::exp(scale * value);
  scale_to_one(load);
  for (double& value : load) value = std::min(value, 1 / static_cast<double>(experts.experts_per_token));
  scale_to_one(load);
  return load;
}

}  // namespace

ServedSkew served_skew(const MixtureOfExperts& experts) {
  constexpr double mixture = 0.24, one_data_set = 1.36;
  if (experts.score == ScoreFunction::sigmoid) return {mixture, std::sqrt(mixture * one_data_set), one_data_set};
  const double usual = auxiliary_variation(experts.routed_experts);
  return {usual / 2, usual, 2 * usual};
}

double experts_with_rows(const MixtureOfExperts& experts, std::int64_t redundant, double skew, double tokens) {
  const auto chosen = static_cast<double>(experts.experts_per_token);
  std::vector<double> load = served_shares(experts, skew, 0);  // of one copy
  std::vector<double> copies(load.size(), 1);
  for (std::int64_t i = 0; i < redundant; ++i) {
    const auto heaviest = static_cast<std::size_t>(std::ranges::max_element(load) - load.begin());
    load[heaviest] *= copies[heaviest] / (copies[heaviest] + 1);
    ++copies[heaviest];
  }
  double hit = 0;
  for (std::size_t e = 0; e < load.size(); ++e)
    hit += copies[e] * (1 - std::pow(1 - std::min(1.0, chosen * load[e]), tokens));
  return hit;
}

ServedRanks::ServedRanks(const MixtureOfExperts& experts, std::int64_t ranks, std::int64_t redundant, double skew) {
  const auto choices = static_cast<double>(experts.experts_per_token);
  for (std::uint64_t number = 0; number < served_layers; ++number) {
    Layer& layer = layers_.emplace_back();
    layer.load = served_shares(experts, skew, number);
    layer.placement = redundant > 0 ? balanced_experts(layer.load, ranks, redundant, experts.groups)
                                    : contiguous_experts(experts.routed_experts, ranks);
    Random random(mixed(served_seed + served_layers + number));
    for (const double load : layer.load) {
      const double p = std::min(1.0, choices * load);
      layer.noise.push_back(std::sqrt(p * (1 - p)) / choices * nearly_normal(random.next()));
    }
  }
}

double ServedRanks::fullest(double tokens) const {
  const double noise = 1 / std::sqrt(tokens);
  double sum = 0;
  std::vector<double> load, ranks;
  for (const Layer& layer : layers_) {
    load = layer.load;
    for (std::size_t e = 0; e < load.size(); ++e) load[e] = std::max(0.0, load[e] + noise * layer.noise[e]);
    layer.placement.rank_loads(load, ranks);
    const double mean = std::accumulate(ranks.begin(), ranks.end(), 0.0) / static_cast<double>(ranks.size());
    sum += std::ranges::max(ranks) / mean;
  }
  return sum / static_cast<double>(layers_.size());
}

}  // namespace plumbline::model
