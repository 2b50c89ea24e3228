#include "cli/tornado.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "calibrate/validate/metric.h"
#include "cli/inputs.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/sweep_arguments.h"
#include "reports/text/describe.h"

namespace plumbline::cli {
namespace {

using model::Error;
using model::ErrorKind;
using model::Result;
using Point = Result<sim::SweepPoint>;

constexpr double rounding = 1e-9;  // of the quantity: a change below it is none

std::optional<double> value_of(const Point& point, std::string_view metric, sim::Fidelity fidelity) {
  return point ? calibrate::metric_value(metric, sim::step_result(*point, fidelity)) : std::nullopt;
}

std::optional<TornadoSpan> span_of(std::optional<double> base, const std::vector<Point>& points,
                                   std::string_view metric, sim::Fidelity fidelity) {
  if (!base) return std::nullopt;
  TornadoSpan span{*base, *base, std::nullopt, std::nullopt};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto value = value_of(points[i], metric, fidelity);
    if (!value) continue;
    if (*value < span.least) span.least = *value, span.least_setting = i;
    if (*value > span.most) span.most = *value, span.most_setting = i;
  }
  return span;
}

// Without --over the usual inputs.
Result<std::vector<TornadoInput>> read_inputs(const SweepArguments& arguments, const sim::Inputs& base) {
  if (arguments.over.empty()) return usual_inputs(base);
  std::vector<TornadoInput> found;
  for (const std::string& text : arguments.over) {
    const auto axis = parse_ends(text);
    if (!axis) return tl::unexpected(axis.error());
    if (std::ranges::find(found, axis->key, &TornadoInput::key) != found.end())
      return tl::unexpected(
          Error{ErrorKind::input, "the key is given twice", "--over", 0, axis->key, "give all its values in one"});
    found.push_back(input_of(*axis));
  }
  return found;
}

Result<std::vector<Point>> simulate_all(const SweepArguments& arguments, sim::Fidelity fidelity,
                                        const std::vector<TornadoInput>& inputs) {
  std::vector<std::vector<std::string>> overrides = {{}};  // the plan as it is
  for (const TornadoInput& input : inputs)
    for (const TornadoSetting& setting : input.settings) overrides.push_back(setting.overrides);
  ProgressBar bar("points");
  const auto progress = [&](std::size_t done) { bar.update(done, overrides.size()); };
  return sim::sweep(overrides.size(), [&](std::size_t point) { return inputs_with(arguments, overrides[point]); },
                    {.fidelity = fidelity, .on_progress = progress});
}

Result<void> write_files(const SweepArguments& arguments, const TornadoResult& result) {
  if (!arguments.json.empty()) {
    if (auto done = write_output(arguments.json, tornado_json(result)); !done) return done;
  }
  return arguments.svg.empty() ? Result<void>() : write_output(arguments.svg, tornado_svg(result));
}

}  // namespace

std::vector<const TornadoRow*> TornadoResult::by_width(std::size_t metric) const {
  std::vector<const TornadoRow*> found;
  for (const TornadoRow& row : rows) {
    const auto& span = row.spans[metric];
    if (span && span->width() > rounding * std::abs(*base[metric])) found.push_back(&row);
  }
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [metric](const TornadoRow* row) { return row->spans[metric]->width(); });
  return found;
}

TornadoResult tornado_result(sim::Fidelity fidelity, const std::vector<TornadoInput>& inputs,
                             std::vector<Point> points) {
  TornadoResult result;
  result.fidelity = fidelity;
  for (std::size_t m = 0; m < tornado_metrics.size(); ++m)
    result.base[m] = value_of(points.front(), tornado_metrics[m], fidelity);
  if (points.front()) result.shortage = points.front()->shortage;
  auto point = points.begin() + 1;
  for (const TornadoInput& input : inputs) {
    TornadoRow& row = result.rows.emplace_back();
    row.input = input;
    for (std::size_t i = 0; i < input.settings.size(); ++i) row.points.push_back(std::move(*point++));
    for (std::size_t m = 0; m < tornado_metrics.size(); ++m)
      row.spans[m] = span_of(result.base[m], row.points, tornado_metrics[m], fidelity);
  }
  std::ranges::stable_sort(result.rows, std::ranges::greater(),
                           [](const TornadoRow& row) { return row.spans[0] ? row.spans[0]->width() : 0; });
  return result;
}

Result<int> run_tornado(const SweepArguments& arguments, sim::Fidelity fidelity) {
  const auto base = inputs_with(arguments, {});
  if (!base) return tl::unexpected(base.error());
  const auto inputs = read_inputs(arguments, *base);
  if (!inputs) return tl::unexpected(inputs.error());
  auto points = simulate_all(arguments, fidelity, *inputs);
  if (!points) return tl::unexpected(points.error());
  if (!points->front()) return tl::unexpected(points->front().error());
  TornadoResult result = tornado_result(fidelity, *inputs, std::move(*points));
  result.plan = base->plan;
  result.model = reports::model_name(base->plan);
  if (const auto written = write_files(arguments, result); !written) return tl::unexpected(written.error());
  if (arguments.json != "-" && arguments.svg != "-") fmt::print("{}", tornado_text(result, colour()));
  return 0;
}

}  // namespace plumbline::cli
