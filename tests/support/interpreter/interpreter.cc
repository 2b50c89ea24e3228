#include "tests/support/interpreter/interpreter.h"

#include <stdexcept>

#include "tests/support/interpreter/operators.h"

namespace plumbline::tests {
namespace {

Index leading(const model::Tensor& tensor) {
  Index rows = 1;
  for (std::size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i].size;
  return tensor.shape.size() == 1 ? tensor.shape[0].size : rows;
}

Index columns(const model::Tensor& tensor) { return tensor.shape.size() == 1 ? 1 : tensor.shape.back().size; }

// Returns whether operators add to a tensor that is there before.
bool stays(const model::Tensor& tensor) {
  return tensor.role == model::Role::gradient || tensor.role == model::Role::cache;
}

}  // namespace

Matrix zeros(const model::Tensor& tensor) { return Matrix::Zero(leading(tensor), columns(tensor)); }

const Matrix& Call::in(std::size_t i) const {
  const std::optional<Matrix>& value = state_.values.at(op_.reads.at(i));
  if (!value) throw std::logic_error("reads " + in_tensor(i).name + ", which has no value");
  return *value;
}

Interpreter::Interpreter(const model::Graph& graph, std::size_t ranks) : graph_(graph), ranks_(ranks) {
  for (RankState& state : ranks_) {
    state.values.resize(graph.tensors.size());
    for (std::size_t id = 0; id < graph.tensors.size(); ++id)
      if (stays(graph.tensors[id])) state.values[id] = zeros(graph.tensors[id]);
  }
}

void Interpreter::run(model::Phase phase) {
  for (const model::Operator& op : graph_.operators) {
    if (op.phase != phase) continue;
    try {
      run(op);
    } catch (const std::exception& error) {
      throw std::logic_error(graph_.name + ", " + std::string(to_string(phase)) + ", " + op.name + ": " + error.what());
    }
  }
}

void Interpreter::run(const model::Operator& op) {
  double& multiply_adds = multiply_adds_[std::string(to_string(op.phase)) + " " + op.name];
  std::vector<Call> calls;
  for (RankState& state : ranks_) {
    for (model::TensorId id : op.writes)
      if (!stays(graph_.tensor(id))) state.values[id].emplace();
    calls.emplace_back(graph_, op, state, multiply_adds);
  }
  function_of(op.kind)(calls);
  // A tensor that has moved to the host is no longer on the device.
  if (op.kind == model::OperatorKind::copy_to_host && graph_.tensor(op.writes[0]).role == model::Role::host)
    for (RankState& state : ranks_) state.values[op.reads[0]].reset();
  for (RankState& state : ranks_)
    for (model::TensorId id : op.writes) check_shape(graph_.tensor(id), state, *state.values[id]);
}

// The first tensor sets each dimension that varies with routing; every other tensor must agree.
void Interpreter::check_shape(const model::Tensor& tensor, RankState& state, const Matrix& value) const {
  model::Tensor actual = tensor;
  for (std::size_t i = 0; i < actual.shape.size(); ++i) {
    model::Dimension& dimension = actual.shape[i];
    if (dimension.extent != model::Extent::received && dimension.extent != model::Extent::rows) continue;
    const Index size = i == 0 ? value.rows() : value.cols();
    dimension.size = state.extents.try_emplace(dimension.extent, size).first->second;
  }
  if (value.rows() == leading(actual) && value.cols() == columns(actual)) return;
  throw std::logic_error("writes " + tensor.name + " as " + std::to_string(value.rows()) + " x " +
                         std::to_string(value.cols()) + ", not " + std::to_string(leading(actual)) + " x " +
                         std::to_string(columns(actual)));
}

}  // namespace plumbline::tests
