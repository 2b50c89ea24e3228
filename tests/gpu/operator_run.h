// Compares one operator on a GPU with the interpreter in double precision, at sizes that no block of a small model has.
// Both read what the device has stored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/cuda/device/device.h"
#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

class OperatorRun {
 public:
  OperatorRun(std::string name, model::OperatorKind kind, model::Attributes attributes);

  // Adds an input; inputs are in the operator's order. An experts' matrix is [experts, rows, columns].
  void read(model::DataType type, std::vector<std::int64_t> shape, Matrix value);
  void write(model::DataType type, std::vector<std::int64_t> shape);
  // Adds a gradient to which the operator adds, with its start value.
  void accumulate(std::vector<std::int64_t> shape, Matrix start);

  // Launches the operator in `parts` parts. Expects every output to be written, and the root of the sum of its squared
  // errors to be within `tolerance` of that of the interpreter's values.
  void expect_near(real::cuda::CudaDevice& device, double tolerance, std::int32_t parts = 1);
  // Returns the interpreter's output, after expect_near().
  const Matrix& expected(std::size_t output) const { return expected_[output]; }

 private:
  model::TensorId add(model::DataType type, const std::vector<std::int64_t>& shape, Matrix value);

  std::string name_;
  model::Graph graph_;
  std::vector<Matrix> values_;  // by tensor; empty for those that are written
  std::vector<Matrix> expected_;
};

// Returns standard normal numbers.
Matrix random_matrix(Index rows, Index columns, std::uint64_t seed);

}  // namespace plumbline::tests
