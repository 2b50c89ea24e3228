#include "tests/gpu/operator_comparison.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/gpu/error_table.h"
#include "tests/support/operator_blocks.h"

namespace plumbline::tests {

using model::Tensor;
using model::TensorId;
using real::cuda::CudaBuffer;
using real::cuda::Status;

namespace {

constexpr int not_a_number = 0xff;  // every byte of a NaN
constexpr Index fp8_expert_rows = 128;

bool is_whole(const Tensor& tensor) {
  return tensor.type == model::DataType::int32 || tensor.type == model::DataType::int64;
}

bool is_eight_bits(const Tensor& tensor) { return model::is_quantized(tensor.type); }

double difference(const Matrix& actual, const Matrix& expected) {
  if (actual.rows() != expected.rows() || actual.cols() != expected.cols())
    return std::numeric_limits<double>::infinity();
  const double norm = expected.norm();
  return (actual - expected).norm() / (norm > 0 ? norm : 1);
}

Status poison(const CudaBuffer& buffer, cudaStream_t stream) {
  const real::cuda::TensorView view = buffer.view();
  const auto fill = [&](void* data, std::int64_t bytes) {
    return real::cuda::outcome(cudaMemsetAsync(data, not_a_number, static_cast<std::size_t>(bytes), stream), "poison");
  };
  PLUMBLINE_TRY(fill(view.data, data_bytes(view.format, view.elements())));
  const std::int64_t scales = scale_count(view.format, view.rows, view.columns, view.matrix_rows);
  if (view.scales == nullptr) return {};
  return fill(view.scales, scales * static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace

OperatorComparison::OperatorComparison(const model::Graph& graph, real::cuda::CudaDevice& device,
                                       const ComparisonOptions& options)
    : graph_(graph), device_(device), options_(options), interpreter_(graph, 1) {
  model::Random random(5);
  for (TensorId id = 0; id < graph.tensors.size(); ++id) {
    const Tensor& tensor = graph.tensor(id);
    if (tensor.role == model::Role::activation || tensor.role == model::Role::host) continue;
    interpreter_.set(0, id, start_value(tensor, options.sequence_length, random));
  }
}

bool OperatorComparison::run() {
  for (const model::Operator& op : graph_.operators) {
    if (real::cuda::function_of(op.kind) == nullptr)
      interpreter_.run(op);
    else if (!compare(op))
      return false;
  }
  return true;
}

bool OperatorComparison::compare(const model::Operator& op) {
  const auto accumulates = [&](TensorId id) {
    return graph_.tensor(id).role == model::Role::gradient || graph_.tensor(id).role == model::Role::cache;
  };
  for (const TensorId id : op.reads)
    if (!is_on_device(id)) store(id);
  for (const TensorId id : op.writes)
    if (accumulates(id)) store(id);
  interpreter_.run(op);
  if (op.kind == model::OperatorKind::permute)
    padding_ = {interpreter_.value(0, op.writes[3]), is_eight_bits(graph_.tensor(op.writes[0])) ? fp8_expert_rows : 1};
  for (const TensorId id : op.writes)
    if (!accumulates(id)) poison(id);
  const Status launched = launch(op);
  const auto idle = device_.synchronize();
  EXPECT_TRUE(idle) << graph_.name << ", " << op.name << ": " << idle.error().message;
  if (!idle) return false;
  if (!launched.ok()) {
    error_table().refuse(std::string(to_string(op.kind)), options_.name, launched.failure);
    EXPECT_TRUE(options_.may_refuse) << graph_.name << ", " << op.name << ": " << launched.failure;
    return true;
  }
  for (const TensorId id : op.writes) expect_equal(op, id);
  return true;
}

// Indices, maps and offsets may have state that only the device holds.
bool OperatorComparison::is_on_device(TensorId id) const { return written_.contains(id); }

CudaBuffer& OperatorComparison::buffer(TensorId id) {
  real::BufferPointer& pointer = buffers_[id];
  if (pointer == nullptr) pointer = device_.allocate(graph_.tensor(id));
  return static_cast<CudaBuffer&>(*pointer);
}

void OperatorComparison::store(TensorId id) {
  const Matrix value = padding_.padded(graph_.tensor(id), interpreter_.value(0, id));
  const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> floats = value.cast<float>();
  CudaBuffer& memory = buffer(id);
  const Status resized = memory.resize(value.rows(), value.cols());
  EXPECT_TRUE(resized.ok()) << resized.failure;
  device_.write(memory, {floats.data(), static_cast<std::size_t>(floats.size())});
  interpreter_.set(0, id, padding_.stripped(graph_.tensor(id), read(id)));
}

// Poisons the operator's results. Their shape is the expected one before routing: to make it fit is the operator's
// work.
void OperatorComparison::poison(TensorId id) {
  written_.erase(id);
  CudaBuffer& memory = buffer(id);
  const Matrix value = padding_.padded(graph_.tensor(id), interpreter_.value(0, id));
  const Matrix expected = zeros(graph_.tensor(id));
  device_.enqueue(model::Stream::compute, 0, [&](cudaStream_t stream) -> Status {
    PLUMBLINE_TRY(memory.resize(value.rows(), value.cols()));
    PLUMBLINE_TRY(tests::poison(memory, stream));
    return memory.resize(expected.rows(), expected.cols());
  });
}

// The device's own launch() is not used: after its first failure it runs no more.
Status OperatorComparison::launch(const model::Operator& op) {
  real::Kernel kernel{.graph = &graph_, .op = &op};
  for (const TensorId id : op.reads) kernel.reads.push_back(&buffer(id));
  for (const TensorId id : op.writes) kernel.writes.push_back(&buffer(id));
  Status status;
  device_.enqueue(model::Stream::compute, 0, [&](cudaStream_t stream) -> Status {
    status = real::cuda::function_of(op.kind)({kernel, device_.machine(), stream});
    return {};
  });
  return status;
}

Matrix OperatorComparison::read(TensorId id) {
  const std::vector<float> values = device_.read(buffer(id));
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Floats>(values.data(), buffer(id).rows(), buffer(id).columns()).cast<double>();
}

double OperatorComparison::tolerance_of(const Tensor& tensor) const {
  if (is_whole(tensor)) return 0;
  return is_eight_bits(tensor) ? options_.fp8_tolerance : options_.tolerance;
}

void OperatorComparison::expect_equal(const model::Operator& op, TensorId id) {
  const Tensor& tensor = graph_.tensor(id);
  const double error = difference(padding_.stripped(tensor, read(id)), interpreter_.value(0, id));
  error_table().add(std::string(to_string(op.kind)), options_.name, error, tolerance_of(tensor));
  EXPECT_LE(error, tolerance_of(tensor)) << graph_.name << ", " << op.name << ": " << tensor.name
                                         << (std::isinf(error) ? ", in its shape or what stands between experts" : "");
  if (is_whole(tensor) && error == 0) written_[id] = true;
}

}  // namespace plumbline::tests
