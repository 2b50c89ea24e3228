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

// A GEMM widens the rows, an activation follows, and another GEMM narrows them.
template <class Activation>
TensorId two_matrices(GraphBuilder& b, const LayerContext& c, const std::string& up, const std::string& down,
                      TensorId x, std::int64_t width, const Activation& activation, bool partial = false) {
  const bool bias = c.architecture.biases.mlp;
  const LinearOptions options{.operands = c.operands(),
                              .input_group = RecomputeGroup::rmsnorm,
                              .output_group = RecomputeGroup::mlp,
                              .bias = bias};
  const TensorId wide = column_parallel_linear(b, c, up, enter_tensor_region(b, c, up, x, options), width, options);
  return row_parallel_linear(
      b, c, down, activation(wide), c.architecture.hidden_size,
      {.operands = c.operands(), .input_group = RecomputeGroup::swiglu, .bias = bias, .partial = partial});
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
  std::vector<TensorId> reads = {gate_up};
  if (row_weights) reads.push_back(*row_weights);
  b.group(RecomputeGroup::swiglu);
  const TensorId h = b.activation(name + "_out", shape, fp8 ? DataType::fp8_tile : b.tensor(gate_up).type);
  b.emit(OperatorKind::swiglu, name, reads, {h});
  b.group(RecomputeGroup::other);
  b.on_backward([&b, name, gate_up, row_weights, h] {
    const TensorId d_gate_up = b.activation("d_" + name + "_in", b.shape(gate_up), b.activation_gradient_type());
    std::vector<TensorId> inputs = {b.gradient(h), b.kept(gate_up)};
    std::vector<TensorId> outputs = {d_gate_up};
    if (row_weights) {
      inputs.push_back(*row_weights);
      outputs.push_back(b.activation("d_row_weights", b.shape(*row_weights), DataType::fp32));
    }
    b.emit(OperatorKind::swiglu_grad, name + "_grad", inputs, outputs);
    b.add_gradient(gate_up, d_gate_up);
    if (row_weights) b.add_gradient(*row_weights, outputs[1]);
  });
  return h;
}

TensorId gelu_activation(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  const bool fp8 = c.operands().precision == Precision::fp8;
  if (fp8) keep(b, x, DataType::fp8_tile);
  b.group(RecomputeGroup::swiglu);
  const TensorId h = b.activation(name + "_out", b.shape(x), fp8 ? DataType::fp8_tile : b.tensor(x).type);
  b.emit(OperatorKind::gelu, name, {x}, {h});
  b.group(RecomputeGroup::other);
  b.on_backward([&b, name, x, h] {
    const TensorId dx = b.activation("d_" + name + "_in", b.shape(x), b.activation_gradient_type());
    b.emit(OperatorKind::gelu_grad, name + "_grad", {b.gradient(h), b.kept(x)}, {dx});
    b.add_gradient(x, dx);
  });
  return h;
}

TensorId gated_mlp(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                   std::int64_t intermediate, bool partial) {
  const auto activation = [&](TensorId gate_up) {
    return gated_activation(b, c, name + "swiglu", gate_up, std::nullopt);
  };
  return two_matrices(b, c, name + "gate_up", name + "down", x, 2 * intermediate, activation, partial);
}

TensorId dense_mlp(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const Architecture& a = c.architecture;
  if (a.mlp == MlpKind::swiglu) return gated_mlp(b, c, "", x, a.intermediate_size);
  return two_matrices(b, c, "up", "down", x, a.intermediate_size,
                      [&](TensorId up) { return gelu_activation(b, c, "gelu", up); });
}

}  // namespace plumbline::model
