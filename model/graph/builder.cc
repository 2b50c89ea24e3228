#include "model/graph/builder.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <set>

namespace plumbline::model {
namespace {

bool casts(const Operator& op) {
  return op.kind == OperatorKind::cast || op.kind == OperatorKind::cast_transpose || op.kind == OperatorKind::transpose;
}

// Removes the operators of the backward pass, and the casts, of which nothing reaches the gradient of the input or of a
// trained parameter, as automatic differentiation does. `gradients` are those of frozen parameters; operators that
// compute something else too no longer write them, and casts no layout that nothing reads. The gradient of the input
// stays: it is needed in every block but the first with something to train, where software that checkpoints
// activations has it all the same (enable_input_require_grads of huggingface/transformers).
// Whatever reads a tensor comes after what writes it, so one pass from the end finds all that is needed.
void leave_out_gradients(Graph& graph, const std::set<TensorId>& gradients) {
  std::vector<bool> needed(graph.tensors.size(), false);
  needed[graph.output] = true;
  needed[graph.input_gradient] = true;
  const auto is_needed = [&](TensorId id) { return needed[id] || graph.tensor(id).role == Role::gradient; };
  std::vector<Operator> kept;
  for (auto op = graph.operators.rbegin(); op != graph.operators.rend(); ++op) {
    const bool forward = op->phase == Phase::F && !casts(*op);
    if (!forward && std::ranges::none_of(op->writes, is_needed)) continue;
    std::erase_if(op->writes, [&](TensorId id) { return gradients.contains(id) || (casts(*op) && !is_needed(id)); });
    for (const TensorId id : op->reads) needed[id] = true;
    kept.push_back(std::move(*op));
  }
  std::ranges::reverse(kept);
  graph.operators = std::move(kept);
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, DataType gradient_type, DataType activation_gradient_type)
    : gradient_type_(gradient_type), activation_gradient_type_(activation_gradient_type) {
  graph_.name = std::move(name);
}

TensorId GraphBuilder::add_tensor(Tensor tensor) {
  graph_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::parameter(const std::string& name, const Shape& shape, DataType type, const Holding& holding) {
  Tensor tensor{.name = name,
                .shape = shape,
                .type = type,
                .role = Role::parameter,
                .expert = holding.expert,
                .divided = holding.divided,
                .shared = holding.shared || shares_,
                .copies = holding.copies,
                .frozen = !trains_};
  const TensorId id = add_tensor(tensor);
  if (graph_.inference) return id;
  tensor.name = "d_" + name;
  tensor.type = gradient_type_;
  tensor.role = trains_ ? Role::gradient : Role::activation;
  parameter_gradients_[id] = add_tensor(std::move(tensor));
  return id;
}

void GraphBuilder::emit(OperatorKind kind, std::string name, std::vector<TensorId> reads, std::vector<TensorId> writes,
                        Attributes attributes) {
  graph_.operators.push_back({.kind = kind,
                              .name = std::move(name),
                              .phase = backward_ ? Phase::I : Phase::F,
                              .section = section_,
                              .reads = std::move(reads),
                              .writes = std::move(writes),
                              .attributes = attributes,
                              .group = backward_ ? RecomputeGroup::none : group_});
}

void GraphBuilder::emit_over(bool in_place, OperatorKind kind, std::string name, std::vector<TensorId> reads,
                             std::vector<TensorId> writes, Attributes attributes) {
  assert((!in_place || tensor(reads.front()).bytes() == tensor(writes.back()).bytes()) &&
         "another size lies elsewhere");
  emit(kind, std::move(name), std::move(reads), std::move(writes), attributes);
  graph_.operators.back().in_place = in_place;
}

void GraphBuilder::emit_weight_gradient(OperatorKind kind, std::string name, std::vector<TensorId> reads,
                                        std::vector<TensorId> writes, Attributes attributes) {
  weight_gradients_.push_back({.kind = kind,
                               .name = std::move(name),
                               .phase = Phase::W,
                               .section = section_,
                               .reads = std::move(reads),
                               .writes = std::move(writes),
                               .attributes = attributes});
}

RecomputeGroup GraphBuilder::group_of(TensorId written) const {
  for (const Operator& op : graph_.operators)
    if (std::find(op.writes.begin(), op.writes.end(), written) != op.writes.end()) return op.group;
  return RecomputeGroup::none;
}

TensorId GraphBuilder::gradient(TensorId activation) {
  if (const auto known = gradients_.find(activation); known != gradients_.end()) return known->second;
  const std::vector<TensorId>& parts = contributions_[activation];
  assert(!parts.empty() && "an activation without readers has no gradient");
  TensorId sum = parts.front();
  if (parts.size() > 1) {
    const std::string name = tensor(activation).name;
    sum = add_tensor({.name = "d_" + name, .shape = shape(activation), .type = activation_gradient_type()});
    emit(OperatorKind::add, "d_" + name, parts, {sum});
  }
  gradients_[activation] = sum;
  return sum;
}

TensorId GraphBuilder::kept(TensorId original) const {
  const auto found = kept_as_.find(original);
  return found == kept_as_.end() ? original : found->second;
}

Graph GraphBuilder::finish(TensorId input, TensorId output, const RecomputePolicy& policy, bool output_is_loss) {
  backward_ = true;
  graph_.input = input;
  graph_.output = output;
  graph_.output_gradient = graph_.input_gradient = input;  // replaced below where gradients cross the block's ends
  if (graph_.inference) {
    assert(check(graph_).empty() && "a layer emitted a graph that cannot be executed");
    return std::move(graph_);
  }
  if (!output_is_loss) {
    graph_.output_gradient = this->input("d_output", shape(output), activation_gradient_type());
    add_gradient(output, graph_.output_gradient);
  }
  for (; !tape_.empty(); tape_.pop_back()) {
    section_ = tape_.back().section;
    tape_.back().apply();
  }
  // The inputs of the embedding are token ids, which have no gradient.
  if (contributions_.contains(input)) graph_.input_gradient = gradient(input);
  graph_.operators.insert(graph_.operators.end(), std::make_move_iterator(weight_gradients_.begin()),
                          std::make_move_iterator(weight_gradients_.end()));
  if (graph_.reference) {
    std::erase_if(graph_.operators, [](const Operator& op) { return op.phase != Phase::F; });
    leave_out_gradients(graph_, {});
    assert(check(graph_).empty() && "a layer emitted a graph that cannot be executed");
    return std::move(graph_);
  }
  std::set<TensorId> frozen;
  for (const auto& [parameter, gradient] : parameter_gradients_)
    if (tensor(parameter).frozen) frozen.insert(gradient);
  if (!frozen.empty()) leave_out_gradients(graph_, frozen);
  RecomputePolicy dropped = policy;
  dropped.insert(RecomputeGroup::always);
  recompute(graph_, dropped, kept_as_);
  assert(check(graph_).empty() && "a layer emitted a graph that cannot be executed");
  return std::move(graph_);
}

OneOperator::OneOperator(OperatorKind kind, const Attributes& attributes, Phase phase) {
  graph_.operators.push_back({.kind = kind, .phase = phase, .attributes = attributes});
}

OneOperator& OneOperator::read(const std::vector<std::int64_t>& shape, DataType type, Role role) {
  graph_.operators.front().reads.push_back(add(shape, type, role));
  return *this;
}

OneOperator& OneOperator::write(const std::vector<std::int64_t>& shape, DataType type, Role role) {
  graph_.operators.front().writes.push_back(add(shape, type, role));
  return *this;
}

TensorId OneOperator::add(const std::vector<std::int64_t>& shape, DataType type, Role role) {
  Tensor tensor{.type = type, .role = role};
  for (const std::int64_t size : shape) tensor.shape.push_back({size});
  graph_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

}  // namespace plumbline::model
