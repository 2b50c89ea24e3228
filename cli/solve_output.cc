#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/solve.h"
#include "model/base/version.h"
#include "reports/json/json.h"
#include "reports/text/format.h"
#include "reports/text/paragraph.h"
#include "reports/text/table.h"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;
using sim::SolveSample;

std::string metric_text(double value) { return value >= 1e4 ? reports::grouped(value) : fmt::format("{:.5g}", value); }

std::string sample_text(const SolveResult& result, const SolveSample& sample) {
  return fmt::format("{} gives {}", value_text(result.key, sample.x),
                     sample.value ? metric_text(*sample.value) : "nothing, the plan cannot be");
}

void add_row(const SolveResult& result, const SolveSample& sample, const std::string& remark, reports::Table& table) {
  const auto point = result.points.find(sample.x);
  std::vector<std::string> row = {
      value_text(result.key, sample.x), metric_text(sample.value.value_or(0)), "", "", "", remark};
  if (point != result.points.end()) {
    row[2] = reports::duration(point->second.step.time_s);
    row[3] = reports::percent(point->second.step.mfu);
    row[4] = reports::gigabytes(point->second.peak_bytes) + " GB";
    if (!point->second.shortage.empty()) row[5] += row[5].empty() ? "does not fit" : ", does not fit";
  }
  table.add(std::move(row));
}

// The plan as it is and what was found, by rising value of the key.
std::string table_of(const SolveResult& result) {
  using enum reports::Align;
  const sim::Solution& solution = result.solution;
  std::map<double, std::pair<SolveSample, std::string>> rows;
  if (result.present && result.key.value) rows[*result.key.value] = {{*result.key.value, result.present}, "as it is"};
  for (const auto& sample : {solution.exact, solution.below, solution.above}) {
    if (!sample) continue;
    auto& [shown, remark] = rows[sample->x];
    shown = *sample;
    if (solution.exact) remark += remark.empty() ? "reaches it" : ", reaches it";
  }
  reports::Table table({{result.key.key, right},
                        {result.target.metric, right},
                        {"step", right},
                        {"MFU", right},
                        {"memory", right},
                        {""}});
  for (const auto& [x, row] : rows) add_row(result, row.first, row.second, table);
  return rows.empty() ? "" : table.to_string();
}

// What the range gives where nothing in it reaches the target.
std::string out_of_reach(const SolveResult& result) {
  const auto& samples = result.solution.samples;
  std::vector<SolveSample> known;
  std::ranges::copy_if(samples, std::back_inserter(known),
                       [](const SolveSample& sample) { return sample.value.has_value(); });
  std::string text = fmt::format("No value from {} to {} reaches it: ", value_text(result.key, result.key.range.low),
                                 value_text(result.key, result.key.range.high));
  if (known.empty()) return text + "none of those that were tried gives it.";
  text += fmt::format("{}, {}", sample_text(result, samples.front()), sample_text(result, samples.back()));
  const auto nearest = std::ranges::min_element(
      known, {}, [&](const SolveSample& sample) { return std::abs(*sample.value - result.target.value); });
  const bool at_an_end = nearest->x == samples.front().x || nearest->x == samples.back().x;
  return text + (at_an_end ? "." : fmt::format("; the nearest of those tried, {}.", sample_text(result, *nearest)));
}

std::string verdict(const SolveResult& result) {
  const sim::Solution& solution = result.solution;
  std::string text;
  if (solution.exact) {
    text = fmt::format("{} = {} reaches it.", result.key.key, value_text(result.key, solution.exact->x));
  } else if (solution.below) {
    const std::string_view between = !result.key.range.values.empty() ? "; nothing between them was tried"
                                     : result.key.whole               ? "; no value between them can be taken"
                                                                      : ", where the prediction jumps over it";
    text = fmt::format("It lies between {} and {}{}.", value_text(result.key, solution.below->x),
                       value_text(result.key, solution.above->x), between);
  } else {
    return out_of_reach(result);
  }
  if (solution.crossings > 1)
    text += fmt::format(" The target is crossed {} times in the range; this is the crossing nearest to {}.",
                        solution.crossings, result.key.value ? "the plan's own value" : "the lower end");
  return text;
}

Json sample_of(const SolveResult& result, const SolveSample& sample) {
  const auto point = result.points.find(sample.x);
  const bool known = point != result.points.end();
  return {{"value", result.key.whole ? Json(std::llround(sample.x)) : Json(sample.x)},
          {"metric", sample.value ? Json(*sample.value) : Json(nullptr)},
          {"feasible", known && point->second.shortage.empty()}};
}

Json sample_of(const SolveResult& result, const std::optional<SolveSample>& sample) {
  return sample ? sample_of(result, *sample) : Json(nullptr);
}

}  // namespace

std::string solve_text(const SolveResult& result, bool colour) {
  const std::string title =
      fmt::format("{}: {} for {} = {}, fidelity {}", result.model, result.key.key, result.target.metric,
                  metric_text(result.target.value), sim::to_string(result.fidelity));
  return (colour ? fmt::format("\x1b[1m{}\x1b[0m", title) : title) + "\n\n" + table_of(result) +
         reports::paragraph(verdict(result));
}

std::string solve_json(const SolveResult& result) {
  const sim::Solution& solution = result.solution;
  Json samples = Json::array();
  for (const SolveSample& sample : solution.samples) samples.push_back(sample_of(result, sample));
  const auto optional = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  const Json json = {{"plumbline", {{"version", model::version}, {"schema", model::schema}}},
                     {"solve",
                      {{"key", result.key.key},
                       {"metric", result.target.metric},
                       {"target", result.target.value},
                       {"fidelity", sim::to_string(result.fidelity)},
                       {"range", {result.key.range.low, result.key.range.high}},
                       {"present", {{"value", optional(result.key.value)}, {"metric", optional(result.present)}}},
                       {"exact", sample_of(result, solution.exact)},
                       {"below", sample_of(result, solution.below)},
                       {"above", sample_of(result, solution.above)},
                       {"crossings", solution.crossings}}},
                     {"samples", samples},
                     {"plan", Json::parse(reports::plan_json(result.plan))}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
