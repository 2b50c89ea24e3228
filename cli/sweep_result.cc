#include "cli/sweep_result.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "reports/text/describe.h"

namespace plumbline::cli {
namespace {

using Point = model::Result<sim::SweepPoint>;

// Seconds per token, so that points with other batches can be compared.
std::optional<double> cost(const Point& point) {
  if (!feasible(point) || point->step.tokens_per_s <= 0) return std::nullopt;
  return 1 / point->step.tokens_per_s;
}

template <class Quantity>
std::vector<std::optional<double>> along(const std::vector<std::size_t>& line, const std::vector<Point>& points,
                                         Quantity quantity) {
  std::vector<std::optional<double>> values;
  for (const std::size_t point : line) values.push_back(quantity(points[point]));
  return values;
}

SweepLine line_of(std::vector<std::size_t> members, const std::vector<Point>& points, const SweepLimits& limits) {
  SweepLine line;
  line.points = std::move(members);
  const auto costs = along(line.points, points, cost);
  line.best = sim::cheapest(costs);
  if (line.best) line.plateau = sim::plateau(costs, *line.best, limits.plateau);
  const auto shares = along(line.points, points, exposed_share);
  line.known =
      static_cast<std::size_t>(std::ranges::count_if(shares, [](const auto& share) { return share.has_value(); }));
  line.hidden = sim::stretches_within(shares, limits.hidden);
  return line;
}

bool same_tokens(const std::vector<Point>& points) {
  std::optional<double> first;
  for (const Point& point : points) {
    if (!point) continue;
    const double tokens = std::round(point->step.tokens_per_s * point->step.time_s);
    if (first.value_or(tokens) != tokens) return false;
    first = tokens;
  }
  return true;
}

}  // namespace

bool SweepLine::hidden_everywhere() const {
  std::size_t covered = 0;
  for (const sim::Stretch& stretch : hidden) covered += stretch.last - stretch.first + 1;
  return known > 0 && covered == known;
}

bool feasible(const Point& point) { return point && point->shortage.empty(); }

std::string obstacle(const Point& point) {
  if (point) return point->shortage;
  const model::Error& error = point.error();
  return error.key.empty() ? error.message : error.key + ": " + error.message;
}

std::optional<double> exposed_share(const Point& point) {
  return point ? sim::exposed_share(point->step) : std::nullopt;
}

std::string model_title(const SweepResult& result) {
  model::Plan plan = result.plan;
  std::erase_if(plan.model.overrides, [&](const auto& change) {
    return std::ranges::find(result.grid.axes(), "model." + change.first, &SweepAxis::key) != result.grid.axes().end();
  });
  return reports::model_name(plan);
}

SweepResult sweep_result(SweepGrid grid, sim::Fidelity fidelity, const SweepLimits& limits, std::vector<Point> points) {
  SweepResult result{std::move(grid), fidelity, limits, std::move(points), {}, {}, {}, {}, true};
  result.product_slowdowns = sim::product_slowdowns(result.points);
  for (std::vector<std::size_t>& members : result.grid.lines())
    result.lines.push_back(line_of(std::move(members), result.points, limits));
  std::vector<std::optional<double>> costs;
  for (const Point& point : result.points) costs.push_back(cost(point));
  result.best = sim::cheapest(costs);
  result.same_tokens = same_tokens(result.points);
  return result;
}

}  // namespace plumbline::cli
