#include "model/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>
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

std::vector<bool> within_kernels(const Graph& graph) {
  const bool fuses = std::ranges::any_of(graph.operators, &Operator::fused);
  std::vector<bool> within(graph.tensors.size(), false);
  if (!fuses) return within;
  std::vector<const Operator*> writers(graph.tensors.size(), nullptr);
  std::vector<std::vector<const Operator*>> readers(graph.tensors.size());
  for (const Operator& op : graph.operators) {
    for (const TensorId id : op.reads) readers[id].push_back(&op);
    for (const TensorId id : op.writes) writers[id] = &op;
  }
  const auto read_in = [&](TensorId id, Phase phase) {
    return graph.tensor(id).role == Role::activation &&
           std::ranges::any_of(readers[id], [&](const Operator* op) { return op->phase == phase; });
  };
  const auto passes = [&](const Operator& writer, const Operator& reader) {
    if (!reader.fused) return false;
    if (reader.phase == writer.phase)
      return writer.fused || writer.kind == OperatorKind::grouped_matmul || writer.kind == OperatorKind::matmul;
    return writer.fused &&
           std::ranges::any_of(writer.reads, [&](TensorId operand) { return read_in(operand, reader.phase); });
  };
  for (TensorId id = 0; id < graph.tensors.size(); ++id)
    within[id] = graph.tensor(id).role == Role::activation && writers[id] != nullptr && !readers[id].empty() &&
                 std::ranges::all_of(readers[id], [&](const Operator* op) { return passes(*writers[id], *op); });
  return within;
}

std::string_view to_string(OperatorKind kind) {
  static constexpr auto names = std::to_array<std::string_view>({
#define OPERATOR(kind, ...) #kind,
#include "model/graph/operators.def"
  });
  return names[static_cast<std::size_t>(kind)];
}

namespace {

constexpr auto kernel_names =
    std::to_array<std::string_view>({"fused", "cudnn", "flash2", "flash3", "triton", "unfused"});

}  // namespace

std::string_view to_string(AttentionKernel kernel) { return kernel_names[static_cast<std::size_t>(kernel)]; }

std::vector<std::string> attention_kernels() { return {kernel_names.begin(), kernel_names.end()}; }

AttentionKernel attention_kernel(std::string_view name) {
  return static_cast<AttentionKernel>(std::ranges::find(kernel_names, name) - kernel_names.begin());
}

std::size_t attributes_index(OperatorKind kind) {
  static const auto indices = std::to_array<std::size_t>({
#define OPERATOR(kind, attributes, ...) Attributes(attributes{}).index(),
#include "model/graph/operators.def"
  });
  return indices[static_cast<std::size_t>(kind)];
}

}  // namespace plumbline::model
