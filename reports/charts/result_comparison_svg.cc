#include <fmt/format.h>

#include <cmath>

#include "reports/charts/bar_chart.h"
#include "reports/text/compare/result_comparison.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t faster_color = 2, slower_color = 1;  // colours of series

BarChart::Panel panel_of(const model::ResultComparison& comparison,
                         const model::ResultComparison::Difference& difference) {
  const model::Waterfall& waterfall = difference.waterfall;
  const std::string from = comparison.subjects[difference.from].name, to = comparison.subjects[difference.to].name;
  BarChart::Panel panel;
  panel.title = fmt::format("{} to {}: {:+.3f} s ({})", from, to, waterfall.change_s(),
                            signed_percent(waterfall.change_s() / waterfall.from_s));
  panel.x_title = "step time in s";
  panel.connected = true;
  double at = waterfall.from_s;
  for (const model::WaterfallRow& row : waterfall.rows) {
    const double next = at + row.change_s();
    const double change = std::abs(row.change_s()) < 0.5e-3 ? 0 : row.change_s();
    panel.rows.push_back({row.name,
                          {{at, next, change < 0 ? faster_color : slower_color,
                            fmt::format("{}: {} to {}", row.name, duration(row.from_s), duration(row.to_s))}},
                          fmt::format("{:+.3f} s", change)});
    at = next;
  }
  panel.marks = {{waterfall.from_s, fmt::format("{} {}", subject_letter(difference.from), duration(waterfall.from_s))},
                 {waterfall.to_s, fmt::format("{} {}", subject_letter(difference.to), duration(waterfall.to_s))}};
  return panel;
}

}  // namespace

std::string result_comparison_svg(const model::ResultComparison& comparison) {
  BarChart chart;
  chart.title = "Where the step times differ";
  chart.subtitle = "seconds of rank 0; each bar begins where the one above it ends";
  chart.legend = {{faster_color, "faster"}, {slower_color, "slower"}};
  for (const model::ResultComparison::Difference& difference : comparison.differences)
    chart.panels.push_back(panel_of(comparison, difference));
  return bar_chart_svg(chart);
}

}  // namespace plumbline::reports
