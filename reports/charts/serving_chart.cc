#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "reports/charts/line_chart.h"
#include "reports/text/serving/serving_report.h"
#include "reports/text/table.h"

namespace plumbline::reports {

namespace {

// Returns the frontier, whose line goes on beyond the limits, and the points that it dominates.
std::vector<LineChart::Series> frontier_series(const std::vector<model::ServingPoint>& points) {
  LineChart::Series within{"within the limits", {}}, beyond{"beyond the limits", {}}, dominated{"dominated", {}, true};
  for (const model::ServingPoint& point : points) {
    if (!point.dominated && !point.within_limits && beyond.points.empty() && !within.points.empty())
      beyond.points.push_back(within.points.back());
    LineChart::Series& series = point.dominated ? dominated : point.within_limits ? within : beyond;
    series.points.push_back({1 / point.tpot_s, point.output_tokens_per_s_per_gpu});
  }
  if (beyond.points.empty()) within.name = dominated.points.empty() ? "" : "frontier";
  std::vector<LineChart::Series> all = {std::move(within)};
  if (!beyond.points.empty()) all.push_back(std::move(beyond));
  if (!dominated.points.empty()) all.push_back(std::move(dominated));
  return all;
}

}  // namespace

std::string serving_svg(const ServingReport& report) {
  const model::ServingResult& result = report.result;
  const std::vector<std::string> head = serving_head(report);
  LineChart chart;
  chart.title = head.front();
  chart.subtitle = head[1];
  chart.x_title = "interactivity: output tokens/s of a user (1 / TPOT)";
  chart.logarithmic = chart.decimal_ticks = true;
  LineChart::Panel panel{"output tokens/s of a GPU", false, frontier_series(result.frontier), true};
  chart.panels = {std::move(panel)};
  if (result.tpot_s > 0 && !result.frontier.empty())
    chart.marks.push_back({1 / result.tpot_s, result.output_tokens_per_s_per_gpu,
                           fmt::format("the plan: {} requests", grouped(result.concurrency))});
  if (const auto limit = report.inputs.plan.inference.max_tpot_s)
    chart.limits.push_back({1 / *limit, fmt::format("limit: TPOT {}", duration(*limit))});
  return line_chart_svg(chart);
}

}  // namespace plumbline::reports
