#include "real/executor/initial_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/program/plan_context.h"
#include "real/executor/parameter_part.h"

namespace plumbline::real {

using model::Role;
using model::TensorId;

void write_initial_parameters(RankState& rank) {
  const StepInput& input = rank.input;
  const Division division = division_of(input.plan->parallelism, rank.place.index);
  const model::LayerContext undivided =
      model::plan_context(*input.plan, *input.architecture, *input.layout, {1, 1}).undivided();
  std::vector<float> values;
  for (const auto& [stage, local] : rank.stages) {
    const auto blocks = model::stage_blocks(*input.plan, *input.architecture, *input.layout, stage);
    for (std::uint16_t position = 0; position < local.state->positions(); ++position) {
      const model::Graph whole = model::make_stage_block(blocks[position].kind, blocks[position].recomputed, undivided);
      const model::Graph& held = local.state->block(position);
      for (TensorId id = 0; id < held.tensors.size(); ++id) {
        const model::Tensor& part = held.tensor(id);
        if (part.role != Role::parameter || part.shared) continue;
        const auto of_whole = std::ranges::find_if(whole.tensors, [&](const model::Tensor& candidate) {
          return candidate.role == Role::parameter && candidate.name == part.name;
        });
        initial_part(*input.architecture, *of_whole, part, division, place_name(*local.state, position) + part.name,
                     values);
        rank.device().write(*local.state->find(position, id), values);
      }
    }
    std::vector<std::int32_t> shards;
    for (const StageState::Unit& unit : local.state->units())
      shards.push_back(strided_group(rank.place, local.holders, unit.group.shards, unit.group.stride).position);
    local.state->copy_parameters_to_shards(shards);
  }
}

std::string place_name(const StageState& stage, std::uint16_t position) {
  return fmt::format("layer {} {}/", stage.layer(position), stage.block(position).name);
}

}  // namespace plumbline::real
