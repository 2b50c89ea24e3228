#include "calibrate/fit/detail/record_graph.h"

#include <cmath>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace plumbline::calibrate {
namespace {

using model::DataType;
using model::Graph;
using model::Operator;
using model::OperatorKind;
using model::Tensor;

std::int64_t whole(const FitRecord& record, const char* name) { return static_cast<std::int64_t>(record.extent(name)); }

DataType operand_type(std::string_view format) {
  if (format == "fp8" || format == "fp8_tensor") return DataType::fp8;
  if (format.starts_with("fp8")) return DataType::fp8_tile;
  if (format == "fp32") return DataType::fp32;
  return format == "tf32" ? DataType::tf32 : format == "fp16" ? DataType::fp16 : DataType::bf16;
}

Tensor tensor(std::initializer_list<std::int64_t> extents, DataType type) {
  Tensor made{.type = type};
  for (const std::int64_t extent : extents) made.shape.push_back({extent});
  return made;
}

Graph lone_operator(Operator op, std::initializer_list<Tensor> reads, std::initializer_list<Tensor> writes) {
  Graph graph;
  for (const auto& [tensors, ids] : {std::pair{&reads, &op.reads}, std::pair{&writes, &op.writes}})
    for (const Tensor& each : *tensors) {
      ids->push_back(static_cast<model::TensorId>(graph.tensors.size()));
      graph.tensors.push_back(each);
    }
  graph.operators.push_back(std::move(op));
  return graph;
}

std::optional<Graph> gemm_graph(const FitRecord& record) {
  const std::int64_t m = whole(record, "m"), n = whole(record, "n"), k = whole(record, "k");
  if (m <= 0 || n <= 0 || k <= 0) return std::nullopt;
  const DataType type = operand_type(record.format);
  Operator op{.kind = OperatorKind::matmul};
  if (record.type == model::OperatorClass::weight_gradient_gemm) {
    op.phase = model::Phase::W;
    op.attributes = model::MatmulAttributes{.transpose_a = true, .accumulate = true};
    return lone_operator(std::move(op), {tensor({k, m}, type), tensor({k, n}, type)}, {tensor({m, n}, DataType::fp32)});
  }
  op.attributes = model::MatmulAttributes{.transpose_b = true};
  const DataType result = model::is_quantized(type) ? DataType::bf16 : type;
  const std::int64_t groups = record.launches > 0 ? 1 : std::max<std::int64_t>(1, whole(record, "groups"));
  if (groups == 1)
    return lone_operator(std::move(op), {tensor({m, k}, type), tensor({n, k}, type)}, {tensor({m, n}, result)});
  op.kind = OperatorKind::grouped_matmul;
  return lone_operator(std::move(op), {tensor({groups * m, k}, type), tensor({groups, n, k}, type)},
                       {tensor({groups * m, n}, result)});
}

std::optional<Graph> attention_graph(const FitRecord& record) {
  const std::int64_t length = whole(record, "length"), heads = whole(record, "heads");
  const std::int64_t qk = whole(record, "qk_dim"), dv = whole(record, "v_dim");
  if (length <= 0 || heads <= 0 || qk <= 0 || dv <= 0) return std::nullopt;
  const std::int64_t tokens = std::max<std::int64_t>(1, whole(record, "sequences")) * length;
  const std::int64_t shared = whole(record, "kv_heads") > 0 ? whole(record, "kv_heads") : heads;
  const Tensor q = tensor({tokens, heads, qk}, DataType::bf16), k = tensor({tokens, shared, qk}, DataType::bf16);
  const Tensor v = tensor({tokens, shared, dv}, DataType::bf16), o = tensor({tokens, heads * dv}, DataType::bf16);
  const Tensor sums = tensor({tokens, heads}, DataType::fp32);
  Operator op{.kind = record.kind};
  op.attributes = model::AttentionAttributes{
      .query_heads = heads, .key_value_heads = shared, .query_key_dim = qk, .value_dim = dv, .sequence_length = length};
  if (record.kind == OperatorKind::attention) return lone_operator(std::move(op), {q, k, v}, {o, sums});
  op.phase = model::Phase::I;
  return lone_operator(std::move(op), {o, q, k, v, o, sums}, {q, k, v});
}

std::optional<Graph> memory_graph(const FitRecord& record) {
  if (!record.measurement->bytes || record.type == model::OperatorClass::embedding) return std::nullopt;
  constexpr double bytes_of_half = 4;  // two bytes an element, read and written
  const Tensor half = tensor({std::llround(*record.measurement->bytes / bytes_of_half)}, DataType::bf16);
  return lone_operator({.kind = record.kind}, {half}, {half});
}

}  // namespace

std::optional<Graph> graph_of(const FitRecord& record) {
  if (is_gemm(record.type)) return gemm_graph(record);
  return record.type == model::OperatorClass::attention ? attention_graph(record) : memory_graph(record);
}

}  // namespace plumbline::calibrate
