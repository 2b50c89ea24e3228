// The published measurements in calibrate/published/, and what tests derive from them.
#pragma once

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "model/cost/kernel_cost.h"
#include "model/graph/graph.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {

using Row = std::map<std::string, std::string>;  // by column

// One line of a CSV file; quotes protect commas.
inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// calibrate/published/<name>.csv without its comment lines.
inline std::vector<Row> published(const std::string& name) {
  std::ifstream stream(shipped("calibrate/published/" + name + ".csv"));
  std::vector<Row> rows;
  std::vector<std::string> header;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> fields = csv_fields(line);
    if (header.empty()) {
      header = fields;
      continue;
    }
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = i < fields.size() ? fields[i] : "";
  }
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
  double start = 0, duration = 0;
  double beside_transfer = 0;  // share of the duration during which a transfer kernel runs

  double end() const { return start + duration; }
  std::string name() const { return note.substr(0, note.find(':')); }
  Shape shape() const {  // of products
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
    kernel.start = number(row, "start_us");
    kernel.duration = number(row, "dur_us");
  }
  for (Kernel& kernel : kernels) {
    double beside = 0;
    for (const Kernel& other : kernels) {
      if (!is_transfer(other)) continue;
      beside += std::max(0.0, std::min(kernel.end(), other.end()) - std::max(kernel.start, other.start));
    }
    kernel.beside_transfer = beside / std::max(1.0, kernel.duration);
  }
  return kernels;
}

// Kernels of a class, in order of their start; slots below `slots`, phase '*' for any.
inline std::vector<Kernel> select(const std::vector<Kernel>& kernels, const std::string& kind, char phase,
                                  int slots = 4) {
  std::vector<Kernel> selected;
  for (const Kernel& kernel : kernels) {
    if (kernel.kind == kind && (phase == '*' || kernel.phase == phase) && kernel.slot < slots)
      selected.push_back(kernel);
  }
  return selected;
}

// Weight gradients of one expert matrix run as one kernel per expert, two at a time on two streams: one
// measurement from the first start to the last end, without the three launch gaps in between.
inline std::vector<Kernel> grouped_weight_gradients(const std::vector<Kernel>& kernels, double launch_gap) {
  std::vector<Kernel> unions;
  for (int slot = 0; slot < 4; ++slot) {
    for (const char* name : {"ex_down", "ex_gateup"}) {
      Kernel whole;
      double end = 0;
      double count = 0;
      for (const Kernel& kernel : kernels) {
        if (kernel.kind != "gemm_fp8_wgrad_grouped" || kernel.slot != slot || kernel.name() != name) continue;
        if (count == 0) whole = kernel;
        whole.beside_transfer = count == 0 ? kernel.beside_transfer : whole.beside_transfer + kernel.beside_transfer;
        end = std::max(end, kernel.end());
        ++count;
      }
      whole.beside_transfer /= count;
      whole.duration = end - whole.start - (count - 1) * launch_gap;
      unions.push_back(whole);
    }
  }
  return unions;
}

struct WavePoint {
  double waves = 0, k = 0, time = 0;
};

inline double waves(const Shape& shape, double sms) {
  constexpr double tile = 128;
  return std::ceil(shape.groups * std::ceil(shape.m / tile) * std::ceil(shape.n / tile) / sms);
}

// time = waves * (overhead + k * per_k), least squares of the relative error.
struct WaveFit {
  double overhead = 0, per_k = 0;
};
inline WaveFit fit_waves(const std::vector<WavePoint>& points) {
  Eigen::MatrixX2d a(points.size(), 2);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const WavePoint& p = points[i];
    a.row(static_cast<Eigen::Index>(i)) << p.waves / p.time, p.waves * p.k / p.time;
  }
  const Eigen::Vector2d x = a.colPivHouseholderQr().solve(Eigen::VectorXd::Ones(a.rows()));
  return {x(0), x(1)};
}

// The product as an operator, so that the cost function itself predicts it.
struct ProductGraph {
  model::Graph graph;
  model::Operator op;
};
inline ProductGraph product(const Shape& s, bool weight_gradient) {
  using model::DataType;
  const auto size = [](double value) { return model::Dimension{static_cast<std::int64_t>(value), {}}; };
  const bool grouped = s.groups > 1;
  ProductGraph p;
  model::Tensor a{"a", {size(s.m), size(s.k)}, DataType::fp8_tile};
  model::Tensor b{"b", {size(s.n), size(s.k)}, DataType::fp8_block};
  model::Tensor c{"c", {size(s.m), size(s.n)}, weight_gradient ? DataType::fp32 : DataType::bf16};
  if (grouped && weight_gradient) {  // reduced over each expert's rows
    a.shape = {size(s.m), size(s.groups * s.k)};
    b.shape = {size(s.n), size(s.groups * s.k)};
    c.shape.insert(c.shape.begin(), size(s.groups));
  } else if (grouped) {
    a.shape[0] = c.shape[0] = size(s.groups * s.m);
    b.shape.insert(b.shape.begin(), size(s.groups));
  }
  p.graph.tensors = {a, b, c};
  p.op.kind = grouped ? model::OperatorKind::grouped_matmul : model::OperatorKind::matmul;
  p.op.phase = weight_gradient ? model::Phase::W : model::Phase::F;
  p.op.reads = {0, 1};
  p.op.writes = {2};
  p.op.attributes = model::MatmulAttributes{false, true, weight_gradient};
  return p;
}

// Microseconds of a product alone, without launch gaps.
inline double product_time(const model::KernelCost& cost, const Shape& shape, bool weight_gradient, std::int64_t sms) {
  const ProductGraph p = product(shape, weight_gradient);
  const model::KernelTime time = cost.time(p.graph, p.op, {.sms = sms});
  return (time.shares[0].seconds + time.shares[1].seconds) * 1e6;
}

}  // namespace plumbline::tests
