#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "reports/charts/line_chart.h"
#include "reports/text/table.h"
#include "reports/text/whatif/whatif_report.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t most_curves = 8;  // more cannot be distinguished

// Whether the values have a constant ratio, so that they are evenly spaced on a logarithmic axis.
bool geometric(const sim::SweepAxis& axis) {
  const std::vector<sim::SweepValue>& values = axis.values;
  if (values.size() < 3 || *values[0].number <= 0 || *values[1].number <= *values[0].number) return false;
  const double factor = *values[1].number / *values[0].number;
  constexpr double tolerance = 1e-6;
  for (std::size_t i = 2; i < values.size(); ++i) {
    if (std::abs(*values[i].number / (*values[i - 1].number * factor) - 1) > tolerance) return false;
  }
  return true;
}

// Returns the lines to draw in the sweep's order: all, or of too many the fastest.
std::vector<const sim::SweepLine*> drawn_lines(const sim::SweepResult& result) {
  std::vector<const sim::SweepLine*> lines;
  for (const sim::SweepLine& line : result.lines) lines.push_back(&line);
  if (lines.size() <= most_curves) return lines;
  const auto speed = [&](const sim::SweepLine* line) {
    return line->best ? middle_step(*result.points[line->points[*line->best]]).tokens_per_s : 0;
  };
  std::ranges::stable_sort(lines, std::ranges::greater(), speed);
  lines.resize(most_curves);
  std::ranges::sort(lines);
  return lines;
}

template <class Quantity>
LineChart::Panel panel_of(const sim::SweepResult& result, const std::vector<const sim::SweepLine*>& lines,
                          const char* title, bool from_zero, Quantity quantity) {
  LineChart::Panel panel{title, from_zero, {}};
  const std::size_t axis = *result.grid.numeric_axis();
  for (const sim::SweepLine* line : lines) {
    auto& series = panel.series.emplace_back();
    series.name = result.grid.line_name(line->points.front());
    for (const std::size_t point : line->points)
      series.points.push_back({*result.grid.value(point, axis).number, quantity(point)});
  }
  return panel;
}

bool any_value(const LineChart::Panel& panel) {
  return std::ranges::any_of(panel.series, [](const auto& series) {
    return std::ranges::any_of(series.points, [](const auto& point) { return point.y.has_value(); });
  });
}

void add_findings(const sim::SweepResult& result, const std::vector<const sim::SweepLine*>& lines, LineChart& chart) {
  const std::size_t axis = *result.grid.numeric_axis();
  for (const sim::SweepLine* line : lines) {
    if (!line->best || line->points[*line->best] != result.best) continue;
    const auto x_at = [&](std::size_t position) { return *result.grid.value(line->points[position], axis).number; };
    chart.bands.push_back(
        {x_at(line->plateau.first), x_at(line->plateau.last), result.grid.line_name(line->points.front())});
    const double seconds = middle_step(*result.points[*result.best]).time_s;
    chart.marks.push_back({x_at(*line->best), seconds,
                           fmt::format("best: {}, {}", result.grid.value(*result.best, axis).text, duration(seconds))});
  }
}

}  // namespace

std::string sweep_svg(const sim::SweepResult& result) {
  const sim::SweepAxis& axis = result.grid.axes()[*result.grid.numeric_axis()];
  const std::vector<const sim::SweepLine*> lines = drawn_lines(result);
  const auto& points = result.points;
  const auto step = [&](std::size_t i) {
    return points[i] ? std::optional(middle_step(*points[i]).time_s) : std::nullopt;
  };
  const auto exposed = [&](std::size_t i) { return points[i] ? sim::exposed_seconds(points[i]->step) : std::nullopt; };
  const auto slowdown = [&](std::size_t i) { return result.gemm_slowdowns[i]; };
  LineChart chart;
  chart.title = fmt::format("{} along {}", model_title(result), axis.key);
  if (lines.size() < result.lines.size())
    chart.title += fmt::format(", the {} fastest of {} combinations", lines.size(), result.lines.size());
  chart.subtitle = fmt::format("{}, fidelity {}; shaded: at most {} slower than the best",
                               std::filesystem::path(result.plan.file).stem().string(), sim::to_string(result.fidelity),
                               percent(result.limits.plateau));
  chart.x_title = axis.key;
  chart.logarithmic = geometric(axis);
  chart.panels.push_back(panel_of(result, lines, "step time in s", false, step));
  const auto pair = [&](std::size_t i) {
    return points[i] ? points[i]->step.chunk_s[static_cast<std::size_t>(model::OpType::FB)] : std::nullopt;
  };
  if (axis.key.starts_with("routing."))
    if (auto panel = panel_of(result, lines, "overlapped pair of chunks in s", false, pair); any_value(panel))
      chart.panels.push_back(std::move(panel));
  for (auto& panel : {panel_of(result, lines, "exposed communication in s", true, exposed),
                      panel_of(result, lines, "GEMM time over the fastest", false, slowdown)}) {
    if (any_value(panel)) chart.panels.push_back(panel);
  }
  add_findings(result, lines, chart);
  return line_chart_svg(chart);
}

}  // namespace plumbline::reports
