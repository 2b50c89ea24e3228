// Classes of kernels: each has its own rate in a profile and its own row in the breakdown.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/graph/graph.h"

namespace plumbline::model {

enum class OperatorClass : std::uint8_t {
  gemm,
  weight_gradient_gemm,
  attention,
  // memory-bound, by what they do
  norm,
  norm_gradient,
  cast,
  cast_e5m6,
  cast_transpose,
  gather_transpose,  // gathers that write the rows turned
  transpose,
  elementwise,
  copy,
  rotary,
  swiglu,
  swiglu_gradient,
  permute,
  reduce,
  embedding,
  cross_entropy,
  optimizer,
  // many tiny kernels
  router,
  // between ranks
  exchange,
  collective,
  // between a GPU and its host
  host_link
};

inline bool is_product(OperatorClass value) {
  return value == OperatorClass::gemm || value == OperatorClass::weight_gradient_gemm;
}

OperatorClass operator_class(const Graph& graph, const Operator& op);

// The class's word in profiles ("cast_e5m6").
std::string_view to_string(OperatorClass value);

// The row of the breakdown that people read: "GEMM", "attention", "memory-bound", "router", ...
std::string_view breakdown_name(OperatorClass value);

}  // namespace plumbline::model
