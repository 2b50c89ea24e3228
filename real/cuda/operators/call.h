// The launch of one operator on a stream.
#pragma once

#include <cstddef>
#include <cstdint>
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
  int target_sms = 0;  // SM count given to libraries; 0: all

  const model::Operator& op() const { return *kernel.op; }
  std::size_t ins() const { return kernel.reads.size(); }
  std::size_t outs() const { return kernel.writes.size(); }
  CudaBuffer& in(std::size_t i) const { return static_cast<CudaBuffer&>(*kernel.reads[i]); }
  CudaBuffer& out(std::size_t i) const { return static_cast<CudaBuffer&>(*kernel.writes[i]); }
  template <class Attributes>
  const Attributes& attributes() const {
    return std::get<Attributes>(kernel.op->attributes);
  }
  // Takes scratch memory of so many elements (real/cuda/device/scratch.h), once in a call.
  template <class Element>
  Status take(std::int64_t count, Element*& data) const {
    void* memory = nullptr;
    PLUMBLINE_TRY(machine.scratch.take(stream, count * static_cast<std::int64_t>(sizeof(Element)), memory));
    data = static_cast<Element*>(memory);
    return {};
  }
};

// Gives an output as many rows as the input has, where routing decides them.
inline Status fit(CudaBuffer& out, std::int64_t rows) { return out.rows() == rows ? Status{} : out.resize(rows); }

// Enqueues the operator on the call's stream and returns the launch's status. It first resizes outputs whose rows
// routing decides.
using Function = Status (*)(const Call&);

}  // namespace plumbline::real::cuda
