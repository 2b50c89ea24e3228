// One operator by itself on a GPU, beside the interpreter in double precision, at sizes that no block of a small model
// has. Both read what the device has stored.
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

  // Its operands in order; an experts' matrix is [experts, rows, columns].
  void read(model::DataType type, std::vector<std::int64_t> shape, Matrix value);
  void write(model::DataType type, std::vector<std::int64_t> shape);
  // A gradient that is added to.
  void accumulate(std::vector<std::int64_t> shape, Matrix start);

  // Launched in so many parts. Expects each output to be within `tolerance` of the interpreter's, by the square root of
  // the sum of squares of their difference, and all of it to be written.
  void expect_near(real::cuda::CudaDevice& device, double tolerance, std::int32_t parts = 1);
  // The interpreter's, after expect_near().
  const Matrix& expected(std::size_t output) const { return expected_[output]; }

 private:
  model::TensorId add(model::DataType type, const std::vector<std::int64_t>& shape, Matrix value);

  std::string name_;
  model::Graph graph_;
  std::vector<Matrix> values_;  // by tensor; empty: written
  std::vector<Matrix> expected_;
};

// Standard normal numbers.
Matrix random_matrix(Index rows, Index columns, std::uint64_t seed);

}  // namespace plumbline::tests
