#include "calibrate/components/detail/component_table.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::calibrate::components {
namespace {

constexpr double microsecond = 1e-6;
constexpr double slack = 1.05;  // over the peak: clocks are sold with a tolerance, and times are rounded
constexpr double tera = 1e12;

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

double peak_of(const DensePeaks& peaks, std::string_view format) {
  if (format == "bf16") return peaks.bf16;
  return format.starts_with("fp8") ? peaks.fp8 : peaks.fp4;
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

model::Result<std::string> ComponentTable::name(std::size_t row, std::string_view column) const {
  const std::string& text = csv_.text(row, column);
  if (text.empty()) return tl::unexpected(csv_.error(row, column, "the cell is empty"));
  return text;
}

model::Result<std::string> ComponentTable::one_of(std::size_t row, std::string_view column,
                                                  std::initializer_list<std::string_view> known) const {
  const std::string& text = csv_.text(row, column);
  for (const std::string_view candidate : known)
    if (text == candidate) return text;
  model::Error error = csv_.error(row, column, fmt::format("unknown '{}'", text));
  error.hint = model::known_names(text, {known.begin(), known.end()});
  return tl::unexpected(std::move(error));
}

model::Result<double> ComponentTable::seconds(std::size_t row, std::string_view column) const {
  return csv_.positive(row, column).map([](double us) { return us * microsecond; });
}

model::Result<std::vector<ComponentTable::Column>> ComponentTable::filled_columns(std::size_t row,
                                                                                  std::string_view what) const {
  std::vector<Column> found;
  bool any = false;
  for (const std::string& column : csv_.columns()) {
    const auto value = model::parse_number<std::int64_t>(column);
    if (!value || *value <= 0) continue;
    any = true;
    if (!csv_.text(row, column).empty()) found.push_back({*value, column});
  }
  if (any) return found;
  return model::wrong_input_at(
      path_, 0, std::string(what), "no column of times",
      fmt::format("columns after the last key are named by {}, or are {} and time_us", what, what));
}

model::Result<void> ComponentTable::first(std::size_t row, std::initializer_list<std::string_view> columns,
                                          std::string_view rest) {
  std::string key(rest);
  for (const std::string_view column : columns) key += "," + csv_.text(row, column);
  if (seen_.insert(std::move(key)).second) return {};
  return tl::unexpected(csv_.error(row, "", "the shape occurs twice"));
}

model::Result<void> ComponentTable::within(const DensePeaks& peaks, std::size_t row, std::string_view column,
                                           std::string_view format, double flops, double seconds) const {
  const double peak = peak_of(peaks, format), rate = flops / seconds;
  if (peak == 0 || rate <= slack * peak) return {};
  model::Error error =
      csv_.error(row, column,
                 fmt::format("{:.4g} TFLOP/s in {}, above the GPU's peak of {:.4g}", rate / tera, format, peak / tera));
  error.hint = "are times in microseconds, and of this GPU?";
  return tl::unexpected(std::move(error));
}

model::Result<void> ComponentTable::complete(std::size_t rows) const {
  if (rows == stated_rows_) return {};
  return model::wrong_input_at(path_, 0, "rows",
                               fmt::format("the heading states {} rows, the file has {}", stated_rows_, rows),
                               "a part of the file is missing; import it again");
}

}  // namespace plumbline::calibrate::components
