#include "real/measure/contents.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "model/base/random.h"
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

}  // namespace plumbline::real
