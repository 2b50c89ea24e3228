#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "reports/charts/bar_chart.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"
#include "reports/text/whatif/whatif_report.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t half_bar = 8;  // characters for the widest side
constexpr std::array<std::string_view, sim::tornado_metrics.size()> metric_titles = {"Step time", "Cost of the run"};
constexpr std::size_t lower = 2, higher = 1;  // series colours of reports/charts/chart_frame.h

std::string amount(std::size_t metric, double value) { return metric == 0 ? duration(value) : "$" + grouped(value); }

std::string setting_name(const sim::TornadoRow& row, std::optional<std::size_t> setting) {
  return setting ? row.input.settings[*setting].text : "as it is";
}

// Returns "    ----|++++": below the unchanged plan to the left, above it to the right.
std::string bar(const sim::TornadoSpan& span, double base, double widest) {
  const auto characters = [&](double change) {
    return widest > 0 ? static_cast<std::size_t>(std::lround(static_cast<double>(half_bar) * change / widest)) : 0;
  };
  const std::size_t left = characters(base - span.least);
  return std::string(half_bar - left, ' ') + std::string(left, '-') + "|" +
         std::string(characters(span.most - base), '+');
}

double widest_side(const std::vector<const sim::TornadoRow*>& rows, std::size_t metric, double base) {
  double widest = 0;
  for (const sim::TornadoRow* row : rows)
    widest = std::max({widest, base - row->spans[metric]->least, row->spans[metric]->most - base});
  return widest;
}

std::string metric_table(const sim::TornadoResult& result, std::size_t metric) {
  using enum Align;
  const double base = *result.base[metric];
  const std::vector<const sim::TornadoRow*> rows = result.by_width(metric);
  const double widest = widest_side(rows, metric, base);
  std::string text = fmt::format("\n{}, {} as it is\n", metric_titles[metric], amount(metric, base));
  if (rows.empty()) return text + paragraph("No input changes it.");
  Table table({{"input"},
               {"least", right},
               {"at", right},
               {"most", right},
               {"at", right},
               {"width", right},
               {std::string(half_bar, ' ') + "|"}});
  for (const sim::TornadoRow* row : rows) {
    const sim::TornadoSpan& span = *row->spans[metric];
    table.add({row->input.name, amount(metric, span.least), setting_name(*row, span.least_setting),
               amount(metric, span.most), setting_name(*row, span.most_setting), percent(span.width() / base),
               bar(span, base, widest)});
  }
  return text + table.to_string();
}

// Returns inputs that change neither quantity, infeasible settings, and the keys of the printed names.
std::string remarks(const sim::TornadoResult& result) {
  std::string without_effect, keys, infeasible;
  const auto moves = [&](const sim::TornadoRow& row, std::size_t metric) {
    const std::vector<const sim::TornadoRow*> rows = result.by_width(metric);
    return std::ranges::find(rows, &row) != rows.end();
  };
  for (const sim::TornadoRow& row : result.rows) {
    const bool all_can_be = std::ranges::all_of(row.points, sim::feasible);
    if (all_can_be && !moves(row, 0) && !moves(row, 1))
      without_effect += (without_effect.empty() ? "" : ", ") + row.input.name;
    if (row.input.name != row.input.key)
      keys += fmt::format("{}{}: {}", keys.empty() ? "" : "; ", row.input.name, row.input.key);
    for (std::size_t i = 0; i < row.points.size(); ++i) {
      const std::string reason = sim::reason(row.points[i]);
      if (!reason.empty())
        infeasible += paragraph(fmt::format("{} {}: {}", row.input.name, row.input.settings[i].text, reason));
    }
  }
  std::string text;
  if (!without_effect.empty()) text += "\n" + paragraph(fmt::format("Without effect: {}.", without_effect));
  if (!infeasible.empty()) text += "\nNot feasible\n" + infeasible;
  if (!keys.empty()) text += "\nKeys\n" + paragraph(keys + ".");
  return text;
}

BarChart::Panel panel_of(const sim::TornadoResult& result, std::size_t metric) {
  const double base = *result.base[metric];
  const double unit = metric == 0 ? 1 : 1e6;
  BarChart::Panel panel;
  panel.title = std::string(metric_titles[metric]);
  panel.x_title = metric == 0 ? "step time in s" : "cost in millions of USD";
  panel.marks = {{base / unit, fmt::format("as it is: {}", amount(metric, base))}};
  for (const sim::TornadoRow* row : result.by_width(metric)) {
    const sim::TornadoSpan& span = *row->spans[metric];
    auto& drawn = panel.rows.emplace_back();
    drawn.label = row->input.name;
    drawn.value = percent(span.width() / base);
    const auto add = [&](double value, std::optional<std::size_t> setting, std::size_t color) {
      if (setting)
        drawn.bars.push_back(
            {base / unit, value / unit, color,
             fmt::format("{} {}: {}", row->input.key, setting_name(*row, setting), amount(metric, value))});
    };
    add(span.least, span.least_setting, lower);
    add(span.most, span.most_setting, higher);
  }
  return panel;
}

}  // namespace

std::string tornado_text(const sim::TornadoResult& result, bool color) {
  const std::string title = fmt::format("{}: which input matters most, each varied alone, fidelity {}",
                                        model_name(result.plan), sim::to_string(result.fidelity));
  std::string text = bold(title, {color}) + "\n";
  if (!result.infeasible_reason.empty())
    text += paragraph(fmt::format("The plan as it is {}.", result.infeasible_reason));
  for (std::size_t m = 0; m < sim::tornado_metrics.size(); ++m) {
    if (result.base[m]) {
      text += metric_table(result, m);
    } else if (m > 0) {
      text += "\n" + paragraph("No cost: it takes run.tokens and a price (docs/economics.md).");
    }
  }
  return text + remarks(result);
}

std::string tornado_svg(const sim::TornadoResult& result) {
  BarChart chart;
  chart.title = fmt::format("{}: which input matters most", model_name(result.plan));
  chart.subtitle =
      fmt::format("{}, each input varied alone, fidelity {}", std::filesystem::path(result.plan.file).stem().string(),
                  sim::to_string(result.fidelity));
  chart.legend = {{lower, "lower than as it is"}, {higher, "higher"}};
  for (std::size_t m = 0; m < sim::tornado_metrics.size(); ++m)
    if (result.base[m]) chart.panels.push_back(panel_of(result, m));
  return bar_chart_svg(chart);
}

}  // namespace plumbline::reports
