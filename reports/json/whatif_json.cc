#include <cmath>
#include <nlohmann/json.hpp>

#include "reports/json/detail/answer_parts.h"
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

Json any_value() { return {{"type", {"number", "string", "boolean", "array"}}}; }

Stated<Json> value_at(const sim::SweepResult& result, std::size_t point, std::size_t axis) {
  return {value_of(result.grid.value(point, axis)), any_value()};
}

// Returns the values of the swept keys but one.
Stated<Json> values_of(const sim::SweepResult& result, std::size_t point,
                       std::optional<std::size_t> without = std::nullopt) {
  Json values = Json::object();
  for (std::size_t axis = 0; axis < result.grid.axes().size() && point < result.points.size(); ++axis)
    if (axis != without) values[result.grid.axes()[axis].key] = value_of(result.grid.value(point, axis));
  return {values, {{"type", "object"}, {"additionalProperties", any_value()}}};
}

// A point of a sweep: the values at a place, and the plan predicted with them.
void point_fields(auto& to, const sim::SweepResult& result, std::size_t place) {
  static const model::Result<sim::SweepPoint> none;
  const model::Result<sim::SweepPoint>& point = place < result.points.size() ? result.points[place] : none;
  const bool known = point.has_value();
  const sim::SweepPoint& of = known ? *point : *none;
  to("values", "values of the swept keys", values_of(result, place));
  to("feasible", "whether the plan can be laid out and fits", sim::feasible(point));
  to("reason", "why not, where it cannot be", unless_empty(sim::reason(point)));
  to("step", "the step; null: of a deployment", where(known && !of.serving, of.result.step));
  to("exposed_communication_share", "share of the step in which only communication runs", sim::exposed_share(point));
  to("gemm_slowdown", "factor on GEMMs that run next to communication",
     place < result.gemm_slowdowns.size() ? result.gemm_slowdowns[place] : std::nullopt);
  to("bound", "the proven lower bound of the step", Object([&](auto& part_to) {
       part_to("time_s", "seconds of the step", known ? of.result.bound_s : std::nullopt);
     }));
  to("memory", "memory of the ranks",
     Maybe(where(known, of.result.memory), [](auto& part_to, const model::Memory& memory) {
       part_to("peak_bytes", "bytes of the fullest rank", memory.peak_bytes);
       part_to("capacity_bytes", "bytes of a GPU", memory.capacity_bytes);
       part_to("fits", "whether its peak fits in memory", memory.fits);
       part_to("fits_probability", "how probable it is that it fits; null: without an interval",
               memory.fits_probability);
       part_to("verdict", "fits: with 95 % or more; does not fit: with less than 5 %", fit_word(model::fit_of(memory)));
     }));
  to("basis", "what the prediction rests on",
     Maybe(where(known, of), [&result](auto& part_to, const sim::SweepPoint& one) {
       part_to("fidelity", "how the step was predicted: closed-form, step or kernel",
               std::string(sim::to_string(result.fidelity)));
       part_to("profile", "profile with the constants", one.result.profile);
       part_to("stack", "software stack", unless_empty(one.result.stack));
       part_to("device", "name of the GPU", one.result.device);
     }));
  const bool drawn = known && of.result.interval.has_value(), serves = known && of.serving.has_value();
  to.only_where(drawn, "interval", "", uncertainty(of.result.interval));
  to.only_where(serves, "serving", "", of.serving.value_or(model::ServingResult()));
  to.only_where(drawn, "middle", "", middle_of(of.result));
  to.only_where(
      known && of.result.rollout.has_value(), "rollout",
      "of a plan with [rollout]: a step of reinforcement learning, whose update of the policy `step` is",
      Object([&of](auto& part_to) { rollout_fields(part_to, of.result.rollout.value_or(model::RolloutResult())); }));
}

// A stretch with the numeric key's values at its ends.
struct ValueStretch {
  Stated<Json> from = {nullptr, any_value()}, to = from;
  std::size_t points = 0;
};
std::optional<ValueStretch> stretch_of(const sim::SweepResult& result, const sim::SweepLine& line,
                                       const sim::Stretch& stretch) {
  const std::size_t axis = *result.grid.numeric_axis();
  return ValueStretch{value_at(result, line.points[stretch.first], axis),
                      value_at(result, line.points[stretch.last], axis), stretch.last - stretch.first + 1};
}
std::optional<ValueStretch> plateau_of(const sim::SweepResult& result, const sim::SweepLine& line) {
  return line.best ? stretch_of(result, line, line.plateau) : std::nullopt;
}
constexpr auto write_stretch = [](auto& to, const ValueStretch& stretch) {
  to("from", "first value", stretch.from);
  to("to", "last value", stretch.to);
  to("points", "how many points", stretch.points);
};

void line_fields(auto& to, const sim::SweepResult& result, const sim::SweepLine& line) {
  std::vector<ValueStretch> hidden;
  for (const sim::Stretch& stretch : line.hidden) hidden.push_back(*stretch_of(result, line, stretch));
  const auto plateau = plateau_of(result, line);
  Stated<Json> hidden_or_null = {written<Json>(List(hidden, write_stretch)),
                                 or_null(Schema<Json>::of(List(hidden, write_stretch)))};
  if (line.known == 0) hidden_or_null.value = nullptr;
  to("values", "values of the swept keys",
     values_of(result, line.points.empty() ? 0 : line.points.front(), result.grid.numeric_axis()));
  to("optimum", "the best point", line.best ? std::optional(line.points[*line.best]) : std::nullopt);
  to("plateau", "where more brings little", Maybe(plateau, write_stretch));
  to("communication_hidden", "where overlap hides all of the communication", hidden_or_null);
}

void optimum_fields(auto& to, const sim::SweepResult& result, std::size_t place) {
  static const sim::SweepPoint none;
  const sim::SweepPoint& best = place < result.points.size() ? *result.points[place] : none;
  const bool serves = best.serving.has_value();
  const model::ServingResult middle = serves ? model::middle_serving(*best.serving) : model::ServingResult();
  to("point", "position in points", place);
  to("values", "values of the swept keys", values_of(result, place));
  to("time_s", "seconds of the step, from components; null: of a deployment",
     where(!serves, best.result.rollout ? best.result.rollout->step_s : best.result.step.time_s));
  to("middle_s", "seconds of the step in the middle of its interval; null: without one",
     where(best.result.interval || (best.result.rollout && best.result.rollout->interval_s),
           sim::middle_seconds(best)));
  to.only_where(serves, "usd_per_million_tokens_all_in",
                "of a deployment: cost of a million output tokens, with prompts", middle.usd_per_million_tokens_all_in);
  to.only_where(serves, "output_tokens_per_s_per_gpu", "of a deployment: output tokens a second and GPU",
                middle.output_tokens_per_s_per_gpu);
}

void sweep_fields(auto& to, const sim::SweepResult& result) {
  const auto axis = result.grid.numeric_axis();
  std::vector<std::string> keys;
  for (const sim::SweepAxis& swept : result.grid.axes()) keys.push_back(swept.key);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < result.points.size(); ++i) places.push_back(i);
  const std::vector<sim::SweepLine> lines = axis ? result.lines : std::vector<sim::SweepLine>();
  std::optional<ValueStretch> plateau;
  for (const sim::SweepLine& line : lines)
    if (line.best && line.points[*line.best] == result.best) plateau = plateau_of(result, line);
  to("sweep", "keys and fidelity of the sweep", Object([&](auto& part_to) {
       part_to("keys", "keys that vary", keys);
       part_to("along", "the numeric key along which lines run",
               axis ? std::optional(result.grid.axes()[*axis].key) : std::nullopt);
       part_to("fidelity", "how the step was predicted: closed-form, step or kernel",
               std::string(sim::to_string(result.fidelity)));
       part_to("plateau", "how much slower than the best still counts", result.limits.plateau);
       part_to("hidden", "share up to which communication counts as hidden", result.limits.hidden);
     }));
  to("complete", "false: it was interrupted", result.complete);
  to("points", "the points of the sweep",
     List(places, [&result](auto& point_to, std::size_t place) { point_fields(point_to, result, place); }));
  to("optimum", "the best point",
     Maybe(result.best, [&result](auto& best_to, std::size_t place) { optimum_fields(best_to, result, place); }));
  to("plateau", "where more brings little", Maybe(plateau, write_stretch));
  to("lines", "the sweep along its first key for each value of the second",
     List(lines, [&result](auto& line_to, const sim::SweepLine& line) { line_fields(line_to, result, line); }));
  to("plan", "", plan_part<Json>(result.plan));
}

// Values of the two metrics of a tornado.
void metric_fields(auto& to, const sim::TornadoMetrics& metrics, const std::array<std::optional<double>, 2>& values) {
  constexpr std::pair<std::string_view, const char*> meanings[] = {
      {"step.time_s", "seconds of the step"},
      {"run.cost_usd", "cost of the training"},
      {"serving.tpot_s", "seconds of an output token"},
      {"serving.usd_per_million_tokens_all_in", "cost of a million output tokens, with prompts"}};
  for (const auto& [key, meaning] : meanings) {
    const auto found = std::ranges::find(metrics, key);
    const bool there = found != metrics.end();
    to.only_where(there, key, meaning,
                  there ? values[static_cast<std::size_t>(found - metrics.begin())] : std::nullopt);
  }
}

// Returns an object with at least so many keys.
template <class Fields>
Stated<Json> with_keys(std::size_t least, const Fields& fields) {
  Json schema = Schema<Json>::of(Object(fields));
  schema["minProperties"] = least;
  return {object_of<Json>(fields), schema};
}

Stated<Json> metrics_of(const sim::TornadoMetrics& metrics, const std::array<std::optional<double>, 2>& values) {
  return with_keys(2, [&](auto& to) { metric_fields(to, metrics, values); });
}

Stated<Json> setting_of(const sim::TornadoRow& row, std::size_t index, const sim::TornadoMetrics& metrics) {
  static const model::Result<sim::SweepPoint> none;
  static const sim::TornadoSetting no_setting;
  const model::Result<sim::SweepPoint>& point = index < row.points.size() ? row.points[index] : none;
  const sim::TornadoSetting& setting = index < row.points.size() ? row.input.settings[index] : no_setting;
  return with_keys(6, [&](auto& to) {
    to("value", "the value", setting.text);
    to("set", "changes, as --set takes them", setting.changes);
    to("feasible", "whether the plan can be laid out and fits", sim::feasible(point));
    to("reason", "why not, where it cannot be", unless_empty(sim::reason(point)));
    metric_fields(to, metrics, {sim::tornado_value(point, 0), sim::tornado_value(point, 1)});
  });
}

void row_fields(auto& to, const sim::TornadoRow& row, const sim::TornadoMetrics& metrics) {
  std::array<std::optional<double>, 2> widths;
  for (std::size_t m = 0; m < widths.size(); ++m)
    if (row.spans[m]) widths[m] = row.spans[m]->width();
  Json settings = Json::array();
  for (std::size_t i = 0; i < row.points.size(); ++i) settings.push_back(setting_of(row, i, metrics).value);
  to("name", "name of the input", row.input.name);
  to("key", "key of a plan or constant of a profile", row.input.key);
  to("width", "difference between the ends", metrics_of(metrics, widths));
  to("settings", "values tried, with the prediction of each",
     Stated<Json>{settings, {{"type", "array"}, {"items", setting_of(row, row.points.size(), metrics).schema}}});
}

void sample_fields(auto& to, const sim::SolveResult& result, const sim::SolveSample& sample) {
  const auto point = result.points.find(sample.x);
  const bool feasible = point != result.points.end() && point->second.infeasible_reason.empty();
  const Json value = result.key.whole ? Json(std::llround(sample.x)) : Json(sample.x);
  to("value", "the value", Stated<Json>{value, {{"type", "number"}}});
  to("metric", "quantity that is looked at", sample.value);
  to("feasible", "whether the plan can be laid out and fits", feasible);
}

}  // namespace

void fields(auto& to, const sim::SolveResult& result) {
  const sim::Solution& solution = result.solution;
  const auto write_sample = [&result](auto& sample_to, const sim::SolveSample& sample) {
    sample_fields(sample_to, result, sample);
  };
  to("solve", "the value that meets the target", Object([&](auto& part_to) {
       part_to("key", "key of a plan or constant of a profile", result.key.key);
       part_to("metric", "quantity that is looked at", result.target.metric);
       part_to("target", "value of the metric that is asked for", result.target.value);
       part_to("fidelity", "how the step was predicted: closed-form, step or kernel",
               std::string(sim::to_string(result.fidelity)));
       part_to("range", "lowest and highest value tried",
               Stated<Json>{{result.key.range.low, result.key.range.high},
                            {{"type", "array"}, {"items", {{"type", "number"}}}, {"minItems", 2}, {"maxItems", 2}}});
       part_to("present", "the metric of the plan as it is", Object([&](auto& present_to) {
                 present_to("value", "the value", result.key.value);
                 present_to("metric", "quantity that is looked at", result.present);
               }));
       part_to("exact", "the value that meets the target, where the key takes whole numbers",
               Maybe(solution.exact, write_sample));
       part_to("below", "the value tried next below the target", Maybe(solution.below, write_sample));
       part_to("above", "the value tried next above the target", Maybe(solution.above, write_sample));
       part_to("crossings", "where the metric passes the target", solution.crossings);
     }));
  to("samples", "values that were tried", List(solution.samples, write_sample));
  to("plan", "", plan_part<Json>(result.plan));
}

void fields(auto& to, const sim::TornadoResult& result) {
  to("tornado", "metric of every range and its fidelity", Object([&result](auto& part_to) {
       part_to("fidelity", "how the step was predicted: closed-form, step or kernel",
               std::string(sim::to_string(result.fidelity)));
       part_to("base", "the prediction with no input changed", metrics_of(result.metrics, result.base));
     }));
  to("inputs", "what the prediction was given", List(result.rows, [&result](auto& row_to, const sim::TornadoRow& row) {
       row_fields(row_to, row, result.metrics);
     }));
  to("plan", "", plan_part<Json>(result.plan));
}

std::string sweep_json(const sim::SweepResult& result) {
  return document("sweep", object_of<Json>([&](auto& to) { sweep_fields(to, result); }));
}

std::string rollout_sweep_csv(const sim::SweepResult& result) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const Json point = object_of<Json>([&](auto& to) { point_fields(to, result, i); });
    Json& row = rows.emplace_back(point["values"]);
    row["feasible"] = sim::feasible(result.points[i]) ? 1 : 0;  // as in the CSV of other sweeps
    row["best"] = i == result.best ? 1 : 0;
    if (point.contains("rollout")) row.update(point["rollout"]);
    row["reason"] = point["reason"];
  }
  return csv_of_rows(rows);
}

std::string tornado_json(const sim::TornadoResult& result) { return document("sweep-tornado", written<Json>(result)); }

std::string solve_json(const sim::SolveResult& result) { return document("sweep-solve", written<Json>(result)); }

std::string tornado_csv(const sim::TornadoResult& result) {
  Json rows = Json::array();
  for (const sim::TornadoRow& row : result.rows) {
    const Json input = object_of<Json>([&](auto& to) { row_fields(to, row, result.metrics); });
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
    const Json of = object_of<Json>([&](auto& to) { sample_fields(to, result, sample); });
    rows.push_back({{result.key.key, of["value"]}, {result.target.metric, of["metric"]}, {"feasible", of["feasible"]}});
  }
  return csv_of_rows(rows);
}

std::string sweep_schema() {
  sim::SweepResult result = {.grid = sim::SweepGrid::make({}).value(), .fidelity = sim::Fidelity::step};
  return keys_schema<Json>([&](auto& to) { sweep_fields(to, result); });
}

std::string tornado_schema() { return schema_of<Json, sim::TornadoResult>(); }

std::string solve_schema() { return schema_of<Json, sim::SolveResult>(); }

}  // namespace plumbline::reports
