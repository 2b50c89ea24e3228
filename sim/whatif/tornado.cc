#include "sim/whatif/tornado.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace plumbline::sim {
namespace {

constexpr double least_width = 1e-9;  // relative: a smaller change counts as none

std::optional<TornadoSpan> span_of(std::optional<double> base, const std::vector<PointResult>& points,
                                   std::size_t metric) {
  if (!base) return std::nullopt;
  TornadoSpan span{*base, *base, std::nullopt, std::nullopt};
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto value = tornado_value(points[i], metric);
    if (!value) continue;
    if (*value < span.least) span.least = *value, span.least_setting = i;
    if (*value > span.most) span.most = *value, span.most_setting = i;
  }
  return span;
}

}  // namespace

std::optional<double> tornado_value(const PointResult& point, std::size_t metric) {
  if (!point) return std::nullopt;
  if (point->serving)
    return metric == 0 ? std::optional(point->serving->tpot_s) : point->serving->usd_per_million_tokens_all_in;
  if (metric == 0) return point->result.step.time_s;
  return point->result.run ? point->result.run->cost_usd : std::nullopt;
}

std::vector<const TornadoRow*> TornadoResult::by_width(std::size_t metric) const {
  std::vector<const TornadoRow*> found;
  for (const TornadoRow& row : rows) {
    const auto& span = row.spans[metric];
    if (span && span->width() > least_width * std::abs(*base[metric])) found.push_back(&row);
  }
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [metric](const TornadoRow* row) { return row->spans[metric]->width(); });
  return found;
}

TornadoResult tornado_result(Fidelity fidelity, const std::vector<TornadoInput>& inputs,
                             std::vector<PointResult> points) {
  TornadoResult result;
  result.fidelity = fidelity;
  if (points.front() && points.front()->serving) {
    result.fidelity = Fidelity::closed_form;  // of a steady state there is no other
    result.metrics = deployment_metrics;
  }
  for (std::size_t m = 0; m < step_metrics.size(); ++m) result.base[m] = tornado_value(points.front(), m);
  if (points.front()) result.infeasible_reason = points.front()->infeasible_reason;
  auto point = points.begin() + 1;
  for (const TornadoInput& input : inputs) {
    TornadoRow& row = result.rows.emplace_back();
    row.input = input;
    for (std::size_t i = 0; i < input.settings.size(); ++i) row.points.push_back(std::move(*point++));
    for (std::size_t m = 0; m < step_metrics.size(); ++m) row.spans[m] = span_of(result.base[m], row.points, m);
  }
  std::ranges::stable_sort(result.rows, std::ranges::greater(),
                           [](const TornadoRow& row) { return row.spans[0] ? row.spans[0]->width() : 0; });
  return result;
}

model::Result<TornadoResult> tornado(std::vector<TornadoInput> inputs, const ChangedInputs& changed,
                                     const SweepOptions& options) {
  const auto base = TRY(changed({}));
  if (inputs.empty()) inputs = usual_inputs(base);
  std::vector<std::vector<std::string>> changes = {{}};  // the plan as it is
  for (const TornadoInput& input : inputs)
    for (const TornadoSetting& setting : input.settings) changes.push_back(setting.changes);
  auto points = TRY(sweep(
      changes.size(), [&](std::size_t point) { return changed(changes[point]); }, options));
  if (!points.front()) return tl::unexpected(points.front().error());
  TornadoResult result = tornado_result(options.fidelity, inputs, std::move(points));
  result.plan = base.plan;
  return result;
}

}  // namespace plumbline::sim
