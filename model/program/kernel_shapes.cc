#include "model/program/kernel_shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "model/cost/work.h"

namespace plumbline::model {
namespace {

using Extents = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::array<std::string_view, 6> order_of_shapes = {"gemm",     "rmsnorm", "swiglu",
                                                             "quantise", "permute", "adamw"};

std::int64_t whole(double value) { return static_cast<std::int64_t>(std::ceil(value)); }

// Returns the format of a quantized operand, else the wider operand's.
std::string gemm_format(const Graph& graph, const Operator& op) {
  for (const TensorId id : {op.reads[0], op.reads[1]}) {
    const DataType type = graph.tensor(id).type;
    if (type == DataType::fp8) return "fp8_tensor";
    if (type == DataType::fp8_tile || type == DataType::fp8_block) return "fp8_block";
    if (is_quantized(type)) return std::string(to_string(type));
  }
  const DataType a = graph.tensor(op.reads[0]).type, b = graph.tensor(op.reads[1]).type;
  return std::string(to_string(bytes_per_element(a) >= bytes_per_element(b) ? a : b));
}

std::string plain_name(std::string name) {
  for (const std::string_view suffix : {"_dgrad", "_wgrad"})
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

Extents rows_and_columns(const Tensor& tensor) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i].size;
  return {{"rows", rows}, {"columns", tensor.shape.back().size}};
}

KernelShape gemm(const Graph& graph, const Operator& op) {
  const GemmShape shape = gemm_shape(graph, op, 1);
  return {"gemm",
          plain_name(op.name),
          std::string(to_string(op.phase)),
          gemm_format(graph, op),
          {{"m", whole(shape.m)}, {"n", whole(shape.n)}, {"k", whole(shape.k)}, {"groups", whole(shape.groups)}}};
}

// Written rows are a whole number of copies of each row read.
KernelShape permutation(const Graph& graph, const Operator& op) {
  const Tensor& from = graph.tensor(op.reads[0]);
  const Tensor& to = graph.tensor(op.writes[0]);
  const std::int64_t copies = std::max<std::int64_t>(1, std::llround(to.elements() / from.elements()));
  const Extents extents = rows_and_columns(to);
  return {"permute", op.name, "", "", {{"rows", extents[0].second / copies}, extents[1], {"top_k", copies}}};
}

std::optional<KernelShape> shape_of(const Graph& graph, const Operator& op) {
  switch (op.kind) {
    case OperatorKind::matmul:
    case OperatorKind::grouped_matmul:
      return gemm(graph, op);
    case OperatorKind::rmsnorm:
      return KernelShape{"rmsnorm", op.name, "", "", rows_and_columns(graph.tensor(op.writes[0]))};
    case OperatorKind::swiglu:
      return KernelShape{"swiglu", op.name, "", "", rows_and_columns(graph.tensor(op.writes[0]))};
    case OperatorKind::cast:
      if (graph.tensor(op.writes[0]).type != DataType::fp8_tile) return std::nullopt;
      return KernelShape{"quantise", op.name, "", "", rows_and_columns(graph.tensor(op.writes[0]))};
    case OperatorKind::permute:
      return permutation(graph, op);
    default:
      return std::nullopt;
  }
}

class ShapeCollector {
 public:
  void add(const Graph& graph) {
    for (const Operator& op : graph.operators) {
      if (op.kind == OperatorKind::adamw) continue;
      auto shape = shape_of(graph, op);
      if (!shape) {
        result_.others.emplace(to_string(op.kind));
        continue;
      }
      count(std::move(*shape));
    }
  }

  // One kernel updates all units of one kind and format together.
  void add_updates(const Graph& optimizer) {
    std::map<std::string, std::int64_t> elements;
    for (const Operator& op : optimizer.operators) {
      if (op.kind != OperatorKind::adamw) continue;
      const Tensor& updated = optimizer.tensor(op.writes[0]);
      const std::string_view kind = op.name.starts_with("adamw_experts") ? "experts" : "dense";
      elements["adamw_" + std::string(kind) + "_" + std::string(to_string(updated.type))] += whole(updated.elements());
    }
    for (const auto& [name, sum] : elements) count({"adamw", name, "", "", {{"elements", sum}}});
  }

  KernelShapes finish() {
    std::ranges::stable_sort(result_.shapes, {},
                             [](const KernelShape& shape) { return std::ranges::find(order_of_shapes, shape.op); });
    return std::move(result_);
  }

 private:
  void count(KernelShape shape) {
    const auto key = std::tuple(shape.op, shape.phase, shape.format, shape.extents);
    const auto [known, fresh] = index_.try_emplace(key, result_.shapes.size());
    if (fresh) result_.shapes.push_back(std::move(shape));
    ++result_.shapes[known->second].count;
  }

  KernelShapes result_;
  std::map<std::tuple<std::string, std::string, std::string, Extents>, std::size_t> index_;
};

}  // namespace

KernelShapes kernel_shapes(const StepProgram& program) {
  ShapeCollector collector;
  for (const Stage& stage : program.stages)
    for (const std::uint16_t block : program.stage_kinds[stage.kind].blocks) collector.add(program.blocks[block]);
  for (const Graph& optimizer : program.stage_optimizers) {
    collector.add(optimizer);
    collector.add_updates(optimizer);
  }
  return collector.finish();
}

}  // namespace plumbline::model
