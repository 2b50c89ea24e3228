// The frame that JSON outputs share, and objects of fields under their own names. These are templates and macros
// because the headers of the JSON library stay in sources.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "model/base/for_each.h"
#include "model/base/provenance.h"
#include "model/base/version.h"
#include "model/memory/memory.h"
#include "model/result/prediction_interval.h"
#include "reports/csv/csv_table.h"

namespace plumbline::reports {

// Returns a value as JSON: null for what was not computed, an enumerator by its name.
template <class Json, class Value>
Json json_of(const Value& value) {
  if constexpr (requires { value.has_value(); })
    return value ? json_of<Json>(*value) : Json(nullptr);
  else if constexpr (std::is_enum_v<Value>)
    return Json(to_string(value));
  else
    return Json(value);
}

template <class Json>
Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// Returns the list of what `write` makes of each row.
template <class Json, class Rows, class Write>
Json list_of(const Rows& rows, const Write& write) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(Json(write(row)));
  return list;
}

// Returns the members of several objects, in this order.
template <class Json>
Json joined(std::initializer_list<Json> objects) {
  Json all = Json::object();
  for (const Json& object : objects) all.update(object);
  return all;
}

// FIELDS(step, mfu, energy_j) is {"mfu": step.mfu, "energy_j": step.energy_j}, and LISTED(steps, mfu) the list of such
// objects.
#define FIELDS(of, ...)                                               \
  [&](const auto& fields_of) {                                        \
    nlohmann::ordered_json fields = nlohmann::ordered_json::object(); \
    FOR_EACH(PLUMBLINE_JSON_FIELD, __VA_ARGS__)                       \
    return fields;                                                    \
  }(of)
#define LISTED(rows, ...) \
  list_of<nlohmann::ordered_json>(rows, [](const auto& each) { return FIELDS(each, __VA_ARGS__); })
#define PLUMBLINE_JSON_FIELD(name) fields[#name] = json_of<nlohmann::ordered_json>(fields_of.name);

// Returns quantiles with their keys also where there are none.
template <class Json>
Json quantiles_or_nulls(const std::optional<model::Quantiles>& quantiles) {
  if (!quantiles) return {{"p10", nullptr}, {"p50", nullptr}, {"p90", nullptr}};
  return {{"p10", quantiles->p10}, {"p50", quantiles->p50}, {"p90", quantiles->p90}};
}

// Returns whether something fits in memory, and what is free of it at least.
template <class Json>
Json fit_object(const std::optional<double>& probability, model::Fit fit, double free_bytes) {
  constexpr std::array<const char*, 3> verdicts = {"fits", "edge", "no"};
  return {{"verdict", verdicts[static_cast<std::size_t>(fit)]},
          {"probability", json_of<Json>(probability)},
          {"free_bytes", free_bytes}};
}

// Returns what a constant is and where it comes from.
template <class Json>
Json constant_json(const model::Parameter& parameter) {
  return {{"parameter", parameter.name},
          {"value", parameter.value},
          {"unit", parameter.unit},
          {"kind", to_string(parameter.kind)},
          {"source", parameter.source}};
}
// Returns in addition how much of a step depends on it, where that was computed.
template <class Json>
Json constant_json(const model::Parameter& parameter, const std::optional<double>& share_of_step) {
  return joined<Json>({constant_json<Json>(parameter),
                       {{"share_of_step", json_of<Json>(share_of_step)},
                        {"relative_uncertainty", json_of<Json>(parameter.relative_uncertainty)},
                        {"stack", text_or_null<Json>(parameter.stack)}}});
}

// Returns the document as text. Bytes of a name or a source that are not UTF-8 are replaced. `indent` -1: on one line.
template <class Json>
std::string text_of_json(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Returns the document {"plumbline": {version, schema, output}, members of `body` ...}. It has the form that
// reports/schema/OUTPUT.schema.json describes.
template <class Json>
std::string document(std::string_view output, const Json& body, int indent = 2) {
  Json json = {{"plumbline", {{"version", model::version}, {"schema", model::schema}, {"output", output}}}};
  json.update(body);
  return text_of_json(json, indent);
}

// Lists of a JSON output as CSV: a row for each object, a column for each key in it, with dots between the parts.

// Adds the cells of an object below `path`. A list is one cell, as JSON; null is an empty one.
template <class Json>
void add_cells(const Json& object, const std::string& path, std::map<std::string, std::string>& cells,
               std::vector<std::string>& columns) {
  for (const auto& [key, value] : object.items()) {
    const std::string column = path + key;
    if (value.is_object()) {
      add_cells(value, column + ".", cells, columns);
      continue;
    }
    if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    if (!value.is_null())
      cells[column] = value.is_string() ? value.template get<std::string>()
                                        : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

// Returns the sections of a plan (its JSON) whose keys a search chooses.
template <class Json>
Json searched_keys(const Json& plan) {
  Json keys = Json::object();
  for (const char* section : {"parallelism", "batch", "schedule", "recompute", "overlap", "inference"})
    if (const auto found = plan.find(section); found != plan.end()) keys[section] = *found;
  return keys;
}

// Returns the objects of the list as CSV, columns in the order in which keys occur first. Where a key is an object in
// one row and null in another, only the object's keys are columns.
template <class Json>
std::string csv_of_rows(const Json& list) {
  std::vector<std::map<std::string, std::string>> rows;
  std::vector<std::string> columns;
  for (const Json& object : list) add_cells(object, "", rows.emplace_back(), columns);
  std::erase_if(columns, [&columns](const std::string& column) {
    return std::ranges::any_of(columns, [&](const std::string& other) { return other.starts_with(column + "."); });
  });
  CsvTable table(columns);
  for (std::map<std::string, std::string>& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& column : columns) cells.push_back(row[column]);
    table.add(cells);
  }
  return table.text();
}

}  // namespace plumbline::reports
