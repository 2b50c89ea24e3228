#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/layers/elementary.h"
#include "model/layers/linear.h"
#include "model/layers/mlp.h"

namespace plumbline::model {
namespace {

using enum OperatorKind;

// Bytes per token in addition to the payload, as DeepEP's kernels send them: 8 of source metadata; 4 + 4 per selected
// expert with the routing; 4 per selected expert with the gradient of the weights. HybridEP's are those of an NVLink
// domain (CommunicationCost).
constexpr std::int64_t source_metadata_bytes = 8;
constexpr std::int64_t routing_bytes_per_expert = 8;
constexpr std::int64_t weight_gradient_bytes_per_expert = 4;
// Bytes per token and expert of the model that Megatron's gather brings: a byte of the routing map and a probability.
constexpr std::int64_t gathered_routing_bytes = 5;
// Bytes per copy of a token in DeepEP's low-latency dispatch: the index of its source, in a message of whole 16 bytes.
constexpr std::int64_t low_latency_header_bytes = 16;

struct Routing {
  TensorId indices, weights;  // [T, k]
};
struct Received {
  TensorId tokens, indices, weights;  // [R, H], [R, k], [R, k]
  TensorId offsets = 0;               // [e+1]; where rows arrive by expert
};
struct Rows {
  TensorId rows, map, weights, offsets;  // [N, H], [N], [N], [e+1]
};

std::int64_t payload_bytes(const LayerContext& c, DataType type) {
  return static_cast<std::int64_t>(static_cast<double>(c.architecture.expert_hidden()) * bytes_per_element(type));
}

DispatchAttributes all_to_all(const LayerContext& c, DataType type, std::int64_t extra_bytes) {
  const MixtureOfExperts& e = c.architecture.experts;
  const bool collective = is_collective(c.dispatcher);
  const bool has_metadata = c.dispatcher == Dispatcher::deepep;
  return {e.routed_experts,
          c.experts_per_rank(),
          e.experts_per_token,
          payload_bytes(c, type) + extra_bytes + (has_metadata ? source_metadata_bytes : 0),
          c.dispatcher,
          c.in_order(),
          collective && !c.even_rows};
}

// Returns the bytes per token that a dispatch sends with the payload, or that its gradient sends back.
std::int64_t routing_bytes(const LayerContext& c, bool forward) {
  const std::int64_t k = c.architecture.experts.experts_per_token;
  if (c.dispatcher == Dispatcher::hybridep) return 0;
  if (c.dispatcher == Dispatcher::alltoall) return weight_gradient_bytes_per_expert;  // of a copy
  if (c.dispatcher == Dispatcher::allgather && !c.inference)
    return gathered_routing_bytes * c.architecture.experts.routed_experts;
  return (forward ? routing_bytes_per_expert : weight_gradient_bytes_per_expert) * k;
}

// The router is never an FP8 GEMM, and its scores are in FP32. It is recomputed under policy "full" only.
Routing route(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const MixtureOfExperts& e = c.architecture.experts;
  const Dimension tokens = b.shape(x)[0];
  const std::int64_t scored = e.routed_experts + e.idle_experts;
  const TensorId logits =
      linear(b, c.architecture.biases.router ? "router_logits" : "router", x, scored,
             {.operands = {c.unscaled_gemm()}, .bias = c.architecture.biases.router, .weight = "router"});
  const TensorId bias = b.constant("router_bias", {{scored}}, DataType::fp32);
  const RouterAttributes attributes{e.routed_experts,    e.experts_per_token,   e.groups,
                                    c.groups_per_token,  e.group_score_experts, e.score,
                                    e.normalize_weights, e.scaling_factor};
  const Dimension chosen{e.experts_per_token};
  const Routing routing{b.activation("expert_indices", {tokens, chosen}, DataType::int32),
                        b.activation("expert_weights", {tokens, chosen}, DataType::fp32)};
  b.emit(router, "router_choice", {logits, bias}, {routing.indices, routing.weights}, attributes);
  b.on_backward([&b, logits, routing, attributes] {
    const TensorId d_logits = b.activation("d_router_logits", b.shape(logits), b.activation_gradient_type());
    b.emit(router_grad, "router_choice_grad", {b.gradient(routing.weights), logits, routing.indices}, {d_logits},
           attributes);
    b.add_gradient(logits, d_logits);
  });
  return routing;
}

// Returns the gradient of what the router's part of a layer computes where its CUDA graph reads it.
TensorId into_router(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId gradient) {
  return c.captured_router ? graph_gradient(b, name, gradient) : gradient;
}

// Projects tokens to the latent that routed experts read, where there is one. The projection follows the router's part
// of a layer (megatron/core/transformer/moe/moe_layer.py @0011998, router_and_preprocess) and is held whole on each
// rank of a tensor group, as the one back is.
TensorId to_latent(GraphBuilder& b, const LayerContext& c, TensorId x) {
  const std::int64_t latent = c.architecture.experts.latent_size;
  if (latent == 0) return x;
  LinearOptions options{.operands = c.operands(), .output_group = RecomputeGroup::moe};
  if (c.captured_router) {
    options.gradient_of = b.activation("latent_in", b.shape(x), b.tensor(x).type);  // only its gradient is used
    b.on_backward([&b, &c, x, read = *options.gradient_of] {
      b.add_gradient(x, into_router(b, c, "latent_down", b.gradient(read)));
    });
  }
  return linear(b, "latent_down", x, latent, options);
}

TensorId from_latent(GraphBuilder& b, const LayerContext& c, TensorId sums) {
  const Architecture& a = c.architecture;
  if (a.experts.latent_size == 0) return sums;
  if (a.experts.latent_norm) sums = normalize(b, "latent_norm", sums, a.norm_epsilon);
  return linear(b, "latent_up", sums, a.hidden_size, {.operands = c.operands()});
}

// Returns the gradient of tokens that are sent: those of the router's part or, made of them behind it, latents.
TensorId of_sent(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId gradient) {
  return c.architecture.experts.latent_size > 0 ? gradient : into_router(b, c, name, gradient);
}

// Copies the rank's tokens to rows in the order of all experts, one for each choice, which the all-to-all of NCCL
// sends.
Rows copy_tokens(GraphBuilder& b, const LayerContext& c, TensorId x, const Routing& routing) {
  b.group(RecomputeGroup::moe);
  const std::int64_t experts = c.architecture.experts.routed_experts;
  const Dimension n{c.copied_rows(), Extent::tokens};
  DispatchAttributes attributes = all_to_all(c, b.tensor(x).type, 0);
  attributes.experts_per_rank = experts;
  const Rows copies{b.activation("copies", {n, b.shape(x)[1]}, b.tensor(x).type),
                    b.activation("copy_map", {n}, DataType::int32),
                    b.activation("copy_weights", {n, {1}}, DataType::fp32),
                    b.activation("copy_offsets", {{experts + 1}}, DataType::int32)};
  b.emit(permute, "copy_tokens", {x, routing.indices, routing.weights},
         {copies.rows, copies.map, copies.weights, copies.offsets}, attributes);
  b.on_backward([&b, &c, x, routing, copies, attributes] {
    const TensorId dx = b.activation("d_copied", b.shape(x), b.activation_gradient_type());
    const TensorId dw = b.activation("d_chosen_weights", b.shape(routing.weights), DataType::fp32);
    b.emit(permute_grad, "copy_tokens_grad",
           {b.gradient(copies.rows), copies.map, b.gradient(copies.weights), routing.indices}, {dx, dw}, attributes);
    b.add_gradient(x, of_sent(b, c, "copy_tokens", dx));
    b.add_gradient(routing.weights, dw);
  });
  return copies;
}

Received send_to_experts(GraphBuilder& b, const LayerContext& c, TensorId x, const Routing& routing) {
  TensorId payload = x;
  const DataType type = activation_type(c.dispatch);
  if (type != b.tensor(x).type) {
    payload = b.activation("dispatch_payload", b.shape(x), type);
    b.emit(cast, "cast_dispatch", {x}, {payload}, CastAttributes{});
  }
  b.section(Section::dispatch);
  b.group(RecomputeGroup::moe);
  const std::int64_t k = b.shape(routing.weights)[1].size;
  const Dimension received{c.received_tokens(), Extent::received};
  Received r{b.activation("received_tokens", {received, b.shape(x)[1]}, type),
             b.activation("received_indices", {received, {k}}, DataType::int32),
             b.activation("received_weights", {received, {k}}, DataType::fp32)};
  std::vector<TensorId> writes = {r.tokens, r.indices, r.weights};
  if (c.dispatcher == Dispatcher::alltoall) {
    r.offsets = b.activation("received_offsets", {{c.experts_per_rank() + 1}}, DataType::int32);
    writes.push_back(r.offsets);
  }
  b.emit(dispatch, "dispatch", {payload, routing.indices, routing.weights}, writes,
         all_to_all(c, type, routing_bytes(c, true)));
  b.on_backward([&b, &c, x, routing, r] {
    const TensorId dx = b.activation("d_dispatch", b.shape(x), b.activation_gradient_type());
    const TensorId dw = b.activation("d_expert_weights", b.shape(routing.weights), DataType::fp32);
    b.emit(dispatch_grad, "dispatch_grad", {b.gradient(r.tokens), b.gradient(r.weights), routing.indices}, {dx, dw},
           all_to_all(c, activation_type(c.combine), routing_bytes(c, false)));
    b.add_gradient(x, c.dispatcher == Dispatcher::alltoall ? dx : of_sent(b, c, "dispatch", dx));
    b.add_gradient(routing.weights, dw);
  });
  return r;
}

// Sends a copy of each token to each of its experts. The kernel casts it, and the rows that it writes are in the order
// of the rank's experts.
Received send_copies(GraphBuilder& b, const LayerContext& c, TensorId x, const Routing& routing) {
  b.section(Section::dispatch);
  const DataType type = activation_type(c.dispatch);
  Received r{b.activation("expert_rows", {{c.copied_rows(), Extent::rows}, b.shape(x)[1]}, type), 0, 0,
             b.activation("expert_offsets", {{c.experts_per_rank() + 1}}, DataType::int32)};
  b.emit(dispatch, "dispatch", {x, routing.indices}, {r.tokens, r.offsets},
         all_to_all(c, type, low_latency_header_bytes));
  return r;
}

// Returns the format of an expert's rows: that of its operands where tokens arrive in it, else 16 bits, which are cast
// when the rows are there. One scale per tensor is found over all rows of an expert, which come from several ranks.
DataType expert_row_type(const LayerContext& c) {
  const Precision precision = c.expert_operands().precision;
  const bool arrives = precision != Precision::fp8_tensor && activation_type(precision) == activation_type(c.dispatch);
  return arrives ? activation_type(precision) : c.stream_type();
}

// Copies tokens to rows ordered by expert. After DeepEP the rows are dropped: the backward pass gathers them again from
// the received tokens, which are kept once. Megatron's other dispatchers keep the rows: HybridEP's next dispatch
// overwrites what it received.
Rows to_rows(GraphBuilder& b, const LayerContext& c, const Received& received) {
  b.section(Section::mlp);
  b.group(RecomputeGroup::moe);
  const Dimension n{c.expert_rows(), Extent::rows};
  const DispatchAttributes attributes = all_to_all(c, b.tensor(received.tokens).type, 0);
  const DataType type = c.inference ? b.tensor(received.tokens).type : expert_row_type(c);
  const Rows rows{b.activation("expert_rows", {n, b.shape(received.tokens)[1]}, type),
                  b.activation("row_map", {n}, DataType::int32), b.activation("row_weights", {n}, DataType::fp32),
                  b.activation("expert_offsets", {{c.experts_per_rank() + 1}}, DataType::int32)};
  b.emit(permute, "permute", {received.tokens, received.indices, received.weights},
         {rows.rows, rows.map, rows.weights, rows.offsets}, attributes);
  b.on_backward([&b, received, rows, attributes] {
    const TensorId dx = b.activation("d_received", b.shape(received.tokens), b.activation_gradient_type());
    const TensorId dw = b.activation("d_received_weights", b.shape(received.weights), DataType::fp32);
    b.emit(permute_grad, "permute_grad", {b.gradient(rows.rows), rows.map, b.gradient(rows.weights), received.indices},
           {dx, dw}, attributes);
    b.add_gradient(received.tokens, dx);
    b.add_gradient(received.weights, dw);
  });
  return rows;
}

// There is one GEMM per local expert. FP8 weights in blocks are stored [e, in, out], as the input gradient reads them,
// and transposed before the forward GEMM; other formats are stored [e, out, in]. Those of other quantized formats are
// BF16 and cast for each GEMM, or once a step, or stored quantized (OperandFormat).
struct ExpertGemm {
  std::string name;
  TensorId x, weight, y, offsets;
  std::int64_t in, out;
  Dimension rows;
  bool casts_columns;  // where the cast of x writes both layouts at once
  // For quantized weight gradients [in, N], or in one layout the rows of the forward GEMM; emitted in phase W or I.
  std::function<TensorId()> transposed_input;
  std::function<TensorId()> transposed_gradient;  // [out, N] where the gradient arrives quantized, emitted in phase W
  std::function<TensorId()> wide_input;           // [N, in] in 16 bits, of an adapter's weight gradient
  TensorId factor = 0;                            // W as the forward GEMM reads it
};

// Returns x in the format of the operands, cast if it has another: what belongs to so many experts. Where the scales
// are there before, one kernel casts for all of them (NVIDIA/TransformerEngine
// transformer_engine/pytorch/csrc/extensions/ cast.cpp @006b3360, multi_tensor_quantize_impl).
Layouts quantized_layouts(GraphBuilder& b, const std::string& name, const std::string& cast_name, TensorId x,
                          const OperandFormat& format, std::int64_t experts, bool columns) {
  const DataType type = activation_type(format.precision);
  if (b.tensor(x).type == type) return {x, {}};
  const bool whole = format.precision == Precision::fp8_tensor || format.precision == Precision::nvfp4;
  return cast_layouts(b, name, cast_name, x, type, columns,
                      {.finds_scale = whole && !format.delayed_scaling && !format.row_scaling && !b.forward_only(),
                       .experts = format.delayed_scaling ? 1 : experts});
}

TensorId quantized(GraphBuilder& b, const std::string& name, const std::string& cast_name, TensorId x,
                   const OperandFormat& format, std::int64_t experts) {
  return quantized_layouts(b, name, cast_name, x, format, experts, false).rows;
}

// Returns W as the input gradient reads it in the layout of the forward GEMM, whose cast is not kept.
TensorId weight_again(GraphBuilder& b, const ExpertGemm& p, const OperandFormat& format) {
  if (p.factor == p.weight || format.weights_cast_once) return p.factor;
  const std::string copy = p.name + "_weight_again";
  return quantized(b, copy, "cast_" + copy, p.weight, format, b.shape(p.weight)[0].size);
}

void plain_expert_gradients(GraphBuilder& b, const ExpertGemm& p, TensorId dy, TensorId dx, TensorId dw) {
  const TensorId weight = stored_in_16_bits(b, p.name + "_weight_again", p.weight, b.tensor(p.y).type);
  b.emit(grouped_matmul, p.name + "_dgrad", {dy, weight, p.offsets}, {dx}, MatmulAttributes{});
  b.add_gradient(p.x, dx);
  b.emit_weight_gradient(grouped_matmul, p.name + "_wgrad", {dy, p.transposed_input(), p.offsets}, {dw},
                         MatmulAttributes{.transpose_a = true, .accumulate = true});
}

void expert_gradients(GraphBuilder& b, const ExpertGemm& p, const OperandFormat& format) {
  const Precision precision = format.precision;
  const std::int64_t experts = b.shape(p.weight)[0].size;
  const TensorId dy = b.gradient(p.y);
  const TensorId dx = b.activation("d_" + p.name + "_in", {p.rows, {p.in}}, b.activation_gradient_type());
  const TensorId dw = b.gradient_of_parameter(p.weight);
  if (!is_quantized(precision)) return plain_expert_gradients(b, p, dy, dx, dw);
  const DataType type = activation_type(precision);
  const auto [operand, columns] =
      quantized_layouts(b, "d_" + p.name, "cast_d_" + p.name, dy, format, experts, format.casts_both_layouts());
  if (format.one_layout) {
    b.emit(grouped_matmul, p.name + "_dgrad", {operand, weight_again(b, p, format), p.offsets}, {dx},
           MatmulAttributes{});
    b.add_gradient(p.x, dx);
    b.emit_weight_gradient(grouped_matmul, p.name + "_wgrad", {operand, p.transposed_input(), p.offsets}, {dw},
                           MatmulAttributes{.transpose_a = true, .accumulate = true});
    return;
  }
  TensorId weight = p.weight;
  if (b.tensor(weight).type != weight_type(Precision::fp8)) {
    const GraphBuilder::Shape shape = {b.shape(weight)[0], {p.in}, {p.out}};
    weight = format.weights_cast_once ? b.constant(p.name + "_weight_t", shape, type)
                                      : b.activation(p.name + "_weight_t", shape, type);
    if (!format.weights_cast_once)
      b.emit(is_quantized(b.tensor(p.weight).type) ? transpose : cast_transpose, "cast_transpose_" + p.name, {p.weight},
             {weight});
  }
  b.emit(grouped_matmul, p.name + "_dgrad", {operand, weight, p.offsets}, {dx}, MatmulAttributes{.transpose_b = true});
  b.add_gradient(p.x, dx);
  // A gradient received quantized is transposed once per token and gathered when the weight gradient needs it; one that
  // is cast here is transposed at once.
  TensorId dyt = 0;
  if (columns) {
    dyt = *columns;
  } else if (operand == dy) {
    dyt = p.transposed_gradient();
  } else {
    dyt = b.activation("d_" + p.name + "_t", {{p.out}, p.rows}, type);
    b.emit(cast_transpose, "cast_transpose_d_" + p.name, {dy}, {dyt});
  }
  TensorId left = p.transposed_input(), right = dyt;
  if (weight != p.weight) std::swap(left, right);
  b.emit_weight_gradient(grouped_matmul, p.name + "_wgrad", {left, right, p.offsets}, {dw},
                         MatmulAttributes{.transpose_b = true, .accumulate = true});
}

std::string first_gemm(const LayerContext& c) {
  return c.architecture.mlp == MlpKind::swiglu ? "experts_gate_up" : "experts_up";
}

TensorId expert_gemm(GraphBuilder& b, const LayerContext& c, ExpertGemm p, const OperandFormat& format) {
  const bool scaled = is_quantized(format.precision), in_blocks = is_quantized(weight_type(format.precision));
  const Dimension e{c.experts_per_rank()};
  p.weight =
      b.parameter(p.name, in_blocks ? GraphBuilder::Shape{e, {p.in}, {p.out}} : GraphBuilder::Shape{e, {p.out}, {p.in}},
                  format.weight(), {.expert = true, .copies = format.copies()});
  const std::string copy = p.name + "_weight";
  TensorId operand = p.x, factor = stored_in_16_bits(b, copy + "_bf16", p.weight, b.tensor(p.x).type);
  if (in_blocks) {
    factor = b.activation(copy + "_t", {e, {p.out}, {p.in}}, b.tensor(p.weight).type);
    b.emit(transpose, "transpose_" + p.name, {p.weight}, {factor});
  } else if (scaled && !format.quantized_weights && format.weights_cast_once) {
    const DataType type = activation_type(format.precision);
    factor = b.constant(copy + "_" + std::string(quantized_name(type)), b.shape(p.weight), type);
  } else if (scaled) {
    factor = quantized(b, copy, "cast_" + copy, p.weight, format, c.experts_per_rank());
  }
  if (scaled) {
    const Layouts layouts = quantized_layouts(b, p.name + "_in", "cast_" + p.name, p.x, format, c.experts_per_rank(),
                                              p.casts_columns && format.casts_both_layouts());
    operand = layouts.rows;
    if (layouts.columns) p.transposed_input = [id = *layouts.columns] { return id; };
  }
  p.factor = factor;
  p.y = b.activation(p.name + "_out", {p.rows, {p.out}}, scaled ? DataType::bf16 : b.tensor(p.x).type);
  b.emit(grouped_matmul, p.name, {operand, factor, p.offsets}, {p.y}, MatmulAttributes{.transpose_b = true});
  // Of operands with one scale the quantized rows are kept, and transposed when they are needed so.
  if (format.precision == Precision::fp8_tensor) {
    p.transposed_input = [&b, operand, name = p.name, in = p.in, rows = p.rows, as_is = format.one_layout] {
      if (as_is) return operand;
      const TensorId id = b.activation(name + "_in_t", {{in}, rows}, DataType::fp8);
      b.emit(cast_transpose, "cast_transpose_" + name + "_in", {operand}, {id});
      return id;
    };
  }
  b.on_backward([&b, p, format] { expert_gradients(b, p, format); });
  return p.y;
}

// The same with the adapters of each expert, whose operands have 16 bits.
TensorId adapted_expert_gemm(GraphBuilder& b, const LayerContext& c, const ExpertGemm& p,
                             const std::vector<std::int64_t>& parts) {
  const std::int64_t rank = c.expert_operands().adapter_rank;
  const TensorId y = expert_gemm(b, c, p, c.expert_operands());
  if (rank == 0) return y;
  const OperandFormat format{c.unscaled_gemm()};
  const auto rows = [input = p.wide_input, known = std::make_shared<std::optional<TensorId>>()] {
    if (!*known) *known = input();
    return **known;
  };
  return add_adapters(b, p.name, y, parts, b.group(), false, [&](const std::string& name, std::int64_t columns) {
    ExpertGemm down = p, up = p;
    down.name = name + "_a";
    down.out = up.in = rank;
    down.transposed_input = rows;
    const TensorId a = expert_gemm(b, c, down, format);
    up.name = name + "_b";
    up.x = a;
    up.out = columns;
    up.transposed_input = [a] { return a; };
    return expert_gemm(b, c, up, format);
  });
}

// Adds the bias of each row's expert, which counts as much as the expert does.
TensorId add_expert_biases(GraphBuilder& b, const LayerContext& c, const Rows& rows, TensorId y) {
  if (!c.architecture.biases.experts) return y;
  const TensorId bias =
      b.parameter("experts_down_bias", {{c.experts_per_rank()}, b.shape(y)[1]}, b.tensor(y).type, {.expert = true});
  const TensorId sum = b.activation("experts_down_biased", b.shape(y), b.tensor(y).type);
  b.emit(add_expert_bias, "experts_down_bias", {y, bias, rows.weights, rows.offsets}, {sum});
  b.on_backward([&b, rows, y, bias, sum] {
    const TensorId dy = b.gradient(sum);
    const TensorId dw = b.activation("d_bias_weights", b.shape(rows.weights), DataType::fp32);
    b.emit(add_expert_bias_grad, "experts_down_bias_grad", {dy, bias, rows.weights, rows.offsets},
           {b.gradient_of_parameter(bias), dw});
    b.add_gradient(rows.weights, dw);
    b.add_gradient(y, dy);
  });
  return sum;
}

TensorId experts(GraphBuilder& b, const LayerContext& c, const Received& own) {
  const Precision precision = c.expert_operands().precision;
  const bool scaled = is_block_scaled(precision);
  const DataType type = scaled ? activation_type(precision) : DataType::fp8_tile;
  const std::int64_t hidden = c.architecture.expert_hidden();
  const std::int64_t f = c.expert_columns();
  const Received received{gather_received(b, c, "received_tokens", own.tokens),
                          gather_received(b, c, "received_indices", own.indices, false),
                          gather_received(b, c, "received_weights", own.weights)};
  // Copies of one expert arrive in its order.
  const bool arrive_as_rows = c.dispatcher == Dispatcher::alltoall && c.experts_per_rank() == 1 &&
                              (scaled || b.tensor(own.tokens).type == expert_row_type(c));
  b.section(Section::mlp);
  const Rows rows =
      arrive_as_rows ? Rows{received.tokens, 0, received.weights, received.offsets} : to_rows(b, c, received);
  const Dimension n = b.shape(rows.rows)[0];

  b.group(RecomputeGroup::moe);
  const auto received_gradient = std::make_shared<TensorId>();  // transposed; set when the backward pass is emitted
  const auto gathered_gradient = [&b, rows, received_gradient, arrive_as_rows, type, n, hidden] {
    if (arrive_as_rows) return *received_gradient;
    const TensorId id = b.activation("d_expert_rows_t", {{hidden}, n}, type);
    b.emit_weight_gradient(gather_columns, "gather_expert_gradients", {*received_gradient, rows.map}, {id});
    return id;
  };
  const auto rows_again = [&b, rows, received, keeps_rows = c.dispatcher != Dispatcher::deepep, n, hidden] {
    if (keeps_rows) return rows.rows;
    const TensorId id = b.activation("expert_rows_again", {n, {hidden}}, b.tensor(rows.rows).type);
    b.emit_weight_gradient(gather_rows, "gather_expert_rows", {received.tokens, rows.map}, {id});
    return id;
  };
  const auto gathered = [&b, rows, received, scaled, rows_again, arrive_as_rows, type, n, hidden] {
    if (!scaled) return rows_again();
    const TensorId id = b.activation("expert_rows_t", {{hidden}, n}, type);
    if (arrive_as_rows)
      b.emit(cast_transpose, "cast_transpose_expert_rows", {rows.rows}, {id});
    else
      b.emit_weight_gradient(permute_transpose, "gather_expert_rows", {received.tokens, rows.map}, {id});
    return id;
  };
  const TensorId wide = adapted_expert_gemm(
      b, c,
      {first_gemm(c), rows.rows, 0, 0, rows.offsets, hidden, wide_columns(c, f), n, true, gathered, {}, rows_again},
      adapted_parts(c, f));
  const TensorId h = activated(b, c, "experts_", wide, rows.weights);
  b.group(RecomputeGroup::moe);
  const auto transpose = [&b, h, type, n, f] {
    const TensorId id = b.activation("experts_swiglu_t", {{f}, n}, type);
    b.emit(cast_transpose, "cast_transpose_experts_swiglu", {h}, {id});
    return id;
  };
  // A kernel that holds the activation writes it in both layouts, of which the backward pass finds the second. An
  // activation that is computed again is kept in neither.
  const bool at_once = c.fused_experts || !c.recompute.contains(RecomputeGroup::swiglu);
  const bool apart = c.fused_experts && !c.expert_operands().casts_both_layouts();
  const std::optional<TensorId> written = apart ? std::optional(transpose()) : std::nullopt;
  const auto transposed = [h, scaled, written, transpose] {
    if (!scaled) return h;
    return written ? *written : transpose();
  };
  const TensorId y = add_expert_biases(b, c, rows,
                                       adapted_expert_gemm(b, c,
                                                           {"experts_down", h, 0, 0, rows.offsets, f, hidden, n,
                                                            at_once, transposed, gathered_gradient, [h] { return h; }},
                                                           {hidden}));

  const bool sums = !arrive_as_rows || b.tensor(y).type != activation_type(c.combine);
  const TensorId sum =
      sums ? b.activation("expert_sum", {b.shape(received.tokens)[0], {hidden}}, activation_type(c.combine)) : y;
  if (arrive_as_rows && sums) b.emit(cast, "cast_expert_rows", {y}, {sum}, CastAttributes{});
  if (!arrive_as_rows) b.emit(unpermute, "unpermute", {y, rows.map}, {sum});
  b.group(RecomputeGroup::other);
  b.on_backward([&b, y, rows, sum, received_gradient, arrive_as_rows, type] {
    const TensorId d_sum = b.gradient(sum);
    if (b.tensor(d_sum).type == type) {
      const auto& shape = b.shape(d_sum);
      *received_gradient = b.activation("d_expert_sum_t", {shape[1], shape[0]}, type);
      b.emit(cast_transpose, "cast_transpose_d_received", {d_sum}, {*received_gradient});
    }
    if (arrive_as_rows) {
      if (sum != y) b.add_gradient(y, d_sum);
      return;
    }
    const TensorId d_rows = b.activation("d_expert_rows", b.shape(y), b.tensor(d_sum).type);
    b.emit(gather_rows, "unpermute_grad", {d_sum, rows.map}, {d_rows});
    b.add_gradient(y, d_rows);
  });
  return scatter_received(b, c, "expert_sum", sum);
}

// The shared experts are one MLP as wide as all of them; their gate is a BF16 GEMM like the router.
TensorId shared_experts(GraphBuilder& b, const LayerContext& c, TensorId x, bool partial = false) {
  const MixtureOfExperts& e = c.architecture.experts;
  const TensorId y = mlp(b, c, "shared_", x, e.shared_width(), partial);
  if (!e.shared_gate) return y;
  return gated(b, "shared_gating", y, linear(b, "shared_gate", x, 1, {.operands = {c.unscaled_gemm()}}));
}

// Weights of inference are stored as their GEMM reads them.
TensorId served_gemm(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x, TensorId offsets,
                     std::int64_t out) {
  const OperandFormat format{c.activation_precision()};
  const DataType type = activation_type(format.precision);
  const GraphBuilder::Shape shape = b.shape(x);
  const TensorId operand = is_quantized(type) ? quantized(b, name + "_in", "cast_" + name, x, format, 1) : x;
  const TensorId weight =
      b.parameter(name, {{c.experts_per_rank()}, {out}, shape[1]}, stored_weight(c.gemm), {.expert = true});
  const TensorId y = b.activation(name + "_out", {shape[0], {out}}, c.stream_type());
  b.emit(grouped_matmul, name, {operand, weight, offsets}, {y},
         MatmulAttributes{.transpose_b = true, .groups_hit = c.experts_hit(), .masked = c.inference.masked_experts});
  return y;
}

// Returns what the rank's experts add to the received tokens in a pass of inference. Low-latency kernels deliver rows,
// and weigh them as they combine.
TensorId served_experts(GraphBuilder& b, const LayerContext& c, const Received& own) {
  const bool as_rows = own.offsets != 0;
  const std::int64_t hidden = c.architecture.expert_hidden();
  Received all{gather_received(b, c, "received_tokens", own.tokens), own.indices, own.weights, own.offsets};
  if (!as_rows) {
    all.indices = gather_received(b, c, "received_indices", own.indices);
    all.weights = gather_received(b, c, "received_weights", own.weights);
  }
  b.section(Section::mlp);
  const Rows rows = as_rows ? Rows{all.tokens, 0, 0, all.offsets} : to_rows(b, c, all);
  const TensorId wide = served_gemm(b, c, first_gemm(c), rows.rows, rows.offsets, wide_columns(c, c.expert_columns()));
  const TensorId h = activated(b, c, "experts_", wide, as_rows ? std::nullopt : std::optional<TensorId>(rows.weights));
  const TensorId y = served_gemm(b, c, "experts_down", h, rows.offsets, hidden);
  if (as_rows) return scatter_received(b, c, "expert_sum", y);
  const TensorId sum = b.activation("expert_sum", {b.shape(all.tokens)[0], {hidden}}, activation_type(c.combine));
  b.emit(unpermute, "unpermute", {y, rows.map}, {sum});
  return scatter_received(b, c, "expert_sum", sum);
}

// Every rank adds what its experts, or its columns of them, make of tokens that all ranks have.
TensorId reduced_mixture(GraphBuilder& b, const LayerContext& c, TensorId x, TensorId choosing,
                         std::optional<TensorId> stream) {
  const OperandFormat format{c.activation_precision()};
  b.section(Section::mlp);
  const Routing routing = route(b, c, choosing);
  const TensorId tokens = to_latent(b, c, x);
  const TensorId payload =
      is_quantized(format.precision) ? quantized(b, "expert_in", "cast_experts", tokens, format, 1) : tokens;
  TensorId sum = served_experts(b, c, {payload, routing.indices, routing.weights});
  const MixtureOfExperts& e = c.architecture.experts;
  std::vector<TensorId> terms;
  if (stream) terms.push_back(*stream);
  if (e.latent_norm) {  // of sums over all ranks
    terms.push_back(from_latent(b, c, leave_tensor_region(b, c, "latents", sum)));
    if (e.shared_experts > 0) terms.push_back(shared_experts(b, c, x));
  } else {
    sum = from_latent(b, c, sum);
    if (e.shared_experts > 0) sum = residual(b, "add_shared", {sum, shared_experts(b, c, x, true)});
    terms.push_back(leave_tensor_region(b, c, "moe", sum));
  }
  return terms.size() > 1 ? residual(b, "add_moe", terms) : terms.front();
}

// Ranks that divided the tokens of a tensor group for the dispatch each compute whole shared experts.
TensorId dispatched_mixture(GraphBuilder& b, const LayerContext& c, TensorId x, TensorId choosing,
                            std::optional<TensorId> stream) {
  const bool copies = c.dispatcher == Dispatcher::low_latency;
  const Routing routing = route(b, c, choosing);
  const TensorId tokens = to_latent(b, c, x);
  const Received received = copies ? send_copies(b, c, tokens, routing) : send_to_experts(b, c, tokens, routing);
  b.section(Section::mlp);
  std::vector<TensorId> addends, reads = {0, routing.indices};
  if (stream) addends.push_back(*stream);
  if (copies) reads.push_back(routing.weights);
  if (c.architecture.experts.shared_experts > 0)
    addends.push_back(shared_experts(b, c.sequence ? c.undivided() : c, x));
  reads[0] = served_experts(b, c, received);
  b.section(Section::combine);
  const bool adds = c.architecture.experts.latent_size == 0;
  if (adds) reads.insert(reads.end(), addends.begin(), addends.end());
  const TensorId sums =
      b.activation(adds ? "moe_out" : "combined_latents", b.shape(adds ? x : tokens), b.tensor(x).type);
  b.emit(combine, "combine", reads, {sums}, all_to_all(c, activation_type(c.combine), 0));
  if (adds) return sums;
  addends.push_back(from_latent(b, c, sums));
  return addends.size() > 1 ? residual(b, "add_moe", addends) : addends.front();
}

}  // namespace

TensorId mixture_of_experts(GraphBuilder& b, const LayerContext& c, TensorId x, std::optional<TensorId> stream,
                            std::optional<TensorId> router_input) {
  const TensorId choosing = router_input.value_or(x);
  if (c.shares_tokens()) return reduced_mixture(b, c, x, choosing, stream);
  if (c.inference) return dispatched_mixture(b, c, x, choosing, stream);
  const MixtureOfExperts& e = c.architecture.experts;
  const bool copies_tokens = c.dispatcher == Dispatcher::alltoall;
  std::vector<TensorId> addends;
  if (stream) addends.push_back(*stream);
  // The shared experts overlap with dispatch, else they run before the routing as in Megatron.
  if (e.shared_experts > 0 && c.in_order()) addends.push_back(shared_experts(b, c, x));
  const Routing routing = route(b, c, choosing);
  const TensorId tokens = to_latent(b, c, x);
  const Rows copies = copies_tokens ? copy_tokens(b, c, tokens, routing) : Rows{tokens, 0, 0, 0};
  const Routing sent = copies_tokens ? Routing{copies.offsets, copies.weights} : routing;
  const Received received = send_to_experts(b, c, copies.rows, sent);
  b.section(Section::mlp);
  b.group(RecomputeGroup::other);
  if (e.shared_experts > 0 && !c.in_order()) addends.push_back(shared_experts(b, c, x));
  const TensorId sum = experts(b, c, received);

  b.section(Section::combine);
  const bool adds = !copies_tokens && e.latent_size == 0;  // by the kernel that combines
  // Without addends the sums of experts are the result.
  const bool apart = !adds && addends.empty();
  const TensorId out = apart ? 0 : b.activation("moe_out", b.shape(x), b.tensor(x).type);
  const TensorId returned = copies_tokens
                                ? b.activation("returned_copies", b.shape(copies.rows), activation_type(c.combine))
                            : adds ? out
                                   : b.activation("combined_latents", b.shape(tokens), b.tensor(x).type);
  std::vector<TensorId> reads = {sum, sent.indices};
  if (adds) reads.insert(reads.end(), addends.begin(), addends.end());
  b.emit(combine, "combine", reads, {returned}, all_to_all(c, activation_type(c.combine), 0));
  TensorId combined = returned;
  if (copies_tokens) {
    combined = b.activation("token_sum", b.shape(tokens), b.tensor(x).type);
    b.emit(unpermute, "sum_copies", {returned, copies.map}, {combined});
  }
  b.on_backward([&b, &c, sent, copies, copies_tokens, returned, combined, sum] {
    TensorId d_out = b.gradient(combined);
    if (copies_tokens) {
      const TensorId d_copies = b.activation("d_returned_copies", b.shape(returned), b.tensor(d_out).type);
      b.emit(gather_rows, "sum_copies_grad", {d_out, copies.map}, {d_copies});
      d_out = d_copies;
    }
    const DataType type = activation_type(c.dispatch);
    if (type != b.tensor(d_out).type) {
      const TensorId payload = b.activation("combine_grad_payload", b.shape(returned), type);
      b.emit(cast, "cast_combine_grad", {d_out}, {payload}, CastAttributes{});
      d_out = payload;
    }
    const TensorId d_sum = b.activation("d_expert_sum", b.shape(sum), type);
    b.emit(combine_grad, "combine_grad", {d_out, sent.indices}, {d_sum}, all_to_all(c, type, 0));
    b.add_gradient(sum, d_sum);
  });
  const TensorId routed = from_latent(b, c, combined);
  if (apart) return routed;
  if (!adds) {
    reads = addends;
    reads.push_back(routed);
    b.emit(add, "add_moe", reads, {out});
  }
  b.on_backward([&b, &c, stream, addends, routed, out] {
    const TensorId d_out = b.gradient(out);
    for (TensorId addend : addends) {
      const bool captured = addend == stream || c.in_order();
      const std::string name = b.tensor(addend).name;  // tensors move when one is added
      b.add_gradient(addend, captured ? into_router(b, c, name, d_out) : d_out);
    }
    if (routed != out) b.add_gradient(routed, d_out);
  });
  return out;
}

void fuse_experts(Graph& layer) {
  static constexpr auto casts =
      std::to_array<std::string_view>({"cast_experts_down", "cast_transpose_experts_swiglu", "cast_d_experts_gate_up",
                                       "cast_transpose_d_experts_gate_up"});
  for (Operator& op : layer.operators)
    op.fused = !op.recomputed && (op.name.starts_with("experts_swiglu") || op.kind == add_expert_bias ||
                                  std::ranges::find(casts, op.name) != casts.end());
}

}  // namespace plumbline::model
