#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "reports/text/step/describe.h"
#include "reports/text/table.h"
#include "reports/text/whatif/whatif_report.h"

namespace plumbline::reports {
namespace {

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

std::string solve_text(const sim::SolveResult& result, bool color) {
  const std::string title =
      fmt::format("{}: {} for {} = {}, fidelity {}", model_name(result.plan), result.key.key, result.target.metric,
                  metric_text(result.target.value), sim::to_string(result.fidelity));
  return bold(title, {color}) + "\n\n" + table_of(result) + paragraph(verdict(result)) +
         components_sentence(model::is_deployment(result.plan));
}

}  // namespace plumbline::reports
