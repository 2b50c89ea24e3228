#include "tests/support/collective_curves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "calibrate/measurement/csv_table.h"

namespace plumbline::tests {
namespace {

constexpr double microsecond = 1e-6;

// Returns the curve of a row without the row's point.
model::Result<CollectiveCurve> header_of(const calibrate::CsvTable& table, std::size_t row) {
  CollectiveCurve curve;
  curve.name = table.text(row, "curve");
  curve.hardware = table.text(row, "hardware");
  curve.source = table.text(row, "source");
  const auto collective = model::parse_collective(table.text(row, "collective"));
  if (!collective) return table.wrong(row, "collective", collective.error().message);
  curve.collective = *collective;
  const auto gpus = table.positive(row, "gpus");
  if (!gpus) return tl::unexpected(gpus.error());
  const auto nodes = table.positive(row, "nodes");
  if (!nodes) return tl::unexpected(nodes.error());
  if (*gpus != std::floor(*gpus) || *nodes != std::floor(*nodes) || std::fmod(*gpus, *nodes) != 0)
    return table.wrong(row, "gpus", "GPUs do not divide by nodes");
  curve.group = {static_cast<std::int64_t>(*gpus), static_cast<std::int64_t>(*gpus / *nodes)};
  return curve;
}

bool same_experiment(const CollectiveCurve& a, const CollectiveCurve& b) {
  return a.collective == b.collective && a.group.ranks == b.group.ranks &&
         a.group.ranks_per_node == b.group.ranks_per_node;
}

}  // namespace

model::Result<std::vector<CollectiveCurve>> read_collective_curves(const std::string& path) {
  const auto table = calibrate::CsvTable::read(
      path, {"curve", "hardware", "nodes", "gpus", "collective", "bytes", "time_us", "source"});
  if (!table) return tl::unexpected(table.error());
  std::vector<CollectiveCurve> curves;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    auto header = header_of(*table, row);
    if (!header) return tl::unexpected(header.error());
    auto curve = std::ranges::find(curves, header->name, &CollectiveCurve::name);
    if (curve == curves.end())
      curve = curves.insert(curve, std::move(*header));
    else if (!same_experiment(*curve, *header))
      return table->wrong(row, "curve", "another collective or group than in the curve's first row");
    const auto bytes = table->positive(row, "bytes");
    if (!bytes) return tl::unexpected(bytes.error());
    const auto time = table->positive(row, "time_us");
    if (!time) return tl::unexpected(time.error());
    curve->points.push_back({*bytes, *time * microsecond});
  }
  for (CollectiveCurve& curve : curves) std::ranges::stable_sort(curve.points, {}, &CollectiveCurve::Point::bytes);
  return curves;
}

}  // namespace plumbline::tests
