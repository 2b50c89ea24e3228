#include <fmt/format.h>

#include "reports/charts/line_chart.h"
#include "reports/text/format.h"
#include "reports/text/serving/serving_report.h"

namespace plumbline::reports {

std::string serving_svg(const ServingReport& report) {
  const model::ServingResult& result = report.result;
  const std::vector<std::string> head = serving_head(report);
  LineChart chart;
  chart.title = head.front();
  chart.subtitle = head[1];
  chart.x_title = "interactivity: output tokens/s of a user (1 / TPOT)";
  chart.logarithmic = chart.decimal_ticks = true;
  LineChart::Series within{"within the limits", {}}, beyond{"beyond the limits", {}};
  for (const model::ServingPoint& point : result.frontier) {
    LineChart::Series& series = point.within_limits ? within : beyond;
    if (!point.within_limits && beyond.points.empty() && !within.points.empty())
      beyond.points.push_back(within.points.back());  // the line goes on
    series.points.push_back({1 / point.tpot_s, point.output_tokens_per_s_per_gpu});
  }
  if (beyond.points.empty()) within.name = "";
  LineChart::Panel panel{"output tokens/s of a GPU", false, {std::move(within)}, true};
  if (!beyond.points.empty()) panel.series.push_back(std::move(beyond));
  chart.panels = {std::move(panel)};
  if (result.tpot_s > 0 && !result.frontier.empty())
    chart.marks.push_back({1 / result.tpot_s, result.output_tokens_per_s_per_gpu,
                           fmt::format("the plan: {} requests", grouped(result.concurrency))});
  if (const auto limit = report.inputs.plan.inference.max_tpot_s)
    chart.limits.push_back({1 / *limit, fmt::format("limit: TPOT {}", duration(*limit))});
  return line_chart_svg(chart);
}

}  // namespace plumbline::reports
