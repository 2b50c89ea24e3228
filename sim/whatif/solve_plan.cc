#include "sim/whatif/solve_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

#include "model/plan/plan_fields.h"
#include "sim/predict/predictor.h"
#include "sim/whatif/range.h"

namespace plumbline::sim {
namespace {

// Returns where the interpolation through the best point b, the end c on the other side and the previous point a
// reaches zero, as a distance from b.
double interpolated(const Sample& a, const Sample& b, const Sample& c) {
  const double s = b.y / a.y;
  if (a.x == c.x) return (c.x - b.x) * s / (s - 1);
  const double q = a.y / c.y, r = b.y / c.y;
  const double numerator = s * ((c.x - b.x) * q * (q - r) - (b.x - a.x) * (r - 1));
  return -numerator / ((q - 1) * (r - 1) * (s - 1));
}

constexpr double target_tolerance = 1e-6;  // relative to the target
constexpr double x_tolerance = 1e-9;       // relative to x; reached where the quantity jumps

std::vector<double> spread(const SolveRange& range, double low, double high, std::size_t points) {
  std::vector<double> xs;
  if (!range.values.empty()) {
    std::ranges::copy_if(range.values, std::back_inserter(xs), [&](double x) { return x >= low && x <= high; });
    return xs;
  }
  if (range.whole && high - low < static_cast<double>(points)) {
    for (double x = std::ceil(low); x <= high; ++x) xs.push_back(x);
    return xs;
  }
  const bool logarithmic = low > 0 && high / low > 8;
  for (std::size_t i = 0; i < points; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(points - 1);
    const double x = logarithmic ? low * std::pow(high / low, share) : low + (high - low) * share;
    xs.push_back(range.whole ? std::round(x) : x);
  }
  xs.front() = low, xs.back() = high;
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
  return xs;
}

class Solver {
 public:
  Solver(const SolveRange& range, double target, double near, const SolveFunction& function)
      : range_(range), target_(target), near_(near), function_(function) {}

  model::Result<Solution> run(std::size_t grid) {
    TRY(sample(spread(range_, range_.low, range_.high, grid)));
    std::optional<Pair> pair = nearest_crossing();
    solution_.crossings = crossings_;
    while (pair && !reached(*pair)) {
      const bool numbers = !range_.whole && range_.values.empty();
      const auto done = TRY(numbers ? close_in(*pair) : refine(*pair, grid));
      if (!done) break;
      pair = nearest_crossing();
    }
    if (pair) conclude(*pair);
    return std::move(solution_);
  }

 private:
  struct Pair {
    SolveSample first, second;  // with values; neighbours by x
  };

  double rest(const SolveSample& sample) const { return *sample.value - target_; }
  bool exact(const SolveSample& sample) const { return std::abs(rest(sample)) <= target_tolerance * std::abs(target_); }
  bool reached(const Pair& pair) const { return exact(pair.first) || exact(pair.second); }

  model::Result<void> sample(std::vector<double> xs) {
    std::erase_if(xs, [&](double x) {
      return std::ranges::find(solution_.samples, x, &SolveSample::x) != solution_.samples.end();
    });
    auto values = TRY(function_(xs));
    for (std::size_t i = 0; i < xs.size(); ++i) solution_.samples.push_back({xs[i], (values)[i]});
    std::ranges::sort(solution_.samples, {}, &SolveSample::x);
    return {};
  }

  // Returns the neighbouring feasible samples around the target, or one that reaches it; the nearest to near_.
  std::optional<Pair> nearest_crossing() {
    std::optional<Pair> best;
    const SolveSample* before = nullptr;
    crossings_ = 0;
    const auto consider = [&](const Pair& pair) {
      const auto distance = [&](const Pair& p) { return std::max({0.0, p.first.x - near_, near_ - p.second.x}); };
      ++crossings_;
      if (!best || distance(pair) < distance(*best)) best = pair;
    };
    for (const SolveSample& sample : solution_.samples) {
      if (!sample.value) continue;
      const bool exact_before = before != nullptr && exact(*before);
      if (exact(sample) && !exact_before) {
        consider({sample, sample});
      } else if (before != nullptr && !exact_before && !exact(sample) && (rest(*before) < 0) != (rest(sample) < 0)) {
        consider({*before, sample});
      }
      before = &sample;
    }
    return best;
  }

  // Returns whether there are new samples.
  model::Result<bool> refine(const Pair& pair, std::size_t grid) {
    const std::size_t before = solution_.samples.size();
    if (!range_.values.empty()) return false;
    TRY(sample(spread(range_, pair.first.x, pair.second.x, grid)));
    return solution_.samples.size() > before;
  }

  model::Result<bool> close_in(const Pair& pair) {
    bool gap = false;
    const auto f = [&](double x) -> model::Result<double> {
      TRY(sample({x}));
      const SolveSample& found = *std::ranges::find(solution_.samples, x, &SolveSample::x);
      if (found.value) return rest(found);
      gap = true;
      return tl::unexpected(model::Error{});
    };
    const auto root = find_root(f, {pair.first.x, rest(pair.first)}, {pair.second.x, rest(pair.second)}, x_tolerance,
                                target_tolerance * std::abs(target_));
    if (!root && !gap) return tl::unexpected(root.error());
    if (root) solution_.exact = SolveSample{root->at.x, root->at.y + target_};
    // Between the sides of a jump, or next to an infeasible value, no further search is possible.
    if (solution_.exact && !exact(*solution_.exact)) solution_.exact.reset();
    return false;
  }

  void conclude(const Pair& found) {
    if (solution_.exact) return;
    const Pair pair = nearest_crossing().value_or(found);
    if (exact(pair.first) || exact(pair.second)) {
      solution_.exact = std::abs(rest(pair.first)) <= std::abs(rest(pair.second)) ? pair.first : pair.second;
      return;
    }
    solution_.below = pair.first;
    solution_.above = pair.second;
  }

  const SolveRange& range_;
  double target_, near_;
  const SolveFunction& function_;
  Solution solution_;
  std::size_t crossings_ = 0;
};

using model::Result;

std::string change_of(const SolveKey& key, double x) {
  return key.whole ? fmt::format("{}={}", key.key, std::llround(x)) : fmt::format("{}={}", key.key, x);
}

// Simulates values of the key and keeps the points.
class Evaluation {
 public:
  Evaluation(const ChangedInputs& changed, SolveResult& result) : changed_(changed), result_(result) {}

  Result<std::vector<Result<SweepPoint>>> points(std::size_t count, const SweepInputs& inputs) const {
    return sweep(count, inputs, {.fidelity = result_.fidelity, .predictors = predictors_});
  }

  Result<std::vector<std::optional<double>>> operator()(const std::vector<double>& xs) {
    auto points =
        TRY(this->points(xs.size(), [&](std::size_t point) { return changed_({change_of(result_.key, xs[point])}); }));
    std::vector<std::optional<double>> values;
    for (std::size_t i = 0; i < xs.size(); ++i) {
      values.push_back(points[i] ? metric(*points[i]) : std::nullopt);
      if (points[i]) result_.points.emplace(xs[i], std::move(*points[i]));
    }
    return values;
  }

  std::optional<double> metric(const SweepPoint& point) const { return result_.target.read(point); }

 private:
  const ChangedInputs& changed_;
  SolveResult& result_;
  std::shared_ptr<PredictorPool> predictors_ = std::make_shared<PredictorPool>();
};

// Simulates the plan as it is. A metric that its result lacks can never be reached.
Result<void> add_present(const ChangedInputs& changed, const Evaluation& evaluation, SolveResult& result) {
  auto points = TRY(evaluation.points(1, [&](std::size_t) { return changed({}); }));
  if (!points.front()) return {};
  result.present = evaluation.metric(*points.front());
  if (result.present) {
    if (result.key.value) result.points.emplace(*result.key.value, std::move(*points.front()));
    return {};
  }
  const bool of_run = result.target.metric.find("run.") != std::string::npos;
  const bool of_price = result.target.metric.find("usd") != std::string::npos;
  if (points.front()->serving)
    return model::wrong_input_at("--for", 0, result.target.metric, "the prediction of this deployment does not give it",
                                 of_price ? "give a price: --set run.price_usd_per_gpu_hour=2.0"
                                          : "serving.tpot_s, or another key of `serving` in `serve --json`");
  return model::wrong_input_at(
      "--for", 0, result.target.metric, "the prediction of this plan does not give it",
      of_run ? "add run.tokens to the plan, or --set run.tokens=..."
             : fmt::format("what fidelity {} gives is in its --json", to_string(result.fidelity)));
}

constexpr double reach = 8;                // largest multiple of the present value, and its largest divisor
constexpr double gigabit_per_byte = 8e-9;  // Gb/s per B/s

std::string range_hint(const std::string& key) { return fmt::format("give a range: --over {}=A..B", key); }

// Returns the cluster's value of a key that the plan leaves open.
std::optional<double> of_cluster(const std::string& key, const Inputs& inputs) {
  const model::ClusterShape& cluster = inputs.cluster;
  if (key == "cluster.nic_gbps") return cluster.nic_bandwidth.value() * gigabit_per_byte;
  if (key == "cluster.power_limit_w" && cluster.device.tdp > 0) return cluster.device.tdp;
  if (key == "cluster.nics_per_node") return static_cast<double>(cluster.nics_per_node);
  if (key == "cluster.oversubscription" && inputs.fabric) return inputs.fabric->oversubscription;
  return std::nullopt;
}

Result<SolveKey> constant_key(const std::string& key, const Inputs& inputs) {
  const bool of_profile = key.starts_with("profile.");
  const std::string name = key.substr(key.find('.') + 1);
  const auto& constants = of_profile ? inputs.profile.parameters() : inputs.cluster.parameters;
  const auto found =
      std::ranges::find_if(constants, [&](const model::Parameter& c) { return model::name_fits(c.name, name); });
  if (found == constants.end()) {
    std::vector<std::string> known;
    for (const model::Parameter& constant : constants) known.push_back(constant.name);
    return model::wrong_input_at("--solve", 0, key, "unknown constant", model::did_you_mean(name, known));
  }
  const bool factor = name.find('*') != std::string::npos;
  return SolveKey{key, false, factor ? 1 : found->value, {}};
}

// Returns the type of a key of the plan and its present value.
Result<SolveKey> plan_key(const std::string& key, const Inputs& inputs) {
  const auto& keys = model::plan_keys();
  if (std::ranges::find(keys, key) == keys.end())
    return model::wrong_input_at("--solve", 0, key, "unknown key", model::plan_key_hint(key));
  SolveKey found{key, true, std::nullopt, {}};
  if (key.starts_with("model.") && key != "model.config") return found;
  bool number = false;
  model::visit_fields(inputs.plan, [&](std::string_view name, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if (name != key) return;
    constexpr bool whole = std::is_same_v<Field, std::int64_t> || std::is_same_v<Field, std::optional<std::int64_t>>;
    constexpr bool real = std::is_same_v<Field, double> || std::is_same_v<Field, std::optional<double>>;
    number = whole || real;
    found.whole = whole;
    if constexpr (std::is_same_v<Field, std::int64_t> || std::is_same_v<Field, double>) {
      found.value = static_cast<double>(field);
    } else if constexpr (whole || real) {
      if (field) found.value = static_cast<double>(*field);
    }
  });
  if (!number) return model::wrong_input_at("--solve", 0, key, "is not a number", "sweep its values with --over");
  if (!found.value) found.value = of_cluster(key, inputs);
  return found;
}

Result<SolveRange> given_range(const SolveKey& key, const std::string& over) {
  const auto axis = TRY(parse_ends(over));
  if (axis.key != key.key)
    return model::wrong_input_at("--over", 0, axis.key, fmt::format("{} is solved for", key.key), range_hint(key.key));
  if (!axis.numeric() || axis.values.size() < 2)
    return model::wrong_input_at("--over", 0, axis.key, "needs at least two numbers", range_hint(key.key));
  SolveRange range;
  range.whole = key.whole;
  for (const SweepValue& value : axis.values) range.values.push_back(*value.number);
  std::ranges::sort(range.values);
  range.low = range.values.front();
  range.high = range.values.back();
  if (is_span(over)) range.values.clear();
  return range;
}

// Returns powers of 2 from an eighth to eight times the value, for numbers that must divide something.
SolveRange doublings(double value) {
  SolveRange range{0, 0, true};
  for (double factor = 1 / reach; factor <= reach; factor *= 2) {
    const double x = value * factor;
    if (x >= 1 && x == std::floor(x)) range.values.push_back(x);
  }
  range.low = range.values.front();
  range.high = range.values.back();
  return range;
}

Result<SolveRange> usual_range(const SolveKey& key, const Inputs& inputs) {
  if (key.key == "routing.imbalance" || key.key == "offload.activations") return SolveRange{0, 1};
  if (key.key == "overlap.communication_sms")
    return SolveRange{1, static_cast<double>(inputs.cluster.device.sms - 1), true};
  if (key.value.value_or(0) <= 0)
    return model::wrong_input_at("--solve", 0, key.key, "has no value to look around", range_hint(key.key));
  if (key.key == "cluster.gpus" || (key.whole && key.key.starts_with("parallelism."))) return doublings(*key.value);
  const double low = *key.value / reach, high = *key.value * reach;
  return key.whole ? SolveRange{std::max(1.0, std::ceil(low)), high, true} : SolveRange{low, high};
}

}  // namespace

model::Result<Root> find_root(const std::function<model::Result<double>(double)>& f, Sample a, Sample b,
                              double x_tolerance, double y_tolerance) {
  assert((a.y <= 0 && b.y >= 0) || (a.y >= 0 && b.y <= 0));
  Sample c = a;
  double step = b.x - a.x, before = step;
  while (true) {
    if ((b.y > 0) == (c.y > 0) && b.y != 0) {
      c = a;
      step = before = b.x - a.x;
    }
    if (std::abs(c.y) < std::abs(b.y)) a = std::exchange(b, std::exchange(c, b));
    const double least = 2 * std::numeric_limits<double>::epsilon() * std::abs(b.x) + x_tolerance * std::abs(b.x) / 2;
    const double half = (c.x - b.x) / 2;
    if (std::abs(b.y) <= y_tolerance || std::abs(half) <= least) return Root{b, c};
    double next = half;
    bool halved = true;
    if (std::abs(before) >= least && std::abs(a.y) > std::abs(b.y)) {
      const double guess = interpolated(a, b, c);
      // The guess must lie towards the other side, within three quarters of the way, and shrink faster than bisection.
      const bool inside = guess / half > 0 && std::abs(guess) < std::min(1.5 * std::abs(half), std::abs(before) / 2);
      if (inside) next = guess, halved = false;
    }
    before = halved ? next : step;
    step = next;
    a = b;
    b.x += std::abs(step) > least ? step : std::copysign(least, half);
    b.y = TRY(f(b.x));
  }
}

model::Result<Solution> solve(const SolveRange& range, double target, double near, const SolveFunction& function,
                              std::size_t grid) {
  return Solver(range, target, near, function).run(grid);
}

Result<SolveResult> solve(const std::string& key, const std::optional<std::string>& over, SolveTarget target,
                          const ChangedInputs& changed, Fidelity fidelity) {
  const auto inputs = TRY(changed({}));
  auto known = TRY(solve_key(key, inputs, over));
  const bool steady = model::is_deployment(inputs.plan);  // a steady state has one fidelity
  SolveResult result{
      inputs.plan, steady ? Fidelity::closed_form : fidelity, std::move(known), std::move(target), {}, {}, {}};
  Evaluation evaluation(changed, result);
  TRY(add_present(changed, evaluation, result));
  const double near = result.key.value.value_or(result.key.range.low);
  result.solution = TRY(solve(result.key.range, result.target.value, near, std::ref(evaluation)));
  return result;
}

Result<SolveKey> solve_key(const std::string& key, const Inputs& inputs, const std::optional<std::string>& over) {
  const bool constant = key.starts_with("profile.") || key.starts_with("topology.");
  auto found = TRY(constant ? constant_key(key, inputs) : plan_key(key, inputs));
  found.range = TRY(over ? given_range(found, *over) : usual_range(found, inputs));
  return found;
}

std::string value_text(const SolveKey& key, double x) {
  return key.whole ? fmt::format("{}", std::llround(x)) : fmt::format("{:.6g}", x);
}

}  // namespace plumbline::sim
