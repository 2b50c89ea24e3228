#include <fmt/format.h>

#include "calibrate/components/detail/component_table.h"
#include "calibrate/components/load.h"
#include "calibrate/components/rows.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

using components::ComponentTable;

// Returns the parts of a row that all its cells share.
model::Result<GemmRow> gemm_of(const ComponentTable& table, std::size_t row) {
  GemmRow gemm;
  gemm.software = TRY(table.name(row, "software"));
  gemm.format = TRY(table.one_of(row, "format", {"bf16", "fp8", "fp8_block", "nvfp4", "mxfp4"}));
  gemm.m = TRY(table.csv().whole(row, "m"));
  gemm.n = TRY(table.csv().whole(row, "n"));
  return gemm;
}

model::Result<void> check(ComponentTable& table, std::size_t row, std::string_view column, const GemmRow& gemm,
                          const DensePeaks& peaks) {
  const double flops = 2.0 * static_cast<double>(gemm.m * gemm.n) * static_cast<double>(gemm.k);
  TRY(table.first(row, {"software", "format", "m", "n"}, fmt::format("{}", gemm.k)));
  return table.within(peaks, row, column, gemm.format, flops, gemm.seconds);
}

// Parses "1234;695": microseconds and watts.
model::Result<void> set_time_and_power(const CsvTable& csv, std::size_t row, const std::string& column,
                                       HeldGemmRow& gemm) {
  const std::string& cell = csv.text(row, column);
  const auto parts = model::split(cell, ';');
  const auto time = model::parse_number<double>(parts.front());
  const auto power = parts.size() == 2 ? model::parse_number<double>(parts.back()) : std::nullopt;
  if (!time || !power || !(*time > 0) || !(*power > 0) || *time > 1e12 || *power > 1e6)
    return tl::unexpected(csv.error(row, column, fmt::format("'{}' is not 'MICROSECONDS;WATTS'", cell)));
  gemm.seconds = *time * 1e-6;
  gemm.power_w = *power;
  return {};
}

}  // namespace

model::Result<std::vector<GemmRow>> load_gemm_rows(const std::string& path, const DensePeaks& peaks) {
  const auto read = [&](ComponentTable& table, std::size_t row, std::vector<GemmRow>& rows) -> model::Result<void> {
    GemmRow gemm = TRY(gemm_of(table, row));
    if (table.csv().has("k") && table.csv().has("time_us")) {
      gemm.k = TRY(table.csv().whole(row, "k"));
      gemm.seconds = TRY(table.seconds(row, "time_us"));
      TRY(check(table, row, "time_us", gemm, peaks));
      rows.push_back(std::move(gemm));
      return {};
    }
    const auto columns = TRY(table.filled_columns(row, "k"));
    for (const auto& [k, column] : columns) {
      gemm.k = k;
      gemm.seconds = TRY(table.seconds(row, column));
      TRY(check(table, row, column, gemm, peaks));
      rows.push_back(gemm);
    }
    return {};
  };
  return components::read_rows<GemmRow>(path, {"software", "format", "m", "n"}, read);
}

model::Result<std::vector<HeldGemmRow>> load_held_gemm_rows(const std::string& path, const DensePeaks& peaks) {
  const auto read = [&](ComponentTable& table, std::size_t row, std::vector<HeldGemmRow>& rows) -> model::Result<void> {
    HeldGemmRow gemm{TRY(gemm_of(table, row)), 0, 0};
    gemm.power_limit_w = TRY(table.csv().positive(row, "power_limit_w"));
    const auto columns = TRY(table.filled_columns(row, "k"));
    for (const auto& [k, column] : columns) {
      gemm.k = k;
      TRY(set_time_and_power(table.csv(), row, column, gemm));
      TRY(check(table, row, column, gemm, peaks));
      rows.push_back(gemm);
    }
    return {};
  };
  return components::read_rows<HeldGemmRow>(path, {"software", "format", "power_limit_w", "m", "n"}, read);
}

model::Result<std::vector<GroupedGemmRow>> load_grouped_gemm_rows(const std::string& path) {
  const auto read = [&](ComponentTable& table, std::size_t row, auto& rows) -> model::Result<void> {
    const CsvTable& csv = table.csv();
    GroupedGemmRow gemm;
    gemm.software = TRY(table.name(row, "software"));
    gemm.format = TRY(table.one_of(row, "format", {"bf16", "fp8", "fp8_block", "nvfp4", "mxfp4"}));
    const auto spread = model::parse_number<double>(csv.text(row, "row_spread"));
    if (!spread || !(*spread >= 0) || *spread > 1)
      return tl::unexpected(csv.error(row, "row_spread", "not a part from 0 to 1"));
    gemm.row_spread = *spread;
    gemm.groups = TRY(csv.whole(row, "groups"));
    gemm.m = TRY(csv.whole(row, "m"));
    gemm.n = TRY(csv.whole(row, "n"));
    gemm.k = TRY(csv.whole(row, "k"));
    gemm.seconds = TRY(table.seconds(row, "time_us"));
    TRY(table.first(row, {"software", "format", "row_spread", "groups", "m", "n", "k"}));
    rows.push_back(std::move(gemm));
    return {};
  };
  return components::read_rows<GroupedGemmRow>(
      path, {"software", "format", "row_spread", "groups", "m", "n", "k", "time_us"}, read);
}

}  // namespace plumbline::calibrate
