#include "model/layers/elementary.h"

namespace plumbline::model {

using enum OperatorKind;

TensorId normalise(GraphBuilder& b, const std::string& name, TensorId x, double epsilon) {
  b.group(RecomputeGroup::rmsnorm);
  const NormAttributes attributes{epsilon};
  const TensorId gamma = b.parameter(name, {{b.shape(x)[1].size}}, DataType::bf16);
  const TensorId y = b.activation(name + "_out", b.shape(x), b.tensor(x).type);
  b.emit(OperatorKind::rmsnorm, name, {x, gamma}, {y}, attributes);
  b.group(RecomputeGroup::other);
  b.on_backward([&b, name, x, gamma, y, attributes] {
    const TensorId dy = b.gradient(y);
    const TensorId dx = b.activation("d_" + name + "_in", b.shape(x), b.activation_gradient_type());
    b.emit(rmsnorm_grad, name + "_grad", {dy, b.kept(x), gamma}, {dx, b.gradient_of_parameter(gamma)}, attributes);
    b.add_gradient(x, dx);
  });
  return y;
}

TensorId residual(GraphBuilder& b, const std::string& name, TensorId a, TensorId other) {
  const TensorId sum = b.activation(name, b.shape(a), b.tensor(a).type);
  b.emit(add, name, {a, other}, {sum});
  b.on_backward([&b, a, other, sum] {
    const TensorId gradient = b.gradient(sum);
    b.add_gradient(a, gradient);
    b.add_gradient(other, gradient);
  });
  return sum;
}

std::vector<TensorId> split_columns(GraphBuilder& b, const std::string& name, TensorId x,
                                    const std::vector<std::int64_t>& widths) {
  std::vector<TensorId> parts;
  for (std::size_t i = 0; i < widths.size(); ++i)
    parts.push_back(b.activation(name + "_" + std::to_string(i), {b.shape(x)[0], {widths[i]}}, b.tensor(x).type));
  b.emit(split, name, {x}, parts);
  b.on_backward([&b, name, x, parts] {
    std::vector<TensorId> gradients;
    for (TensorId part : parts) gradients.push_back(b.gradient(part));
    const TensorId dx = b.activation("d_" + name, b.shape(x), b.activation_gradient_type());
    b.emit(concatenate, name + "_grad", gradients, {dx});
    b.add_gradient(x, dx);
  });
  return parts;
}

TensorId concatenate_columns(GraphBuilder& b, const std::string& name, const std::vector<TensorId>& parts) {
  std::int64_t width = 0;
  for (TensorId part : parts) width += b.shape(part)[1].size;
  const TensorId y = b.activation(name, {b.shape(parts[0])[0], {width}}, b.tensor(parts[0]).type);
  b.emit(concatenate, name, parts, {y});
  b.on_backward([&b, name, parts, y] {
    std::vector<TensorId> gradients;
    for (TensorId part : parts)
      gradients.push_back(b.activation("d_" + b.tensor(part).name, b.shape(part), b.activation_gradient_type()));
    b.emit(split, name + "_grad", {b.gradient(y)}, gradients);
    for (std::size_t i = 0; i < parts.size(); ++i) b.add_gradient(parts[i], gradients[i]);
  });
  return y;
}

TensorId rotate(GraphBuilder& b, const std::string& name, TensorId x, const RotaryAttributes& attributes) {
  const TensorId y = b.activation(name, b.shape(x), b.tensor(x).type);
  b.emit(rotary, name, {x}, {y}, attributes);
  b.on_backward([&b, name, x, y, attributes] {
    const TensorId dx = b.activation("d_" + name, b.shape(x), b.activation_gradient_type());
    b.emit(rotary_grad, name + "_grad", {b.gradient(y)}, {dx}, attributes);
    b.add_gradient(x, dx);
  });
  return y;
}

void keep(GraphBuilder& b, TensorId x, DataType type) {
  b.group(b.group_of(x));
  const TensorId stored = b.activation(b.tensor(x).name + "_kept", b.shape(x), type);
  b.emit(cast, "keep_" + b.tensor(x).name, {x}, {stored}, CastAttributes{});
  b.keep_as(x, stored);
}

}  // namespace plumbline::model
