// Fits GEMMs: t = launches * ramp + sum of parts * constants + written bytes / gemm.output_bandwidth, the form of
// model/cost/kernel_cost.cc. All share one ramp; the other constants are by format, weight gradients apart. On cores
// the time is that of elements, not tiles (gemm.tile = gemm.k_block = 1), and of loading operands. On a GPU it is that
// of waves of the base profile's tiles.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/fit/detail/constant_list.h"

namespace plumbline::calibrate {
namespace {

using Eigen::Index;

bool is_weight_gradient(const FitRecord& record) { return record.type == model::OperatorClass::weight_gradient_gemm; }

// The contribution of one record to the form.
struct Terms {
  double launches;
  std::vector<double> parts;  // factors of the constants of its entry
  double written;             // bytes
};

// The form of GEMMs on one kind of device.
struct RecordForm {
  std::vector<const char*> parts;                       // name suffixes of the constants of an entry
  std::function<std::string(const FitRecord&)> format;  // the key by which the cost functions find the entry
  std::function<Terms(const FitRecord&)> terms;
};

// Returns the profile's entry for a GEMM of this format and phase.
std::string entry_of(const RecordForm& form, const FitRecord& record) {
  return fmt::format("gemm.{}{}", form.format(record), is_weight_gradient(record) ? "_weight_gradient" : "");
}

// Returns a constant of every base profile in whose unit one with this suffix is written.
std::string like_of(const std::string& part) { return (part == ".operand_time" ? "gemm" : "gemm.bf16") + part; }

// Returns the written bytes of the result; the FP32 sum of a weight gradient is read and written.
double written_bytes(const FitRecord& record, bool half) {
  constexpr double single_bytes = 4, half_bytes = 2;
  if (is_weight_gradient(record)) return 2 * single_bytes;
  return half ? half_bytes : single_bytes;
}

RecordForm form_of_cores() {
  const auto half = [](const FitRecord& record) { return record.format == "bf16" || record.format == "fp16"; };
  return {{".wave_overhead", ".k_time", ".operand_time"},
          [half](const FitRecord& record) { return half(record) ? "bf16" : "fp32"; },
          [half](const FitRecord& record) -> Terms {
            const double groups = std::max(1.0, record.extent("groups"));
            const double elements = groups * record.extent("m") * record.extent("n");
            const double operands = groups * (record.extent("m") + record.extent("n")) * record.extent("k");
            const auto cores = static_cast<double>(record.cores);
            return {is_weight_gradient(record) ? groups : 1,  // one kernel for each expert
                    {elements / cores, elements * record.extent("k") / cores, operands / cores},
                    elements * written_bytes(record, half(record))};
          }};
}

// FP8 operands have a 16-bit result.
RecordForm form_of_tiles(double tile, double k_block) {
  const auto format = [](const FitRecord& record) {
    if (record.format == "fp8" || record.format == "fp8_tensor") return "fp8_tensor";  // one scale per tensor
    return record.format.starts_with("fp8") ? "fp8" : record.format == "fp32" ? "fp32" : "bf16";
  };
  return {{".wave_overhead", ".k_time"}, format, [=](const FitRecord& record) -> Terms {
            const double groups = std::max(1.0, record.extent("groups"));
            const double usual = is_weight_gradient(record) ? groups : 1;  // one kernel for each expert
            const double launches = record.launches > 0 ? record.launches : usual;
            const double of_group = std::ceil(record.extent("m") / tile) * std::ceil(record.extent("n") / tile);
            const double of_launch = of_group * groups / launches;
            const double waves = launches * std::ceil(of_launch / static_cast<double>(record.cores));
            const double k = std::ceil(record.extent("k") / k_block) * k_block;
            return {launches,
                    {waves, waves * k},
                    launches * of_launch * tile * tile * written_bytes(record, record.format != "fp32")};
          }};
}

struct GemmProblem {
  std::vector<std::string> entries;  // entries have consecutive columns, after the ramp's column
  Eigen::MatrixXd features;          // [record, 1 + parts * entries]
  Eigen::VectorXd seconds, written;  // [record]: of the whole time, and of writing
};

GemmProblem problem_of(const std::vector<FitRecord>& records, const RecordForm& form, double bandwidth) {
  GemmProblem problem;
  for (const FitRecord& record : records)
    if (std::ranges::find(problem.entries, entry_of(form, record)) == problem.entries.end())
      problem.entries.push_back(entry_of(form, record));
  const auto rows = static_cast<Index>(records.size());
  const auto parts = static_cast<Index>(form.parts.size());
  problem.features = Eigen::MatrixXd::Zero(rows, 1 + parts * static_cast<Index>(problem.entries.size()));
  problem.seconds.resize(rows);
  problem.written.resize(rows);
  for (Index i = 0; i < rows; ++i) {
    const FitRecord& record = records[static_cast<std::size_t>(i)];
    const Terms terms = form.terms(record);
    const Index entry = std::ranges::find(problem.entries, entry_of(form, record)) - problem.entries.begin();
    problem.features(i, 0) = terms.launches;
    for (Index part = 0; part < parts; ++part)
      problem.features(i, 1 + parts * entry + part) = terms.parts[static_cast<std::size_t>(part)];
    problem.written[i] = terms.written / bandwidth;
    problem.seconds[i] = record.seconds;
  }
  return problem;
}

// Fits the form and adds its constants, except those of tiles; returns false when the records are too few.
bool fit_form(const FitRecords& records, const RecordForm& form, ConstantList& constants, ProfileFit& result) {
  if (records.gemms.empty()) return false;
  const double bandwidth =
      constants.value(constants.has("gemm.output_bandwidth") ? "gemm.output_bandwidth" : "memory.default.bandwidth");
  const GemmProblem problem = problem_of(records.gemms, form, bandwidth);
  const Form seconds = [&](const Eigen::VectorXd& x) -> Eigen::VectorXd {
    return problem.features * x + problem.written;
  };
  const auto fit =
      fit_family("GEMMs", seconds, problem.seconds, starting_point(problem.features, problem.seconds), result);
  if (!fit) return false;
  const std::string how = fmt::format("least squares over {} records of GEMMs", records.gemms.size());
  constants.add_fitted("gemm.ramp", *fit, 0, how);
  for (std::size_t i = 0; i < problem.entries.size(); ++i)
    for (std::size_t part = 0; part < form.parts.size(); ++part)
      constants.add_fitted(problem.entries[i] + form.parts[part], *fit,
                           static_cast<Index>(1 + form.parts.size() * i + part), how, like_of(form.parts[part]));
  return true;
}

// Copies constants to formats without records: the host computes 16-bit GEMMs in FP32, and weight gradients like other
// GEMMs.
void fill_up(const RecordForm& form, ConstantList& constants) {
  const auto copy = [&](const std::string& from, const std::string& to) {
    if (constants.has(to + ".k_time") || !constants.has(from + ".k_time")) return;
    for (const char* part : form.parts)
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

void fit_core_gemms(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  const RecordForm form = form_of_cores();
  if (!fit_form(records, form, constants, result)) return;
  constants.add("gemm.tile", 1, std::nullopt, model::Evidence::assumed, "elements, not tiles, take a core's time");
  constants.add("gemm.k_block", 1, std::nullopt, model::Evidence::assumed, "as gemm.tile");
  fill_up(form, constants);
}

void fit_tile_gemms(const FitRecords& records, ConstantList& constants, ProfileFit& result) {
  fit_form(records, form_of_tiles(constants.value("gemm.tile"), constants.value("gemm.k_block")), constants, result);
}

}  // namespace plumbline::calibrate
