#include "real/cuda/probe/group_rows.h"

#include <cstddef>

#include "real/cuda/kernels/arithmetic.h"

namespace plumbline::real::cuda {

std::int64_t rows_of_group(const Case& value) { return value.phase == "W" ? value.k : value.m; }

std::vector<std::int64_t> group_rows(const Case& value) {
  const std::int64_t mean = rows_of_group(value);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(value.groups), mean);
  if (value.rows_by != "zipf") return rows;
  double sum = 0;
  for (std::int64_t rank = 1; rank <= value.groups; ++rank) sum += 1.0 / static_cast<double>(rank);
  // One block each; of the others the share, rounded down. What that leaves goes to the largest groups.
  std::int64_t left = mean / scale_tile * value.groups - value.groups;
  const auto shared = static_cast<double>(left);
  for (std::size_t group = 0; group < rows.size(); ++group) {
    const auto share = static_cast<std::int64_t>(shared / sum / static_cast<double>(group + 1));
    rows[group] = (1 + share) * scale_tile;
    left -= share;
  }
  for (std::size_t group = 0; left > 0; ++group, --left) rows[group % rows.size()] += scale_tile;
  return rows;
}

}  // namespace plumbline::real::cuda
