#include "calibrate/components/detail/component_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate::components {
namespace {

// Returns the text after "# key:" in the first line that has it, with the line's number.
struct HeadingLine {
  std::string value;
  int line = 0;
};
std::optional<HeadingLine> heading_line(std::string_view text, const std::string& key) {
  const std::string start = "# " + key + ":";
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    if (line.starts_with(start)) return HeadingLine{std::string(model::trimmed(line.substr(start.size()))), number};
  }
  return std::nullopt;
}

}  // namespace

model::Result<ComponentTable> ComponentTable::read(const std::string& path,
                                                   const std::vector<std::string_view>& columns) {
  const auto text = TRY(model::read_text_file(path));
  ComponentTable table;
  table.path_ = path;
  table.csv_ = TRY(CsvTable::read(path, columns));
  const auto gpu = heading_line(text, "gpu");
  const auto rows = heading_line(text, "rows");
  if (!gpu || !rows)
    return model::wrong_input_at(path, 0, gpu ? "rows" : "gpu", "the heading does not state it",
                                 "a table begins with '# gpu: NAME' and '# rows: NUMBER'");
  const std::string folder = std::filesystem::path(path).parent_path().filename().string();
  if (gpu->value != folder)
    return model::wrong_input_at(
        path, gpu->line, "gpu", fmt::format("the heading says {}, the folder is {}", gpu->value, folder),
        "tables of one GPU lie in the folder of its name; 'plumbline import components' writes them there");
  const auto stated = model::parse_number<std::size_t>(rows->value);
  if (!stated) return model::wrong_input_at(path, rows->line, "rows", fmt::format("'{}' is no number", rows->value));
  table.stated_rows_ = *stated;
  return table;
}

model::Result<std::string> read_text(const CsvTable& csv, std::size_t at, std::string_view column,
                                     const std::vector<std::string_view>& known) {
  const std::string& text = csv.text(at, column);
  if (known.empty() ? !text.empty() : std::ranges::find(known, text) != known.end()) return text;
  model::Error error = csv.error(at, column, known.empty() ? "the cell is empty" : fmt::format("unknown '{}'", text));
  if (!known.empty()) error.hint = model::known_names(text, {known.begin(), known.end()});
  return tl::unexpected(std::move(error));
}

model::Result<std::vector<ComponentTable::Time>> ComponentTable::swept_times(std::size_t at,
                                                                             std::string_view what) const {
  if (csv_.has(what) && csv_.has("time_us")) return std::vector<Time>{{TRY(csv_.whole(at, what)), "time_us"}};
  std::vector<Time> found;
  bool any = false;
  for (const std::string& column : csv_.columns()) {
    const auto value = model::parse_number<std::int64_t>(column);
    if (!value || *value <= 0) continue;
    any = true;
    if (!csv_.text(at, column).empty()) found.push_back({*value, column});
  }
  if (any) return found;
  return model::wrong_input_at(
      path_, 0, std::string(what), "no column of times",
      fmt::format("columns after the last key are named by {}, or are {} and time_us", what, what));
}

model::Result<void> ComponentTable::first(std::size_t at, const std::string& shape) {
  if (seen_.insert(shape).second) return {};
  return tl::unexpected(csv_.error(at, "", "the shape occurs twice"));
}

model::Result<void> ComponentTable::complete(std::size_t rows) const {
  if (rows == stated_rows_) return {};
  return model::wrong_input_at(path_, 0, "rows",
                               fmt::format("the heading states {} rows, the file has {}", stated_rows_, rows),
                               "a part of the file is missing; import it again");
}

}  // namespace plumbline::calibrate::components
