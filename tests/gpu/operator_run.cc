#include "tests/gpu/operator_run.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <utility>

#include "model/base/random.h"
#include "real/cuda/operators/operators.h"
#include "tests/gpu/error_table.h"

namespace plumbline::tests {
namespace {

using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix stored(real::cuda::CudaDevice& device, const real::Buffer& buffer) {
  const auto& memory = static_cast<const real::cuda::CudaBuffer&>(buffer);
  const std::vector<float> values = device.read(buffer);
  return Eigen::Map<const Floats>(values.data(), memory.rows(), memory.columns()).cast<double>();
}

void spoil(real::cuda::CudaDevice& device, const real::cuda::CudaBuffer& buffer) {
  device.enqueue(model::Stream::compute, 0, [&](cudaStream_t stream) {
    const real::cuda::TensorView view = buffer.view();
    const auto bytes = static_cast<std::size_t>(data_bytes(view.format, view.elements()));
    return real::cuda::outcome(cudaMemsetAsync(view.data, 0xff, bytes, stream), "spoiling");  // NaN
  });
}

}  // namespace

OperatorRun::OperatorRun(std::string name, model::OperatorKind kind, model::Attributes attributes)
    : name_(std::move(name)) {
  graph_.name = name_;
  graph_.operators.push_back({.kind = kind, .name = name_, .attributes = std::move(attributes)});
}

model::TensorId OperatorRun::add(model::DataType type, const std::vector<std::int64_t>& shape, Matrix value) {
  const auto id = static_cast<model::TensorId>(graph_.tensors.size());
  model::Tensor tensor{.name = "tensor_" + std::to_string(id), .type = type};
  for (const std::int64_t size : shape) tensor.shape.push_back({size});
  graph_.tensors.push_back(std::move(tensor));
  values_.push_back(std::move(value));
  return id;
}

void OperatorRun::read(model::DataType type, std::vector<std::int64_t> shape, Matrix value) {
  graph_.operators[0].reads.push_back(add(type, shape, std::move(value)));
}

void OperatorRun::write(model::DataType type, std::vector<std::int64_t> shape) {
  graph_.operators[0].writes.push_back(add(type, shape, {}));
}

void OperatorRun::accumulate(std::vector<std::int64_t> shape, Matrix start) {
  graph_.operators[0].writes.push_back(add(model::DataType::fp32, shape, std::move(start)));
  graph_.tensors.back().role = model::Role::gradient;
}

void OperatorRun::expect_near(real::cuda::CudaDevice& device, double tolerance, std::int32_t parts) {
  const model::Operator& op = graph_.operators[0];
  Interpreter interpreter(graph_, 1);
  std::vector<real::BufferPointer> buffers;
  for (model::TensorId id = 0; id < values_.size(); ++id) {
    buffers.push_back(device.allocate(graph_.tensor(id)));
    if (values_[id].size() == 0) {
      spoil(device, static_cast<real::cuda::CudaBuffer&>(*buffers[id]));
      continue;
    }
    const Floats floats = values_[id].cast<float>();
    device.write(*buffers[id], {floats.data(), static_cast<std::size_t>(floats.size())});
    interpreter.set(0, id, stored(device, *buffers[id]));
  }
  interpreter.run(op);
  real::Kernel kernel{.graph = &graph_, .op = &op, .parts = parts};
  for (const model::TensorId id : op.reads) kernel.reads.push_back(buffers[id].get());
  for (const model::TensorId id : op.writes) kernel.writes.push_back(buffers[id].get());
  for (; kernel.part < parts; ++kernel.part) device.launch(model::Stream::compute, kernel);
  const auto idle = device.synchronize();
  ASSERT_TRUE(idle) << name_ << ": " << idle.error().message;
  expected_.clear();
  for (const model::TensorId id : op.writes) {
    expected_.push_back(interpreter.value(0, id));
    const Matrix found = stored(device, *buffers[id]);
    ASSERT_EQ(found.size(), expected_.back().size()) << name_;
    const double error = (found - expected_.back()).norm() / expected_.back().norm();
    error_table().add(name_, std::string(to_string(graph_.tensor(op.reads[0]).type)), error, tolerance);
    EXPECT_LE(error, tolerance) << name_ << ", output " << expected_.size();
  }
}

Matrix random_matrix(Index rows, Index columns, std::uint64_t seed) {
  model::Random random(seed);
  return Matrix::NullaryExpr(rows, columns, [&] { return random.normal(); });
}

}  // namespace plumbline::tests
