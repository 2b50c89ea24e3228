#include "model/layers/core_attention.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "model/layers/elementary.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

// Casts the tensor if attention has a format; `both`: in MXFP8 also with scales along the tokens, where the backward
// pass multiplies along them.
Layouts attention_operand(GraphBuilder& b, const std::optional<OperandFormat>& format, const std::string& name,
                          TensorId x, bool both) {
  if (!format) return {x};
  const bool finds = format->precision == Precision::fp8_tensor && !format->delayed_scaling;
  return cast_layouts(b, name, "cast_" + name, x, activation_type(format->precision),
                      both && format->precision == Precision::mxfp8, {.finds_scale = finds});
}

TensorId fused(GraphBuilder& b, const LayerContext& c, TensorId query, TensorId key, TensorId value,
               const AttentionAttributes& attributes) {
  const Dimension tokens = b.shape(query)[0];
  const DataType written = b.tensor(query).type;
  b.group(RecomputeGroup::core_attention);
  std::optional<OperandFormat> format;
  if (c.attention_format && !c.inference) format = c.training_operands(*c.attention_format);
  const Layouts q_as = attention_operand(b, format, "attention_query", query, true);
  const Layouts k_as = attention_operand(b, format, "attention_key", key, true);
  const Layouts v_as = attention_operand(b, format, "attention_value", value, false);
  const TensorId q = q_as.rows, k = k_as.rows, v = v_as.rows;
  const TensorId o = b.activation("attention_out", {tokens, {attributes.query_heads * attributes.value_dim}}, written);
  const TensorId lse = b.activation("log_sum_exp", {tokens, {attributes.query_heads}}, DataType::fp32);
  b.emit(attention, "attention", {q, k, v}, {o, lse}, attributes);
  b.on_backward([&b, format, query, key, value, q_as, k_as, q, k, v, o, lse, attributes] {
    std::vector<TensorId> gradients;
    for (TensorId id : {query, key, value})
      gradients.push_back(b.activation("d_attention_" + b.tensor(id).name, b.shape(id), b.activation_gradient_type()));
    const Layouts d_out = attention_operand(b, format, "d_attention", b.gradient(o), true);
    std::vector<TensorId> reads = {d_out.rows, q, k, v, b.kept(o), lse};
    for (const Layouts& operand : {q_as, k_as, d_out})
      if (operand.columns) reads.push_back(*operand.columns);
    b.emit(attention_grad, "attention_grad", reads, gradients, attributes);
    b.add_gradient(query, gradients[0]);
    b.add_gradient(key, gradients[1]);
    b.add_gradient(value, gradients[2]);
  });
  return o;
}

BatchedMatmulAttributes batched(const AttentionAttributes& a, BatchedForm form, std::int64_t dim, double scale) {
  return {form, a.query_heads, a.key_value_heads, dim, a.sequence_length, scale};
}

// Computes q k^T / sqrt(dk) for every two tokens of a sequence, masked or not.
TensorId score(GraphBuilder& b, TensorId q, TensorId k, const AttentionAttributes& a) {
  const double scale = 1 / std::sqrt(static_cast<double>(a.query_key_dim));
  const TensorId scores =
      b.activation("attention_scores", {b.shape(q)[0], {a.query_heads * a.sequence_length}}, b.tensor(q).type);
  b.emit(batched_matmul, "scores", {q, k}, {scores}, batched(a, BatchedForm::rows, a.query_key_dim, scale));
  b.on_backward([&b, q, k, scores, a, scale] {
    const TensorId d_scores = b.gradient(scores);
    const TensorId dq = b.activation("d_scores_query", b.shape(q), b.activation_gradient_type());
    const TensorId dk = b.activation("d_scores_key", b.shape(k), b.activation_gradient_type());
    b.emit(batched_matmul, "scores_grad_query", {d_scores, k}, {dq},
           batched(a, BatchedForm::values, a.query_key_dim, scale));
    b.emit(batched_matmul, "scores_grad_key", {d_scores, q}, {dk},
           batched(a, BatchedForm::columns, a.query_key_dim, scale));
    b.add_gradient(q, dq);
    b.add_gradient(k, dk);
  });
  return scores;
}

TensorId normalize_scores(GraphBuilder& b, TensorId scores, const AttentionAttributes& a) {
  const TensorId p = b.activation("probabilities", b.shape(scores), b.tensor(scores).type);
  b.emit(softmax, "softmax", {scores}, {p}, a);
  b.on_backward([&b, scores, p, a] {
    const TensorId d_scores = b.activation("d_attention_scores", b.shape(scores), b.activation_gradient_type());
    b.emit(softmax_grad, "softmax_grad", {b.gradient(p), p}, {d_scores}, a);
    b.add_gradient(scores, d_scores);
  });
  return p;
}

TensorId weigh_values(GraphBuilder& b, TensorId p, TensorId v, const AttentionAttributes& a) {
  const TensorId o = b.activation("weighted_values", {b.shape(p)[0], {a.query_heads * a.value_dim}}, b.tensor(p).type);
  b.emit(batched_matmul, "weigh_values", {p, v}, {o}, batched(a, BatchedForm::values, a.value_dim, 1));
  b.on_backward([&b, p, v, o, a] {
    const TensorId d_out = b.gradient(o);
    const TensorId dp = b.activation("d_weights", b.shape(p), b.activation_gradient_type());
    const TensorId dv = b.activation("d_values", b.shape(v), b.activation_gradient_type());
    b.emit(batched_matmul, "weigh_values_grad_weights", {d_out, v}, {dp},
           batched(a, BatchedForm::rows, a.value_dim, 1));
    b.emit(batched_matmul, "weigh_values_grad_values", {p, d_out}, {dv},
           batched(a, BatchedForm::columns, a.value_dim, 1));
    b.add_gradient(p, dp);
    b.add_gradient(v, dv);
  });
  return o;
}

// The GEMM with v is outside of the recompute group: its result is small and kept, so it is never computed again.
TensorId unfused(GraphBuilder& b, TensorId q, TensorId k, TensorId v, const AttentionAttributes& a) {
  b.group(RecomputeGroup::core_attention);
  const TensorId p = normalize_scores(b, score(b, q, k, a), a);
  const TensorId kept = drop_out(b, "attention_dropout", p, a.dropout);
  b.group(RecomputeGroup::other);
  return weigh_values(b, kept, v, a);
}

}  // namespace

TensorId core_attention(GraphBuilder& b, const LayerContext& c, TensorId q, TensorId k, TensorId v,
                        const AttentionAttributes& attributes) {
  return c.fused_attention() ? fused(b, c, q, k, v, attributes) : unfused(b, q, k, v, attributes);
}

}  // namespace plumbline::model
