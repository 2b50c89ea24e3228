#include <fmt/format.h>

#include "calibrate/components/detail/component_table.h"
#include "calibrate/components/load.h"
#include "calibrate/components/rows.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

// Parses "1234;695": microseconds and watts.
model::Result<void> read_time_and_power(const CsvTable& csv, std::size_t at, const std::string& column,
                                        HeldGemmRow& gemm) {
  const std::string& cell = csv.text(at, column);
  const auto parts = model::split(cell, ';');
  const auto time = model::parse_number<double>(parts.front());
  const auto power = parts.size() == 2 ? model::parse_number<double>(parts.back()) : std::nullopt;
  if (!time || !power || !(*time > 0) || !(*power > 0) || *time > 1e12 || *power > 1e6)
    return tl::unexpected(csv.error(at, column, fmt::format("'{}' is not 'MICROSECONDS;WATTS'", cell)));
  gemm.seconds = *time * 1e-6;
  gemm.power_w = *power;
  return {};
}

model::Result<void> read_spread(const CsvTable& csv, std::size_t at, GroupedGemmRow& gemm) {
  const auto spread = model::parse_number<double>(csv.text(at, "row_spread"));
  if (!spread || !(*spread >= 0) || *spread > 1)
    return tl::unexpected(csv.error(at, "row_spread", "not a part from 0 to 1"));
  gemm.row_spread = *spread;
  return {};
}

}  // namespace

model::Result<std::vector<GemmRow>> load_gemm_rows(const std::string& path) {
  return components::read_rows<GemmRow>(path, {.columns = {{"software", &GemmRow::software},
                                                           {"format", &GemmRow::format, components::gemm_formats},
                                                           {"m", &GemmRow::m},
                                                           {"n", &GemmRow::n}},
                                               .swept = "k",
                                               .swept_field = &GemmRow::k});
}

model::Result<std::vector<HeldGemmRow>> load_held_gemm_rows(const std::string& path) {
  using Row = HeldGemmRow;
  return components::read_rows<Row>(path, {.columns = {{"software", &Row::software},
                                                       {"format", &Row::format, components::gemm_formats},
                                                       {"power_limit_w", &Row::power_limit_w},
                                                       {"m", &Row::m},
                                                       {"n", &Row::n}},
                                           .swept = "k",
                                           .swept_field = &Row::k,
                                           .read_time = read_time_and_power});
}

model::Result<std::vector<GroupedGemmRow>> load_grouped_gemm_rows(const std::string& path) {
  using Row = GroupedGemmRow;
  return components::read_rows<Row>(path, {.columns = {{"software", &Row::software},
                                                       {"format", &Row::format, components::gemm_formats},
                                                       {"row_spread"},
                                                       {"groups", &Row::groups},
                                                       {"m", &Row::m},
                                                       {"n", &Row::n},
                                                       {"k", &Row::k}},
                                           .finish = read_spread});
}

}  // namespace plumbline::calibrate
