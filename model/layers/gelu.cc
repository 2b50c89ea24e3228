#include "model/layers/gelu.h"

#include "model/layers/elementary.h"

namespace plumbline::model {

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

}  // namespace plumbline::model
