#include <cmath>
#include <nlohmann/json.hpp>

#include "model/memory/memory.h"
#include "model/result/middle.h"
#include "reports/json/document.h"
#include "reports/json/json.h"
#include "reports/text/whatif/whatif_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

// Returns a value as JSON: numbers, flags, lists and quoted strings of TOML are valid JSON; the rest are bare words.
Json value_of(const sim::SweepValue& value) {
  Json parsed = Json::parse(value.text, nullptr, false);
  if (!parsed.is_discarded()) return parsed;
  return value.number ? Json(*value.number) : Json(value.text);
}

Json values_of(const sim::SweepResult& result, std::size_t point) {
  Json values = Json::object();
  for (std::size_t axis = 0; axis < result.grid.axes().size(); ++axis)
    values[result.grid.axes()[axis].key] = value_of(result.grid.value(point, axis));
  return values;
}

Json point_of(const sim::SweepResult& result, std::size_t index) {
  const model::Result<sim::SweepPoint>& point = result.points[index];
  const std::string reason = sim::reason(point);
  Json json = {{"values", values_of(result, index)},
               {"feasible", sim::feasible(point)},
               {"reason", text_or_null<Json>(reason)},
               {"step", nullptr},
               {"exposed_communication_share", json_of<Json>(sim::exposed_share(point))},
               {"gemm_slowdown", json_of<Json>(result.gemm_slowdowns[index])},
               {"bound", {{"time_s", nullptr}}},
               {"memory", nullptr},
               {"basis", nullptr}};
  if (!point) return json;
  if (!point->serving) json["step"] = Json::parse(step_json(point->step));
  if (point->interval) json["interval"] = Json::parse(interval_json(point->interval));
  json["bound"]["time_s"] = json_of<Json>(point->bound_s);
  const model::Memory& memory = point->memory;
  json["memory"] = {{"peak_bytes", memory.peak_bytes},
                    {"capacity_bytes", memory.capacity_bytes},
                    {"fits", memory.fits},
                    {"fits_probability", json_of<Json>(memory.fits_probability)},
                    {"verdict", model::to_string(model::fit_of(memory))}};
  json["basis"] = {{"fidelity", sim::to_string(result.fidelity)},
                   {"profile", point->profile},
                   {"stack", text_or_null<Json>(point->stack)},
                   {"device", point->device}};
  if (point->serving) json["serving"] = Json::parse(serving_quantities_json(*point->serving));
  if (point->interval) json["middle"] = Json::parse(middle_json(sim::step_result(*point, result.fidelity)));
  return json;
}

// Returns a stretch with the numeric key's values and the indices of its points in `points`.
Json stretch_of(const sim::SweepResult& result, const sim::SweepLine& line, const sim::Stretch& stretch) {
  const std::size_t axis = *result.grid.numeric_axis();
  const std::size_t first = line.points[stretch.first], last = line.points[stretch.last];
  return {{"from", value_of(result.grid.value(first, axis))},
          {"to", value_of(result.grid.value(last, axis))},
          {"points", stretch.last - stretch.first + 1}};
}

Json line_of(const sim::SweepResult& result, const sim::SweepLine& line) {
  Json json = {{"values", values_of(result, line.points.front())}, {"optimum", nullptr}, {"plateau", nullptr}};
  json["values"].erase(result.grid.axes()[*result.grid.numeric_axis()].key);
  if (line.best) {
    json["optimum"] = line.points[*line.best];
    json["plateau"] = stretch_of(result, line, line.plateau);
  }
  json["communication_hidden"] =
      line.known > 0
          ? list_of<Json>(line.hidden, [&](const sim::Stretch& stretch) { return stretch_of(result, line, stretch); })
          : Json(nullptr);
  return json;
}

Json optimum_of(const sim::SweepResult& result) {
  if (!result.best) return nullptr;
  const sim::SweepPoint& best = *result.points[*result.best];
  Json json = {{"point", *result.best},
               {"values", values_of(result, *result.best)},
               {"time_s", best.serving ? Json(nullptr) : Json(best.step.time_s)},
               {"middle_s", best.interval ? Json(best.interval->time_s.p50) : Json(nullptr)}};
  if (best.serving) {
    const model::ServingResult middle = model::middle_serving(*best.serving);
    json.update(FIELDS(middle, usd_per_million_tokens_all_in, output_tokens_per_s_per_gpu));
  }
  return json;
}

Json setting_of(const sim::TornadoRow& row, std::size_t index, const sim::TornadoMetrics& metrics) {
  const model::Result<sim::SweepPoint>& point = row.points[index];
  const std::string reason = sim::reason(point);
  Json json = {{"value", row.input.settings[index].text},
               {"set", row.input.settings[index].changes},
               {"feasible", sim::feasible(point)},
               {"reason", text_or_null<Json>(reason)}};
  for (std::size_t m = 0; m < metrics.size(); ++m)
    json[std::string(metrics[m])] = json_of<Json>(sim::tornado_value(point, m));
  return json;
}

Json row_of(const sim::TornadoRow& row, const sim::TornadoMetrics& metrics) {
  Json settings = Json::array(), widths = Json::object();
  for (std::size_t i = 0; i < row.points.size(); ++i) settings.push_back(setting_of(row, i, metrics));
  for (std::size_t m = 0; m < metrics.size(); ++m)
    widths[std::string(metrics[m])] = row.spans[m] ? Json(row.spans[m]->width()) : Json(nullptr);
  return {{"name", row.input.name}, {"key", row.input.key}, {"width", widths}, {"settings", settings}};
}

Json sample_of(const sim::SolveResult& result, const sim::SolveSample& sample) {
  const auto point = result.points.find(sample.x);
  const bool known = point != result.points.end();
  return {{"value", result.key.whole ? Json(std::llround(sample.x)) : Json(sample.x)},
          {"metric", sample.value ? Json(*sample.value) : Json(nullptr)},
          {"feasible", known && point->second.infeasible_reason.empty()}};
}

Json sample_of(const sim::SolveResult& result, const std::optional<sim::SolveSample>& sample) {
  return sample ? sample_of(result, *sample) : Json(nullptr);
}

}  // namespace

std::string sweep_json(const sim::SweepResult& result) {
  const auto axis = result.grid.numeric_axis();
  Json points = Json::array(), lines = Json::array(), plateau = nullptr;
  for (std::size_t i = 0; i < result.points.size(); ++i) points.push_back(point_of(result, i));
  for (const sim::SweepLine& line : result.lines) {
    if (!axis) break;
    lines.push_back(line_of(result, line));
    if (line.best && line.points[*line.best] == result.best) plateau = lines.back()["plateau"];
  }
  return document<Json>(
      "sweep", {{"sweep",
                 {{"keys", list_of<Json>(result.grid.axes(), [&](const sim::SweepAxis& swept) { return swept.key; })},
                  {"along", axis ? Json(result.grid.axes()[*axis].key) : Json(nullptr)},
                  {"fidelity", sim::to_string(result.fidelity)},
                  {"plateau", result.limits.plateau},
                  {"hidden", result.limits.hidden}}},
                {"complete", result.complete},
                {"points", points},
                {"optimum", optimum_of(result)},
                {"plateau", plateau},
                {"lines", lines},
                {"plan", Json::parse(plan_json(result.plan))}});
}

std::string tornado_json(const sim::TornadoResult& result) {
  Json base = Json::object();
  for (std::size_t m = 0; m < result.metrics.size(); ++m)
    base[std::string(result.metrics[m])] = json_of<Json>(result.base[m]);
  return document<Json>(
      "sweep-tornado",
      {{"tornado", {{"fidelity", sim::to_string(result.fidelity)}, {"base", base}}},
       {"inputs", list_of<Json>(result.rows, [&](const sim::TornadoRow& row) { return row_of(row, result.metrics); })},
       {"plan", Json::parse(plan_json(result.plan))}});
}

std::string tornado_csv(const sim::TornadoResult& result) {
  Json rows = Json::array();
  for (const sim::TornadoRow& row : result.rows) {
    const Json input = row_of(row, result.metrics);
    for (const Json& setting : input["settings"]) {
      rows.push_back({{"name", input["name"]}, {"key", input["key"]}, {"width", input["width"]}});
      rows.back().update(setting);
    }
  }
  return csv_of_rows(rows);
}

std::string solve_csv(const sim::SolveResult& result) {
  Json rows = Json::array();
  for (const sim::SolveSample& sample : result.solution.samples) {
    const Json of = sample_of(result, sample);
    rows.push_back({{result.key.key, of["value"]}, {result.target.metric, of["metric"]}, {"feasible", of["feasible"]}});
  }
  return csv_of_rows(rows);
}

std::string solve_json(const sim::SolveResult& result) {
  const sim::Solution& solution = result.solution;
  return document<Json>(
      "sweep-solve",
      {{"solve",
        {{"key", result.key.key},
         {"metric", result.target.metric},
         {"target", result.target.value},
         {"fidelity", sim::to_string(result.fidelity)},
         {"range", {result.key.range.low, result.key.range.high}},
         {"present", {{"value", json_of<Json>(result.key.value)}, {"metric", json_of<Json>(result.present)}}},
         {"exact", sample_of(result, solution.exact)},
         {"below", sample_of(result, solution.below)},
         {"above", sample_of(result, solution.above)},
         {"crossings", solution.crossings}}},
       {"samples",
        list_of<Json>(solution.samples, [&](const sim::SolveSample& sample) { return sample_of(result, sample); })},
       {"plan", Json::parse(plan_json(result.plan))}});
}

}  // namespace plumbline::reports
