#include "model/layers/mlp.h"

#include "model/layers/activations.h"
#include "model/layers/linear.h"

namespace plumbline::model {
namespace {

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
