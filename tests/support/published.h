// Reads the published measurements in calibrate/published/ and derives figures for tests.
#pragma once

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "calibrate/measurement/csv_table.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {

using Row = std::map<std::string, std::string>;  // by column

// Reads calibrate/published/<name>.csv.
inline std::vector<Row> published(const std::string& name) {
  const auto csv = calibrate::CsvTable::read(shipped("calibrate/published/" + name + ".csv"), {}).value();
  std::vector<Row> rows(csv.rows());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const std::string& column : csv.columns()) rows[i][column] = csv.text(i, column);
  return rows;
}

inline double number(const Row& row, const std::string& column) { return std::stod(row.at(column)); }

struct Shape {
  double groups = 1, m = 0, n = 0, k = 0;
};

// A kernel of the published chunk pair; times in microseconds.
struct Kernel {
  std::string kind, note;  // "gemm_fp8", "q_a:fprop:4096x1536x7168"
  char phase = 'F';
  int stream = 0;
  int slot = 0;  // 0..3: forward layer s runs with backward layer 3 - s
  int grid = 0;  // blocks
  double start = 0, duration = 0;
  double overlapped_transfer = 0;  // share of the duration during which a transfer kernel runs

  double end() const { return start + duration; }
  std::string name() const { return note.substr(0, note.find(':')); }
  Shape shape() const {  // only of a GEMM
    Shape s;
    const std::string dimensions = note.substr(note.rfind(':') + 1);
    if (std::sscanf(dimensions.c_str(), "%lfx%lfx%lf", &s.m, &s.n, &s.k) != 3) return {};
    return s;
  }
};

inline bool is_transfer(const Kernel& kernel) {
  return kernel.kind == "dispatch_kernel" || kernel.kind == "combine_kernel";
}

inline std::vector<Kernel> chunk_kernels() {
  std::vector<Kernel> kernels;
  for (const Row& row : published("h800_dualpipe_chunk")) {
    Kernel& kernel = kernels.emplace_back();
    kernel.kind = row.at("class");
    kernel.note = row.at("note");
    kernel.phase = row.at("phase")[0];
    kernel.stream = std::stoi(row.at("stream"));
    const int layer = std::stoi(row.at("layer"));
    kernel.slot = kernel.phase == 'F' ? layer : 3 - layer;
    kernel.grid = std::stoi(row.at("grid_ctas"));
    kernel.start = number(row, "start_us");
    kernel.duration = number(row, "dur_us");
  }
  for (Kernel& kernel : kernels) {
    double overlapped = 0;
    for (const Kernel& other : kernels) {
      if (!is_transfer(other)) continue;
      overlapped += std::max(0.0, std::min(kernel.end(), other.end()) - std::max(kernel.start, other.start));
    }
    kernel.overlapped_transfer = overlapped / std::max(1.0, kernel.duration);
  }
  return kernels;
}

// Returns the kernels of a class in order of their start; slots below `slots`, phase '*' for any.
inline std::vector<Kernel> select(const std::vector<Kernel>& kernels, const std::string& kind, char phase,
                                  int slots = 4) {
  std::vector<Kernel> selected;
  for (const Kernel& kernel : kernels)
    if (kernel.kind == kind && (phase == '*' || kernel.phase == phase) && kernel.slot < slots)
      selected.push_back(kernel);
  return selected;
}

inline double waves(const Shape& shape, double sms) {
  constexpr double tile = 128;
  return std::ceil(shape.groups * std::ceil(shape.m / tile) * std::ceil(shape.n / tile) / sms);
}

// Returns the microseconds in which a GEMM writes its tiles.
inline double writing(const Shape& shape, double bytes_per_element, double bytes_per_us) {
  const double tiles = shape.groups * std::ceil(shape.m / 128) * std::ceil(shape.n / 128);
  return tiles * 128 * 128 * bytes_per_element / bytes_per_us;
}

// Returns the inner dimension that kernels read: whole blocks of 128.
inline double padded(double k) { return std::ceil(k / 128) * 128; }

struct WavePoint {
  double waves = 0, k = 0;
  double explained = 0;  // time to explain, in any unit
  double measured = 0;   // the whole time, to which the error is relative
};

// explained = ramp + waves * (overhead + k * per_k), by least squares of the error relative to the measured time.
struct WaveFit {
  double ramp = 0, overhead = 0, per_k = 0;
};
inline WaveFit fit_waves(const std::vector<WavePoint>& points, bool with_ramp) {
  const auto count = static_cast<Eigen::Index>(points.size());
  Eigen::MatrixXd a(count, with_ramp ? 3 : 2);
  Eigen::VectorXd y(count);
  for (Eigen::Index row = 0; row < count; ++row) {
    const WavePoint& p = points[static_cast<std::size_t>(row)];
    a(row, 0) = p.waves / p.measured;
    a(row, 1) = p.waves * p.k / p.measured;
    if (with_ramp) a(row, 2) = 1 / p.measured;
    y(row) = p.explained / p.measured;
  }
  const Eigen::VectorXd x = a.colPivHouseholderQr().solve(y);
  return {with_ramp ? x(2) : 0, x(0), x(1)};
}

}  // namespace plumbline::tests
