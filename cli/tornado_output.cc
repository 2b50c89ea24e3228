#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/sweep_result.h"
#include "cli/tornado.h"
#include "model/base/version.h"
#include "reports/charts/bar_chart.h"
#include "reports/json/json.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t half_bar = 16;  // characters for the widest side
constexpr std::size_t table_width = 160;
constexpr std::array<std::string_view, tornado_metrics.size()> titles = {"Step time", "Cost of the run"};
constexpr std::size_t lower = 2, higher = 1;  // colours of reports/charts/chart_style.h

std::string amount(std::size_t metric, double value) {
  return metric == 0 ? reports::duration(value) : "$" + reports::grouped(value);
}

std::string setting_name(const TornadoRow& row, std::optional<std::size_t> setting) {
  return setting ? row.input.settings[*setting].text : "as it is";
}

// "    ----|++++": below the plan as it is to the left, above it to the right.
std::string bar(const TornadoSpan& span, double base, double widest) {
  const auto characters = [&](double change) {
    return widest > 0 ? static_cast<std::size_t>(std::lround(static_cast<double>(half_bar) * change / widest)) : 0;
  };
  const std::size_t left = characters(base - span.least);
  return std::string(half_bar - left, ' ') + std::string(left, '-') + "|" +
         std::string(characters(span.most - base), '+');
}

double widest_side(const std::vector<const TornadoRow*>& rows, std::size_t metric, double base) {
  double widest = 0;
  for (const TornadoRow* row : rows)
    widest = std::max({widest, base - row->spans[metric]->least, row->spans[metric]->most - base});
  return widest;
}

std::string metric_table(const TornadoResult& result, std::size_t metric) {
  using enum reports::Align;
  const double base = *result.base[metric];
  const std::vector<const TornadoRow*> rows = result.by_width(metric);
  const double widest = widest_side(rows, metric, base);
  std::string text = fmt::format("\n{}, {} as it is\n", titles[metric], amount(metric, base));
  if (rows.empty()) return text + reports::paragraph("No input changes it.");
  reports::Table table({{"input"},
                        {"least", right},
                        {"at", right},
                        {"most", right},
                        {"at", right},
                        {"width", right},
                        {std::string(half_bar, ' ') + "|"}},
                       2, table_width);
  for (const TornadoRow* row : rows) {
    const TornadoSpan& span = *row->spans[metric];
    table.add({row->input.name, amount(metric, span.least), setting_name(*row, span.least_setting),
               amount(metric, span.most), setting_name(*row, span.most_setting), reports::percent(span.width() / base),
               bar(span, base, widest)});
  }
  return text + table.to_string();
}

// Inputs that change neither quantity, settings that cannot be, and the keys behind the names.
std::string remarks(const TornadoResult& result) {
  std::string without_effect, keys, impossible;
  const auto moves = [&](const TornadoRow& row, std::size_t metric) {
    const std::vector<const TornadoRow*> rows = result.by_width(metric);
    return std::ranges::find(rows, &row) != rows.end();
  };
  for (const TornadoRow& row : result.rows) {
    const bool all_can_be = std::ranges::all_of(row.points, feasible);
    if (all_can_be && !moves(row, 0) && !moves(row, 1))
      without_effect += (without_effect.empty() ? "" : ", ") + row.input.name;
    if (row.input.name != row.input.key)
      keys += fmt::format("{}{}: {}", keys.empty() ? "" : "; ", row.input.name, row.input.key);
    for (std::size_t i = 0; i < row.points.size(); ++i) {
      const std::string reason = obstacle(row.points[i]);
      if (!reason.empty())
        impossible += reports::paragraph(fmt::format("{} {}: {}", row.input.name, row.input.settings[i].text, reason));
    }
  }
  std::string text;
  if (!without_effect.empty()) text += "\n" + reports::paragraph(fmt::format("Without effect: {}.", without_effect));
  if (!impossible.empty()) text += "\nNot feasible\n" + impossible;
  if (!keys.empty()) text += "\nKeys\n" + reports::paragraph(keys + ".");
  return text;
}

Json value_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json setting_of(const TornadoRow& row, std::size_t index) {
  const model::Result<sim::SweepPoint>& point = row.points[index];
  const std::string reason = obstacle(point);
  Json cost = nullptr;
  if (point && point->run && point->run->cost_usd) cost = *point->run->cost_usd;
  return {{"value", row.input.settings[index].text},
          {"set", row.input.settings[index].overrides},
          {"feasible", feasible(point)},
          {"reason", reason.empty() ? Json(nullptr) : Json(reason)},
          {"step.time_s", point ? Json(point->step.time_s) : Json(nullptr)},
          {"run.cost_usd", cost}};
}

Json row_of(const TornadoRow& row) {
  Json settings = Json::array(), widths = Json::object();
  for (std::size_t i = 0; i < row.points.size(); ++i) settings.push_back(setting_of(row, i));
  for (std::size_t m = 0; m < tornado_metrics.size(); ++m)
    widths[std::string(tornado_metrics[m])] = row.spans[m] ? Json(row.spans[m]->width()) : Json(nullptr);
  return {{"name", row.input.name}, {"key", row.input.key}, {"width", widths}, {"settings", settings}};
}

reports::BarChart::Panel panel_of(const TornadoResult& result, std::size_t metric) {
  const double base = *result.base[metric];
  const double unit = metric == 0 ? 1 : 1e6;
  reports::BarChart::Panel panel;
  panel.title = std::string(titles[metric]);
  panel.x_title = metric == 0 ? "step time in s" : "cost in millions of USD";
  panel.marks = {{base / unit, fmt::format("as it is: {}", amount(metric, base))}};
  for (const TornadoRow* row : result.by_width(metric)) {
    const TornadoSpan& span = *row->spans[metric];
    auto& drawn = panel.rows.emplace_back();
    drawn.label = row->input.name;
    drawn.value = reports::percent(span.width() / base);
    const auto add = [&](double value, std::optional<std::size_t> setting, std::size_t colour) {
      if (setting)
        drawn.bars.push_back(
            {base / unit, value / unit, colour,
             fmt::format("{} {}: {}", row->input.key, setting_name(*row, setting), amount(metric, value))});
    };
    add(span.least, span.least_setting, lower);
    add(span.most, span.most_setting, higher);
  }
  return panel;
}

}  // namespace

std::string tornado_text(const TornadoResult& result, bool colour) {
  const std::string title = fmt::format("{}: which input matters most, each varied alone, fidelity {}", result.model,
                                        sim::to_string(result.fidelity));
  std::string text = (colour ? fmt::format("\x1b[1m{}\x1b[0m", title) : title) + "\n";
  if (!result.shortage.empty()) text += reports::paragraph(fmt::format("The plan as it is {}.", result.shortage));
  for (std::size_t m = 0; m < tornado_metrics.size(); ++m) {
    if (result.base[m]) {
      text += metric_table(result, m);
    } else if (m > 0) {
      text += "\n" + reports::paragraph("No cost: it takes run.tokens and a price (docs/economics.md).");
    }
  }
  return text + remarks(result);
}

std::string tornado_json(const TornadoResult& result) {
  Json base = Json::object(), rows = Json::array();
  for (std::size_t m = 0; m < tornado_metrics.size(); ++m)
    base[std::string(tornado_metrics[m])] = value_of(result.base[m]);
  for (const TornadoRow& row : result.rows) rows.push_back(row_of(row));
  const Json json = {{"plumbline", {{"version", model::version}, {"schema", model::schema}}},
                     {"tornado", {{"fidelity", sim::to_string(result.fidelity)}, {"base", base}}},
                     {"inputs", rows},
                     {"plan", Json::parse(reports::plan_json(result.plan))}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string tornado_svg(const TornadoResult& result) {
  reports::BarChart chart;
  chart.title = fmt::format("{}: which input matters most", result.model);
  chart.subtitle =
      fmt::format("{}, each input varied alone, fidelity {}", std::filesystem::path(result.plan.file).stem().string(),
                  sim::to_string(result.fidelity));
  chart.legend = {{lower, "lower than as it is"}, {higher, "higher"}};
  for (std::size_t m = 0; m < tornado_metrics.size(); ++m)
    if (result.base[m]) chart.panels.push_back(panel_of(result, m));
  return reports::bar_chart_svg(chart);
}

}  // namespace plumbline::cli
