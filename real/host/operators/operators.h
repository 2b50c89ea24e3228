// The operators of the graph on the host, one function each (model/graph/operators.def says what each computes), in
// FP32 on row-major matrices. They work on one rank; exchanges and collectives are real/host/communicator.h's.
#pragma once

#include <cstddef>
#include <span>
#include <variant>

#include "model/base/error.h"
#include "model/graph/graph.h"
#include "real/host/buffer.h"
#include "real/host/cores.h"

namespace plumbline::real::host {

// One operator as it is run.
struct Call {
  const Kernel& kernel;
  Cores& cores;
  model::DataType accumulation = model::DataType::fp32;  // of products: fp32, or fp16 to show what that costs

  const model::Operator& op() const { return *kernel.op; }
  std::size_t ins() const { return kernel.reads.size(); }
  std::size_t outs() const { return kernel.writes.size(); }
  const HostBuffer& in(std::size_t i) const { return static_cast<const HostBuffer&>(*kernel.reads[i]); }
  HostBuffer& out(std::size_t i) const { return static_cast<HostBuffer&>(*kernel.writes[i]); }
  template <class Attributes>
  const Attributes& attributes() const {
    return std::get<Attributes>(kernel.op->attributes);
  }
};

using Function = void (*)(const Call&);

// nullptr for a kind that the host cannot compute (exchanges and collectives, dropout, copies to a host).
Function function_of(model::OperatorKind kind);

// One function for each kind that a device computes, by the kind's name.
#define OPERATOR(...)
#define COMPUTED_OPERATOR(kind, ...) void kind(const Call& call);
#include "model/graph/operators.def"

// Runs the operator, then rounds what it wrote to its tensors' formats (real/host/rounding.h).
void run(const Call& call);

}  // namespace plumbline::real::host
