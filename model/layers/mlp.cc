#include "model/layers/mlp.h"

#include "model/layers/elementary.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

TensorId limited(GraphBuilder& b, const std::string& name, TensorId gate_up, double limit) {
  const TensorId y = b.activation(name + "_limited", b.shape(gate_up), b.tensor(gate_up).type);
  const ClampAttributes attributes{limit};
  b.emit(OperatorKind::clamp, name + "_clamp", {gate_up}, {y}, attributes);
  b.on_backward([&b, name, gate_up, y, attributes] {
    const TensorId dx = b.activation("d_" + name + "_limited", b.shape(gate_up), b.activation_gradient_type());
    b.emit(OperatorKind::clamp_grad, name + "_clamp_grad", {b.gradient(y), gate_up}, {dx}, attributes);
    b.add_gradient(gate_up, dx);
  });
  return y;
}

struct ActivationKinds {
  OperatorKind forward, backward;
};

// Writes h from x, optionally times a weight per row.
void emit_activation(GraphBuilder& b, const std::string& name, ActivationKinds kinds, TensorId x,
                     std::optional<TensorId> row_weights, TensorId h) {
  std::vector<TensorId> reads = {x};
  if (row_weights) reads.push_back(*row_weights);
  b.emit(kinds.forward, name, reads, {h});
  b.group(RecomputeGroup::other);
  b.on_backward([&b, name, kinds, x, row_weights, h] {
    std::vector<TensorId> inputs = {b.gradient(h), b.kept(x)};
    std::vector<TensorId> outputs = {b.activation("d_" + name + "_in", b.shape(x), b.activation_gradient_type())};
    if (row_weights) {
      inputs.push_back(*row_weights);
      outputs.push_back(b.activation("d_row_weights", b.shape(*row_weights), DataType::fp32));
    }
    b.emit(kinds.backward, name + "_grad", inputs, outputs);
    b.add_gradient(x, outputs[0]);
    if (row_weights) b.add_gradient(*row_weights, outputs[1]);
  });
}

}  // namespace

TensorId gated_activation(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId gate_up,
                          std::optional<TensorId> row_weights) {
  const GraphBuilder::Shape shape = {b.shape(gate_up)[0], {b.shape(gate_up)[1].size / 2}};
  const bool fp8 = c.operands().precision == Precision::fp8;
  // Engines clamp in the kernel of the activation.
  if (c.architecture.swiglu_limit > 0 && !c.inference) {
    b.group(RecomputeGroup::swiglu);
    gate_up = limited(b, name, gate_up, c.architecture.swiglu_limit);
  }
  if (fp8) keep(b, gate_up, DataType::fp8_tile);
  b.group(RecomputeGroup::swiglu);
  const TensorId h = b.activation(name + "_out", shape, fp8 ? DataType::fp8_tile : b.tensor(gate_up).type);
  emit_activation(b, name, {OperatorKind::swiglu, OperatorKind::swiglu_grad}, gate_up, row_weights, h);
  return h;
}

TensorId gelu_activation(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                         std::optional<TensorId> row_weights) {
  const bool fp8 = c.operands().precision == Precision::fp8;
  if (fp8) keep(b, x, DataType::fp8_tile);
  b.group(RecomputeGroup::swiglu);
  const TensorId h = b.activation(name + "_out", b.shape(x), fp8 ? DataType::fp8_tile : b.tensor(x).type);
  emit_activation(b, name, {OperatorKind::gelu, OperatorKind::gelu_grad}, x, row_weights, h);
  return h;
}

std::int64_t wide_columns(const LayerContext& c, std::int64_t intermediate) {
  return c.architecture.mlp == MlpKind::swiglu ? 2 * intermediate : intermediate;
}

std::vector<std::int64_t> adapted_parts(const LayerContext& c, std::int64_t intermediate) {
  return std::vector<std::int64_t>(c.architecture.mlp == MlpKind::swiglu ? 2 : 1, intermediate);
}

TensorId activated(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId wide,
                   std::optional<TensorId> row_weights) {
  return c.architecture.mlp == MlpKind::swiglu ? gated_activation(b, c, prefix + "swiglu", wide, row_weights)
                                               : gelu_activation(b, c, prefix + "gelu", wide, row_weights);
}

TensorId mlp(GraphBuilder& b, const LayerContext& c, const std::string& prefix, TensorId x, std::int64_t intermediate,
             bool partial) {
  const bool bias = c.architecture.biases.mlp;
  const std::string up = prefix + (c.architecture.mlp == MlpKind::swiglu ? "gate_up" : "up");
  const LinearOptions options{.operands = c.operands(),
                              .input_group = RecomputeGroup::rmsnorm,
                              .output_group = RecomputeGroup::mlp,
                              .bias = bias,
                              .parts = adapted_parts(c, intermediate / c.tensor)};
  const TensorId wide = column_parallel_linear(b, c, up, enter_tensor_region(b, c, up, x, options),
                                               wide_columns(c, intermediate), options);
  return row_parallel_linear(
      b, c, prefix + "down", activated(b, c, prefix, wide), c.architecture.hidden_size,
      {.operands = c.operands(), .input_group = RecomputeGroup::swiglu, .bias = bias, .partial = partial});
}

}  // namespace plumbline::model
