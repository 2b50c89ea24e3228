#include "model/graph/graph.h"

#include <fmt/format.h>

#include <array>
#include <set>

namespace plumbline::model {

double Tensor::elements() const {
  double product = 1;
  for (const Dimension& dimension : shape) product *= static_cast<double>(dimension.size);
  return product;
}

std::string_view to_string(Phase phase) {
  static constexpr std::array<std::string_view, 3> names = {"F", "I", "W"};
  return names[static_cast<std::size_t>(phase)];
}

std::string_view to_string(Section section) {
  static constexpr std::array<std::string_view, 7> names = {"embedding", "attn", "dispatch", "mlp",
                                                            "combine",   "head", "optimizer"};
  return names[static_cast<std::size_t>(section)];
}

namespace {

bool exists_beforehand(const Tensor& tensor) { return tensor.role != Role::activation && tensor.role != Role::host; }

bool accumulates(const Tensor& tensor) {
  return tensor.role == Role::gradient || tensor.role == Role::parameter || tensor.role == Role::cache;
}

}  // namespace

std::string check(const Graph& graph) {
  std::set<TensorId> written;
  Phase phase = Phase::F;
  for (const Operator& op : graph.operators) {
    if (op.phase < phase) return fmt::format("{}: phase {} after {}", op.name, to_string(op.phase), to_string(phase));
    phase = op.phase;
    if (op.attributes.index() != attributes_index(op.kind))
      return fmt::format("{}: attributes of another kind than {}", op.name, to_string(op.kind));
    for (TensorId id : op.reads) {
      if (id >= graph.tensors.size()) return fmt::format("{}: reads a tensor that does not exist", op.name);
      if (!exists_beforehand(graph.tensor(id)) && !written.contains(id))
        return fmt::format("{} ({}): reads {} before it is written", op.name, to_string(op.phase),
                           graph.tensor(id).name);
    }
    if (op.kind == OperatorKind::copy_to_device) {  // may restore a tensor that was written before
      written.insert(op.writes.begin(), op.writes.end());
      continue;
    }
    for (TensorId id : op.writes) {
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role == Role::input || tensor.role == Role::constant)
        return fmt::format("{}: writes {}, which it may only read", op.name, tensor.name);
      if (!written.insert(id).second && !accumulates(tensor))
        return fmt::format("{}: writes {} a second time", op.name, tensor.name);
    }
  }
  return "";
}

}  // namespace plumbline::model
