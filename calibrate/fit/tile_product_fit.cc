// Products of a GPU: t = launches * ramp + waves * (overhead + k * k_time) + written bytes / gemm.output_bandwidth, the
// form of model/cost/kernel_cost.cc, with the tiles and the output bandwidth of the base profile. One ramp for all; the
// other constants by format, weight gradients apart.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/fit/detail/constant_list.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;

bool is_weight_gradient(const FitRecord& record) { return record.type == model::OperatorClass::weight_gradient_gemm; }

// The entry of the profile by which the cost functions take a product of this format and phase.
std::string entry_of(const FitRecord& record) {
  const std::string format = record.format.starts_with("fp8") ? "fp8" : record.format == "fp32" ? "fp32" : "bf16";
  return fmt::format("gemm.{}{}", format, is_weight_gradient(record) ? "_weight_gradient" : "");
}

// Of one element: an FP32 sum is read and written, FP8 operands give a 16-bit result.
double written_bytes(const FitRecord& record) {
  constexpr double single = 4, half = 2;
  if (is_weight_gradient(record)) return 2 * single;
  return record.format == "fp32" ? single : half;
}

constexpr std::array<const char*, 2> parts = {".wave_overhead", ".k_time"};
constexpr auto columns_of_entry = static_cast<Index>(parts.size());

struct Tiles {
  double size, k_block;
};

struct Work {
  double launches, waves, k, written;  // of all launches; written in bytes
};

Work work_of(const FitRecord& record, const Tiles& tiles) {
  const double groups = std::max(1.0, record.extent("groups"));
  const double launches = is_weight_gradient(record) ? groups : 1;  // one kernel for each expert
  const double of_group = std::ceil(record.extent("m") / tiles.size) * std::ceil(record.extent("n") / tiles.size);
  const double of_launch = of_group * groups / launches;
  return {launches, launches * std::ceil(of_launch / static_cast<double>(record.cores)),
          std::ceil(record.extent("k") / tiles.k_block) * tiles.k_block,
          launches * of_launch * tiles.size * tiles.size * written_bytes(record)};
}

struct Problem {
  std::vector<std::string> entries;  // entry i has the columns from 1 + 2 i on, after that of the ramp
  Eigen::MatrixXd features;
  Eigen::VectorXd seconds, written;
};

Problem problem_of(const std::vector<FitRecord>& records, const Tiles& tiles, double bandwidth) {
  Problem problem;
  for (const FitRecord& record : records)
    if (std::ranges::find(problem.entries, entry_of(record)) == problem.entries.end())
      problem.entries.push_back(entry_of(record));
  const auto rows = static_cast<Index>(records.size());
  problem.features = Eigen::MatrixXd::Zero(rows, 1 + columns_of_entry * static_cast<Index>(problem.entries.size()));
  problem.seconds.resize(rows);
  problem.written.resize(rows);
  for (Index i = 0; i < rows; ++i) {
    const FitRecord& record = records[static_cast<std::size_t>(i)];
    const Work work = work_of(record, tiles);
    const Index entry = std::ranges::find(problem.entries, entry_of(record)) - problem.entries.begin();
    const Index column = 1 + columns_of_entry * entry;
    problem.features(i, 0) = work.launches;
    problem.features(i, column) = work.waves;
    problem.features(i, column + 1) = work.waves * work.k;
    problem.written[i] = work.written / bandwidth;
    problem.seconds[i] = record.seconds;
  }
  return problem;
}

}  // namespace

void fit_tile_products(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  if (records.products.empty()) return;
  const double bandwidth =
      constants.value(constants.has("gemm.output_bandwidth") ? "gemm.output_bandwidth" : "memory.default.bandwidth");
  const Tiles tiles{constants.value("gemm.tile"), constants.value("gemm.k_block")};
  const Problem problem = problem_of(records.products, tiles, bandwidth);
  const Form form = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd { return problem.features * x + problem.written; };
  const auto fit =
      fit_family("products", form, problem.seconds, starting_point(problem.features, problem.seconds), result);
  if (!fit) return;
  const std::string how = fmt::format("least squares over {} records of products", records.products.size());
  constants.add_fitted("gemm.ramp", *fit, 0, how);
  for (std::size_t i = 0; i < problem.entries.size(); ++i) {
    const Index first = 1 + columns_of_entry * static_cast<Index>(i);
    for (std::size_t part = 0; part < parts.size(); ++part)
      constants.add_fitted(problem.entries[i] + parts[part], *fit, first + static_cast<Index>(part), how);
  }
}

}  // namespace plumbline::calibrate
