#include "sim/search/break_even.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "model/program/program.h"
#include "sim/predict/predictor.h"
#include "sim/tasks/indices.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {
namespace {

constexpr double out = std::numeric_limits<double>::infinity();

model::Profile scaled(const model::Profile& profile, std::string_view prefix, std::string_view suffix, double factor) {
  std::vector<model::Parameter> parameters = profile.parameters();
  for (model::Parameter& parameter : parameters) {
    const bool meant = parameter.name.starts_with(prefix) && parameter.name.ends_with(suffix);
    if (meant) parameter.value *= factor;
  }
  return {profile.name(),    profile.description(), std::move(parameters),
          profile.devices(), profile.stack(),       profile.fits()};
}

// The measure of one plan under changes of one quantity. For one thread.
class Contender {
 public:
  Contender(const BreakEvenCandidate& candidate, bool same_hardware, BreakEvenQuantity quantity,
            const BreakEvenOptions& options)
      : candidate_(candidate), quantity_(quantity), now_(candidate.weight * candidate.step_s) {
    if (!same_hardware && quantity != BreakEvenQuantity::imbalance) return;
    predictor_.emplace(*candidate.inputs);
    unchanged_ = closed_form(candidate.inputs->plan).value_or(out);
    if (quantity == BreakEvenQuantity::imbalance)
      for (const double factor : {options.lowest, options.highest})
        closed_form(changed(*candidate.inputs, quantity, factor).plan);
    predictor_->set_profile(candidate.inputs->profile);  // from here on slots wait for stragglers as between these
  }

  double value(double factor) {
    if (!std::isfinite(unchanged_)) return now_;
    const Inputs then = changed(*candidate_.inputs, quantity_, factor);
    if (quantity_ == BreakEvenQuantity::nic_bandwidth || quantity_ == BreakEvenQuantity::nvlink_bandwidth)
      predictor_->set_links(then.cluster, then.fabric);
    else if (quantity_ != BreakEvenQuantity::imbalance)
      predictor_->set_profile(then.profile);
    const std::optional<double> step_s = closed_form(then.plan);
    return step_s ? now_ * *step_s / unchanged_ : now_;
  }

 private:
  // Returns nothing where no prediction is possible, for example at a rate above the device's peak.
  std::optional<double> closed_form(const model::Plan& plan) {
    const auto estimate = predictor_->closed_form(plan);
    if (!estimate) return std::nullopt;
    return estimate->fits ? estimate->step.time_s : out;
  }

  BreakEvenCandidate candidate_;
  BreakEvenQuantity quantity_;
  double now_;
  std::optional<Predictor> predictor_;  // where the quantity changes the plan's measure
  double unchanged_ = out;
};

// Which factor on one quantity overturns the choice. For one thread.
class Question {
 public:
  Question(const BreakEvenCandidate& winner, const std::vector<BreakEvenCandidate>& alternatives,
           const std::vector<bool>& same, BreakEvenQuantity quantity, const BreakEvenOptions& options)
      : options_(options), quantity_(quantity), winner_(winner, true, quantity, options) {
    for (std::size_t i = 0; i < alternatives.size() && !stopped(); ++i)
      alternatives_.emplace_back(alternatives[i], same[i], quantity, options);
  }

  BreakEven nearest() {
    BreakEven break_even{quantity_, std::nullopt, 0, std::nullopt};
    const double step = std::sqrt(2.0);
    double up = 1, down = 1;
    while (!break_even.factor && (up < options_.highest || down > options_.lowest)) {
      const double higher = std::min(up * step, options_.highest), lower = std::max(down / step, options_.lowest);
      const auto above = higher > up ? overturned(higher) : std::nullopt;
      const auto below = lower < down ? overturned(lower) : std::nullopt;
      const BreakEven rising = above ? bisected(up, higher, *above) : break_even;
      const BreakEven falling = below ? bisected(down, lower, *below) : break_even;
      const bool take_rising = rising.factor && (!falling.factor || *rising.factor <= 1 / *falling.factor);
      break_even = take_rising ? rising : falling;
      up = higher;
      down = lower;
    }
    return break_even;
  }

 private:
  bool stopped() const { return options_.stopped && options_.stopped(); }

  // Returns the best alternative that is better than the winner, if any.
  std::optional<std::size_t> overturned(double factor) {
    double best = stopped() ? -out : winner_.value(factor);
    std::optional<std::size_t> by;
    for (std::size_t i = 0; i < alternatives_.size() && !stopped(); ++i) {
      const double value = alternatives_[i].value(factor);
      if (value >= best) continue;
      best = value;
      by = i;
    }
    return by;
  }

  // `far` overturns the choice and `near` does not.
  BreakEven bisected(double near, double far, std::size_t by) {
    constexpr double precision = 0.01;
    while (std::abs(far / near - 1) > precision && !stopped()) {
      const double middle = std::sqrt(near * far);
      const auto found = overturned(middle);
      (found ? far : near) = middle;
      if (found) by = *found;
    }
    return {quantity_, far, by, std::nullopt};
  }

  const BreakEvenOptions& options_;
  BreakEvenQuantity quantity_;
  Contender winner_;
  std::vector<Contender> alternatives_;
};

// Returns how much more the winner may cost, which needs no prediction.
BreakEven price_break_even(const BreakEvenCandidate& winner, const std::vector<BreakEvenCandidate>& alternatives,
                           const std::vector<bool>& same, const BreakEvenOptions& options) {
  BreakEven break_even{BreakEvenQuantity::price, std::nullopt, 0, std::nullopt};
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    if (same[i]) continue;
    const double factor = alternatives[i].weight * alternatives[i].step_s / (winner.weight * winner.step_s);
    if (factor > options.highest || factor >= break_even.factor.value_or(out)) continue;
    break_even.factor = factor;
    break_even.by = i;
  }
  return break_even;
}

}  // namespace

std::string_view describe(BreakEvenQuantity quantity) {
  constexpr std::array<std::string_view, 6> names = {
      "NIC bandwidth",    "bandwidth inside a node",  "rate of GEMMs",
      "memory bandwidth", "imbalance of the experts", "price of a GPU-hour"};
  return names[static_cast<std::size_t>(quantity)];
}

Inputs changed(const Inputs& inputs, BreakEvenQuantity quantity, double factor) {
  Inputs result = inputs;
  switch (quantity) {
    case BreakEvenQuantity::nic_bandwidth:
      result.cluster.nic_bandwidth = result.cluster.nic_bandwidth * factor;
      if (result.fabric) result.fabric->nic_bandwidth *= factor;
      break;
    case BreakEvenQuantity::nvlink_bandwidth:
      result.cluster.intra_node_bandwidth = result.cluster.intra_node_bandwidth * factor;
      if (result.fabric) result.fabric->gpu_bandwidth *= factor;
      break;
    case BreakEvenQuantity::gemm_rate:
      result.profile = scaled(inputs.profile, "gemm.", ".k_time", 1 / factor);
      break;
    case BreakEvenQuantity::memory_bandwidth:
      result.profile = scaled(inputs.profile, "memory.", ".bandwidth", factor);
      break;
    case BreakEvenQuantity::imbalance:
      model::set_imbalance(result.plan, factor * model::routing_balance(result.plan, result.architecture.experts).used);
      break;
    case BreakEvenQuantity::price:
      break;
  }
  return result;
}

std::vector<BreakEven> break_evens(const BreakEvenCandidate& winner,
                                   const std::vector<BreakEvenCandidate>& alternatives, const std::vector<bool>& same,
                                   const BreakEvenOptions& options) {
  std::vector<BreakEvenQuantity> quantities = {BreakEvenQuantity::nic_bandwidth, BreakEvenQuantity::nvlink_bandwidth,
                                               BreakEvenQuantity::gemm_rate, BreakEvenQuantity::memory_bandwidth};
  const double imbalance = model::routing_balance(winner.inputs->plan, winner.inputs->architecture.experts).used;
  if (winner.inputs->architecture.experts.routed_experts > 0 && imbalance > 0)
    quantities.push_back(BreakEvenQuantity::imbalance);
  std::vector<BreakEven> found(quantities.size());
  limit_threads(options.threads, [&] {
    for_each_index(quantities.size(), [&](std::size_t i) {
      found[i] = Question(winner, alternatives, same, quantities[i], options).nearest();
    });
  });
  for (BreakEven& break_even : found) {
    if (break_even.quantity == BreakEvenQuantity::imbalance) break_even.from = imbalance;
  }
  const bool elsewhere = std::ranges::find(same, false) != same.end();
  if (options.weight_is_price && elsewhere) found.push_back(price_break_even(winner, alternatives, same, options));
  return found;
}

}  // namespace plumbline::sim
