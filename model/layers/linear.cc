#include "model/layers/linear.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/layers/elementary.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

// Gathers the rows of all ranks of the group in rank order; the backward pass reduce-scatters the gradient.
TensorId gathered(GraphBuilder& b, const std::string& name, TensorId x, Dimension rows,
                  const CollectiveAttributes& group, bool has_gradient = true) {
  const RecomputeGroup before = b.group();
  b.group(RecomputeGroup::always);
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
  return divides_tokens(c) && !c.inference && is_quantized(format.precision) && !format.row_scaling &&
         format.adapter_rank == 0;
}

// Adds the gradient of x: its sum over the ranks, where several ranks each have a part.
void give_input_gradient(GraphBuilder& b, const std::string& gemm, TensorId x, TensorId dx,
                         const CollectiveAttributes& sums) {
  if (sums.ranks == 1) return b.add_gradient(x, dx);
  const TensorId sum = b.activation("sum_d_" + gemm + "_in", b.shape(dx), b.tensor(dx).type);
  b.emit(all_reduce, "reduce_d_" + gemm, {dx}, {sum}, sums);
  b.add_gradient(x, sum);
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
  if (options.operands.adapter_rank > 0 && options.sums_gradient.ranks > 1) {
    const TensorId own = b.activation(name + "_in_of_rank", b.shape(x), b.tensor(x).type);  // only its gradient is used
    b.on_backward(
        [&b, name, x, own, ranks = options.sums_gradient] { give_input_gradient(b, name, x, b.gradient(own), ranks); });
    options.sums_gradient = {};
    options.gradient_of = own;
  }
  return linear(b, name, x, out / c.tensor, options);
}

TensorId row_parallel_linear(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                             std::int64_t out, LinearOptions options) {
  if (c.tensor == 1) return linear(b, name, x, out, options);
  const bool bias = std::exchange(options.bias, false);
  options.divided = options.divided_by_rows = true;
  const bool casts = !options.partial && casts_before_gathers(c, options.operands);
  if (casts) options.gathers_gradient = c.tensor_group();
  const TensorId part = linear(b, name, x, out, options);
  if (options.partial) return part;
  const TensorId y = casts ? scattered(b, name, part, {c.stream_tokens(), Extent::tokens}, c.tensor_group(), false)
                           : leave_tensor_region(b, c, name, part);
  return bias ? biased(b, name, y) : y;
}

TensorId head_linear(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                     const HeadMatmulAttributes& heads, std::int64_t in, std::int64_t out) {
  const TensorId weight =
      b.parameter(name, {{heads.heads}, {out}, {in}}, c.attention_operands().stored.value_or(b.tensor(x).type),
                  {.divided = c.tensor > 1});
  const TensorId y =
      b.activation(name + "_out", {b.shape(x)[0], {heads.heads * (out + heads.copied)}}, b.tensor(x).type);
  b.emit(head_matmul, name, {x, weight}, {y}, heads);
  b.on_backward([&b, name, x, weight, y, heads] {
    const TensorId dx = b.activation("d_" + name + "_in", b.shape(x), b.activation_gradient_type());
    b.emit(head_matmul_grad, name + "_dgrad", {b.gradient(y), weight}, {dx}, heads);
    b.add_gradient(x, dx);
    b.emit_weight_gradient(head_weight_grad, name + "_wgrad", {b.gradient(y), x}, {b.gradient_of_parameter(weight)},
                           heads);
  });
  return y;
}

TensorId gather_sequence(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  return gathered(b, name, x, {c.tokens * c.context, Extent::tokens}, c.context_group());
}

namespace {

// What is computed before attention is computed again with it, and so is this transfer (RecomputeGroup::other).
TensorId exchanged(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x, Dimension rows,
                   std::int64_t columns) {
  const RecomputeGroup before = b.group();
  b.group(RecomputeGroup::other);
  const TensorId y = b.activation(name + "_exchanged", {rows, {columns}}, b.tensor(x).type);
  b.emit(OperatorKind::exchange_heads, "exchange_" + name, {x}, {y}, c.context_group());
  b.group(before);
  b.on_backward([&b, &c, name, x, y] {
    const TensorId dx = b.activation("d_" + name + "_returned", b.shape(x), b.tensor(b.gradient(y)).type);
    b.emit(OperatorKind::exchange_heads, "return_d_" + name, {b.gradient(y)}, {dx}, c.context_group());
    b.add_gradient(x, dx);
  });
  return y;
}

}  // namespace

TensorId send_heads(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x, std::int64_t heads) {
  const std::int64_t columns = b.shape(x)[1].size / heads * std::max<std::int64_t>(1, heads / c.context);
  return exchanged(b, c, name, x, {c.tokens * c.context, Extent::tokens}, columns);
}

TensorId return_heads(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  return exchanged(b, c, name, x, {c.tokens, Extent::tokens}, b.shape(x)[1].size * c.context);
}

TensorId whole_sequences(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x,
                         std::int64_t heads) {
  return reordered(b, name + "_in_rows", send_heads(b, c, name, reordered(b, name + "_by_ranks", x), heads));
}

TensorId own_tokens(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  return reordered(b, name + "_in_columns", return_heads(b, c, name, reordered(b, name + "_by_ranks", x)));
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

namespace {

struct Parts {
  std::string name;
  TensorId x, operand, weight, factor, y;  // operand, factor: x and W as the GEMM reads them
  std::int64_t in, out;
  Dimension tokens;
  std::optional<TensorId> bias;
  CollectiveAttributes sums_gradient, gathers_gradient;  // the latter: each rank has the gradient of its own tokens
  std::int64_t chunks = 1;
  OperandFormat format;
  bool detached = false;
  TensorId gradient_of = 0;  // gets the gradient of x
};

// The bias gradient is emitted in phase I, so that dy is not kept for it.
void bias_gradient(GraphBuilder& b, const Parts& p) {
  if (p.bias) b.emit(column_sum, p.name + "_bias_grad", {b.gradient(p.y)}, {b.gradient_of_parameter(*p.bias)});
}

// Returns whether blocks along one direction have the scales, so that another direction is another cast of 16 bits.
bool scales_by_direction(Precision precision) { return precision == Precision::mxfp8 || precision == Precision::nvfp4; }

// The scales of a few neighbors, of a row, or in a pass of inference of a token are found by the kernel that casts.
CastAttributes scaled_cast(const OperandFormat& format) {
  if (format.stored || format.row_scaling) return {};
  const bool whole = format.precision == Precision::fp8_tensor || format.precision == Precision::nvfp4;
  return {.scales_transposed = format.precision == Precision::fp8, .finds_scale = whole && !format.delayed_scaling};
}

// Returns what the name of a tensor gets that is another one in that format.
std::string suffix(DataType type) { return "_" + std::string(quantized_name(type)); }

// Returns W as the input gradient reads it in the layout of the forward GEMM, whose cast is not kept.
TensorId weight_again(GraphBuilder& b, const Parts& p) {
  if (p.factor == p.weight || p.format.weights_cast_once) return p.factor;
  const std::string copy = p.name + "_weight_again";
  return cast_layouts(b, copy, "cast_" + copy, p.weight, b.tensor(p.factor).type, false, scaled_cast(p.format)).rows;
}

// Returns W transposed, as the input gradient reads it.
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

// Returns x, of which each rank has some tokens, with the tokens of all along dimension `along`.
TensorId gather_tokens(GraphBuilder& b, const Parts& p, TensorId x, std::size_t along) {
  if (p.gathers_gradient.ranks == 1) return x;
  GraphBuilder::Shape shape = b.shape(x);
  shape[along] = p.tokens;
  const std::string name = b.tensor(x).name;
  const TensorId all = b.activation(name + "_gathered", shape, b.tensor(x).type);
  b.emit(all_gather, "gather_" + name, {x}, {all}, p.gathers_gradient);
  return all;
}

// Returns the gradient of y as casts write it, of the rank's own tokens.
Layouts quantized_output_gradient(GraphBuilder& b, const Parts& p, TensorId dy) {
  const bool gathers_both = p.gathers_gradient.ranks > 1 && scales_by_direction(p.format.precision);
  const bool at_once = (p.format.delayed_scaling && !p.format.one_layout) || p.format.casts_both_layouts();
  return cast_layouts(b, "d_" + p.name, "cast_d_" + p.name, dy, activation_type(p.format.precision),
                      gathers_both || (at_once && p.gathers_gradient.ranks == 1), scaled_cast(p.format));
}

void quantized_gradients(GraphBuilder& b, const Parts& p) {
  const DataType type = activation_type(p.format.precision);
  const TensorId dy = b.gradient(p.y);
  const Layouts own = quantized_output_gradient(b, p, dy);
  const TensorId rows = gather_tokens(b, p, own.rows, 0);
  const bool one_layout = p.format.one_layout;
  const TensorId weight = one_layout ? weight_again(b, p) : transposed_weight(b, p);
  const TensorId dx = b.activation("d_" + p.name + "_in", {p.tokens, {p.in}}, b.activation_gradient_type());
  b.emit(matmul, p.name + "_dgrad", {rows, weight}, {dx},
         MatmulAttributes{.transpose_b = !one_layout, .chunks = p.chunks});
  give_input_gradient(b, p.name, p.gradient_of, dx, p.sums_gradient);

  const TensorId stored = b.kept(p.x) == p.x && !p.format.row_scaling ? p.operand : b.kept(p.x);
  if (one_layout) {
    const TensorId x = gemm_operand(b, p.name + "_again", stored, p.format);
    b.emit_weight_gradient(matmul, p.name + "_wgrad", {rows, x}, {b.gradient_of_parameter(p.weight)},
                           MatmulAttributes{.transpose_a = true, .accumulate = true, .chunks = p.chunks});
    return;
  }
  TensorId dyt = 0;
  if (own.columns) {
    dyt = gather_tokens(b, p, *own.columns, 1);
  } else {
    dyt = b.activation("d_" + p.name + "_t", {{p.out}, p.tokens}, type);
    b.emit(cast_transpose, "cast_transpose_d_" + p.name, {rows == own.rows ? dy : rows}, {dyt});
  }
  const TensorId xt = b.activation(p.name + "_in_t", {{p.in}, p.tokens}, type);
  b.emit(cast_transpose, "cast_transpose_" + p.name + "_in", {stored}, {xt});
  b.emit_weight_gradient(matmul, p.name + "_wgrad", {dyt, xt}, {b.gradient_of_parameter(p.weight)},
                         MatmulAttributes{.transpose_b = true, .accumulate = true, .chunks = p.chunks});
}

void plain_gradients(GraphBuilder& b, const Parts& p) {
  const TensorId dy = b.gradient(p.y);
  if (!p.detached) {
    const TensorId dx = b.activation("d_" + p.name + "_in", {p.tokens, {p.in}}, b.activation_gradient_type());
    const TensorId weight = stored_in_16_bits(b, p.name + "_weight_again", p.weight, b.tensor(p.y).type);
    b.emit(matmul, p.name + "_dgrad", {dy, weight}, {dx}, MatmulAttributes{.chunks = p.chunks});
    give_input_gradient(b, p.name, p.gradient_of, dx, p.sums_gradient);
  }
  b.emit_weight_gradient(matmul, p.name + "_wgrad", {dy, b.kept(p.x)}, {b.gradient_of_parameter(p.weight)},
                         MatmulAttributes{.transpose_a = true, .accumulate = true, .chunks = p.chunks});
}

}  // namespace

TensorId stored_in_16_bits(GraphBuilder& b, const std::string& copy, TensorId weight, DataType type) {
  if (b.tensor(weight).type != DataType::nf4) return weight;
  const TensorId wide = b.activation(copy, b.shape(weight), type);
  b.emit(cast, "dequantize_" + copy, {weight}, {wide}, CastAttributes{});
  return wide;
}

TensorId add_adapters(GraphBuilder& b, const std::string& name, TensorId y, const std::vector<std::int64_t>& parts,
                      RecomputeGroup group, bool own,
                      const std::function<TensorId(const std::string&, std::int64_t)>& adapter) {
  std::vector<TensorId> made;
  const bool trains = b.trains(), shares = b.shares();
  b.train(trains || !own);
  b.share(false);
  for (std::size_t i = 0; i < parts.size(); ++i)
    made.push_back(adapter(name + "_adapter" + (parts.size() > 1 ? std::to_string(i) : ""), parts[i]));
  b.train(trains);
  b.share(shares);
  b.group(group);
  const bool scaled = !own || made.size() > 1;
  const TensorId added = scaled ? concatenate_columns(b, name + "_adapters", made) : made.front();
  const TensorId sum = residual(b, name + "_adapted", {y, added});
  b.group(RecomputeGroup::other);
  return sum;
}

namespace {

// Where ranks divide W, each has its part of what the adapter adds: A is whole where W is divided by columns and B
// where it is divided by rows, so that no collectives are added. Next to a quantized W its GEMMs have 16 bits.
TensorId adapted(GraphBuilder& b, const std::string& name, TensorId x, TensorId y, const LinearOptions& options) {
  LinearOptions down = options;
  down.operands = {is_quantized(options.operands.precision) ? Precision::bf16 : options.operands.precision};
  down.bias = false;
  down.divided = options.divided_by_rows;
  LinearOptions up = down;
  up.divided = options.divided && !options.divided_by_rows;
  up.input_group = options.output_group;
  up.sums_gradient = {};
  up.gradient_of = {};
  const std::vector<std::int64_t> whole = {b.shape(y)[1].size};
  return add_adapters(b, name, y, options.parts.empty() ? whole : options.parts, options.output_group,
                      options.own_adapter, [&](const std::string& part, std::int64_t columns) {
                        const TensorId a = linear(b, part + "_a", x, options.operands.adapter_rank, down);
                        return linear(b, part + "_b", a, columns, up);
                      });
}

}  // namespace

Layouts cast_layouts(GraphBuilder& b, const std::string& name, const std::string& cast_name, TensorId x, DataType type,
                     bool columns, const CastAttributes& attributes) {
  std::vector<TensorId> writes = {b.activation(name + suffix(type), b.shape(x), type)};
  if (columns) writes.push_back(b.activation(name + "_t", {b.shape(x)[1], b.shape(x)[0]}, type));
  b.emit(cast, cast_name, {x}, writes, attributes);
  return {writes[0], columns ? std::optional(writes[1]) : std::nullopt};
}

TensorId gemm_operand(GraphBuilder& b, const std::string& name, TensorId x, const OperandFormat& format) {
  if (!is_quantized(format.precision) || is_quantized(b.tensor(x).type)) return x;
  const DataType type = activation_type(format.precision);
  return cast_layouts(b, name + "_in", "cast_" + name, x, type, false, scaled_cast(format)).rows;
}

TensorId linear(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t out, const LinearOptions& options) {
  const bool quantized = is_quantized(options.operands.precision);
  const Dimension tokens = b.shape(x)[0];
  const std::int64_t in = b.shape(x)[1].size;
  const DataType type = activation_type(options.operands.precision);
  b.group(options.input_group);
  const TensorId operand = gemm_operand(b, name, x, options.operands);
  b.group(options.output_group);
  const TensorId weight =
      b.parameter(options.weight.empty() ? name : options.weight, {{out}, {in}}, options.operands.weight(),
                  {.shared = options.shared, .divided = options.divided, .copies = options.operands.copies()});
  const DataType written = quantized ? DataType::bf16 : type;
  const TensorId y = b.activation(name + "_out", {tokens, {out}}, written);
  Parts parts{.name = name,
              .x = x,
              .operand = operand,
              .weight = weight,
              .factor = weight,
              .y = y,
              .in = in,
              .out = out,
              .tokens = tokens,
              .bias = {},
              .sums_gradient = options.sums_gradient,
              .gathers_gradient = options.gathers_gradient,
              .chunks = options.chunks,
              .format = options.operands,
              .detached = options.detached,
              .gradient_of = options.gradient_of.value_or(x)};
  TensorId factor = stored_in_16_bits(b, name + "_weight_bf16", weight, type);
  if (quantized && !is_quantized(b.tensor(weight).type)) {
    const std::string copy = name + "_weight";
    factor = options.operands.weights_cast_once
                 ? b.constant(copy + suffix(type), b.shape(weight), type)
                 : cast_layouts(b, copy, "cast_" + copy, weight, type, false, scaled_cast(options.operands)).rows;
  }
  parts.factor = factor;
  std::vector<TensorId> reads = {operand, factor};
  if (options.bias)
    reads.push_back(*(parts.bias = b.parameter(name + "_bias", {{out}}, written, {.divided = options.divided})));
  b.emit(matmul, name, reads, {y}, MatmulAttributes{.transpose_b = true, .chunks = options.chunks});
  b.in_chunks(y, options.chunks);
  b.group(RecomputeGroup::other);
  b.on_backward([&b, parts, quantized] {
    quantized ? quantized_gradients(b, parts) : plain_gradients(b, parts);
    bias_gradient(b, parts);
  });
  return options.operands.adapter_rank > 0 ? adapted(b, name, x, y, options) : y;
}

}  // namespace plumbline::model
