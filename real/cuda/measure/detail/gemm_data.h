// The operands of a case's GEMMs in device memory, group after group.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "real/cuda/measure/toolbox.h"
#include "real/cuda/memory.h"
#include "real/cuda/vendor/cublaslt.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "real/measure/runner.h"

namespace plumbline::real::cuda {

class GemmData {
 public:
  explicit GemmData(const KernelCase& what);

  // Fills operands and scales with random numbers, and results with zeros, since an accumulating GEMM reads them.
  Status allocate_and_fill(cudaStream_t stream);
  std::size_t groups() const { return groups_.size(); }
  // The shape and operands of one group's GEMM; its alignment is that of the start of every group's operands.
  const GemmShape& shape(std::size_t group) const { return groups_[group].shape; }
  GemmOperands operands(std::size_t group) const;

  // Runs all GEMMs once on poisoned results, and compares sampled entries of the first and the last group with double
  // precision. Wrong numbers are an outcome, not a failure.
  Status check(const std::function<Status(cudaStream_t)>& run, Toolbox& tools, CheckOutcome& result) const;

 private:
  struct Group {
    GemmShape shape;
    std::int64_t x = 0, w = 0, d = 0, x_scales = 0, w_scales = 0;  // elements before its own
  };
  void align();
  Status poison(cudaStream_t stream) const;
  Status count_unwritten(cudaStream_t stream, CheckOutcome& result) const;

  double tolerance_;
  std::vector<Group> groups_;
  Group end_;  // elements of all groups
  DeviceMemory x_, w_, d_, x_scales_, w_scales_;
};

}  // namespace plumbline::real::cuda
