#include "sim/step/detail/predicted_kernel.h"

#include <string>

#include "model/cost/measured_operators.h"
#include "model/cost/operator_class.h"
#include "model/cost/work.h"

namespace plumbline::sim {

namespace {

using model::OperatorClass;

std::string_view row_of(OperatorClass kind, const model::Segment& segment) {
  switch (kind) {
    case OperatorClass::gemm:
      return "GEMM";
    case OperatorClass::weight_gradient_gemm:
      return "weight-gradient GEMM";
    case OperatorClass::norm:
    case OperatorClass::norm_gradient:
      return "norm";
    case OperatorClass::cast:
    case OperatorClass::cast_e5m6:
    case OperatorClass::cast_transpose:
    case OperatorClass::gather_transpose:
      return "cast";
    case OperatorClass::swiglu:
    case OperatorClass::swiglu_gradient:
      return "swiglu";
    case OperatorClass::permute:
    case OperatorClass::reduce:
      return "permute";
    case OperatorClass::cross_entropy:
      return "loss";
    case OperatorClass::exchange:
      return transfer_row(segment);
    default:
      return model::to_string(kind);
  }
}

void name_gemm(model::Kernel& kernel, const model::Graph& graph, const model::Operator& op) {
  kernel.gemm = op.name;
  kernel.gemm_kind = op.recomputed ? "recompute" : "fprop";
  for (const std::string_view gradient : {"_dgrad", "_wgrad"}) {
    if (!op.name.ends_with(gradient)) continue;
    kernel.gemm.resize(op.name.size() - gradient.size());
    kernel.gemm_kind = gradient.substr(1);
  }
  const model::GemmShape shape = model::gemm_shape(graph, op, 1);
  kernel.extents = {shape.m, shape.n, shape.k, shape.groups};
}

}  // namespace

std::string_view transfer_row(const model::Segment& segment) {
  return (segment.section == model::Section::dispatch) == (segment.phase == model::Phase::F) ? "dispatch" : "combine";
}

model::Kernel predicted_kernel(const model::Graph& graph, const model::Operator& op, const model::Segment& segment) {
  const OperatorClass kind = model::operator_class(graph, op);
  model::Kernel kernel{.class_name = std::string(model::to_string(kind)), .row = std::string(row_of(kind, segment))};
  if (kind == OperatorClass::collective) kernel.class_name = to_string(op.kind);
  if (model::is_gemm(kind)) name_gemm(kernel, graph, op);
  kernel.phase = to_string(segment.phase);
  if (op.recomputed) kernel.note = "recomputed=1";
  kernel.section = model::span_name(segment.section, segment.phase);
  if (segment.share == 1) kernel.key = model::operator_key(graph, op);
  kernel.flops = segment.share * model::flops(graph, op, 1, true).value();
  kernel.bytes = segment.share * model::bytes_moved(graph, op, 1).value();
  return kernel;
}

}  // namespace plumbline::sim
