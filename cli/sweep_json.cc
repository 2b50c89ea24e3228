#include <nlohmann/json.hpp>
#include <utility>

#include "cli/sweep_result.h"
#include "model/base/version.h"
#include "reports/json/json.h"

namespace plumbline::cli {
namespace {

using Json = nlohmann::ordered_json;

Json value_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// TOML's numbers, flags, lists and quoted strings read as JSON; the rest are bare words.
Json value_of(const SweepValue& value) {
  Json parsed = Json::parse(value.text, nullptr, false);
  if (!parsed.is_discarded()) return parsed;
  return value.number ? Json(*value.number) : Json(value.text);
}

Json values_of(const SweepResult& result, std::size_t point) {
  Json values = Json::object();
  for (std::size_t axis = 0; axis < result.grid.axes().size(); ++axis)
    values[result.grid.axes()[axis].key] = value_of(result.grid.value(point, axis));
  return values;
}

Json point_of(const SweepResult& result, std::size_t index) {
  const model::Result<sim::SweepPoint>& point = result.points[index];
  const std::string reason = obstacle(point);
  Json json = {{"values", values_of(result, index)},
               {"feasible", feasible(point)},
               {"reason", reason.empty() ? Json(nullptr) : Json(reason)},
               {"step", nullptr},
               {"exposed_communication_share", value_of(exposed_share(point))},
               {"gemm_slowdown", value_of(result.product_slowdowns[index])},
               {"bound", {{"time_s", nullptr}}},
               {"memory", nullptr},
               {"basis", nullptr}};
  if (!point) return json;
  json["step"] = Json::parse(reports::step_json(point->step));
  json["bound"]["time_s"] = value_of(point->bound_s);
  json["memory"] = {
      {"peak_bytes", point->peak_bytes}, {"capacity_bytes", point->capacity_bytes}, {"fits", point->shortage.empty()}};
  json["basis"] = {
      {"fidelity", sim::to_string(result.fidelity)}, {"profile", point->profile}, {"device", point->device}};
  return json;
}

// A stretch by the numeric key's values and its points' positions in `points`.
Json stretch_of(const SweepResult& result, const SweepLine& line, const sim::Stretch& stretch) {
  const std::size_t axis = *result.grid.numeric_axis();
  const std::size_t first = line.points[stretch.first], last = line.points[stretch.last];
  return {{"from", value_of(result.grid.value(first, axis))},
          {"to", value_of(result.grid.value(last, axis))},
          {"points", stretch.last - stretch.first + 1}};
}

Json line_of(const SweepResult& result, const SweepLine& line) {
  Json json = {{"values", values_of(result, line.points.front())}, {"optimum", nullptr}, {"plateau", nullptr}};
  json["values"].erase(result.grid.axes()[*result.grid.numeric_axis()].key);
  if (line.best) {
    json["optimum"] = line.points[*line.best];
    json["plateau"] = stretch_of(result, line, line.plateau);
  }
  Json hidden = Json::array();
  for (const sim::Stretch& stretch : line.hidden) hidden.push_back(stretch_of(result, line, stretch));
  json["communication_hidden"] = line.known > 0 ? hidden : Json(nullptr);
  return json;
}

Json optimum_of(const SweepResult& result) {
  if (!result.best) return nullptr;
  return {{"point", *result.best},
          {"values", values_of(result, *result.best)},
          {"time_s", result.points[*result.best]->step.time_s}};
}

}  // namespace

std::string sweep_json(const SweepResult& result) {
  const auto axis = result.grid.numeric_axis();
  Json keys = Json::array(), points = Json::array(), lines = Json::array(), plateau = nullptr;
  for (const SweepAxis& swept : result.grid.axes()) keys.push_back(swept.key);
  for (std::size_t i = 0; i < result.points.size(); ++i) points.push_back(point_of(result, i));
  for (const SweepLine& line : result.lines) {
    if (!axis) break;
    lines.push_back(line_of(result, line));
    if (line.best && line.points[*line.best] == result.best) plateau = lines.back()["plateau"];
  }
  const Json json = {{"plumbline", {{"version", model::version}, {"schema", model::schema}}},
                     {"sweep",
                      {{"keys", keys},
                       {"along", axis ? Json(result.grid.axes()[*axis].key) : Json(nullptr)},
                       {"fidelity", sim::to_string(result.fidelity)},
                       {"plateau", result.limits.plateau},
                       {"hidden", result.limits.hidden}}},
                     {"points", points},
                     {"optimum", optimum_of(result)},
                     {"plateau", plateau},
                     {"lines", lines},
                     {"plan", Json::parse(reports::plan_json(result.plan))}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace plumbline::cli
