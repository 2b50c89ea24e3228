#include "model/graph/detail/frozen.h"

#include <algorithm>
#include <vector>

namespace plumbline::model {
namespace {

bool casts(const Operator& op) {
  return op.kind == OperatorKind::cast || op.kind == OperatorKind::cast_transpose || op.kind == OperatorKind::transpose;
}

}  // namespace

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

}  // namespace plumbline::model
