// Builds an operator graph. Forward operators are emitted in order. Each layer pushes rules for its gradients onto a
// tape, which finish() unwinds; so the three phases of a layer are written in one place. Where only the forward pass is
// wanted, rules are dropped, nothing is kept, and parameters have no gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/graph/graph.h"
#include "model/graph/recompute.h"

namespace plumbline::model {

// States how the ranks hold a parameter; the fields are those of Tensor.
struct Holding {
  bool expert = false, shared = false, divided = false;
  std::uint8_t copies = 0;
};

class GraphBuilder {
 public:
  using Shape = std::vector<Dimension>;

  // The formats in which gradients of parameters are accumulated and gradients of activations are passed on.
  GraphBuilder(std::string name, DataType gradient_type, DataType activation_gradient_type);
  explicit GraphBuilder(std::string name) {  // of a pass of inference
    graph_.name = std::move(name);
    graph_.inference = true;
    constexpr std::size_t usual = 64;  // a layer has about as many
    graph_.operators.reserve(usual);
    graph_.tensors.reserve(usual);
  }
  bool forward_only() const { return graph_.inference; }
  // Inference drops nothing out, nor does a reference model.
  bool drops_out() const { return !graph_.inference && !graph_.reference; }

  TensorId input(std::string name, Shape shape, DataType type) {
    return add_tensor({.name = std::move(name), .shape = std::move(shape), .type = type, .role = Role::input});
  }
  TensorId activation(std::string name, Shape shape, DataType type) {
    return add_tensor({.name = std::move(name), .shape = std::move(shape), .type = type});
  }
  TensorId constant(std::string name, Shape shape, DataType type) {
    return add_tensor({.name = std::move(name), .shape = std::move(shape), .type = type, .role = Role::constant});
  }
  TensorId cache(std::string name, Shape shape, DataType type) {
    return add_tensor({.name = std::move(name), .shape = std::move(shape), .type = type, .role = Role::cache});
  }
  TensorId parameter(const std::string& name, const Shape& shape, DataType type, const Holding& holding = {});
  TensorId gradient_of_parameter(TensorId parameter) { return parameter_gradients_.at(parameter); }

  const Tensor& tensor(TensorId id) const { return graph_.tensors[id]; }
  void in_chunks(TensorId id, std::int64_t chunks) { graph_.tensors[id].chunks = chunks; }
  const Shape& shape(TensorId id) const { return graph_.tensors[id].shape; }

  // Parameters from here on are trained, or frozen. Where any is frozen, finish() leaves out what only its gradient
  // needs.
  void train(bool trains) { trains_ = trains; }
  bool trains() const { return trains_; }
  // Parameters from here on belong to another block of the rank, or to this one.
  void share(bool shares) { shares_ = shares; }
  bool shares() const { return shares_; }
  // finish() leaves out all that the forward pass does not need.
  void refer() { graph_.reference = true; }

  // Forward operators get the current section and recompute group.
  void section(Section section) { section_ = section; }
  Section section() const { return section_; }
  void group(RecomputeGroup group) { group_ = group; }
  RecomputeGroup group() const { return group_; }
  RecomputeGroup group_of(TensorId written) const;

  // Emits into F, or into I while the tape unwinds.
  void emit(OperatorKind kind, std::string name, std::vector<TensorId> reads, std::vector<TensorId> writes,
            Attributes attributes = {});
  // Emits an operator whose last result overwrites its first operand if `in_place`. That one has its format and no
  // later reader.
  void emit_over(bool in_place, OperatorKind kind, std::string name, std::vector<TensorId> reads,
                 std::vector<TensorId> writes, Attributes attributes = {});
  void emit_weight_gradient(OperatorKind kind, std::string name, std::vector<TensorId> reads,
                            std::vector<TensorId> writes, Attributes attributes = {});

  void on_backward(std::function<void()> rule) {
    if (!graph_.inference) tape_.push_back({section_, std::move(rule)});
  }
  // Returns the gradient of an activation: the sum of its contributions (an `add` where there are several).
  TensorId gradient(TensorId activation);
  void add_gradient(TensorId activation, TensorId contribution) { contributions_[activation].push_back(contribution); }
  // Makes `copy` the gradient of an activation to which nothing contributes any more.
  void replace_gradient(TensorId activation, TensorId copy) { gradients_[activation] = copy; }
  DataType activation_gradient_type() const { return activation_gradient_type_; }

  // Keeps `kept` (another format of `original`) for the backward pass in place of `original`.
  void keep_as(TensorId original, TensorId kept) { kept_as_[original] = kept; }
  TensorId kept(TensorId original) const;

  // Unless only the forward pass is wanted, unwinds the tape, then recomputes the given groups in the backward pass
  // (model/graph/recompute.h). `output` may be the input itself (a block that passes it through) or a loss.
  Graph finish(TensorId input, TensorId output, const RecomputePolicy& policy, bool output_is_loss = false);

 private:
  TensorId add_tensor(Tensor tensor);

  struct Rule {
    Section section;
    std::function<void()> apply;
  };
  Graph graph_;
  DataType gradient_type_ = DataType::fp32, activation_gradient_type_ = DataType::fp32;
  Section section_ = Section::attention;
  RecomputeGroup group_ = RecomputeGroup::other;
  bool backward_ = false, trains_ = true, shares_ = false;
  std::vector<Operator> weight_gradients_;
  std::vector<Rule> tape_;
  std::map<TensorId, std::vector<TensorId>> contributions_;
  std::map<TensorId, TensorId> gradients_;
  std::map<TensorId, TensorId> parameter_gradients_;
  std::map<TensorId, TensorId> kept_as_;
};

// A graph of one operator with its read and written tensors, for questions to the cost functions.
class OneOperator {
 public:
  explicit OneOperator(OperatorKind kind, const Attributes& attributes = {}, Phase phase = Phase::F);

  // Adds the tensor that the operator reads, or writes, behind those that it has.
  OneOperator& read(const std::vector<std::int64_t>& shape, DataType type, Role role = Role::activation);
  OneOperator& write(const std::vector<std::int64_t>& shape, DataType type, Role role = Role::activation);

  const Graph& graph() const { return graph_; }
  const Operator& op() const { return graph_.operators.front(); }

 private:
  TensorId add(const std::vector<std::int64_t>& shape, DataType type, Role role);

  Graph graph_;
};

}  // namespace plumbline::model
