#include "model/program/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "model/plan/plan.h"

namespace plumbline::model {

std::string span_name(Section section, Phase phase) {
  return fmt::format("{}({})", to_string(section), phase == Phase::I ? "B" : to_string(phase));
}

namespace {

struct Owned {  // a parameter that a block owns, in any stage
  TensorId parameter = 0;
  std::optional<TensorId> gradient;
  std::size_t written = 0;  // rank of the operator that completes the gradient in its block's backward pass
};

// Returns the position of a section in a block's backward pass.
std::size_t backward_order(Section section) {
  constexpr std::array order = {Section::head, Section::combine, Section::mlp, Section::dispatch, Section::attention};
  return static_cast<std::size_t>(std::ranges::find(order, section) - order.begin());
}

std::size_t last_write(const Graph& graph, TensorId gradient) {
  std::size_t rank = 0;
  for (std::size_t i = 0; i < graph.operators.size(); ++i)
    if (std::ranges::find(graph.operators[i].writes, gradient) != graph.operators[i].writes.end())
      rank = (1 + backward_order(graph.operators[i].section)) * graph.operators.size() + i;
  return rank;
}

std::optional<TensorId> gradient_of(const Graph& graph, const std::string& parameter) {
  const std::string name = "d_" + parameter;
  for (TensorId id = 0; id < graph.tensors.size(); ++id)
    if (graph.tensors[id].role == Role::gradient && graph.tensors[id].name == name) return id;
  return std::nullopt;
}

class Grouper {
 public:
  Grouper(const Plan& plan, const std::vector<Graph>& blocks, const StageKind& stage)
      : plan_(plan),
        by_block_(plan.parallelism.zero_stage == 3),
        bucket_bytes_(plan.overlap.gradient_bucket_bytes),
        gradient_bytes_(bytes_per_element(activation_type(plan.precision.gradients))),
        blocks_(blocks),
        stage_(stage) {}

  std::vector<StageUnit> run() {
    for (std::size_t position = stage_.blocks.size(); position-- > 0;)
      for (const Owned& owned : owned_by(stage_.blocks[position])) add(owned, static_cast<std::uint16_t>(position));
    for (std::size_t position = 0; position < stage_.blocks.size(); ++position)
      borrow(static_cast<std::uint16_t>(position));
    return std::move(units_);
  }

 private:
  // Returns whether parameters that the block shares are gathered for it: those of the policy, of which a reference
  // model has no copy next to adapters.
  bool gathers_own(const Graph& g) const { return g.reference && plan_.training.method != "full"; }
  const Graph& graph(std::uint16_t position) const { return blocks_[stage_.blocks[position]]; }

  // The result is the same for all layers of one kind.
  const std::vector<Owned>& owned_by(std::uint16_t block) {
    const auto [entry, fresh] = owned_.try_emplace(block);
    std::vector<Owned>& owned = entry->second;
    if (!fresh) return owned;
    const Graph& g = blocks_[block];
    for (TensorId id = 0; id < g.tensors.size(); ++id) {
      if (g.tensors[id].role != Role::parameter || (g.tensors[id].shared && !gathers_own(g))) continue;
      if (g.tensors[id].frozen && !by_block_) continue;
      Owned one{id, gradient_of(g, g.tensors[id].name), 0};
      if (one.gradient) one.written = last_write(g, *one.gradient);
      owned.push_back(one);
    }
    std::ranges::stable_sort(owned, {}, &Owned::written);
    return owned;
  }

  std::size_t unit_for(const Tensor& tensor, std::uint16_t position) {
    const Key key{by_block_ ? position : 0, tensor.expert, by_block_ ? DataType::bf16 : tensor.type,
                  !by_block_ && updated_by_muon(plan_, tensor)};
    const auto [entry, fresh] = open_.try_emplace(key, units_.size());
    if (fresh) {
      const std::string_view kind = tensor.expert ? "experts" : "dense";
      units_.push_back({by_block_ ? fmt::format("{}_block{}", kind, position)
                                  : fmt::format("{}_{}_{}", kind, to_string(tensor.type), units_.size()),
                        tensor.expert,
                        {},
                        {},
                        {}});
    }
    const std::size_t unit = entry->second;
    bytes_[unit] += tensor.elements() * gradient_bytes_;
    if (!by_block_ && bytes_[unit] >= bucket_bytes_) open_.erase(key);
    return unit;
  }

  void add(const Owned& owned, std::uint16_t position) {
    const Tensor& tensor = graph(position).tensor(owned.parameter);
    const std::size_t index = unit_for(tensor, position);
    StageUnit& unit = units_[index];
    unit.parameters.push_back({position, owned.parameter});
    if (owned.gradient) unit.gradients.push_back({position, *owned.gradient});
    const bool muon = updated_by_muon(plan_, tensor);
    auto piece = std::ranges::find_if(unit.pieces, [&tensor, muon](const UnitPiece& one) {
      return one.stored == tensor.type && one.frozen == tensor.frozen && one.muon == muon;
    });
    if (piece == unit.pieces.end())
      piece = unit.pieces.insert(piece, {tensor.type, tensor.frozen, muon, 0, 0, 0, 0, {}});
    piece->elements += tensor.elements();
    if (muon) {
      const std::int64_t rows = tensor.shape[tensor.shape.size() - 2].size, columns = tensor.shape.back().size;
      piece->matrices[{rows, columns}] += tensor.elements() / static_cast<double>(rows * columns);
    }
    if (!tensor.divided && !tensor.expert) piece->whole += tensor.elements();
    if (tensor.copies > 0 && !tensor.frozen) {
      piece->cast += tensor.elements();
      piece->copies = tensor.copies;
    }
    owners_.try_emplace({tensor.name, tensor.expert, graph(position).reference}, index);
  }

  void borrow(std::uint16_t position) {
    const Graph& g = graph(position);
    for (TensorId id = 0; id < g.tensors.size(); ++id) {
      const Tensor& tensor = g.tensors[id];
      if (!tensor.shared || tensor.role != Role::parameter || gathers_own(g)) continue;
      const auto owner = owners_.find({tensor.name, tensor.expert, g.reference});
      if (owner == owners_.end()) continue;
      units_[owner->second].parameters.push_back({position, id});
      if (const auto gradient = gradient_of(g, tensor.name))
        units_[owner->second].gradients.push_back({position, *gradient});
    }
  }

  using Key = std::tuple<std::uint16_t, bool, DataType, bool>;
  const Plan& plan_;
  bool by_block_;
  double bucket_bytes_, gradient_bytes_;
  const std::vector<Graph>& blocks_;
  const StageKind& stage_;
  std::vector<StageUnit> units_;
  std::map<std::uint16_t, std::vector<Owned>> owned_;                  // by block
  std::map<Key, std::size_t> open_;                                    // units that are not full yet
  std::map<std::size_t, double> bytes_;                                // of the gradients of each unit
  std::map<std::tuple<std::string, bool, bool>, std::size_t> owners_;  // by name, whether of experts, and reference
};

}  // namespace

bool updated_by_muon(const Plan& plan, const Tensor& parameter) {
  if (plan.optimizer.kind != "muon" || parameter.frozen || parameter.shape.size() < 2) return false;
  const std::size_t last = parameter.shape.size() - 1;
  const bool vector = std::min(parameter.shape[last - 1].size, parameter.shape[last].size) == 1;
  return !vector && parameter.name != "embedding" && parameter.name != "positions" && parameter.name != "output";
}

std::vector<StageUnit> stage_units(const Plan& plan, const std::vector<Graph>& blocks, const StageKind& stage) {
  return Grouper(plan, blocks, stage).run();
}

}  // namespace plumbline::model
