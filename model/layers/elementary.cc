#include "model/layers/elementary.h"

namespace plumbline::model {

using enum OperatorKind;

namespace {

// Returns the format of gains and shifts: that of x, or BF16 for a quantized x.
DataType gain_type(const GraphBuilder& b, TensorId x) {
  const DataType type = b.tensor(x).type;
  return is_quantized(type) ? DataType::bf16 : type;
}

struct Norm {
  OperatorKind forward, backward;
  NormAttributes attributes;
  bool bias = false;
  DataType type = DataType::bf16;  // of the result
  bool gain = true;
};

TensorId normalized(GraphBuilder& b, const std::string& name, TensorId x, const Norm& norm) {
  b.group(RecomputeGroup::rmsnorm);
  const GraphBuilder::Shape row = {{b.shape(x)[1].size / norm.attributes.heads}};
  std::vector<TensorId> parameters, reads = {x};
  if (norm.gain) reads.push_back(parameters.emplace_back(b.parameter(name, row, gain_type(b, x))));
  if (norm.bias) reads.push_back(parameters.emplace_back(b.parameter(name + "_bias", row, gain_type(b, x))));
  const TensorId y = b.activation(name + "_out", b.shape(x), norm.type);
  b.emit(norm.forward, name, reads, {y}, norm.attributes);
  b.group(RecomputeGroup::other);
  b.on_backward([&b, name, x, parameters, y, norm] {
    const TensorId dy = b.gradient(y);
    std::vector<TensorId> writes = {b.activation("d_" + name + "_in", b.shape(x), b.activation_gradient_type())};
    for (TensorId parameter : parameters) writes.push_back(b.gradient_of_parameter(parameter));
    std::vector<TensorId> inputs = {dy, b.kept(x)};
    if (norm.gain) inputs.push_back(parameters[0]);
    b.emit(norm.backward, name + "_grad", inputs, writes, norm.attributes);
    b.add_gradient(x, writes[0]);
  });
  return y;
}

}  // namespace

TensorId normalize(GraphBuilder& b, const std::string& name, TensorId x, double epsilon, std::int64_t heads) {
  return normalized(b, name, x, {rmsnorm, rmsnorm_grad, {epsilon, heads}, false, b.tensor(x).type});
}

TensorId normalize_alone(GraphBuilder& b, const std::string& name, TensorId x, double epsilon, std::int64_t heads) {
  return normalized(b, name, x, {rmsnorm, rmsnorm_grad, {epsilon, heads}, false, b.tensor(x).type, false});
}

TensorId layer_normalize(GraphBuilder& b, const std::string& name, TensorId x, double epsilon, bool bias) {
  return normalized(b, name, x, {layernorm, layernorm_grad, {epsilon}, bias, b.tensor(x).type});
}

TensorId normalize_stream(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x, DataType type) {
  const Architecture& a = c.architecture;
  if (a.norm == NormKind::layer)
    return normalized(b, name, x, {layernorm, layernorm_grad, {a.norm_epsilon}, a.norm_bias, type, a.norm_gains});
  return normalized(b, name, x, {rmsnorm, rmsnorm_grad, {a.norm_epsilon}, false, type, a.norm_gains});
}

TensorId drop_out(GraphBuilder& b, const std::string& name, TensorId x, double probability) {
  if (probability == 0 || !b.drops_out()) return x;
  const DropoutAttributes attributes{probability};
  const TensorId y = b.activation(name + "_out", b.shape(x), b.tensor(x).type);
  const TensorId mask = b.activation(name + "_mask", b.shape(x), DataType::uint8);
  b.emit(dropout, name, {x}, {y, mask}, attributes);
  b.on_backward([&b, name, x, y, mask, attributes] {
    const TensorId dx = b.activation("d_" + name + "_in", b.shape(x), b.activation_gradient_type());
    b.emit(dropout_grad, name + "_grad", {b.gradient(y), mask}, {dx}, attributes);
    b.add_gradient(x, dx);
  });
  return y;
}

TensorId gated(GraphBuilder& b, const std::string& name, TensorId x, TensorId gate) {
  const bool rows = b.shape(gate)[1].size == 1;
  const TensorId y = b.activation(name + "_out", b.shape(x), b.tensor(x).type);
  b.emit(rows ? sigmoid_gate : gate_columns, name, {x, gate}, {y});
  b.on_backward([&b, name, x, gate, y, rows] {
    const TensorId dx = b.activation("d_" + name + "_in", b.shape(x), b.activation_gradient_type());
    const TensorId d_gate = b.activation("d_" + name + "_gate", b.shape(gate), b.activation_gradient_type());
    b.emit(rows ? sigmoid_gate_grad : gate_columns_grad, name + "_grad", {b.gradient(y), x, gate}, {dx, d_gate});
    b.add_gradient(x, dx);
    b.add_gradient(gate, d_gate);
  });
  return y;
}

TensorId residual(GraphBuilder& b, const std::string& name, const std::vector<TensorId>& terms) {
  const TensorId sum = b.activation(name, b.shape(terms[0]), b.tensor(terms[0]).type);
  b.emit(add, name, terms, {sum});
  b.on_backward([&b, terms, sum] {
    const TensorId gradient = b.gradient(sum);
    for (const TensorId term : terms) b.add_gradient(term, gradient);
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

TensorId reordered(GraphBuilder& b, const std::string& name, TensorId x) { return concatenate_columns(b, name, {x}); }

TensorId graph_gradient(GraphBuilder& b, const std::string& name, TensorId gradient) {
  const TensorId copy = b.activation("d_" + name + "_in_graph", b.shape(gradient), b.tensor(gradient).type);
  b.emit(concatenate, "graph_gradient_" + name, {gradient}, {copy});
  return copy;
}

TensorId borrowed(GraphBuilder& b, const std::string& name, const GraphBuilder::Shape& shape, DataType type) {
  const TensorId id = b.constant("borrowed_" + name, shape, type);
  b.on_backward([&b, name, id] {
    b.add_gradient(id, b.constant("d_" + name + "_of_others", b.shape(id), b.activation_gradient_type()));
    b.gradient(id);
  });
  return id;
}

TensorId rotate(GraphBuilder& b, const std::string& name, TensorId x, const RotaryAttributes& attributes,
                std::optional<TensorId> lengths) {
  const TensorId y = b.activation(name, b.shape(x), b.tensor(x).type);
  std::vector<TensorId> reads = {x};
  if (lengths) reads.push_back(*lengths);
  b.emit(rotary, name, reads, {y}, attributes);
  b.on_backward([&b, name, x, y, attributes] {
    const TensorId dx = b.activation("d_" + name, b.shape(x), b.activation_gradient_type());
    b.emit(rotary_grad, name + "_grad", {b.gradient(y)}, {dx}, attributes);
    b.add_gradient(x, dx);
  });
  return y;
}

void keep(GraphBuilder& b, TensorId x, DataType type) {
  if (b.forward_only()) return;
  b.group(b.group_of(x));
  const TensorId stored = b.activation(b.tensor(x).name + "_kept", b.shape(x), type);
  b.emit(cast, "keep_" + b.tensor(x).name, {x}, {stored}, CastAttributes{});
  b.keep_as(x, stored);
}

}  // namespace plumbline::model
