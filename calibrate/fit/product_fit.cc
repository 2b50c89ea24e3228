// Products: t = launches * ramp + (elements * (overhead + k * k_time) + operand elements * operand_time) / cores
// + written bytes / gemm.output_bandwidth, the form of model/cost/kernel_cost.cc with gemm.tile = gemm.k_block = 1. One
// ramp for all; the other constants by format, weight gradients apart.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/fit/detail/constant_list.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;

// The entry of the profile by which the cost functions take a product of this format and phase.
std::string entry_of(const FitRecord& record) {
  const bool half = record.format == "bf16" || record.format == "fp16";
  const bool gradient = record.type == model::OperatorClass::weight_gradient_gemm;
  return fmt::format("gemm.{}{}", half ? "bf16" : "fp32", gradient ? "_weight_gradient" : "");
}

double written_bytes(const FitRecord& record) {
  constexpr double single = 4, half = 2;
  if (record.type == model::OperatorClass::weight_gradient_gemm) return 2 * single;  // an FP32 sum is read and written
  return record.format == "bf16" || record.format == "fp16" ? half : single;
}

constexpr std::array<const char*, 3> parts = {".wave_overhead", ".k_time", ".operand_time"};
constexpr auto columns_of_entry = static_cast<Index>(parts.size());

struct Problem {
  std::vector<std::string> entries;  // entry i has the columns from 1 + 3 i on, after that of the ramp
  Eigen::MatrixXd features;
  Eigen::VectorXd seconds, written;
};

Problem problem_of(const std::vector<FitRecord>& records, double bandwidth) {
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
    const double groups = std::max(1.0, record.extent("groups"));
    const double elements = groups * record.extent("m") * record.extent("n");
    const bool gradient = record.type == model::OperatorClass::weight_gradient_gemm;
    const Index entry = std::ranges::find(problem.entries, entry_of(record)) - problem.entries.begin();
    const Index column = 1 + columns_of_entry * entry;
    const auto cores = static_cast<double>(record.cores);
    problem.features(i, 0) = gradient ? groups : 1;  // one kernel for each expert
    problem.features(i, column) = elements / cores;
    problem.features(i, column + 1) = elements * record.extent("k") / cores;
    problem.features(i, column + 2) = groups * (record.extent("m") + record.extent("n")) * record.extent("k") / cores;
    problem.written[i] = elements * written_bytes(record) / bandwidth;
    problem.seconds[i] = record.seconds;
  }
  return problem;
}

// Formats that no record has: the host computes 16-bit products in FP32, and gradients like other products.
void fill_up(ConstantList& constants) {
  const auto copy = [&](const std::string& from, const std::string& to) {
    if (constants.has(to + ".k_time") || !constants.has(from + ".k_time")) return;
    for (const char* part : parts)
      constants.add(to + part, constants.value(from + part), std::nullopt, model::Evidence::assumed,
                    fmt::format("no record, taken as {}", from), "gemm.operand_time");
  };
  for (const std::string format : {"gemm.fp32", "gemm.bf16"}) {
    copy(format + "_weight_gradient", format);
    copy(format, format + "_weight_gradient");
  }
  for (const std::string phase : {"", "_weight_gradient"}) {
    copy("gemm.fp32" + phase, "gemm.bf16" + phase);
    copy("gemm.bf16" + phase, "gemm.fp32" + phase);
  }
}

}  // namespace

void fit_products(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  if (records.products.empty()) return;
  const double bandwidth =
      constants.value(constants.has("gemm.output_bandwidth") ? "gemm.output_bandwidth" : "memory.default.bandwidth");
  const Problem problem = problem_of(records.products, bandwidth);
  const Form form = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd { return problem.features * x + problem.written; };
  const auto fit =
      fit_family("products", form, problem.seconds, starting_point(problem.features, problem.seconds), result);
  if (!fit) return;
  const std::string how = fmt::format("least squares over {} records of products", records.products.size());
  constants.add("gemm.tile", 1, std::nullopt, model::Evidence::assumed, "elements, not tiles, take a core's time");
  constants.add("gemm.k_block", 1, std::nullopt, model::Evidence::assumed, "as gemm.tile");
  constants.add_fitted("gemm.ramp", *fit, 0, how);
  for (std::size_t i = 0; i < problem.entries.size(); ++i) {
    const Index first = 1 + columns_of_entry * static_cast<Index>(i);
    for (std::size_t part = 0; part < parts.size(); ++part)
      constants.add_fitted(problem.entries[i] + parts[part], *fit, first + static_cast<Index>(part), how,
                           "gemm.operand_time");
  }
  fill_up(constants);
}

}  // namespace plumbline::calibrate
