#include "sim/whatif/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "model/base/bytes.h"
#include "model/cost/operator_class.h"
#include "model/memory/memory.h"
#include "model/result/result.h"
#include "model/schedule/schedule.h"
#include "sim/campaign/closed_form.h"
#include "sim/interval/interval.h"
#include "sim/network/contention.h"
#include "sim/predict/memos.h"
#include "sim/predict/simulate.h"
#include "sim/rollout/rollout.h"
#include "sim/serving/serving.h"
#include "sim/tasks/inputs_key.h"

namespace plumbline::sim {

namespace {

SweepPoint point_of(const Inputs& inputs, Fidelity fidelity) {
  SweepPoint point;
  point.result.fidelity = to_string(fidelity);
  point.result.device = inputs.cluster.device.name;
  point.result.profile = inputs.profile.name();
  point.result.stack = inputs.profile.stack();
  return point;
}

PointResult point_of(const Inputs& inputs, Fidelity fidelity, bool every_rank, Predictor& predictor) {
  const model::Plan& plan = inputs.plan;
  auto estimate = TRY(fidelity == Fidelity::step ? predictor.events(plan) : predictor.closed_form(plan));
  auto limits = TRY(predictor.limits(plan, fidelity, estimate.step.time_s));
  SweepPoint point = point_of(inputs, fidelity);
  model::StepResult& result = point.result;
  result.bound_s = limits.bound_s;
  result.flops_at_peak_s = limits.flops_at_peak_s;
  result.warnings = std::move(limits.warnings);
  result.memory.peak_bytes = estimate.peak.bytes;
  result.memory.capacity_bytes = inputs.cluster.device.memory.value();
  if (every_rank || !estimate.fits) result.memory = TRY(predictor.memory(plan));
  result.run = predicted_run(inputs, plan, estimate.step);
  result.step = std::move(estimate.step);
  return point;
}

PointResult point_on_network(const Inputs& inputs, Predictor& predictor) {
  SweepPoint point{TRY(simulate_on_network(predictor, inputs.plan, false)).result, "", {}};
  point.result.lost.clear();
  point.result.provenance.clear();
  return point;
}

// Predictors of deployments, each shared by those that differ only in [parallelism] and [inference].
class ServingPredictors {
 public:
  std::shared_ptr<const ServingPredictor> find(const Inputs& inputs) {
    const std::string key = key_of(inputs);
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(predictors_, key, &Entry::first);
    if (known != predictors_.end()) return known->second;
    if (predictors_.size() == most) predictors_.erase(predictors_.begin());
    return predictors_.emplace_back(key, std::make_shared<const ServingPredictor>(inputs)).second;
  }

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const ServingPredictor>>;
  static constexpr std::size_t most = 16;

  static std::string key_of(Inputs inputs) {
    inputs.plan.parallelism = {};
    inputs.plan.inference = {};
    return bytes_of(inputs);
  }

  std::mutex mutex_;
  std::vector<Entry> predictors_;
};

// Returns why a deployment does not keep the limits of its plan; "" where it does or has none. The most requests that a
// plan without their number has are within them.
std::string over_the_limit(const model::Plan& plan, const model::ServingResult& result) {
  if (plan.inference.concurrency == 0) return "";
  const auto over = [](const char* key, double found, std::optional<double> limit) {
    return limit && found > *limit ? fmt::format("{:.4g} ms are above {} = {:.4g}", found * 1e3, key, *limit) : "";
  };
  const std::string tpot = over("inference.max_tpot_s", result.tpot_s, plan.inference.max_tpot_s);
  return tpot.empty() ? over("inference.max_ttft_s", result.ttft_s, plan.inference.max_ttft_s) : tpot;
}

class Pool {
 public:
  Pool(std::size_t points, const SweepInputs& inputs, const SweepOptions& options)
      : inputs_(inputs),
        options_(options),
        points_(points),
        predictors_(options.predictors ? options.predictors : std::make_shared<PredictorPool>()) {}

  model::Result<std::vector<PointResult>> run() {
    std::vector<std::string> results(points_, model::to_bytes(PointResult(not_begun())));
    for (std::size_t size = first_block; begin_ < points_ && !stopped(); begin_ += size, size *= 2) {
      size = std::min(size, points_ - begin_);
      TRY(run_block(size, results));
    }
    std::vector<PointResult> points;
    for (const std::string& bytes : results) {
      auto point = model::from_bytes<PointResult>(bytes);
      if (!point) return model::infeasible("", "the result of a point is damaged", "run the sweep without --resume");
      points.push_back(std::move(*point));
    }
    return points;
  }

 private:
  bool stopped() const { return options_.watch.stops(); }

  // Runs the points of a block, whose results are in a file before the next block is prepared; of one that is stopped,
  // some.
  model::Result<void> run_block(std::size_t size, std::vector<std::string>& results) {
    const auto keep = [&](std::size_t task, const std::string& bytes) {
      results[begin_ + task] = bytes;
      if (options_.watch.on_progress) options_.watch.on_progress(++done_, points_);
    };
    auto complete = options_.tasks->run({.key = prepare(size),
                                         .count = size,
                                         .run = [this](std::size_t task) { return bytes_of_point(task); },
                                         .done = keep});
    if (!complete && !stopped()) return tl::unexpected(complete.error());
    if (complete) std::ranges::move(*complete, results.begin() + static_cast<std::ptrdiff_t>(begin_));
    return {};
  }

  // The error of a task, which is no result of its point: no file of results may keep it.
  static tl::unexpected<model::Error> not_begun() {
    return model::infeasible("", "not simulated: the sweep was stopped");
  }

  // Tabulates contention before any point of the block runs, since SimGrid has one engine per process. Returns the key
  // of all of its inputs. Errors of a point are reported when it is evaluated.
  std::string prepare(std::size_t size) {
    kept_.clear();
    std::uint64_t hash = model::hash_of(model::to_bytes(options_.fidelity, options_.intervals));
    for (std::size_t task = 0; task < size && !stopped(); ++task) {
      model::Result<Inputs> inputs = inputs_(begin_ + task);
      hash = model::hash_of(inputs ? bytes_of(*inputs) : model::to_bytes(inputs.error()), hash);
      if (inputs) {
        inputs->routing = routing_;
        if (!on_network(*inputs) && !model::is_deployment(inputs->plan)) static_cast<void>(contention_->add(*inputs));
      }
      if (task < most_kept) kept_.push_back(std::move(inputs));
    }
    return fmt::format("sweep {:016x}", hash);
  }

  // Wrong input at a point fails its task; a point that is infeasible is a result.
  model::Result<std::string> bytes_of_point(std::size_t task) {
    if (stopped()) return not_begun();
    const PointResult result = evaluate(task);
    if (!result && result.error().kind == model::ErrorKind::input) return tl::unexpected(result.error());
    return model::to_bytes(result);
  }

  PointResult evaluate(std::size_t task) {
    auto inputs = TRY(task < kept_.size() ? std::move(kept_[task]) : inputs_(begin_ + task));
    inputs.routing = routing_;
    if (model::is_deployment(inputs.plan)) return evaluate_deployment(inputs);
    const bool network = on_network(inputs);
    if (!network && contention_->find(inputs) != nullptr) inputs.contention = contention_;
    auto found = TRY(predictors_->with(inputs, [&](Predictor& predictor) {
      if (!network) return point_of(inputs, options_.fidelity, options_.intervals || inputs.engines, predictor);
      const std::scoped_lock lock(network_);
      return point_on_network(inputs, predictor);
    }));
    if (options_.intervals || inputs.engines) TRY(add_whole_step(inputs, found.result));
    found.infeasible_reason = model::infeasible_reason(found.result);
    return found;
  }

  // Adds the interval of the step, and the step of reinforcement learning that it is an update of.
  model::Result<void> add_whole_step(const Inputs& inputs, model::StepResult& update) const {
    const IntervalOptions options{.threads = 1, .parts = false};
    std::optional<StepDraws> draws;
    if (options_.intervals) {
      auto drawn = TRY(draw_interval(inputs, update, options));
      update.memory.fits_probability = drawn.interval.fits_probability;
      update.interval = std::move(drawn.interval);
      draws = std::move(drawn.draws);
    }
    TRY(add_rollout(inputs, update, draws, options));
    if (update.rollout_error) return tl::unexpected(std::move(*update.rollout_error));
    return {};
  }

  PointResult evaluate_deployment(const Inputs& inputs) {
    SweepPoint point = point_of(inputs, Fidelity::closed_form);  // of a steady state there is no other
    const IntervalOptions options{.draws = serving_draws, .threads = 1, .parts = false};
    constexpr double middle = 0.5;
    model::ServingResult& result =
        point.serving.emplace(TRY(options_.intervals ? predict_serving_within(inputs, middle, options)
                                                     : deployments_.find(inputs)->predict(inputs.plan)));
    result.frontier.clear();
    result.constants.clear();
    result.notes.clear();
    add_fit(inputs, result, options);
    point.result.memory = model::memory_of(result);
    point.infeasible_reason = model::fit_of(point.result.memory) == model::Fit::does_not_fit
                                  ? fmt::format("does not fit (it does with {:.1f} %)", *result.fits_probability * 100)
                                  : over_the_limit(inputs.plan, model::middle_serving(result));
    return point;
  }

  bool on_network(const Inputs& inputs) const {
    return options_.intervals && options_.fidelity == Fidelity::step && inputs.fabric.has_value();
  }

  static constexpr std::size_t most_kept = 256;  // inputs take some 100 kB each
  static constexpr std::size_t first_block =
      256;  // each is twice the one before, so that cores seldom wait for a block

  const SweepInputs& inputs_;
  const SweepOptions& options_;
  const std::size_t points_;
  std::size_t begin_ = 0, done_ = 0;         // the first point of the block; points that have a result
  std::vector<model::Result<Inputs>> kept_;  // of the first points of the block, until they are evaluated
  std::shared_ptr<ExpertGroupMemo> routing_ = std::make_shared<ExpertGroupMemo>();
  std::shared_ptr<PredictorPool> predictors_;
  ServingPredictors deployments_;
  std::shared_ptr<ContentionTable> contention_ = std::make_shared<ContentionTable>();
  std::mutex network_;  // a process has one SimGrid engine
};

// Points whose busiest rank has equally many FLOPs have the same work. FLOPs are compared in ten digits, because sums
// in another order differ in the last ones.
using Work = std::tuple<std::string, std::string, std::string>;

std::optional<Work> work_of(const PointResult& point) {
  if (!point || !point->result.flops_at_peak_s) return std::nullopt;
  return Work{point->result.device, point->result.profile, fmt::format("{:.9e}", *point->result.flops_at_peak_s)};
}

std::optional<double> total(const model::PerOp& values) {
  double sum = 0;
  for (const auto& value : values) {
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

// Returns seconds per token, so that points with different batches are comparable; of a deployment, of a GPU and an
// output token, or its cost.
std::optional<double> compared_cost(const PointResult& point, bool priced) {
  if (!feasible(point)) return std::nullopt;
  if (point->serving) {
    const model::ServingResult middle = model::middle_serving(*point->serving);
    return priced ? middle.usd_per_million_tokens_all_in : 1 / middle.output_tokens_per_s_per_gpu;
  }
  if (point->result.rollout) return 1 / model::middle_rollout(*point->result.rollout).tokens_per_s;
  if (point->result.step.tokens_per_s <= 0) return std::nullopt;
  return 1 / model::middle_step(point->result).tokens_per_s;
}

template <class Quantity>
std::vector<std::optional<double>> along(const std::vector<std::size_t>& line, const std::vector<PointResult>& points,
                                         Quantity quantity) {
  std::vector<std::optional<double>> values;
  for (const std::size_t point : line) values.push_back(quantity(points[point]));
  return values;
}

// Returns whether a price is known of every deployment.
bool all_priced(const std::vector<PointResult>& points) {
  return std::ranges::all_of(points, [](const PointResult& point) {
    return !point || (point->serving && point->serving->usd_per_million_tokens_all_in);
  });
}

SweepLine line_of(std::vector<std::size_t> members, const std::vector<PointResult>& points, const SweepLimits& limits,
                  bool by_price) {
  SweepLine line;
  line.points = std::move(members);
  const auto costs =
      along(line.points, points, [&](const PointResult& point) { return compared_cost(point, by_price); });
  line.best = cheapest(costs);
  if (line.best) line.plateau = plateau(costs, *line.best, limits.plateau);
  const auto shares = along(line.points, points, [](const PointResult& point) { return exposed_share(point); });
  line.known =
      static_cast<std::size_t>(std::ranges::count_if(shares, [](const auto& share) { return share.has_value(); }));
  line.hidden = stretches_within(shares, limits.hidden);
  return line;
}

bool same_tokens(const std::vector<PointResult>& points) {
  std::optional<double> first;
  for (const PointResult& point : points) {
    if (!point) continue;
    const auto& rollout = point->result.rollout;
    const double tokens = std::round(rollout ? rollout->tokens_per_s * rollout->step_s
                                             : point->result.step.tokens_per_s * point->result.step.time_s);
    if (first.value_or(tokens) != tokens) return false;
    first = tokens;
  }
  return true;
}

}  // namespace

model::Result<std::vector<PointResult>> sweep(std::size_t points, const SweepInputs& inputs,
                                              const SweepOptions& options) {
  return on_threads(options.threads, [&] { return Pool(points, inputs, options).run(); });
}

std::optional<std::size_t> cheapest(const std::vector<std::optional<double>>& costs) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < costs.size(); ++i)
    if (costs[i] && (!best || *costs[i] < *costs[*best])) best = i;
  return best;
}

Stretch plateau(const std::vector<std::optional<double>>& costs, std::size_t best, double tolerance) {
  const auto near = [&](std::size_t i) { return costs[i] && *costs[i] <= *costs[best] * (1 + tolerance); };
  Stretch stretch{best, best};
  while (stretch.first > 0 && near(stretch.first - 1)) --stretch.first;
  while (stretch.last + 1 < costs.size() && near(stretch.last + 1)) ++stretch.last;
  return stretch;
}

std::vector<Stretch> stretches_within(const std::vector<std::optional<double>>& values, double limit) {
  std::vector<Stretch> stretches;
  bool inside = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool within = values[i] && *values[i] <= limit;
    if (within && !inside) stretches.push_back({i, i});
    if (within) stretches.back().last = i;
    inside = within;
  }
  return stretches;
}

std::optional<double> exposed_seconds(const model::StepTimes& step) { return total(step.exposed_mean_s); }

std::optional<double> exposed_share(const model::StepTimes& step) {
  constexpr auto pair = static_cast<std::size_t>(model::OpType::FB);
  if (!step.exposed_mean_s[pair]) return std::nullopt;
  const double pairs = step.slots_mean_s[pair].value_or(0);
  if (pairs > 0) return *step.exposed_mean_s[pair] / pairs;
  const double slots = total(step.slots_mean_s).value_or(0);
  return slots > 0 ? std::optional(*total(step.exposed_mean_s) / slots) : std::nullopt;
}

std::optional<double> gemm_seconds(const model::StepTimes& step) {
  const auto row = std::ranges::find(step.breakdown, model::breakdown_name(model::OperatorClass::gemm),
                                     &model::StepTimes::ClassTime::name);
  if (row == step.breakdown.end()) return std::nullopt;
  return row->seconds;
}

std::vector<std::optional<double>> gemm_slowdowns(const std::vector<PointResult>& points) {
  std::map<Work, double> fastest;
  for (const auto& point : points) {
    const auto work = work_of(point);
    const auto seconds = work ? gemm_seconds(point->result.step) : std::nullopt;
    if (!seconds) continue;
    const auto [entry, fresh] = fastest.try_emplace(*work, *seconds);
    if (!fresh) entry->second = std::min(entry->second, *seconds);
  }
  std::vector<std::optional<double>> slowdowns;
  for (const auto& point : points) {
    const auto work = work_of(point);
    const auto seconds = work ? gemm_seconds(point->result.step) : std::nullopt;
    const bool known = seconds && fastest.at(*work) > 0;
    slowdowns.push_back(known ? std::optional<double>(*seconds / fastest.at(*work)) : std::nullopt);
  }
  return slowdowns;
}

bool SweepLine::hidden_everywhere() const {
  std::size_t covered = 0;
  for (const Stretch& stretch : hidden) covered += stretch.last - stretch.first + 1;
  return known > 0 && covered == known;
}

bool feasible(const PointResult& point) { return point && point->infeasible_reason.empty(); }

std::string reason(const PointResult& point) {
  return point ? point->infeasible_reason : model::reason_of(point.error());
}

std::optional<double> exposed_share(const PointResult& point) {
  return point && !point->result.rollout ? exposed_share(point->result.step) : std::nullopt;
}

bool has_intervals(const SweepResult& result) {
  return std::ranges::any_of(result.points, [](const PointResult& point) {
    return point && (point->result.interval || (point->serving && point->serving->interval));
  });
}

bool of_deployments(const SweepResult& result) {
  return std::ranges::any_of(result.points,
                             [](const PointResult& point) { return point && point->serving.has_value(); });
}

bool of_rollouts(const SweepResult& result) {
  return std::ranges::any_of(result.points,
                             [](const PointResult& point) { return point && point->result.rollout.has_value(); });
}

std::optional<double> cost(const SweepResult& result, std::size_t point) {
  return compared_cost(result.points[point], result.priced);
}

SweepResult sweep_result(SweepGrid grid, Fidelity fidelity, const SweepLimits& limits,
                         std::vector<PointResult> points) {
  SweepResult result{std::move(grid), fidelity, limits, std::move(points), {}, {}, {}, {}, true, true, false};
  result.priced = all_priced(result.points);
  if (of_deployments(result)) result.fidelity = Fidelity::closed_form;  // of a steady state there is no other
  result.gemm_slowdowns = gemm_slowdowns(result.points);
  for (std::vector<std::size_t>& members : result.grid.lines())
    result.lines.push_back(line_of(std::move(members), result.points, limits, result.priced));
  std::vector<std::optional<double>> costs;
  for (const PointResult& point : result.points) costs.push_back(compared_cost(point, result.priced));
  result.best = cheapest(costs);
  result.same_tokens = same_tokens(result.points);
  return result;
}

model::Result<SweepResult> sweep(SweepGrid grid, const ChangedInputs& inputs, const SweepLimits& limits,
                                 const SweepOptions& options) {
  const auto at = [&](std::size_t point) { return inputs(grid.changes(point)); };
  auto points = TRY(sweep(grid.size(), at, options));
  SweepResult result = sweep_result(std::move(grid), options.fidelity, limits, std::move(points));
  result.complete = !options.watch.stops();
  if (auto shown = inputs(result.grid.changes(result.best.value_or(0)))) result.plan = std::move(shown->plan);
  return result;
}

}  // namespace plumbline::sim
