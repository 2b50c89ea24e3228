#include "sim/whatif/sweep_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "model/cost/operator_class.h"
#include "model/result/result.h"
#include "model/schedule/schedule.h"

namespace plumbline::sim {
namespace {

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
