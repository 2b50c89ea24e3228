// A graph of one operator with its read and written tensors, for questions to the cost functions.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph/graph.h"

namespace plumbline::model {

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
