// One thing that can be run over and over on a stream: a matrix product or a memory-bound kernel.
#pragma once

#include <memory>

#include "real/cuda/probe/case.h"
#include "real/cuda/probe/record.h"
#include "real/cuda/probe/toolbox.h"

namespace plumbline::real::cuda {

class Operation {
 public:
  Operation() = default;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Allocates, fills with random data and chooses the algorithm.
  virtual Status prepare(Toolbox& tools) = 0;
  // Runs once on poisoned outputs and compares sampled entries with double precision. Wrong numbers are an outcome,
  // not a failure. Uses tools.stream and waits for it.
  virtual Status check(Toolbox& tools, CheckOutcome& result) = 0;
  // Enqueues it once. No allocation and no waiting, so that a graph can capture it.
  virtual Status run(cudaStream_t stream) = 0;
  // How a library does it; no keys for our own kernels.
  virtual JsonLine algorithm() const { return {}; }
};

// The operation of a case (in a partition: its kernel); nullptr for the cases that time no kernel of this kind.
std::unique_ptr<Operation> make_operation(const Case& what);

// The constructors behind it.
std::unique_ptr<Operation> make_attention(const Case& what);
std::unique_ptr<Operation> make_gemm(const Case& what);
std::unique_ptr<Operation> make_grouped_gemm(const Case& what);
std::unique_ptr<Operation> make_rmsnorm(const Case& what);
std::unique_ptr<Operation> make_swiglu(const Case& what);
std::unique_ptr<Operation> make_quantise(const Case& what);
std::unique_ptr<Operation> make_permute(const Case& what);
std::unique_ptr<Operation> make_adamw(const Case& what);

}  // namespace plumbline::real::cuda
