#include "model/layers/parallel.h"

#include <utility>

namespace plumbline::model {

namespace {

using enum OperatorKind;

// Gathers the rows of all ranks of the group in rank order; the backward pass reduce-scatters the gradient.
TensorId gathered(GraphBuilder& b, const std::string& name, TensorId x, Dimension rows,
                  const CollectiveAttributes& group, bool has_gradient = true) {
  const RecomputeGroup before = b.group();
  b.group(RecomputeGroup::gather);
  GraphBuilder::Shape shape = b.shape(x);
  shape[0] = rows;
  const TensorId all = b.activation(name + "_gathered", shape, b.tensor(x).type);
  b.emit(all_gather, "gather_" + name, {x}, {all}, group);
  b.group(before);
  if (!has_gradient) return all;
  b.on_backward([&b, name, x, all, group] {
    const TensorId dx = b.activation("d_" + name + "_scattered", b.shape(x), b.tensor(b.gradient(all)).type);
    b.emit(reduce_scatter, "scatter_d_" + name, {b.gradient(all)}, {dx}, group);
    b.add_gradient(x, dx);
  });
  return all;
}

// Reduce-scatters y by rows. The backward pass gathers the gradient, unless what wrote y takes each rank's own rows.
TensorId scattered(GraphBuilder& b, const std::string& name, TensorId y, Dimension rows,
                   const CollectiveAttributes& group, bool gathers_gradient = true) {
  GraphBuilder::Shape shape = b.shape(y);
  shape[0] = rows;
  const TensorId own = b.activation(name + "_scattered", shape, b.tensor(y).type);
  b.emit(reduce_scatter, "scatter_" + name, {y}, {own}, group);
  b.on_backward([&b, name, y, own, group, gathers_gradient] {
    if (!gathers_gradient) return b.add_gradient(y, b.gradient(own));
    const TensorId dy = b.activation("d_" + name + "_gathered", b.shape(y), b.tensor(b.gradient(own)).type);
    b.emit(all_gather, "gather_d_" + name, {b.gradient(own)}, {dy}, group);
    b.add_gradient(y, dy);
  });
  return own;
}

bool divides_tokens(const LayerContext& c) { return c.tensor > 1 && c.sequence; }

bool casts_before_gathers(const LayerContext& c, const OperandFormat& format) {
  return divides_tokens(c) && !c.inference && is_quantized(format.precision);
}

TensorId biased(GraphBuilder& b, const std::string& name, TensorId y) {
  const TensorId bias = b.parameter(name + "_bias", {b.shape(y)[1]}, b.tensor(y).type);
  const TensorId sum = b.activation(name + "_biased", b.shape(y), b.tensor(y).type);
  b.emit(add_bias, "add_" + name + "_bias", {y, bias}, {sum});
  b.on_backward([&b, name, y, bias, sum] {
    b.emit(column_sum, name + "_bias_grad", {b.gradient(sum)}, {b.gradient_of_parameter(bias)});
    b.add_gradient(y, b.gradient(sum));
  });
  return sum;
}

}  // namespace

TensorId enter_tensor_region(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  return divides_tokens(c) ? gathered(b, name, x, {c.tokens, Extent::tokens}, c.tensor_group()) : x;
}

TensorId enter_tensor_region(GraphBuilder& b, const LayerContext& c, const std::string& gemm, TensorId x,
                             const LinearOptions& reader) {
  TensorId operand = x;
  if (casts_before_gathers(c, reader.operands)) {
    b.group(reader.input_group);
    operand = gemm_operand(b, gemm, x, reader.operands);
    b.group(RecomputeGroup::other);
  }
  if (operand != x) b.on_backward([&b, x, operand] { b.add_gradient(x, b.gradient(operand)); });
  return enter_tensor_region(b, c, gemm + "_in", operand);
}

TensorId leave_tensor_region(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId y) {
  if (c.tensor == 1) return y;
  if (c.sequence) return scattered(b, name, y, {c.stream_tokens(), Extent::tokens}, c.tensor_group());
  const TensorId sum = b.activation(name + "_sum", b.shape(y), b.tensor(y).type);
  b.emit(all_reduce, "reduce_" + name, {y}, {sum}, c.tensor_group());
  b.on_backward([&b, y, sum] { b.add_gradient(y, b.gradient(sum)); });
  return sum;
}

CollectiveAttributes summing_ranks(const LayerContext& c) {
  return c.tensor > 1 && !c.sequence ? c.tensor_group() : CollectiveAttributes{};
}

TensorId column_parallel_linear(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                                std::int64_t out, LinearOptions options) {
  options.divided = c.tensor > 1;
  options.sums_gradient = summing_ranks(c);
  return linear(b, name, x, out / c.tensor, options);
}

TensorId row_parallel_linear(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                             std::int64_t out, LinearOptions options) {
  if (c.tensor == 1) return linear(b, name, x, out, options);
  const bool bias = std::exchange(options.bias, false);
  options.divided = true;
  const bool casts = !options.partial && casts_before_gathers(c, options.operands);
  if (casts) options.gathers_gradient = c.tensor_group();
  const TensorId part = linear(b, name, x, out, options);
  if (options.partial) return part;
  const TensorId y = casts ? scattered(b, name, part, {c.stream_tokens(), Extent::tokens}, c.tensor_group(), false)
                           : leave_tensor_region(b, c, name, part);
  return bias ? biased(b, name, y) : y;
}

TensorId gather_sequence(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  return gathered(b, name, x, {c.tokens * c.context, Extent::tokens}, c.context_group());
}

TensorId gather_received(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                         bool has_gradient) {
  if (c.expert_tensor == 1 || c.shares_tokens()) return x;
  const Dimension rows{c.received_tokens() * c.expert_tensor, Extent::gathered};
  return gathered(b, name, x, rows, c.expert_tensor_group(), has_gradient);
}

TensorId scatter_received(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId y) {
  if (c.expert_tensor == 1 || c.shares_tokens()) return y;
  return scattered(b, name, y, {c.received_tokens(), Extent::received}, c.expert_tensor_group());
}

}  // namespace plumbline::model
