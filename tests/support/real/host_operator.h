// Runs one operator of the host on matrices, without the graph of a model.
#pragma once

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "real/host/operators/operators.h"
#include "real/host/pool.h"

namespace plumbline::tests {

using FloatMatrix = real::host::Matrix;

struct HostOperator {
  model::OperatorKind kind;
  model::Attributes attributes;
  std::vector<FloatMatrix> reads, writes;        // writes: the values before the operator runs
  model::DataType type = model::DataType::fp32;  // of the results
  model::DataType accumulation = model::DataType::fp32;
  int cores = 1;
  real::Kernel kernel = {};  // parts, numbers, weights; the rest follows from the members above
};

inline std::unique_ptr<real::host::HostBuffer> make_buffer(real::host::Pool& pool, model::DataType type,
                                                           const FloatMatrix& value) {
  auto buffer = std::make_unique<real::host::HostBuffer>(pool, type, value.rows(), value.cols());
  buffer->matrix() = value;
  return buffer;
}

// Memory and a graph of one operator, ready to run.
class HostOperatorMemory {
 public:
  explicit HostOperatorMemory(const HostOperator& host) : kernel_(host.kernel), reads_(host.reads.size()) {
    op_.kind = host.kind;
    op_.attributes = host.attributes;
    for (const FloatMatrix& value : host.reads) add(value, model::DataType::fp32, op_.reads, kernel_.reads);
    for (const FloatMatrix& value : host.writes) add(value, host.type, op_.writes, kernel_.writes);
    kernel_.graph = &graph_;
    kernel_.op = &op_;
  }
  HostOperatorMemory(const HostOperatorMemory&) = delete;
  HostOperatorMemory& operator=(const HostOperatorMemory&) = delete;

  const real::Kernel& kernel() const { return kernel_; }
  std::vector<FloatMatrix> written() const {
    std::vector<FloatMatrix> values;
    for (std::size_t i = reads_; i < buffers_.size(); ++i) values.emplace_back(std::as_const(*buffers_[i]).matrix());
    return values;
  }

 private:
  void add(const FloatMatrix& value, model::DataType type, std::vector<model::TensorId>& ids,
           std::vector<real::Buffer*>& operands) {
    ids.push_back(static_cast<model::TensorId>(graph_.tensors.size()));
    graph_.tensors.push_back({.shape = {{value.rows()}, {value.cols()}}, .type = type});
    operands.push_back(buffers_.emplace_back(make_buffer(pool_, type, value)).get());
  }

  model::Graph graph_;
  model::Operator op_;
  real::Kernel kernel_;
  std::size_t reads_;
  real::host::Pool pool_;
  std::vector<std::unique_ptr<real::host::HostBuffer>> buffers_;
};

// Returns what the operator has written.
inline std::vector<FloatMatrix> run_on_host(const HostOperator& host) {
  HostOperatorMemory memory(host);
  real::host::Cores cores(host.cores);
  real::host::run({memory.kernel(), cores, host.accumulation});
  return memory.written();
}

inline FloatMatrix random_floats(real::host::Index rows, real::host::Index columns, model::Random& random) {
  return FloatMatrix::NullaryExpr(rows, columns, [&] { return static_cast<float>(random.normal()); });
}

inline FloatMatrix no_floats(real::host::Index rows, real::host::Index columns) {
  return FloatMatrix::Zero(rows, columns);
}

// Returns the largest difference relative to the largest entry.
inline double difference(const FloatMatrix& a, const FloatMatrix& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return INFINITY;
  if (a.size() == 0) return 0;
  const float largest = b.cwiseAbs().maxCoeff();
  return (a - b).cwiseAbs().maxCoeff() / (largest > 0 ? largest : 1);
}

}  // namespace plumbline::tests
