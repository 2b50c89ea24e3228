#include "model/memory/pass_memory.h"

#include <algorithm>
#include <vector>

namespace plumbline::model {

Bytes weight_bytes(const Graph& block) {
  Bytes sum;
  for (const Tensor& tensor : block.tensors)
    if (tensor.role == Role::parameter && !tensor.shared) sum += tensor.bytes();
  return sum;
}

Bytes activation_bytes(const Graph& block) {
  std::vector<std::size_t> last(block.tensors.size(), 0);
  for (std::size_t i = 0; i < block.operators.size(); ++i)
    for (const TensorId id : block.operators[i].reads) last[id] = i;
  last[block.output] = block.operators.size();
  const auto passes = [&](TensorId id) {
    const Role role = block.tensor(id).role;
    return role == Role::activation || role == Role::input;
  };
  Bytes now = passes(block.input) ? block.tensor(block.input).bytes() : Bytes(), most = now;
  for (std::size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    if (op.phase != Phase::F) break;
    for (const TensorId id : op.writes)
      if (passes(id)) now += block.tensor(id).bytes();
    most = std::max(most, now);
    std::vector<TensorId> ends = op.reads;
    ends.insert(ends.end(), op.writes.begin(), op.writes.end());  // those that no operator reads
    std::ranges::sort(ends);
    ends.erase(std::ranges::unique(ends).begin(), ends.end());
    for (const TensorId id : ends)
      if (passes(id) && last[id] <= i) now -= block.tensor(id).bytes();
  }
  return most;
}

}  // namespace plumbline::model
