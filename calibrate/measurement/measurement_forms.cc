#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "calibrate/measurement/csv_table.h"
#include "calibrate/measurement/detail/measurement_record.h"
#include "calibrate/measurement/measurement_file.h"
#include "model/base/distinct.h"
#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate {
namespace {

using detail::Fields;
using detail::Line;

std::string cell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  if (text.find_first_of(",\"#") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// Returns the keys of all records in the order of JSON Lines; extents of shapes in order of appearance.
std::vector<std::string> columns_of(const std::vector<Fields>& records) {
  std::vector<std::string> columns;
  for (const Fields& fields : records)
    for (const auto& field : fields) model::add_distinct(columns, field.first);
  std::ranges::stable_sort(columns, {}, [](const std::string& key) { return detail::place_of(key); });
  return columns;
}

}  // namespace

model::Result<std::vector<Line>> detail::read_csv_lines(std::string_view text, const std::string& path) {
  const auto table = TRY(CsvTable::parse(text, path, {}));
  std::vector<Line> lines;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Line& line = lines.emplace_back(Line{table.line(row), {}});
    for (const std::string& column : table.columns())
      if (const std::string& text_of_cell = table.text(row, column); !text_of_cell.empty())
        line.fields.emplace_back(column, Value{text_of_cell, false});
  }
  return lines;
}

std::string to_csv(const Measurements& measurements) {
  std::vector<Fields> records;
  for (const detail::Record& record : detail::records_of(measurements)) records.push_back(detail::to_fields(record));
  const std::vector<std::string> columns = columns_of(records);
  std::string out = fmt::format("{}\n", fmt::join(columns, ","));
  for (const Fields& fields : records) {
    std::vector<std::string> row;
    for (const std::string& column : columns) {
      const auto found = std::ranges::find(fields, column, &Fields::value_type::first);
      row.push_back(found == fields.end() ? "" : cell(found->second.text));
    }
    out += fmt::format("{}\n", fmt::join(row, ","));
  }
  return out;
}

namespace {

using detail::Value;
using Json = nlohmann::ordered_json;

// Empty texts and nulls count as left out.
void add(Fields& fields, const std::string& key, const Json& value) {
  if (value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty())) return;
  fields.emplace_back(key, value.is_string() ? Value{value.get<std::string>(), true} : Value{value.dump(), false});
}

// Returns [0.1, 0.2] as "0.1;0.2"; nullopt when it is no list of numbers.
std::optional<std::string> joined_numbers(const Json& list) {
  std::string text;
  for (const Json& number : list) {
    if (!number.is_number()) return std::nullopt;
    text += (text.empty() ? "" : ";") + number.dump();
  }
  return list.is_array() ? std::optional(text) : std::nullopt;
}

model::Result<Fields> flatten(const Json& object, const std::string& path, int line) {
  Fields fields;
  for (const auto& [key, value] : object.items()) {
    if (detail::is_list(key)) {
      const auto numbers = joined_numbers(value);
      if (!numbers) return model::wrong_input_at(path, line, key, "an array of numbers is expected here");
      if (!numbers->empty()) fields.emplace_back(key, Value{*numbers, false});
      continue;
    }
    if (!value.is_object() || detail::is_json_text(key)) {
      if (value.is_array()) return model::wrong_input_at(path, line, key, "an array is not expected here");
      add(fields, key, value);
      continue;
    }
    for (const auto& [inner, leaf] : value.items()) {
      const std::string name = fmt::format("{}.{}", key, inner);
      if (leaf.is_structured()) return model::wrong_input_at(path, line, name, "a single value is expected here");
      add(fields, name, leaf);
    }
  }
  return fields;
}

std::string array(std::string numbers) {
  std::ranges::replace(numbers, ';', ',');
  return '[' + numbers + ']';
}

Json nested(const Fields& fields) {
  Json object;
  for (const auto& [key, value] : fields) {
    Json leaf = value.quoted ? Json(value.text) : Json::parse(detail::is_list(key) ? array(value.text) : value.text);
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos)
      object[key] = std::move(leaf);
    else
      object[key.substr(0, dot)][key.substr(dot + 1)] = std::move(leaf);
  }
  return object;
}

std::string hint_for(std::string_view text) {
  for (const std::string_view word : {"NaN", "nan", "Infinity", "inf"})
    if (text.find(word) != std::string_view::npos) return "JSON has no NaN and no infinity: leave the key out";
  return "one JSON object per line";
}

}  // namespace

bool detail::is_json_object(const std::string& text) {
  return model::check_nesting(text, "") && Json::parse(text, nullptr, false).is_object();
}

model::Result<std::vector<Line>> detail::read_json_lines(std::string_view text, const std::string& path,
                                                         std::vector<std::string>& notes) {
  std::vector<Line> lines;
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    TRY(model::check_nesting(line, path, number));
    const Json object = Json::parse(line, nullptr, false);
    if (object.is_discarded() && line.end() == text.end() && !lines.empty()) {
      notes.push_back(fmt::format("line {} is unfinished and left out", number));
      break;
    }
    if (!object.is_object()) return model::wrong_input_at(path, number, "", "not a JSON object", hint_for(line));
    auto fields = TRY(flatten(object, path, number));
    lines.push_back({number, std::move(fields)});
  }
  return lines;
}

std::string to_jsonl(const Measurements& measurements) {
  std::string out;
  for (const detail::Record& record : detail::records_of(measurements))
    out += nested(detail::to_fields(record)).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  return out;
}

}  // namespace plumbline::calibrate
