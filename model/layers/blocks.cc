#include "model/layers/blocks.h"

#include <utility>

#include "model/layers/attention.h"
#include "model/layers/elementary.h"
#include "model/layers/linear.h"
#include "model/layers/mlp.h"

namespace plumbline::model {

namespace {

using enum OperatorKind;

Dimension tokens(const LayerContext& c) { return {c.tokens, Extent::tokens}; }

TensorId transformer_layer(GraphBuilder& b, const LayerContext& c, TensorId x, bool moe) {
  const Architecture& a = c.architecture;
  b.section(Section::attention);
  const TensorId normalised = normalise(b, "attention_norm", x, a.norm_epsilon);
  const TensorId attended = residual(b, "attention_residual", x, attention_layer(b, c, normalised));
  const TensorId mlp_input = normalise(b, "mlp_norm", attended, a.norm_epsilon);
  if (moe) return mixture_of_experts(b, c, mlp_input, attended);
  b.section(Section::mlp);
  return residual(b, "mlp_residual", attended, gated_mlp(b, c, "", mlp_input, a.intermediate_size));
}

// The residual stream is BF16 in mixed-precision training (FP8 included), else the plan's own format.
DataType stream_type(const LayerContext& c) {
  return c.gemm == Precision::fp8 ? DataType::bf16 : activation_type(c.gemm);
}

Precision head_precision(const LayerContext& c) { return c.gemm == Precision::fp8 ? Precision::bf16 : c.gemm; }

TensorId embed(GraphBuilder& b, const LayerContext& c, TensorId ids, bool shared) {
  const Architecture& a = c.architecture;
  const TensorId table =
      b.parameter("embedding", {{a.vocabulary}, {a.hidden_size}}, weight_type(head_precision(c)), false, shared);
  const TensorId x = b.activation("embedded", {tokens(c), {a.hidden_size}}, stream_type(c));
  b.emit(embedding, "embedding", {ids, table}, {x});
  b.on_backward([&b, ids, table, x] {
    b.emit_weight_gradient(embedding_grad, "embedding_grad", {b.gradient(x), ids}, {b.gradient_of_parameter(table)});
  });
  return x;
}

// Final norm, output projection and mean cross-entropy over the labelled tokens. `shared_weight`: the
// projection's name in the block that owns it.
TensorId output_head(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId x,
                     const LossAttributes& attributes, const std::string& shared_weight) {
  b.section(Section::head);
  const TensorId normalised = normalise(b, prefix + "final_norm", x, c.architecture.norm_epsilon);
  const TensorId logits = linear(b, prefix + "output", normalised, c.architecture.vocabulary,
                                 {.precision = head_precision(c), .shared_weight = shared_weight});
  const TensorId labels = b.constant(prefix + "labels", {tokens(c)}, DataType::int32);
  const TensorId loss = b.activation(prefix + "loss", {{1}}, DataType::fp32);
  const TensorId lse = b.activation(prefix + "loss_log_sum_exp", {tokens(c)}, DataType::fp32);
  b.emit(cross_entropy, prefix + "cross_entropy", {logits, labels}, {loss, lse}, attributes);
  b.on_backward([&b, prefix, logits, labels, lse, attributes] {
    const TensorId d_logits = b.activation("d_" + prefix + "logits", b.shape(logits), b.activation_gradient_type());
    b.emit(cross_entropy_grad, prefix + "cross_entropy_grad", {logits, labels, lse}, {d_logits}, attributes);
    b.add_gradient(logits, d_logits);
  });
  return loss;
}

Graph embedding_block(const LayerContext& c) {
  GraphBuilder b("embedding", c.gradients);
  b.section(Section::embedding);
  const TensorId ids = b.constant("token_ids", {tokens(c)}, DataType::int32);
  const TensorId x = embed(b, c, ids, false);
  return b.finish(ids, x, c.recompute);
}

Graph layer_block(const LayerContext& c, bool moe) {
  GraphBuilder b(moe ? "moe_layer" : "dense_layer", c.gradients);
  const TensorId x = b.input("layer_in", {tokens(c), {c.architecture.hidden_size}}, stream_type(c));
  return b.finish(x, transformer_layer(b, c, x, moe), c.recompute);
}

// Predicts the token after the next: the stream joined with the embedding of the next token, one
// layer, and the main model's head. Embedding and head are those of the main model.
Graph multi_token_prediction_block(const LayerContext& c) {
  constexpr std::int64_t depth = 1;
  const Architecture& a = c.architecture;
  GraphBuilder b("multi_token_prediction", c.gradients);
  const TensorId x = b.input("layer_in", {tokens(c), {a.hidden_size}}, stream_type(c));
  const TensorId ids = b.constant("token_ids", {tokens(c)}, DataType::int32);
  b.section(Section::attention);
  const TensorId next = b.activation("next_token_ids", {tokens(c)}, DataType::int32);
  b.emit(shift_tokens, "shift_tokens", {ids}, {next}, ShiftAttributes{depth, c.sequence_length});
  const TensorId embedded = embed(b, c, next, c.shares_embedding);
  const TensorId joined = concatenate_columns(b, "mtp_join",
                                              {normalise(b, "mtp_stream_norm", x, a.norm_epsilon),
                                               normalise(b, "mtp_embedding_norm", embedded, a.norm_epsilon)});
  const TensorId projected = linear(b, "mtp_projection", joined, a.hidden_size, {.precision = c.gemm});
  const TensorId layer_out = transformer_layer(b, c, projected, a.experts.routed_experts > 0);
  output_head(b, c, "mtp_", layer_out, {depth, c.sequence_length, 1.0}, a.tied_embedding ? "embedding" : "output");
  return b.finish(x, x, c.recompute);
}

Graph head_block(const LayerContext& c) {
  GraphBuilder b("head", c.gradients);
  const TensorId x = b.input("layer_in", {tokens(c), {c.architecture.hidden_size}}, stream_type(c));
  const TensorId loss =
      output_head(b, c, "", x, {0, c.sequence_length, 1.0}, c.architecture.tied_embedding ? "embedding" : "");
  return b.finish(x, loss, c.recompute, true);
}

}  // namespace

Graph make_block(BlockKind kind, const LayerContext& context) {
  switch (kind) {
    case BlockKind::embedding:
      return embedding_block(context);
    case BlockKind::dense_layer:
      return layer_block(context, false);
    case BlockKind::moe_layer:
      return layer_block(context, true);
    case BlockKind::multi_token_prediction:
      return multi_token_prediction_block(context);
    case BlockKind::head:
      return head_block(context);
  }
  return {};
}

}  // namespace plumbline::model
