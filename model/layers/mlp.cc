#include "model/layers/mlp.h"

#include "model/layers/elementary.h"
#include "model/layers/linear.h"
#include "model/layers/swiglu.h"

namespace plumbline::model {

TensorId gated_mlp(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                   std::int64_t intermediate) {
  const TensorId gate_up =
      linear(b, name + "gate_up", x, 2 * intermediate,
             {.precision = c.gemm, .input_group = RecomputeGroup::rmsnorm, .output_group = RecomputeGroup::mlp});
  const TensorId h = gated_activation(b, c, name + "swiglu", gate_up, std::nullopt);
  return linear(b, name + "down", h, c.architecture.hidden_size,
                {.precision = c.gemm, .input_group = RecomputeGroup::swiglu});
}

}  // namespace plumbline::model
