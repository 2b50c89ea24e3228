#include "model/layers/mlp.h"

#include "model/layers/gelu.h"
#include "model/layers/linear.h"
#include "model/layers/parallel.h"
#include "model/layers/swiglu.h"

namespace plumbline::model {

TensorId gated_mlp(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                   std::int64_t intermediate) {
  const TensorId entered = enter_tensor_region(b, c, name + "gate_up_in", x);
  const TensorId gate_up = column_parallel_linear(b, c, name + "gate_up", entered, 2 * intermediate,
                                                  {.precision = c.gemm,
                                                   .input_group = RecomputeGroup::rmsnorm,
                                                   .output_group = RecomputeGroup::mlp,
                                                   .bias = c.architecture.biases.mlp});
  const TensorId h = gated_activation(b, c, name + "swiglu", gate_up, std::nullopt);
  return row_parallel_linear(
      b, c, name + "down", h, c.architecture.hidden_size,
      {.precision = c.gemm, .input_group = RecomputeGroup::swiglu, .bias = c.architecture.biases.mlp});
}

TensorId dense_mlp(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const Architecture& a = c.architecture;
  if (a.mlp == MlpKind::swiglu) return gated_mlp(b, c, "", x, a.intermediate_size);
  const TensorId entered = enter_tensor_region(b, c, "up_in", x);
  const TensorId up = column_parallel_linear(b, c, "up", entered, a.intermediate_size,
                                             {.precision = c.gemm,
                                              .input_group = RecomputeGroup::rmsnorm,
                                              .output_group = RecomputeGroup::mlp,
                                              .bias = a.biases.mlp});
  const TensorId h = gelu_activation(b, c, "gelu", up);
  return row_parallel_linear(b, c, "down", h, a.hidden_size,
                             {.precision = c.gemm, .input_group = RecomputeGroup::swiglu, .bias = a.biases.mlp});
}

}  // namespace plumbline::model
