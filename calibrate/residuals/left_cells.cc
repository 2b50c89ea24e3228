#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "calibrate/measurement/csv_table.h"
#include "calibrate/residuals/left_estimate.h"
#include "model/base/decimal.h"
#include "model/profile/stack.h"

namespace plumbline::calibrate {
namespace {

using model::Result;

constexpr std::string_view file_head =
    R"(# ln(measured / predicted) of the training steps in calibrate/published, by set, software stack, precision of GEMMs,
# class of model and hardware: rows, mean and variance of the steps' times, and of the fullest rank's memory.
# drawn: mean and variance of ln(drawn / predicted), which the other sources of uncertainty explain. All rows count that
# have a plan and a time, with what a plan cannot express of them, but those of models of DeepSeek and those that are
# predicted with a datasheet's rates. Made by `plumbline validate --residuals`.
)";

constexpr std::array<std::string_view, 13> columns = {
    "set",      "stack",      "precision",      "model",       "hardware",    "rows",           "mean",
    "variance", "drawn_mean", "drawn_variance", "memory_rows", "memory_mean", "memory_variance"};

Residuals residuals_of(const std::vector<double>& values) {
  Residuals result;
  result.rows = values.size();
  const auto count = static_cast<double>(values.size());
  for (const double value : values) result.mean += value / count;
  for (const double value : values) result.variance += (value - result.mean) * (value - result.mean) / count;
  return result;
}

Result<double> number(const CsvTable& table, std::size_t row, std::string_view column) {
  const auto value = model::parse_decimal(table.text(row, column));
  if (!value) return tl::unexpected(table.error(row, column, "is not a number"));
  return value->value();
}

Result<Residuals> read_residuals(const CsvTable& table, std::size_t row, const std::string& prefix) {
  Residuals result;
  result.rows = static_cast<std::size_t>(TRY(number(table, row, prefix + "rows")));
  result.mean = TRY(number(table, row, prefix + "mean"));
  result.variance = TRY(number(table, row, prefix + "variance"));
  return result;
}

}  // namespace

StepKind step_kind(const sim::Inputs& inputs) {
  const model::Precision precision = inputs.plan.precision.gemm;
  const bool half = precision == model::Precision::bf16 || precision == model::Precision::fp16;
  return {inputs.profile.stack().empty() ? std::string(model::no_stack) : inputs.profile.stack(),
          half ? "16 bit" : std::string(to_string(precision)),
          inputs.architecture.experts.routed_experts > 0 ? "moe" : "dense"};
}

std::vector<LeftCell> left_cells(const std::vector<LeftRow>& rows) {
  std::map<std::tuple<std::string, StepKind, std::string>, std::vector<const LeftRow*>> groups;
  for (const LeftRow& row : rows) groups[{row.set, row.kind, row.hardware}].push_back(&row);
  std::vector<LeftCell> cells;
  for (const auto& [key, members] : groups) {
    std::vector<double> times, memory, means, variances;
    for (const LeftRow* row : members) {
      times.push_back(row->time);
      if (row->memory) memory.push_back(*row->memory);
      means.push_back(row->drawn_mean);
      variances.push_back(row->drawn_variance);
    }
    const auto& [set, kind, hardware] = key;
    cells.push_back({set, kind, hardware, residuals_of(times), residuals_of(memory), residuals_of(means).mean,
                     residuals_of(variances).mean});
  }
  return cells;
}

std::string left_cells_csv(const std::vector<LeftCell>& cells) {
  std::string text = fmt::format("{}{}\n", file_head, fmt::join(columns, ","));
  for (const LeftCell& cell : cells)
    text += fmt::format("{},{},{},{},{},{},{:.4f},{:.5f},{:.4f},{:.5f},{},{:.4f},{:.5f}\n", cell.set, cell.kind.stack,
                        cell.kind.precision, cell.kind.model, cell.hardware, cell.time.rows, cell.time.mean,
                        cell.time.variance, cell.drawn_mean, cell.drawn_variance, cell.memory.rows, cell.memory.mean,
                        cell.memory.variance);
  return text;
}

Result<std::vector<LeftCell>> load_left_cells(const std::string& path) {
  const auto table = TRY(CsvTable::read(path, {columns.begin(), columns.end()}));
  std::vector<LeftCell> cells;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    LeftCell cell{table.text(row, "set"),
                  {table.text(row, "stack"), table.text(row, "precision"), table.text(row, "model")},
                  table.text(row, "hardware")};
    cell.time = TRY(read_residuals(table, row, ""));
    cell.memory = TRY(read_residuals(table, row, "memory_"));
    cell.drawn_mean = TRY(number(table, row, "drawn_mean"));
    cell.drawn_variance = TRY(number(table, row, "drawn_variance"));
    cells.push_back(std::move(cell));
  }
  return cells;
}

}  // namespace plumbline::calibrate
