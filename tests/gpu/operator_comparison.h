// Compares one block's operators on a GPU with the interpreter in double precision. Both read what the device has
// stored, so that only the operator's own rounding counts. Memory that the device writes is filled with NaN before.
#pragma once

#include <map>
#include <string>

#include "model/base/random.h"
#include "real/cuda/device/device.h"
#include "real/cuda/operators/operators.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/routed_padding.h"

namespace plumbline::tests {

struct ComparisonOptions {
  std::string name;                  // name of the plan for the table
  std::int64_t sequence_length = 0;  // tokens
  bool may_refuse = false;           // the operator may report that it does not compute these sizes
  // Limits of the root of the sum of squared errors of a whole tensor, relative to that of the expected values.
  double tolerance = 0, fp8_tolerance = 0;
};

class OperatorComparison {
 public:
  OperatorComparison(const model::Graph& graph, real::cuda::CudaDevice& device, const ComparisonOptions& options);

  // Runs all operators in order, those that no GPU kernel computes by the interpreter alone. Returns false if the
  // device is lost.
  bool run();

 private:
  bool compare(const model::Operator& op);
  real::cuda::CudaBuffer& buffer(model::TensorId id);
  // Writes the interpreter's value into the device's memory and makes the stored, rounded value the interpreter's.
  void store(model::TensorId id);
  void poison(model::TensorId id);
  real::cuda::Status launch(const model::Operator& op);
  Matrix read(model::TensorId id);
  void expect_equal(const model::Operator& op, model::TensorId id);
  bool is_on_device(model::TensorId id) const;
  double tolerance_of(const model::Tensor& tensor) const;

  const model::Graph& graph_;
  real::cuda::CudaDevice& device_;
  ComparisonOptions options_;
  Interpreter interpreter_;
  RoutedPadding padding_;
  std::map<model::TensorId, real::BufferPointer> buffers_;
  std::map<model::TensorId, bool> written_;  // whole numbers that the device wrote are kept
};

}  // namespace plumbline::tests
