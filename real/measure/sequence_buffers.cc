#include "real/measure/sequence_buffers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "model/base/random.h"
#include "model/cost/operator_class.h"
#include "real/executor/parallel.h"
#include "real/measure/workload.h"

namespace plumbline::real {

namespace {

using model::OperatorKind;
using model::TensorId;

// Returns the smallest vocabulary that token ids or labels of the graph index.
std::int64_t vocabulary_of(const model::Graph& graph) {
  std::int64_t size = std::numeric_limits<std::int64_t>::max();
  for (const model::Operator& op : graph.operators) {
    if (op.kind == OperatorKind::embedding) size = std::min(size, graph.tensor(op.reads[1]).shape[0].size);
    if (op.kind == OperatorKind::cross_entropy) size = std::min(size, graph.tensor(op.reads[0]).shape.back().size);
  }
  return size == std::numeric_limits<std::int64_t>::max() ? 1 : size;
}

std::size_t count_of(const model::Tensor& tensor) { return static_cast<std::size_t>(tensor.elements()); }

// Returns a table of normally distributed numbers; each tensor reads it from another offset.
const std::vector<float>& normal_numbers() {
  static const std::vector<float> table = [] {
    constexpr std::size_t size = 1 << 20;
    constexpr std::uint64_t seed = 20'25;
    model::Random random(seed);
    std::vector<float> values(size);
    std::ranges::generate(values, [&] { return static_cast<float>(random.normal()); });
    return values;
  }();
  return table;
}

}  // namespace

Contents::Contents(const model::Graph& graph, std::uint64_t seed)
    : graph_(graph),
      seed_(seed),
      computed_(graph.tensors.size()),
      positive_(graph.tensors.size()),
      from_standin_(graph.tensors.size()),
      vocabulary_(vocabulary_of(graph)) {
  for (const model::Operator& op : graph.operators) {
    for (const TensorId id : op.writes) (has_stand_in(op.kind) ? from_standin_ : computed_)[id] = true;
    if (op.kind == OperatorKind::permute && permute_ == nullptr) permute_ = &op;
    if (op.kind == OperatorKind::adamw) positive_[op.writes.back()] = true;  // the second moment
  }
}

bool Contents::needed(TensorId id) const { return graph_.tensor(id).role != model::Role::activation || !computed_[id]; }

std::vector<float> Contents::values(TensorId id) const {
  std::vector<float> found;
  values(id, found);
  return found;
}

void Contents::values(TensorId id, std::vector<float>& into) const {
  const model::Tensor& tensor = graph_.tensor(id);
  const bool index = tensor.type == model::DataType::int32 || tensor.type == model::DataType::int64;
  if (!index) return numbers(tensor, id, into);
  const bool received = from_standin_[id] && permute_ != nullptr && tensor.shape.size() == 2;
  into = received ? received_indices(tensor) : token_ids(count_of(tensor));
}

std::vector<float> Contents::token_ids(std::size_t count) const {
  model::Random random(seed_);
  std::vector<float> ids(count);
  const auto vocabulary = static_cast<std::uint64_t>(vocabulary_);
  std::ranges::generate(ids, [&] { return static_cast<float>(random.next() % vocabulary); });
  return ids;
}

// Assigns each token to at least one of the rank's experts, in turn.
std::vector<float> Contents::received_indices(const model::Tensor& tensor) const {
  const auto& attributes = std::get<model::DispatchAttributes>(permute_->attributes);
  const std::int64_t tokens = tensor.shape[0].size, width = tensor.shape[1].size;
  const std::int64_t permuted = std::max<std::int64_t>(1, graph_.tensor(permute_->reads[1]).shape[0].size);
  const std::int64_t rows = graph_.tensor(permute_->writes[0]).shape[0].size * tokens / permuted;
  const std::int64_t experts = attributes.experts_per_rank;
  std::vector<float> indices(static_cast<std::size_t>(tokens * width), -1.0F);
  std::int64_t expert = 0;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t share = rows * (token + 1) / tokens - rows * token / tokens;
    const std::int64_t chosen = std::clamp<std::int64_t>(share, 1, std::min(width, experts));
    for (std::int64_t i = 0; i < chosen; ++i, expert = (expert + 1) % experts)
      indices[static_cast<std::size_t>(token * width + i)] = static_cast<float>(expert);
  }
  return indices;
}

// Parameters are scaled to preserve the magnitude of activations; sums and weights are above 0.
void Contents::numbers(const model::Tensor& tensor, TensorId id, std::vector<float>& into) const {
  const std::size_t count = count_of(tensor);
  const bool vector = tensor.role == model::Role::parameter && tensor.shape.size() == 1;
  if (count == 1 || vector) return into.assign(count, 1.0F);
  const bool matrix = tensor.role == model::Role::parameter;
  const float scale = matrix ? 1.0F / std::sqrt(static_cast<float>(tensor.shape.back().size)) : 1.0F;
  const bool positive = positive_[id] || (from_standin_[id] && tensor.type == model::DataType::fp32);
  const std::vector<float>& table = normal_numbers();
  const std::size_t first = static_cast<std::size_t>(model::Random(seed_ + id).next()) % table.size();
  into.resize(count);
  in_parallel(static_cast<std::int64_t>(count), static_cast<std::int64_t>(table.size()), [&](auto begin, auto end) {
    std::size_t next = (first + static_cast<std::size_t>(begin)) % table.size();
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      into[i] = scale * (positive ? std::abs(table[next]) : table[next]);
      if (++next == table.size()) next = 0;
    }
  });
}

namespace {

using model::Role;

bool persists(const model::Tensor& tensor) { return tensor.role != Role::activation && tensor.role != Role::input; }

bool fits(const model::Tensor& a, const model::Tensor& b) {
  return a.type == b.type && a.shape.size() == b.shape.size() &&
         std::ranges::equal(a.shape, b.shape, {}, &model::Dimension::size, &model::Dimension::size);
}

std::vector<bool> transferred_tensors(const model::Graph& graph) {
  std::vector<bool> transferred(graph.tensors.size());
  for (const model::Operator& op : graph.operators) {
    if (!is_all_to_all(op.kind)) continue;
    for (const TensorId id : op.reads) transferred[id] = true;
    for (const TensorId id : op.writes) transferred[id] = true;
  }
  return transferred;
}

}  // namespace

SequenceBuffers::SequenceBuffers(const Sequence& sequence, Device& device, std::size_t sets, Apart apart)
    : sequence_(sequence), device_(device), apart_(apart) {
  for (std::size_t block = 0; block < sequence.blocks.size(); ++block)
    transferred_.push_back(transferred_tensors(graph(block)));
  for (std::size_t block = 0; block < sequence.blocks.size(); ++block) contents_.emplace_back(graph(block), block);
  for (std::size_t set = 0; set < sets; ++set) add_set(set);
  written_ = {};
}

Kernel SequenceBuffers::kernel(std::size_t set, const Sequence::Step& step, std::uint32_t label) const {
  const model::Operator& op = sequence_.op(step);
  Kernel kernel{.graph = &sequence_.graph(step), .op = &op, .label = label};
  for (const TensorId id : op.reads) kernel.reads.push_back(at(set, step.block, id));
  for (const TensorId id : op.writes) kernel.writes.push_back(at(set, step.block, id));
  return kernel;
}

const std::vector<float>& SequenceBuffers::left_in(std::size_t block, TensorId tensor) {
  auto& values = left_[{block, tensor}];
  if (values.empty()) values = contents_[block].values(tensor);
  return values;
}

Buffer* SequenceBuffers::allocate(std::size_t block, TensorId id) {
  const model::Tensor& tensor = graph(block).tensor(id);
  owned_.push_back(device_.allocate(tensor));
  if (contents_[block].needed(id)) {
    contents_[block].values(id, written_);
    device_.write(*owned_.back(), written_);
  }
  return owned_.back().get();
}

bool SequenceBuffers::passes_on(std::size_t block) const {
  if (block + 1 >= sequence_.chained) return false;
  const model::Graph &from = graph(block), &to = graph(block + 1);
  return fits(from.tensor(from.output), to.tensor(to.input));
}

bool SequenceBuffers::takes_back(std::size_t block) const {
  if (block + 1 >= sequence_.chained) return false;
  const model::Graph &from = graph(block), &to = graph(block + 1);
  const bool crosses = from.output_gradient != from.input && to.input_gradient != to.input;
  return crosses && fits(from.tensor(from.output_gradient), to.tensor(to.input_gradient));
}

bool SequenceBuffers::is_apart(std::size_t block, TensorId id) const {
  if (persists(graph(block).tensor(id))) return false;
  return apart_ == Apart::activations || transferred_[block][id];
}

void SequenceBuffers::add_set(std::size_t set) {
  Table& table = sets_.emplace_back(sequence_.blocks.size());
  for (std::size_t block = 0; block < table.size(); ++block) {
    const model::Graph& g = graph(block);
    table[block].resize(g.tensors.size());
    if (block > 0 && passes_on(block - 1)) table[block][g.input] = table[block - 1][graph(block - 1).output];
    for (TensorId id = 0; id < g.tensors.size(); ++id) {
      const bool comes_later = takes_back(block) && id == g.output_gradient;
      if (table[block][id] != nullptr || comes_later) continue;
      table[block][id] = set > 0 && !is_apart(block, id) ? sets_[0][block][id] : allocate(block, id);
    }
  }
  for (std::size_t block = table.size(); block-- > 0;)
    if (takes_back(block))
      table[block][graph(block).output_gradient] = table[block + 1][graph(block + 1).input_gradient];
}

}  // namespace plumbline::real
