// Every operator on a GPU compared with the interpreter's, on the blocks of models in the formats of plans.
#include "real/cuda/operators/operators.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "real/cuda/device/device.h"
#include "tests/gpu/error_table.h"
#include "tests/gpu/gpu.h"
#include "tests/support/aligned_models.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/operator_blocks.h"
#include "tests/support/routed_padding.h"

namespace plumbline::tests {
namespace {

using model::Graph;
using model::Precision;
using model::Tensor;
using model::TensorId;
using real::cuda::CudaBuffer;
using real::cuda::Status;

struct ComparisonOptions {
  std::string name;                  // name of the plan for the table
  std::int64_t sequence_length = 0;  // tokens
  bool may_refuse = false;           // the operator may report that it does not compute these sizes
  // Limits of the root of the sum of squared errors of a whole tensor, relative to that of the expected values.
  double tolerance = 0, fp8_tolerance = 0;
};

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

// Compares one block's operators on a GPU with the interpreter in double precision. Both read what the device has
// stored, so that only the operator's own rounding counts. Memory that the device writes is filled with NaN before.
class OperatorComparison {
 public:
  OperatorComparison(const model::Graph& graph, real::cuda::CudaDevice& device, const ComparisonOptions& options)
      : graph_(graph), device_(device), options_(options), interpreter_(graph, 1) {
    model::Random random(5);
    for (TensorId id = 0; id < graph.tensors.size(); ++id) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role == model::Role::activation || tensor.role == model::Role::host) continue;
      interpreter_.set(0, id, start_value(tensor, options.sequence_length, random));
    }
  }

  // Runs all operators in order, those that no GPU kernel computes by the interpreter alone. Returns false if the
  // device is lost.
  bool run() {
    for (const model::Operator& op : graph_.operators) {
      if (real::cuda::function_of(op.kind) == nullptr)
        interpreter_.run(op);
      else if (!compare(op))
        return false;
    }
    return true;
  }

 private:
  bool compare(const model::Operator& op) {
    const auto accumulates = [&](TensorId id) {
      return graph_.tensor(id).role == model::Role::gradient || graph_.tensor(id).role == model::Role::cache;
    };
    for (const TensorId id : op.reads)
      if (!is_on_device(id)) store(id);
    for (const TensorId id : op.writes)
      if (accumulates(id)) store(id);
    interpreter_.run(op);
    if (op.kind == model::OperatorKind::permute)
      padding_ = {interpreter_.value(0, op.writes[3]),
                  is_eight_bits(graph_.tensor(op.writes[0])) ? fp8_expert_rows : 1};
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

  CudaBuffer& buffer(TensorId id) {
    real::BufferPointer& pointer = buffers_[id];
    if (pointer == nullptr) pointer = device_.allocate(graph_.tensor(id));
    return static_cast<CudaBuffer&>(*pointer);
  }

  // Writes the interpreter's value into the device's memory and makes the stored, rounded value the interpreter's.
  void store(TensorId id) {
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
  void poison(TensorId id) {
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
  Status launch(const model::Operator& op) {
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

  Matrix read(TensorId id) {
    const std::vector<float> values = device_.read(buffer(id));
    using Stored = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    return Eigen::Map<const Stored>(values.data(), buffer(id).rows(), buffer(id).columns()).cast<double>();
  }

  void expect_equal(const model::Operator& op, TensorId id) {
    const Tensor& tensor = graph_.tensor(id);
    const double error = difference(padding_.stripped(tensor, read(id)), interpreter_.value(0, id));
    error_table().add(std::string(to_string(op.kind)), options_.name, error, tolerance_of(tensor));
    EXPECT_LE(error, tolerance_of(tensor))
        << graph_.name << ", " << op.name << ": " << tensor.name
        << (std::isinf(error) ? ", in its shape or what stands between experts" : "");
    if (is_whole(tensor) && error == 0) written_[id] = true;
  }

  // Indices, maps and offsets may have state that only the device holds.
  bool is_on_device(TensorId id) const { return written_.contains(id); }
  double tolerance_of(const Tensor& tensor) const {
    if (is_whole(tensor)) return 0;
    return is_eight_bits(tensor) ? options_.fp8_tolerance : options_.tolerance;
  }

  const model::Graph& graph_;
  real::cuda::CudaDevice& device_;
  ComparisonOptions options_;
  Interpreter interpreter_;
  RoutedPadding padding_;
  std::map<model::TensorId, real::BufferPointer> buffers_;
  std::map<model::TensorId, bool> written_;  // whole numbers that the device wrote are kept
};

// Errors of: FP32 sums of a few hundred terms; operands of 8 significant bits, with intermediate values rounded alike;
// and tensors of 4 significant bits, whose error is at most 2^-4 / sqrt(3) where roundings are evenly spread.
constexpr double fp32_operators = 1e-5, bf16_operators = 1e-2, fp8_operators = 5e-2;

std::vector<Graph> widened_all(std::vector<Graph> graphs) {
  for (Graph& graph : graphs) graph = widened(graph);
  return graphs;
}

class GpuOperators : public GpuTest {
 protected:
  void compare(const std::vector<Graph>& graphs, const ComparisonOptions& options) {
    for (const Graph& graph : graphs)
      if (!OperatorComparison(graph, device(), options).run()) return;
  }
};

TEST_F(GpuOperators, Fp32) {
  compare(widened_all(operator_blocks(aligned_models(), Precision::fp32, aligned_context)),
          {"fp32", aligned_sequence_length, false, fp32_operators, fp8_operators});
}

TEST_F(GpuOperators, Bf16) {
  compare(operator_blocks(aligned_models(), Precision::bf16, aligned_context),
          {"bf16", aligned_sequence_length, false, bf16_operators, fp8_operators});
}

TEST_F(GpuOperators, Fp8) {
  compare(operator_blocks(aligned_models(), Precision::fp8, aligned_context),
          {"fp8", aligned_sequence_length, false, bf16_operators, fp8_operators});
}

// At sizes that are multiples of no tile the result is right, or the operator refuses them with a reason.
TEST_F(GpuOperators, OddSizesInFp32) {
  compare(widened_all(operator_blocks(tiny_models(), Precision::fp32, tiny_operator_context)),
          {"fp32, odd", tiny_sequence_length, true, fp32_operators, fp8_operators});
}

TEST_F(GpuOperators, OddSizesInBf16) {
  compare(operator_blocks(tiny_models(), Precision::bf16, tiny_operator_context),
          {"bf16, odd", tiny_sequence_length, true, bf16_operators, fp8_operators});
}

TEST_F(GpuOperators, OfAnOptimizer) {
  compare({widened(optimizer_block())}, {"fp32", 1, false, fp32_operators, fp8_operators});
  compare({optimizer_block()}, {"fp16", 1, false, bf16_operators, fp8_operators});
}

// This test needs no GPU: the blocks above contain every kind that a GPU computes.
TEST(GpuOperatorKinds, AllAreInTheComparedBlocks) {
  std::vector<Graph> graphs = {optimizer_block()};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8})
    for (Graph& graph : operator_blocks(aligned_models(), precision, aligned_context))
      graphs.push_back(std::move(graph));
  std::set<model::OperatorKind> compared;
  for (const Graph& graph : graphs)
    for (const model::Operator& op : graph.operators) compared.insert(op.kind);
  for (int kind = 0; kind <= static_cast<int>(model::OperatorKind::copy_to_device); ++kind) {
    const auto known = static_cast<model::OperatorKind>(kind);
    EXPECT_TRUE(real::cuda::function_of(known) == nullptr || compared.contains(known)) << to_string(known);
  }
}

}  // namespace
}  // namespace plumbline::tests
