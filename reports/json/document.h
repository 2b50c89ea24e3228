// The frame that JSON outputs share. These are templates because the headers of the JSON library stay in sources.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/version.h"
#include "reports/text/table.h"

namespace plumbline::reports {

// Returns the list of what `write` makes of each row.
template <class Json, class Rows, class Write>
Json list_of(const Rows& rows, const Write& write) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(Json(write(row)));
  return list;
}

// Returns the document as text. Bytes of a name or a source that are not UTF-8 are replaced. `indent` -1: on one line.
template <class Json>
std::string text_of_json(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Returns the document {"plumbline": {version, schema, output}, members of `body` ...}. json_schema(output)
// describes it (reports/json/json.h).
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
