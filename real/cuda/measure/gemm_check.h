// A sample of a matrix product's entries, computed again in double precision on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "real/cuda/measure/comparison.h"
#include "real/cuda/vendor/cublaslt.h"

namespace plumbline::real::cuda {

// The entries where some sampled rows and columns of D meet, corners included.
class GemmSample {
 public:
  GemmSample(const ProductShape& shape, const ProductOperands& operands);

  // Remembers the entries of an accumulating product as they are before it runs.
  Status before();
  // Compares the entries with the product of X and W, plus what was there before.
  Status after(Comparison& comparison) const;

 private:
  // Row `index` of an operand as true values, its scales applied.
  Status operand_row(bool of_x, std::int64_t index, std::vector<double>& values) const;
  Status apply_scales(bool of_x, std::int64_t index, std::vector<double>& values) const;
  Status result_row(std::int64_t row, std::vector<double>& values) const;

  ProductShape shape_;
  ProductOperands operands_;
  std::vector<std::int64_t> rows_, columns_;
  std::vector<std::vector<double>> start_;  // per sampled row, at the sampled columns
};

}  // namespace plumbline::real::cuda
