#include "model/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "model/activations.h"
#include "model/training_state.h"

namespace plumbline::model {

namespace {

std::vector<std::int64_t> stages_on(const Schedule& schedule, std::int32_t rank) {
  std::vector<std::int64_t> stages;
  for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
    for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
      if (schedule.rank_of(direction, stage) == rank) stages.push_back(stage);
  return stages;
}

std::string largest_item(const TrainingState& state, Bytes activations, Bytes buffers) {
  using Item = std::pair<std::string_view, Bytes>;
  const std::array<Item, 8> items = {Item{"parameters of the experts", state.experts.parameters},
                                     Item{"gradients of the experts", state.experts.gradients},
                                     Item{"optimizer states of the experts", state.experts.optimizer},
                                     Item{"parameters outside experts", state.others.parameters},
                                     Item{"gradients outside experts", state.others.gradients},
                                     Item{"optimizer states outside experts", state.others.optimizer},
                                     Item{"activations", activations},
                                     Item{"buffers", buffers}};
  const auto [name, bytes] = *std::max_element(
      items.begin(), items.end(), [](const Item& left, const Item& right) { return left.second < right.second; });
  return fmt::format("{}, {:.1f} GB", name, bytes.value() / 1e9);
}

StageMemory rank_memory(const Plan& plan, const Layout& layout, const StepProgram& program, std::int32_t rank) {
  StageMemory memory;
  memory.rank = rank;
  memory.stages = stages_on(program.schedule, rank);
  const TrainingState state = training_state(plan, layout, program, memory.stages);
  const Bytes activations = peak_activations(program, static_cast<std::size_t>(rank));
  const Bytes buffers = peak_buffers(program, static_cast<std::size_t>(rank));
  memory.parameters_bytes = (state.experts.parameters + state.others.parameters).value();
  memory.gradients_bytes = (state.experts.gradients + state.others.gradients).value();
  memory.optimizer_bytes = (state.experts.optimizer + state.others.optimizer).value();
  memory.activations_bytes = activations.value();
  memory.buffers_bytes = buffers.value();
  memory.peak_bytes = memory.parameters_bytes + memory.gradients_bytes + memory.optimizer_bytes +
                      memory.activations_bytes + memory.buffers_bytes;
  memory.largest = largest_item(state, activations, buffers);
  return memory;
}

}  // namespace

Memory memory(const Plan& plan, const Layout& layout, const StepProgram& program, const ClusterShape& cluster) {
  Memory result;
  for (std::int32_t rank = 0; rank < program.schedule.shape.ranks; ++rank) {
    result.ranks.push_back(rank_memory(plan, layout, program, rank));
    result.peak_bytes = std::max(result.peak_bytes, result.ranks.back().peak_bytes);
  }
  result.capacity_bytes = cluster.device.memory.value();
  result.fits = result.peak_bytes <= result.capacity_bytes;
  return result;
}

std::string shortage(const Memory& memory) {
  constexpr double giga = 1e9;
  for (const StageMemory& rank : memory.ranks) {
    if (rank.peak_bytes <= memory.capacity_bytes) continue;
    return fmt::format("does not fit: rank {} needs {:.1f} GB of {:.1f} GB; largest: {}", rank.rank,
                       rank.peak_bytes / giga, memory.capacity_bytes / giga, rank.largest);
  }
  return "";
}

}  // namespace plumbline::model
