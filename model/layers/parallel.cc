#include "model/layers/parallel.h"

namespace plumbline::model {

namespace {

using enum OperatorKind;

// Rows of all ranks of the group one after the other; a gradient's sum, each rank its rows.
TensorId gathered(GraphBuilder& b, const std::string& name, TensorId x, Dimension rows,
                  const CollectiveAttributes& group) {
  const RecomputeGroup before = b.group();
  b.group(RecomputeGroup::gather);
  GraphBuilder::Shape shape = b.shape(x);
  shape[0] = rows;
  const TensorId all = b.activation(name + "_gathered", shape, b.tensor(x).type);
  b.emit(all_gather, "gather_" + name, {x}, {all}, group);
  b.group(before);
  b.on_backward([&b, name, x, all, group] {
    const TensorId dx = b.activation("d_" + name + "_scattered", b.shape(x), b.tensor(b.gradient(all)).type);
    b.emit(reduce_scatter, "scatter_d_" + name, {b.gradient(all)}, {dx}, group);
    b.add_gradient(x, dx);
  });
  return all;
}

TensorId scattered(GraphBuilder& b, const std::string& name, TensorId y, Dimension rows,
                   const CollectiveAttributes& group) {
  GraphBuilder::Shape shape = b.shape(y);
  shape[0] = rows;
  const TensorId own = b.activation(name + "_scattered", shape, b.tensor(y).type);
  b.emit(reduce_scatter, "scatter_" + name, {y}, {own}, group);
  b.on_backward([&b, name, y, own, group] {
    const TensorId dy = b.activation("d_" + name + "_gathered", b.shape(y), b.tensor(b.gradient(own)).type);
    b.emit(all_gather, "gather_d_" + name, {b.gradient(own)}, {dy}, group);
    b.add_gradient(y, dy);
  });
  return own;
}

}  // namespace

TensorId enter_tensor_region(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  return c.tensor > 1 && c.sequence ? gathered(b, name, x, {c.tokens, Extent::tokens}, c.tensor_group()) : x;
}

TensorId leave_tensor_region(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId y) {
  if (c.tensor == 1) return y;
  if (c.sequence) return scattered(b, name, y, {c.stream_tokens(), Extent::tokens}, c.tensor_group());
  const TensorId sum = b.activation(name + "_sum", b.shape(y), b.tensor(y).type);
  b.emit(all_reduce, "reduce_" + name, {y}, {sum}, c.tensor_group());
  b.on_backward([&b, y, sum] { b.add_gradient(y, b.gradient(sum)); });
  return sum;
}

TensorId summed_gradient(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId part) {
  if (c.tensor == 1 || c.sequence) return part;
  const TensorId sum = b.activation("sum_d_" + name, b.shape(part), b.tensor(part).type);
  b.emit(all_reduce, "reduce_d_" + name, {part}, {sum}, c.tensor_group());
  return sum;
}

TensorId gather_sequence(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  return gathered(b, name, x, {c.tokens * c.context, Extent::tokens}, c.context_group());
}

TensorId gather_received(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId x) {
  if (c.expert_tensor == 1) return x;
  return gathered(b, name, x, {c.received_tokens() * c.expert_tensor, Extent::gathered}, c.expert_tensor_group());
}

TensorId scatter_received(GraphBuilder& b, const LayerContext& c, const std::string& name, TensorId y) {
  if (c.expert_tensor == 1) return y;
  return scattered(b, name, y, {c.received_tokens(), Extent::received}, c.expert_tensor_group());
}

}  // namespace plumbline::model
