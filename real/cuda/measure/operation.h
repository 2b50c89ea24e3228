// An operation that can be run repeatedly on a stream: a GEMM, attention or a memory-bound kernel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/measure/toolbox.h"
#include "real/measure/kernel_case/kernel_case.h"
#include "real/measure/runner.h"

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
  // Enqueues it once, without allocation or waiting, so that a graph can capture it.
  virtual Status run(cudaStream_t stream) = 0;
  // The library's algorithm, a JSON object; empty for plumbline's own kernels.
  virtual std::string algorithm() const { return {}; }

 protected:
  // Runs once on outputs of NaN, which has all bits set, and waits.
  Status run_poisoned(const std::vector<const DeviceMemory*>& outputs, cudaStream_t stream) {
    for (const DeviceMemory* output : outputs) PLUMBLINE_TRY(output->set(0xff, stream, "poisoning the outputs"));
    PLUMBLINE_TRY(run(stream));
    return outcome(cudaStreamSynchronize(stream), "running the operation");
  }
};

// Makes the operation of a case (of a partition, its kernel); nullptr for cases that time no single kernel.
std::unique_ptr<Operation> make_operation(const KernelCase& what);

// The constructors, one per kind of case.
std::unique_ptr<Operation> make_attention(const KernelCase& what);
std::unique_ptr<Operation> make_cached_attention(const KernelCase& what);
std::unique_ptr<Operation> make_gemm(const KernelCase& what);
std::unique_ptr<Operation> make_rmsnorm(const KernelCase& what);
std::unique_ptr<Operation> make_swiglu(const KernelCase& what);
std::unique_ptr<Operation> make_quantize(const KernelCase& what);
std::unique_ptr<Operation> make_permute(const KernelCase& what);
std::unique_ptr<Operation> make_adamw(const KernelCase& what);

}  // namespace plumbline::real::cuda
