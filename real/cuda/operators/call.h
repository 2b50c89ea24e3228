// One operator as it is launched on a stream.
#pragma once

#include <cstddef>
#include <variant>

#include "model/graph/graph.h"
#include "real/cuda/device/buffer.h"
#include "real/cuda/device/machine.h"
#include "real/cuda/status.h"

namespace plumbline::real::cuda {

struct Call {
  const Kernel& kernel;
  Machine& machine;
  cudaStream_t stream = nullptr;
  int target_sms = 0;  // SMs that libraries are to reckon with; 0: all

  const model::Operator& op() const { return *kernel.op; }
  std::size_t ins() const { return kernel.reads.size(); }
  std::size_t outs() const { return kernel.writes.size(); }
  CudaBuffer& in(std::size_t i) const { return static_cast<CudaBuffer&>(*kernel.reads[i]); }
  CudaBuffer& out(std::size_t i) const { return static_cast<CudaBuffer&>(*kernel.writes[i]); }
  template <class Attributes>
  const Attributes& attributes() const {
    return std::get<Attributes>(kernel.op->attributes);
  }
};

// What an operator writes, with as many rows as routing made what it reads.
inline Status fit(CudaBuffer& out, std::int64_t rows) { return out.rows() == rows ? Status{} : out.resize(rows); }

// Enqueues the operator on the call's stream; returns what the launch said. Outputs whose rows routing decides are
// made to fit before.
using Function = Status (*)(const Call&);

}  // namespace plumbline::real::cuda
