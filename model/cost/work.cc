#include "model/cost/work.h"

#include <variant>

namespace plumbline::model {

namespace {

double extent(const Dimension& d, double row_scale) {
  const bool varies = d.extent != Extent::fixed && d.extent != Extent::tokens;
  return static_cast<double>(d.size) * (varies ? row_scale : 1);
}

double elements(const Tensor& tensor, double row_scale) {
  double product = 1;
  for (const Dimension& d : tensor.shape) product *= extent(d, row_scale);
  return product;
}

ProductShape plain_product(const Graph& graph, const Operator& op, double row_scale) {
  const auto& attributes = std::get<MatmulAttributes>(op.attributes);
  const Tensor& a = graph.tensor(op.reads[0]);
  const Tensor& c = graph.tensor(op.writes[0]);
  return {1, extent(c.shape[0], row_scale), extent(c.shape[1], row_scale),
          extent(a.shape[attributes.transpose_a ? 0 : 1], row_scale)};
}

ProductShape grouped_product(const Graph& graph, const Operator& op, double row_scale) {
  const auto& attributes = std::get<MatmulAttributes>(op.attributes);
  const Tensor& a = graph.tensor(op.reads[0]);
  const Tensor& c = graph.tensor(op.writes[0]);
  if (attributes.accumulate) {  // C[e,m,n] += A[m,rows] B[n,rows]^T
    const auto experts = static_cast<double>(c.shape[0].size);
    const double rows = extent(a.shape[attributes.transpose_a ? 0 : 1], row_scale);
    return {experts, extent(c.shape[1], 1), extent(c.shape[2], 1), rows / experts};
  }
  const auto experts = static_cast<double>(graph.tensor(op.reads[1]).shape[0].size);
  return {experts, extent(c.shape[0], row_scale) / experts, extent(c.shape[1], 1), extent(a.shape[1], 1)};
}

}  // namespace

ProductShape product_shape(const Graph& graph, const Operator& op, double row_scale) {
  return op.kind == OperatorKind::grouped_matmul ? grouped_product(graph, op, row_scale)
                                                 : plain_product(graph, op, row_scale);
}

Flops flops(const Graph& graph, const Operator& op, double row_scale, bool causal) {
  if (op.kind == OperatorKind::matmul || op.kind == OperatorKind::grouped_matmul) {
    const ProductShape p = product_shape(graph, op, row_scale);
    return Flops(2 * p.groups * p.m * p.n * p.k);
  }
  if (op.kind != OperatorKind::attention && op.kind != OperatorKind::attention_grad) return Flops(0);
  const auto& a = std::get<AttentionAttributes>(op.attributes);
  const bool forward = op.kind == OperatorKind::attention;
  const Tensor& q = graph.tensor(op.reads[forward ? 0 : 1]);
  const auto dk = static_cast<double>(a.query_key_dim);
  const auto dv = static_cast<double>(a.value_dim);
  const double per_pair = 2 * (forward ? dk + dv : 3 * dk + 2 * dv);
  const double pairs = static_cast<double>(q.shape[0].size * a.sequence_length * a.query_heads);
  return Flops(pairs * per_pair * (causal ? 0.5 : 1.0));
}

Bytes bytes_moved(const Graph& graph, const Operator& op, double row_scale) {
  double total = 0;
  // A table is touched only in the rows of the micro-batch's tokens.
  if (op.kind == OperatorKind::embedding) return graph.tensor(op.writes[0]).bytes() * 2;
  if (op.kind == OperatorKind::embedding_grad) {
    const Tensor& dx = graph.tensor(op.reads[0]);
    return dx.bytes() + Bytes(2 * dx.elements() * bytes_per_element(graph.tensor(op.writes[0]).type));
  }
  for (TensorId id : op.reads) {
    const Tensor& t = graph.tensor(id);
    total += elements(t, row_scale) * bytes_per_element(t.type);
  }
  for (TensorId id : op.writes) {
    const Tensor& t = graph.tensor(id);
    const double passes = t.role == Role::gradient ? 2 : 1;
    total += passes * elements(t, row_scale) * bytes_per_element(t.type);
  }
  return Bytes(total);
}

}  // namespace plumbline::model
