#include "model/layers/linear.h"

#include <optional>

namespace plumbline::model {

namespace {

using enum OperatorKind;

struct Parts {
  std::string name;
  TensorId x, operand, weight, y;  // operand: x as the GEMM reads it
  std::int64_t in, out;
  Dimension tokens;
  std::optional<TensorId> bias;
  CollectiveAttributes sums_gradient;
  OperandFormat format;
};

// Adds the gradient of x: its sum over the ranks, where several ranks each have a part.
void give_input_gradient(GraphBuilder& b, const Parts& p, TensorId dx) {
  if (p.sums_gradient.ranks == 1) return b.add_gradient(p.x, dx);
  const TensorId sum = b.activation("sum_d_" + p.name + "_in", b.shape(dx), b.tensor(dx).type);
  b.emit(all_reduce, "reduce_d_" + p.name, {dx}, {sum}, p.sums_gradient);
  b.add_gradient(p.x, sum);
}

// The bias gradient is emitted in phase I, so that dy is not kept for it.
void bias_gradient(GraphBuilder& b, const Parts& p) {
  if (p.bias) b.emit(column_sum, p.name + "_bias_grad", {b.gradient(p.y)}, {b.gradient_of_parameter(*p.bias)});
}

// A pass of inference finds the scales of a few neighbors, or of a token, as it casts.
CastAttributes scaled_cast(const OperandFormat& format) {
  if (format.stored) return {};
  const bool whole = format.precision == Precision::fp8_tensor || format.precision == Precision::nvfp4;
  return {.scales_transposed = format.precision == Precision::fp8, .finds_scale = whole && !format.delayed_scaling};
}

// Returns what the name of a tensor gets that is another one in that format.
std::string suffix(DataType type) { return "_" + std::string(quantized_name(type)); }

// Returns W as the input gradient reads it.
TensorId transposed_weight(GraphBuilder& b, const Parts& p) {
  const bool stored = is_quantized(b.tensor(p.weight).type);
  const DataType type = stored ? b.tensor(p.weight).type : activation_type(p.format.precision);
  if (p.format.weights_cast_once) return b.constant(p.name + "_weight_t", {{p.in}, {p.out}}, type);
  const TensorId transposed = b.activation(p.name + "_weight_t", {{p.in}, {p.out}}, type);
  if (stored)
    b.emit(transpose, "transpose_" + p.name, {p.weight}, {transposed});
  else
    b.emit(cast_transpose, "cast_transpose_" + p.name, {p.weight}, {transposed});
  return transposed;
}

void quantized_gradients(GraphBuilder& b, const Parts& p) {
  const TensorId dy = b.gradient(p.y);
  const DataType type = activation_type(p.format.precision);
  const TensorId dy8 = b.activation("d_" + p.name + suffix(type), {p.tokens, {p.out}}, type);
  const auto add_transposed = [&] { return b.activation("d_" + p.name + "_t", {{p.out}, p.tokens}, type); };
  std::vector<TensorId> layouts = {dy8};
  if (p.format.delayed_scaling) layouts.push_back(add_transposed());
  b.emit(cast, "cast_d_" + p.name, {dy}, layouts, scaled_cast(p.format));
  const TensorId transposed = transposed_weight(b, p);
  const TensorId dx = b.activation("d_" + p.name + "_in", {p.tokens, {p.in}}, b.activation_gradient_type());
  b.emit(matmul, p.name + "_dgrad", {dy8, transposed}, {dx}, MatmulAttributes{.transpose_b = true});
  give_input_gradient(b, p, dx);

  const TensorId dyt = p.format.delayed_scaling ? layouts.back() : add_transposed();
  if (!p.format.delayed_scaling) b.emit(cast_transpose, "cast_transpose_d_" + p.name, {dy}, {dyt});
  const TensorId xt = b.activation(p.name + "_in_t", {{p.in}, p.tokens}, type);
  const TensorId stored = b.kept(p.x) == p.x ? p.operand : b.kept(p.x);
  b.emit(cast_transpose, "cast_transpose_" + p.name + "_in", {stored}, {xt});
  b.emit_weight_gradient(matmul, p.name + "_wgrad", {dyt, xt}, {b.gradient_of_parameter(p.weight)},
                         MatmulAttributes{.transpose_b = true, .accumulate = true});
}

void plain_gradients(GraphBuilder& b, const Parts& p) {
  const TensorId dy = b.gradient(p.y);
  const TensorId dx = b.activation("d_" + p.name + "_in", {p.tokens, {p.in}}, b.activation_gradient_type());
  b.emit(matmul, p.name + "_dgrad", {dy, p.weight}, {dx}, MatmulAttributes{});
  give_input_gradient(b, p, dx);
  b.emit_weight_gradient(matmul, p.name + "_wgrad", {dy, b.kept(p.x)}, {b.gradient_of_parameter(p.weight)},
                         MatmulAttributes{.transpose_a = true, .accumulate = true});
}

}  // namespace

TensorId linear(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out, const LinearOptions& options) {
  const bool quantized = is_quantized(options.operands.precision);
  const Dimension tokens = b.shape(x)[0];
  const std::int64_t in = b.shape(x)[1].size;
  TensorId operand = x;
  const DataType type = activation_type(options.operands.precision);
  if (quantized && !is_quantized(b.tensor(x).type)) {
    b.group(options.input_group);
    operand = b.activation(name + "_in" + suffix(type), b.shape(x), type);
    b.emit(cast, "cast_" + name, {x}, {operand}, scaled_cast(options.operands));
  }
  b.group(options.output_group);
  const TensorId weight = b.parameter(
      options.weight.empty() ? name : options.weight, {{out}, {in}}, options.operands.weight(),
      {.shared = options.shared, .divided = options.divided, .cast_once = options.operands.weights_cast_once});
  const DataType written = quantized ? DataType::bf16 : type;
  const TensorId y = b.activation(name + "_out", {tokens, {out}}, written);
  Parts parts{name, x, operand, weight, y, in, out, tokens, std::nullopt, options.sums_gradient, options.operands};
  TensorId factor = weight;
  if (quantized && !is_quantized(b.tensor(weight).type)) {
    const std::string copy = name + "_weight" + suffix(type);
    if (options.operands.weights_cast_once) {
      factor = b.constant(copy, b.shape(weight), type);
    } else {
      factor = b.activation(copy, b.shape(weight), type);
      b.emit(cast, "cast_" + name + "_weight", {weight}, {factor}, scaled_cast(options.operands));
    }
  }
  std::vector<TensorId> reads = {operand, factor};
  if (options.bias)
    reads.push_back(*(parts.bias = b.parameter(name + "_bias", {{out}}, written, {.divided = options.divided})));
  b.emit(matmul, name, reads, {y}, MatmulAttributes{.transpose_b = true});
  b.group(RecomputeGroup::other);
  b.on_backward([&b, parts, quantized] {
    quantized ? quantized_gradients(b, parts) : plain_gradients(b, parts);
    bias_gradient(b, parts);
  });
  return y;
}

}  // namespace plumbline::model
