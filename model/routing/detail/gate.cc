#include "model/routing/detail/gate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "model/base/random.h"

namespace plumbline::model {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Returns the probability that a standard normal number is above x, and its density there.
double normal_above(double x) { return std::erfc(x / std::numbers::sqrt2) / 2; }
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }

// The score of a logit: its sigmoid, or exp(logit) over the expected sum of all experts.
struct Score {
  bool sigmoid = true;
  double sum = 1;  // softmax only

  double of(double logit) const { return sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit) / sum; }
  // Returns the logit with this score; infinite outside of the scores' range.
  double logit(double score) const {
    if (score <= 0) return -infinity;
    if (!sigmoid) return std::log(score * sum);
    return score < 1 ? std::log(score / (1 - score)) : infinity;
  }
  double slope(double logit) const {
    const double score = of(logit);
    return sigmoid ? score * (1 - score) : score;
  }
};

Score score_of(const MixtureOfExperts& experts, const std::vector<double>& popularity) {
  if (experts.score == ScoreFunction::sigmoid) return {};
  constexpr double mean_of_exponential = 1.6487212707001282;  // of a standard normal number: sqrt(e)
  double sum = 0;
  for (std::int64_t e = 0; e < experts.routed_experts; ++e)
    sum += std::exp(popularity.empty() ? 0 : popularity[static_cast<std::size_t>(e)]);
  return {false, sum * mean_of_exponential};
}

double at(const std::vector<double>& values, std::size_t e) { return values.empty() ? 0 : values[e]; }

}  // namespace

double max_violation(const std::vector<double>& share) {
  return std::ranges::max(share) * static_cast<double>(share.size()) /
             std::accumulate(share.begin(), share.end(), 0.0) -
         1;
}

// The scores of one token, and for each expert the score from which on it is chosen, given those of the others.
class GateModel::Token {
 public:
  Token(const MixtureOfExperts& experts, std::int64_t groups_per_token)
      : groups_(static_cast<std::size_t>(experts.groups)),
        size_(static_cast<std::size_t>(experts.routed_experts / experts.groups)),
        allowed_(static_cast<std::size_t>(groups_per_token)),
        chosen_(static_cast<std::size_t>(experts.experts_per_token)),
        summed_(static_cast<std::size_t>(experts.group_score_experts)),
        best_(groups_),
        order_(groups_) {}

  void set(const std::vector<double>& scores) {
    scores_ = &scores;
    for (std::size_t g = 0; g < groups_; ++g) {
      best_[g].resize(std::min(size_, std::max(chosen_, summed_) + 1));
      const auto first = scores.begin() + static_cast<std::ptrdiff_t>(g * size_);
      std::partial_sort_copy(first, first + static_cast<std::ptrdiff_t>(size_), best_[g].begin(), best_[g].end(),
                             std::greater<>());
    }
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, std::greater<>(), [this](std::size_t g) { return group_score(g, infinity); });
  }

  // Calls each(expert, threshold) for every expert of a group.
  template <class Each>
  void thresholds(std::size_t group, const Each& each) {
    // The best of the other groups that are allowed with this one, and the score that the group has to beat.
    pool_ = best_[group];
    double rival = -infinity;
    std::size_t others = 0;
    for (const std::size_t g : order_) {
      if (g == group) continue;
      if (++others == allowed_) rival = group_score(g, infinity);
      if (others < allowed_) pool_.insert(pool_.end(), best_[g].begin(), best_[g].end());
    }
    const std::size_t kept = std::min(pool_.size(), chosen_ + 1);
    std::partial_sort(pool_.begin(), pool_.begin() + static_cast<std::ptrdiff_t>(kept), pool_.end(), std::greater<>());
    for (std::size_t e = group * size_; e < (group + 1) * size_; ++e) {
      const double own = (*scores_)[e];
      const std::size_t place = own >= pool_[chosen_ - 1] ? chosen_ : chosen_ - 1;
      const double among = place < kept ? pool_[place] : -infinity;
      const double rest = group_score(group, own);
      each(e, std::max(among, rest + next_ > rival ? -infinity : rival - rest));
    }
  }

 private:
  // Returns the score of a group without an expert of score `without` (infinity: with all), with space for one more
  // expert where it lacks one: next_ is the least of the scores that an expert would replace.
  double group_score(std::size_t group, double without) {
    double sum = 0;
    std::size_t taken = 0;
    bool skipped = false;
    next_ = 0;
    const std::size_t most = without == infinity ? summed_ : summed_ - 1;
    for (const double score : best_[group]) {
      if (!skipped && score == without) {
        skipped = true;
      } else if (taken < most) {
        sum += score;
        ++taken;
      } else {
        next_ = score;
        break;
      }
    }
    return sum;
  }

  std::size_t groups_, size_, allowed_, chosen_, summed_;
  const std::vector<double>* scores_ = nullptr;
  std::vector<std::vector<double>> best_;  // [group] its best scores, descending
  std::vector<std::size_t> order_;         // of groups, by score
  std::vector<double> pool_;
  double next_ = 0;
};

GateModel::GateModel(const MixtureOfExperts& experts, std::int64_t groups_per_token)
    : experts_(experts), groups_per_token_(groups_per_token) {
  constexpr std::size_t tokens = 256;
  constexpr std::uint64_t seed = 20240828;
  const auto count = static_cast<std::size_t>(experts.routed_experts);
  const auto groups = static_cast<std::size_t>(experts.groups);
  Random random(seed);
  // Every group has each set of numbers once, so that no group is preferred by chance.
  while (noise_.size() < tokens) {
    std::vector<double> numbers(count);
    for (double& number : numbers) number = random.normal();
    for (std::size_t g = 0; g < groups; ++g) {
      noise_.push_back(numbers);
      std::ranges::rotate(numbers, numbers.begin() + static_cast<std::ptrdiff_t>(count / groups));
    }
  }
}

GateLoad GateModel::load(const std::vector<double>& popularity, const std::vector<double>& bias) const {
  const auto count = static_cast<std::size_t>(experts_.routed_experts);
  const Score score = score_of(experts_, popularity);
  GateLoad load{std::vector<double>(count), std::vector<double>(count), std::vector<double>(count)};
  Token token(experts_, groups_per_token_);
  std::vector<double> scores(count);
  for (const std::vector<double>& noise : noise_) {
    for (std::size_t e = 0; e < count; ++e) scores[e] = score.of(at(popularity, e) + noise[e]) + at(bias, e);
    token.set(scores);
    for (std::size_t g = 0; g < static_cast<std::size_t>(experts_.groups); ++g)
      token.thresholds(g, [&](std::size_t e, double threshold) {
        const double logit = score.logit(threshold - at(bias, e));
        const double x = logit - at(popularity, e);
        load.share[e] += normal_above(x);
        if (!std::isfinite(logit)) return;
        load.popularity_slope[e] += normal_density(x);
        load.bias_slope[e] += normal_density(x) / score.slope(logit);
      });
  }
  const double sum = std::accumulate(load.share.begin(), load.share.end(), 0.0);
  for (std::size_t e = 0; e < count; ++e) {
    if (load.share[e] > 0) {
      load.popularity_slope[e] /= load.share[e];
      load.bias_slope[e] /= load.share[e];
    }
    load.share[e] /= sum;
  }
  return load;
}

GateLoad GateModel::balance(const std::vector<double>& popularity, double rate, std::vector<double>& bias) const {
  bias.resize(static_cast<std::size_t>(experts_.routed_experts));
  GateLoad now = load(popularity, bias);
  for (std::size_t e = 0; e < bias.size(); ++e)
    bias[e] += std::copysign(rate, 1 / static_cast<double>(bias.size()) - now.share[e]);
  return now;
}

}  // namespace plumbline::model
