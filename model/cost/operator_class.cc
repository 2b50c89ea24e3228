#include "model/cost/operator_class.h"

#include <algorithm>
#include <array>

#include "model/base/data_type.h"
#include "model/graph/graph.h"

namespace plumbline::model {

OperatorClass class_of(OperatorKind kind) {
  static constexpr auto classes = std::to_array<OperatorClass>({
#define OPERATOR(kind, attributes, class_of_kind) OperatorClass::class_of_kind,
#include "model/graph/operators.def"
  });
  return classes[static_cast<std::size_t>(kind)];
}

OperatorClass operator_class(const Graph& graph, const Operator& op) {
  const OperatorClass usual = class_of(op.kind);
  if (usual == OperatorClass::gemm && op.phase == Phase::W) return OperatorClass::weight_gradient_gemm;
  if (usual == OperatorClass::cast && graph.tensor(op.writes[0]).type == DataType::e5m6)
    return OperatorClass::cast_e5m6;
  // Inference engines choose experts in one kernel (vLLM's grouped_topk, SGLang's moe_fused_gate, TensorRT-LLM's
  // noAuxTcKernels).
  if (usual == OperatorClass::router && graph.inference) return OperatorClass::elementwise;
  return usual;
}

std::string_view to_string(OperatorClass value) {
  static constexpr auto words = std::to_array<std::string_view>({
#define OPERATOR_CLASS(name, ...) #name,
#include "model/cost/operator_classes.def"
  });
  return words[static_cast<std::size_t>(value)];
}

std::string_view breakdown_name(OperatorClass value) {
  static constexpr auto rows = std::to_array<std::string_view>({
#define OPERATOR_CLASS(name, row) row,
#include "model/cost/operator_classes.def"
  });
  return rows[static_cast<std::size_t>(value)];
}

const std::vector<std::string_view>& breakdown_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> rows;
    const auto add = [&rows](std::string_view row) {
      if (row != "communication" && std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
    };
#define OPERATOR_CLASS(name, row) add(row);
#include "model/cost/operator_classes.def"
    for (const char* wait :
         {"host", "exposed communication", "bubble", "exposed input", "exposed copy to the host", "point-to-point"})
      add(wait);
    return rows;
  }();
  return names;
}

}  // namespace plumbline::model
