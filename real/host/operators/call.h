// One call of an operator on the host.
#pragma once

#include <cstddef>
#include <variant>

#include "model/graph/graph.h"
#include "real/host/cores.h"
#include "real/host/pool.h"

namespace plumbline::real::host {

struct Call {
  const Kernel& kernel;
  Cores& cores;
  model::DataType accumulation = model::DataType::fp32;  // of GEMMs: fp32, or fp16 to study its loss of accuracy

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

}  // namespace plumbline::real::host
