// One operator of the host, run on matrices without a graph behind it.
#pragma once

#include <memory>
#include <vector>

#include "model/random.h"
#include "real/host/operators/operators.h"
#include "real/host/pool.h"

namespace plumbline::tests {

using FloatMatrix = real::host::Matrix;

struct HostOperator {
  model::OperatorKind kind;
  model::Attributes attributes;
  std::vector<FloatMatrix> reads, writes;        // writes: what they hold before
  model::DataType type = model::DataType::fp32;  // of what is written
  model::DataType accumulation = model::DataType::fp32;
  int cores = 1;
  real::Kernel kernel = {};  // parts, numbers, weights; the rest follows from what stands above
};

inline std::unique_ptr<real::host::HostBuffer> make_buffer(real::host::Pool& pool, model::DataType type,
                                                           const FloatMatrix& value) {
  auto buffer = std::make_unique<real::host::HostBuffer>(pool, type, value.rows(), value.cols());
  buffer->matrix() = value;
  return buffer;
}

// What it has written.
inline std::vector<FloatMatrix> run_on_host(const HostOperator& host) {
  model::Graph graph;
  model::Operator op{.kind = host.kind, .attributes = host.attributes};
  real::host::Pool pool;
  std::vector<std::unique_ptr<real::host::HostBuffer>> buffers;
  real::Kernel kernel = host.kernel;
  const auto add = [&](const FloatMatrix& value, model::DataType type, auto& ids, auto& operands) {
    ids.push_back(static_cast<model::TensorId>(graph.tensors.size()));
    graph.tensors.push_back({.shape = {{value.rows()}, {value.cols()}}, .type = type});
    operands.push_back(buffers.emplace_back(make_buffer(pool, type, value)).get());
  };
  for (const FloatMatrix& value : host.reads) add(value, model::DataType::fp32, op.reads, kernel.reads);
  for (const FloatMatrix& value : host.writes) add(value, host.type, op.writes, kernel.writes);
  kernel.graph = &graph;
  kernel.op = &op;
  real::host::Cores cores(host.cores);
  real::host::run({kernel, cores, host.accumulation});
  std::vector<FloatMatrix> written;
  for (std::size_t i = 0; i < host.writes.size(); ++i) {
    const auto& buffer = *buffers[host.reads.size() + i];
    written.emplace_back(buffer.matrix());
  }
  return written;
}

inline FloatMatrix random_floats(real::host::Index rows, real::host::Index columns, model::Random& random) {
  return FloatMatrix::NullaryExpr(rows, columns, [&] { return static_cast<float>(random.normal()); });
}

inline FloatMatrix no_floats(real::host::Index rows, real::host::Index columns) {
  return FloatMatrix::Zero(rows, columns);
}

// Relative to the largest entry.
inline double difference(const FloatMatrix& a, const FloatMatrix& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return INFINITY;
  if (a.size() == 0) return 0;
  const float largest = b.cwiseAbs().maxCoeff();
  return (a - b).cwiseAbs().maxCoeff() / (largest > 0 ? largest : 1);
}

}  // namespace plumbline::tests
