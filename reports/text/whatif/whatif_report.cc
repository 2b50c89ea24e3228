#include "reports/text/whatif/whatif_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "reports/charts/charts.h"
#include "reports/text/step/describe.h"
#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t half_bar = 8;  // characters for the widest side
// A quantity in words. Charts draw `unit` of it as 1.
struct MetricWords {
  std::string_view title, axis;
  double unit = 1;
  std::string (*amount)(double);
  std::string_view unknown = "";  // why it is not known
};
constexpr MetricWords words_of_steps[] = {
    {"Step time", "step time in s", 1, duration},
    {"Cost of the run", "cost in millions of USD", 1e6, [](double usd) { return dollars(usd, 2); },
     "No cost: it takes run.tokens and a price (docs/economics.md)."}};
constexpr MetricWords words_of_deployments[] = {
    {"TPOT", "TPOT in ms", 1e-3, duration},
    {"USD per million output tokens, with prompts", "USD per million output tokens, with prompts", 1,
     [](double usd) { return dollars(usd, 3); }, "No cost: it takes a price (docs/economics.md)."}};

const MetricWords& words_of(const sim::TornadoResult& result, std::size_t metric) {
  return (result.metrics == sim::deployment_metrics ? words_of_deployments : words_of_steps)[metric];
}

constexpr std::size_t lower = 2, higher = 1;  // series colours of reports/charts/charts.cc

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
  const MetricWords& words = words_of(result, metric);
  const double base = *result.base[metric];
  const std::vector<const sim::TornadoRow*> rows = result.by_width(metric);
  const double widest = widest_side(rows, metric, base);
  std::string text = fmt::format("\n{}, {} as it is\n", words.title, words.amount(base));
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
    table.add({row->input.name, words.amount(span.least), setting_name(*row, span.least_setting),
               words.amount(span.most), setting_name(*row, span.most_setting), percent(span.width() / base),
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
  const MetricWords& words = words_of(result, metric);
  const double base = *result.base[metric];
  const double unit = words.unit;
  BarChart::Panel panel;
  panel.title = std::string(words.title);
  panel.x_title = std::string(words.axis);
  panel.marks = {{base / unit, fmt::format("as it is: {}", words.amount(base))}};
  for (const sim::TornadoRow* row : result.by_width(metric)) {
    const sim::TornadoSpan& span = *row->spans[metric];
    auto& drawn = panel.rows.emplace_back();
    drawn.label = row->input.name;
    drawn.value = percent(span.width() / base);
    const auto add = [&](double value, std::optional<std::size_t> setting, std::size_t color) {
      if (setting)
        drawn.bars.push_back(
            {base / unit, value / unit, color,
             fmt::format("{} {}: {}", row->input.key, setting_name(*row, setting), words.amount(value))});
    };
    add(span.least, span.least_setting, lower);
    add(span.most, span.most_setting, higher);
  }
  return panel;
}

using sim::SolveSample;

std::string metric_text(double value) { return value >= 1e4 ? grouped(value) : fmt::format("{:.5g}", value); }

std::string sample_text(const sim::SolveResult& result, const SolveSample& sample) {
  return fmt::format("{} gives {}", sim::value_text(result.key, sample.x),
                     sample.value ? metric_text(*sample.value) : "nothing, the plan is infeasible");
}

void add_row(const sim::SolveResult& result, const SolveSample& sample, const std::string& remark, Table& table) {
  const auto point = result.points.find(sample.x);
  std::vector<std::string> row = {
      sim::value_text(result.key, sample.x), metric_text(sample.value.value_or(0)), "", "", "", remark};
  if (point != result.points.end()) {
    const auto& serving = point->second.serving;
    row[2] = duration(serving ? serving->tpot_s : point->second.result.step.time_s);
    row[3] = serving ? number(serving->output_tokens_per_s_per_gpu) : percent(point->second.result.step.mfu);
    row[4] = gigabytes(point->second.result.memory.peak_bytes) + " GB";
    if (!point->second.infeasible_reason.empty())
      row[5] += fmt::format("{}{}", row[5].empty() ? "" : ", ", serving ? "over the limit" : "does not fit");
  }
  table.add(std::move(row));
}

// Returns the plan as it is and the solutions, by rising value of the key.
std::string table_of(const sim::SolveResult& result) {
  const sim::Solution& solution = result.solution;
  std::map<double, std::pair<SolveSample, std::string>> rows;
  if (result.present && result.key.value) rows[*result.key.value] = {{*result.key.value, result.present}, "as it is"};
  for (const auto& sample : {solution.exact, solution.below, solution.above}) {
    if (!sample) continue;
    auto& [shown, remark] = rows[sample->x];
    shown = *sample;
    if (solution.exact) remark += remark.empty() ? "reaches it" : ", reaches it";
  }
  const bool deployment = model::is_deployment(result.plan);
  Table table(fmt::format(">{} | >{} | >{} | >memory | ", result.key.key, result.target.metric,
                          deployment ? "TPOT | >tokens/s/GPU" : "components | >MFU"));
  for (const auto& [x, row] : rows) add_row(result, row.first, row.second, table);
  return rows.empty() ? "" : table.to_string();
}

// Returns the results at the ends of the range when nothing in it reaches the target.
std::string out_of_reach(const sim::SolveResult& result) {
  const auto& samples = result.solution.samples;
  std::vector<SolveSample> known;
  std::ranges::copy_if(samples, std::back_inserter(known),
                       [](const SolveSample& sample) { return sample.value.has_value(); });
  std::string text =
      fmt::format("No value from {} to {} reaches it: ", sim::value_text(result.key, result.key.range.low),
                  sim::value_text(result.key, result.key.range.high));
  if (known.empty()) return text + "none of those that were tried gives it.";
  text += fmt::format("{}, {}", sample_text(result, samples.front()), sample_text(result, samples.back()));
  const auto nearest = std::ranges::min_element(
      known, {}, [&](const SolveSample& sample) { return std::abs(*sample.value - result.target.value); });
  const bool at_an_end = nearest->x == samples.front().x || nearest->x == samples.back().x;
  return text + (at_an_end ? "." : fmt::format("; the nearest of those tried, {}.", sample_text(result, *nearest)));
}

std::string verdict(const sim::SolveResult& result) {
  const sim::Solution& solution = result.solution;
  std::string text;
  if (solution.exact) {
    text = fmt::format("{} = {} reaches it.", result.key.key, sim::value_text(result.key, solution.exact->x));
  } else if (solution.below) {
    const std::string_view between = !result.key.range.values.empty() ? "; nothing between them was tried"
                                     : result.key.whole               ? "; no value between them can be taken"
                                                                      : ", where the prediction jumps over it";
    text = fmt::format("It lies between {} and {}{}.", sim::value_text(result.key, solution.below->x),
                       sim::value_text(result.key, solution.above->x), between);
  } else {
    return out_of_reach(result);
  }
  if (solution.crossings > 1)
    text += fmt::format(" The target is crossed {} times in the range; this is the crossing nearest to {}.",
                        solution.crossings, result.key.value ? "the plan's own value" : "the lower end");
  return text;
}

}  // namespace

std::string tornado_text(const sim::TornadoResult& result, bool color) {
  const std::string title = fmt::format("{}: which input matters most, each varied alone, fidelity {}",
                                        model_name(result.plan), sim::to_string(result.fidelity));
  std::string text = bold(title, {color}) + "\n";
  if (!result.infeasible_reason.empty())
    text += paragraph(fmt::format("The plan as it is {}.", result.infeasible_reason));
  for (std::size_t m = 0; m < result.metrics.size(); ++m) {
    if (result.base[m]) {
      text += metric_table(result, m);
    } else if (m > 0) {
      text += "\n" + paragraph(words_of(result, m).unknown);
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
  for (std::size_t m = 0; m < result.metrics.size(); ++m)
    if (result.base[m]) chart.panels.push_back(panel_of(result, m));
  return bar_chart_svg(chart);
}

std::string solve_text(const sim::SolveResult& result, bool color) {
  const std::string title =
      fmt::format("{}: {} for {} = {}, fidelity {}", model_name(result.plan), result.key.key, result.target.metric,
                  metric_text(result.target.value), sim::to_string(result.fidelity));
  return bold(title, {color}) + "\n\n" + table_of(result) + paragraph(verdict(result)) +
         components_sentence(model::is_deployment(result.plan));
}

}  // namespace plumbline::reports
