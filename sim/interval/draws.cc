#include <tbb/enumerable_thread_specific.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "model/base/bytes.h"
#include "model/base/random.h"
#include "model/profile/constant_rules.h"
#include "model/profile/device_profile.h"
#include "model/program/program.h"
#include "model/result/result.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/hypercube.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/predictor.h"
#include "sim/tasks/tasks.h"
#include "sim/tasks/watch.h"

namespace plumbline::sim {
namespace {

struct ChangedStep {
  double time_s = 0;
  model::StepTimes parts;  // without what makes the whole step longer
};

// Predictions of one plan with changed inputs. For one thread.
class ChangedSteps {
 public:
  ChangedSteps(Inputs inputs, std::vector<double> imbalances)
      : profile_(inputs.profile), plan_(inputs.plan), imbalances_(std::move(imbalances)) {
    inputs.shapes = shapes_.get();
    predictor_.emplace(std::move(inputs));
  }

  model::Result<ChangedStep> of(const InputChange& change) {
    if (!now_) now_ = TRY(predicted_first());
    predictor_->set_profile(changed_profile(profile_, change));
    return predicted(change);
  }

  // Returns the growth of ln(time).
  model::Result<double> effect_of(const InputChange& change) {
    if (change.constants.empty() && change.shapes.all().empty() && !change.imbalance && !change.speed_deviation)
      return std::log(change.step_factor);
    const double then = TRY(of(change)).time_s;
    return std::log(then / now_->time_s);
  }

 private:
  // Slots wait for stragglers as between these predictions.
  model::Result<ChangedStep> predicted_first() {
    for (const double imbalance : imbalances_) {
      InputChange change;
      change.imbalance = imbalance;
      TRY(predicted(change));
    }
    return predicted({});
  }

  model::Result<ChangedStep> predicted(const InputChange& change) {
    *shapes_ = change.shapes;
    model::Plan plan = plan_;
    if (change.imbalance) model::set_imbalance(plan, *change.imbalance);
    if (change.speed_deviation) plan.cluster.speed_deviation = change.speed_deviation;
    auto parts = TRY(predictor_->step_parts(plan));
    return ChangedStep{parts.time_s * change.step_factor, std::move(parts)};
  }

  model::Profile profile_;
  model::Plan plan_;
  std::vector<double> imbalances_;
  std::unique_ptr<model::ShapeFactors> shapes_ = std::make_unique<model::ShapeFactors>();
  std::optional<Predictor> predictor_;
  std::optional<ChangedStep> now_;
};

// One for each thread, so predictions must not start tasks of oneTBB. Memory is that of the standard library, which the
// thread sanitizer sees being freed.
using ThreadSteps = tbb::enumerable_thread_specific<ChangedSteps, std::allocator<ChangedSteps>>;

// All predictions behind one interval: a row of the hypercube each, and for the gradient each uncertainty by itself.
class Drawing {
 public:
  using Step = model::Result<ChangedStep>;

  Drawing(const Inputs& inputs, const IntervalOptions& options, Drawn& drawn)
      : inputs_(inputs), options_(options), drawn_(drawn) {}

  model::Result<void> run() {
    const std::size_t blocks = options_.parts ? (drawn_.uncertainties.size() + block - 1) / block : 0;
    rows_.resize(options_.draws);
    if (options_.parts) effects_.assign(drawn_.uncertainties.size(), 0);
    ThreadSteps steps([this, imbalances = imbalances()] { return ChangedSteps(inputs_, imbalances); });
    const ChangedStep now = TRY(steps.local().of({}));
    const auto one = [&](std::size_t task) {
      if (task >= rows_.size()) return one_by_one((task - rows_.size()) * block, steps.local());
      rows_[task] = steps.local().of(change_of(drawn_, task));
    };
    limit_threads(options_.threads, [&] { for_each_index(rows_.size() + blocks, options_.watch, one); });
    drawn_.whole = !options_.watch.stops();
    drawn_.draws.step = now.parts;
    for (const std::optional<Step>& row : rows_) {
      if (!row) continue;
      const ChangedStep step = TRY(*row);
      drawn_.draws.time_ratio.push_back(step.time_s / now.time_s);
      drawn_.draws.steps.push_back(step.parts);
    }
    if (!drawn_.whole) return enough_draws(drawn_.draws.steps.size());
    for (const model::Result<double>& effect : effects_) drawn_.gradient.push_back(TRY(effect));
    return {};
  }

 private:
  // Returns the least, the middle and the largest imbalance of the draws, which one uncertainty changes at most.
  std::vector<double> imbalances() const {
    std::vector<double> drawn;
    for (std::size_t u = 0; u < drawn_.uncertainties.size(); ++u)
      for (const double z : drawn_.z[u]) {
        InputChange change;
        drawn_.uncertainties[u].apply(z, change);
        if (!change.imbalance) break;
        drawn.push_back(*change.imbalance);
      }
    if (drawn.empty()) return {};
    std::ranges::sort(drawn);
    return {drawn.front(), drawn[drawn.size() / 2], drawn.back()};
  }

  // Most constants of a profile have no part in a step, and many shapes next to none: a block of them needs one
  // prediction.
  static constexpr std::size_t block = 8;
  static constexpr double no_effect = 1e-4;  // of a block, on ln(time)

  void one_by_one(std::size_t first, ChangedSteps& steps) {
    const std::size_t end = std::min(first + block, drawn_.uncertainties.size());
    InputChange all;
    for (std::size_t u = first; u < end; ++u) drawn_.uncertainties[u].apply(1, all);
    const model::Result<double> together = steps.effect_of(all);
    if (together && std::abs(*together) < no_effect) return;
    for (std::size_t u = first; u < end; ++u) {
      InputChange change;
      drawn_.uncertainties[u].apply(1, change);
      effects_[u] = steps.effect_of(change);
    }
  }

  const Inputs& inputs_;
  const IntervalOptions& options_;
  Drawn& drawn_;
  std::vector<std::optional<Step>> rows_;
  std::vector<model::Result<double>> effects_;
};

// Returns the inputs with memos that all threads share, and with the constants that hold on the device.
model::Result<Inputs> inputs_of_draws(const Inputs& inputs) {
  Inputs shared = inputs;
  shared.profile = TRY(model::profile_on(inputs.profile, inputs.cluster.device)).profile;
  shared.every_link = false;
  add_memos(shared);
  return shared;
}

// Returns the quantile of a probability up to a half: Abramowitz and Stegun 26.2.23, whose error is below 4.5e-4, and
// two of Halley's steps on the distribution function.
double lower_quantile(double probability) {
  const double t = std::sqrt(-2 * std::log(probability));
  double z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
  for (int step = 0; step < 2; ++step) {
    const double error = std::erfc(-z / std::numbers::sqrt2) / 2 - probability;
    const double newton = error * std::sqrt(2 * std::numbers::pi) * std::exp(z * z / 2);
    z -= newton / (1 + z * newton / 2);
  }
  return z;
}

}  // namespace

model::Profile changed_profile(const model::Profile& profile, const InputChange& change) {
  std::vector<model::Parameter> constants = profile.parameters();
  std::vector<std::optional<model::ConstantRange>> ranges;
  ranges.reserve(change.constants.size());
  for (const auto& [index, factor] : change.constants) {
    double& value = constants[index].value;
    const auto& range = ranges.emplace_back(model::constant_range(constants[index]));
    const double origin = range ? range->origin : 0;
    value = origin + (value - origin) * factor;
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    double& value = constants[change.constants[i].first].value;
    if (ranges[i]) value = std::clamp(value, ranges[i]->low, ranges[i]->high);
  }
  return {profile.name(), profile.description(), std::move(constants), profile.devices(), profile.stack()};
}

InputChange change_of(const Drawn& drawn, std::size_t row) {
  InputChange change;
  for (std::size_t u = 0; u < drawn.uncertainties.size(); ++u) drawn.uncertainties[u].apply(drawn.z[u][row], change);
  return change;
}

DrawnSpread drawn_spread(const std::vector<double>& ratios) {
  DrawnSpread spread;
  const auto count = static_cast<double>(ratios.size());
  for (const double ratio : ratios) spread.mean += std::log(ratio) / count;
  for (const double ratio : ratios) spread.variance += std::pow(std::log(ratio) - spread.mean, 2) / count;
  return spread;
}

model::Result<void> draw_numbers(const IntervalOptions& options, Drawn& drawn) {
  std::erase_if(drawn.uncertainties, [&](const Uncertainty& one) {
    return options.without.contains(one.source) || options.without.contains(one.key);
  });
  for (const Uncertainty& one : drawn.uncertainties) {
    if (options.watch.stops()) return enough_draws(0);
    drawn.z.push_back(normal_column(one.key, options.seed, options.draws));
  }
  return {};
}

model::Result<Drawn> draw(const Inputs& inputs, const IntervalOptions& options) {
  TRY(check_draws(options));
  const Inputs shared = TRY(inputs_of_draws(inputs));
  Drawn drawn;
  add_shapes(shared, TRY(shapes_of(shared)), drawn.uncertainties);
  for (const auto add : {add_constants, add_load, add_silicon, add_fleet, add_allocator})
    add(shared, drawn.uncertainties);
  TRY(draw_numbers(options, drawn));
  TRY(Drawing(shared, options, drawn).run());
  return drawn;
}

double normal_quantile(double probability) {
  return probability <= 0.5 ? lower_quantile(probability) : -lower_quantile(1 - probability);
}

std::vector<double> uniform_column(std::string_view key, std::uint64_t seed, std::size_t draws) {
  model::Random random(model::hash_of(key) ^ model::Random(seed).next());
  std::vector<std::size_t> strata(draws);
  std::iota(strata.begin(), strata.end(), std::size_t{0});
  for (std::size_t left = draws; left > 1; --left) std::swap(strata[left - 1], strata[random.next() % left]);
  std::vector<double> column;
  for (const std::size_t stratum : strata)
    column.push_back((static_cast<double>(stratum) + random.uniform()) / static_cast<double>(draws));
  return column;
}

std::vector<double> normal_column(std::string_view key, std::uint64_t seed, std::size_t draws) {
  std::vector<double> column = uniform_column(key, seed, draws);
  for (double& value : column) value = normal_quantile(value);
  return column;
}

double linear(const Prior& spread, double z) {
  return spread.middle + z / model::normal_p90 * (z < 0 ? spread.middle - spread.low : spread.high - spread.middle);
}

double geometric(const Prior& spread, double z) {
  return std::exp(linear({std::log(spread.low), std::log(spread.middle), std::log(spread.high)}, z));
}

}  // namespace plumbline::sim
