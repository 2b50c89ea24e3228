#include "real/host/measure/detail/small_graphs.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "model/layers/core_attention.h"
#include "model/layers/elementary.h"
#include "model/layers/linear.h"
#include "model/layers/mlp.h"

namespace plumbline::real::host {
namespace {

using model::DataType;
using model::Graph;
using model::GraphBuilder;
using model::OperatorKind;
using model::Precision;
using model::TensorId;

struct Shape {
  std::int64_t rows, columns;
  Precision precision;
};

TensorId input(GraphBuilder& b, const Shape& s, std::int64_t columns, const char* name = "x") {
  return b.input(name, {{s.rows, model::Extent::tokens}, {columns}}, activation_type(s.precision));
}

template <class Layer>
Graph of_layer(const Shape& shape, std::int64_t columns_in, Layer layer) {
  GraphBuilder b("alone", DataType::fp32, activation_type(shape.precision));
  const TensorId x = input(b, shape, columns_in);
  return b.finish(x, layer(b, x), {});
}

model::LayerContext context_of(Precision precision) {
  model::LayerContext context;
  context.gemm = precision;
  return context;
}

Graph rmsnorm(const Shape& s) {
  return of_layer(s, s.columns, [](GraphBuilder& b, TensorId x) { return normalize(b, "rmsnorm", x, 1e-6); });
}

Graph layernorm(const Shape& s) {
  return of_layer(s, s.columns,
                  [](GraphBuilder& b, TensorId x) { return layer_normalize(b, "layernorm", x, 1e-6, true); });
}

Graph swiglu(const Shape& s) {
  const model::LayerContext context = context_of(s.precision);
  return of_layer(s, 2 * s.columns,
                  [&](GraphBuilder& b, TensorId x) { return gated_activation(b, context, "swiglu", x, std::nullopt); });
}

Graph gelu(const Shape& s) {
  const model::LayerContext context = context_of(s.precision);
  return of_layer(s, s.columns, [&](GraphBuilder& b, TensorId x) { return gelu_activation(b, context, "gelu", x); });
}

Graph add(const Shape& s) {
  return of_layer(s, s.columns, [&](GraphBuilder& b, TensorId x) {
    return residual(b, "add", {x, input(b, s, s.columns, "other")});
  });
}

Graph split(const Shape& s) {
  const std::int64_t half = std::max<std::int64_t>(1, s.columns / 2);
  return of_layer(s, 2 * half, [&](GraphBuilder& b, TensorId x) {
    const auto parts = split_columns(b, "split", x, {half, half});
    return concatenate_columns(b, "concatenate", parts);
  });
}

Graph rotary(const Shape& s) {
  const std::int64_t even = std::max<std::int64_t>(2, s.columns / 2 * 2);
  const model::RotaryAttributes attributes{1, even, even, s.rows, 10000.0};
  return of_layer(s, even, [&](GraphBuilder& b, TensorId x) { return rotate(b, "rotary", x, attributes); });
}

Graph sigmoid_gate(const Shape& s) {
  return of_layer(s, s.columns,
                  [&](GraphBuilder& b, TensorId x) { return gated(b, "sigmoid_gate", x, input(b, s, 1, "gate")); });
}

// Casts between FP32 and the given format; FP32 itself is copied.
Graph cast(const Shape& s) {
  Graph graph{.name = "alone"};
  const std::vector<model::Dimension> shape = {{s.rows, model::Extent::tokens}, {s.columns}};
  graph.tensors = {{.name = "x", .shape = shape, .type = DataType::fp32, .role = model::Role::input},
                   {.name = "y", .shape = shape, .type = activation_type(s.precision)}};
  graph.operators = {
      {.kind = OperatorKind::cast, .name = "cast", .reads = {0}, .writes = {1}, .attributes = model::CastAttributes{}}};
  graph.output = 1;
  return graph;
}

// The loss of logits whose vocabulary is the columns.
Graph cross_entropy(const Shape& s) {
  GraphBuilder b("alone", DataType::fp32, activation_type(s.precision));
  const TensorId x = input(b, s, s.columns);
  const model::Dimension tokens{s.rows, model::Extent::tokens};
  const TensorId labels = b.constant("labels", {tokens}, DataType::int32);
  const TensorId loss = b.activation("loss", {{1}}, DataType::fp32),
                 lse = b.activation("lse", {tokens}, DataType::fp32);
  const model::LossAttributes attributes{0, s.rows, 1.0};
  b.emit(OperatorKind::cross_entropy, "cross_entropy", {x, labels}, {loss, lse}, attributes);
  b.on_backward([&, attributes] {
    const TensorId dx = b.activation("d_x", b.shape(x), b.activation_gradient_type());
    b.emit(OperatorKind::cross_entropy_grad, "cross_entropy_grad", {x, labels, lse}, {dx}, attributes);
    b.add_gradient(x, dx);
  });
  return b.finish(x, loss, {}, true);
}

// Updates rows * columns parameters.
Graph adamw(const Shape& s) {
  const std::int64_t elements = s.rows * s.columns;
  Graph graph{.name = "alone"};
  const auto add_tensor = [&](const char* name, DataType type, model::Role role) {
    graph.tensors.push_back({.name = name, .shape = {{elements}}, .type = type, .role = role});
    return static_cast<TensorId>(graph.tensors.size() - 1);
  };
  const TensorId gradient = add_tensor("d_w", DataType::fp32, model::Role::gradient);
  const TensorId updated = add_tensor("updated", activation_type(s.precision), model::Role::activation);
  const TensorId master = add_tensor("master", DataType::fp32, model::Role::gradient);
  const TensorId first = add_tensor("first_moment", DataType::fp32, model::Role::gradient);
  const TensorId second = add_tensor("second_moment", DataType::fp32, model::Role::gradient);
  graph.operators = {{.kind = OperatorKind::adamw,
                      .name = "adamw",
                      .phase = model::Phase::W,
                      .section = model::Section::optimizer,
                      .reads = {gradient},
                      .writes = {updated, master, first, second},
                      .attributes = model::AdamwAttributes{}}};
  return graph;
}

using Make = Graph (*)(const Shape&);
constexpr std::array<std::pair<std::string_view, Make>, 11> makers = {{{"rmsnorm", rmsnorm},
                                                                       {"layernorm", layernorm},
                                                                       {"swiglu", swiglu},
                                                                       {"gelu", gelu},
                                                                       {"add", add},
                                                                       {"split", split},
                                                                       {"rotary", rotary},
                                                                       {"sigmoid_gate", sigmoid_gate},
                                                                       {"cast", cast},
                                                                       {"cross_entropy", cross_entropy},
                                                                       {"adamw", adamw}}};

}  // namespace

Graph gemm_graph(std::int64_t m, std::int64_t n, std::int64_t k, Precision precision) {
  return of_layer({m, k, precision}, k,
                  [&](GraphBuilder& b, TensorId x) { return linear(b, "product", x, n, {.operands = {precision}}); });
}

Graph attention_graph(std::int64_t sequence, std::int64_t heads, std::int64_t head_dim, Precision precision) {
  const Shape shape{sequence, heads * head_dim, precision};
  const model::LayerContext context = context_of(precision);
  const model::AttentionAttributes attributes{heads, heads, head_dim, head_dim, sequence};
  return of_layer(shape, shape.columns, [&](GraphBuilder& b, TensorId q) {
    return core_attention(b, context, q, input(b, shape, shape.columns, "k"), input(b, shape, shape.columns, "v"),
                          attributes);
  });
}

std::vector<std::string> memory_operators() {
  std::vector<std::string> names;
  for (const auto& maker : makers) names.emplace_back(maker.first);
  return names;
}

Graph memory_graph(std::string_view name, std::int64_t rows, std::int64_t columns, Precision precision) {
  const auto found = std::ranges::find(makers, name, &std::pair<std::string_view, Make>::first);
  assert(found != makers.end());
  return found->second({rows, columns, precision});
}

}  // namespace plumbline::real::host
