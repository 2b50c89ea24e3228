#include <fmt/format.h>

#include <algorithm>

#include "calibrate/measurement/csv_table.h"
#include "calibrate/measurement/detail/measurement_record.h"
#include "calibrate/measurement/measurement_file.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

using detail::Fields;
using detail::Line;
using detail::Record;

using Row = std::vector<std::string>;

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
  for (const Fields& fields : records) {
    for (const auto& field : fields) {
      if (std::ranges::find(columns, field.first) == columns.end()) columns.push_back(field.first);
    }
  }
  std::ranges::stable_sort(columns, {}, [](const std::string& key) { return detail::place_of(key); });
  return columns;
}

tl::unexpected<model::Error> malformed(const std::string& path, int line, std::string message) {
  return model::wrong_input_at(path, line, "", std::move(message),
                               "a header of keys, then one record per line; docs/measuring.md lists them");
}

}  // namespace

model::Result<std::vector<Line>> detail::read_csv_lines(std::string_view text, const std::string& path) {
  std::vector<Line> lines;
  Row header;
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    if (line.empty() || line.front() == '#') continue;
    auto cells = csv_cells(line);
    if (!cells) return malformed(path, number, "a quote is not closed on this line");
    if (header.empty()) {
      header = std::move(*cells);
      continue;
    }
    if (cells->size() != header.size())
      return malformed(path, number, fmt::format("{} cells under {} columns", cells->size(), header.size()));
    Line row{number, {}};
    for (std::size_t i = 0; i < header.size(); ++i) {
      if (!(*cells)[i].empty()) row.fields.emplace_back(header[i], Value{(*cells)[i], false});
    }
    lines.push_back(std::move(row));
  }
  return lines;
}

std::string to_csv(const Measurements& measurements) {
  std::vector<Fields> records;
  for (const Record& record : detail::records_of(measurements)) records.push_back(detail::to_fields(record));
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

}  // namespace plumbline::calibrate
