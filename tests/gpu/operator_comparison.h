// One block's operators on a GPU beside the interpreter in double precision. Both read what the device has stored, so
// that only the operator's own rounding counts; what the device writes into was not numbers before.
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
  std::string name;                  // of the plan, for the table
  std::int64_t sequence_length = 0;  // tokens
  bool may_refuse = false;           // an operator may say that it does not compute these sizes
  // Of a whole tensor, by the square root of the sum of squares, beside that of what is expected.
  double tolerance = 0, fp8_tolerance = 0;
};

class OperatorComparison {
 public:
  OperatorComparison(const model::Graph& graph, real::cuda::CudaDevice& device, const ComparisonOptions& options);

  // All operators in order; those that a GPU does not compute by the interpreter alone. False: the device is lost.
  bool run();

 private:
  bool compare(const model::Operator& op);
  real::cuda::CudaBuffer& buffer(model::TensorId id);
  // The interpreter's value into the device's memory; then what is stored there becomes the interpreter's value.
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
  std::map<model::TensorId, bool> written_;  // whole numbers that the device wrote stay there
};

}  // namespace plumbline::tests
