#include "model/graph/one_operator.h"

#include <utility>

namespace plumbline::model {

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
