#include "real/executor/step/trained_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "real/executor/step/rank_state.h"
#include "real/executor/step/stage_state.h"
#include "real/executor/training/checkpoint.h"

namespace plumbline::real {

using model::Error;
using model::Role;
using model::Tensor;

namespace {

std::size_t size_of(const Tensor& tensor) { return static_cast<std::size_t>(std::llround(tensor.elements())); }

Tensor named(const model::Graph& graph, const std::string& name) {
  return *std::ranges::find_if(
      graph.tensors, [&](const Tensor& tensor) { return tensor.role == Role::parameter && tensor.name == name; });
}

}  // namespace

// The fingerprint of a checkpoint is the plan that trained it, which states how the ranks divide the model.
model::Result<TrainedParameters> TrainedParameters::open(const std::string& folder, const model::Plan& plan,
                                                         const model::Architecture& architecture) {
  const auto checkpoint = TRY(newest_checkpoint(folder));
  const auto trained = TRY(model::read_plan(checkpoint.fingerprint, plan.file, {}));
  const bool same = trained.model.config == plan.model.config && trained.model.overrides == plan.model.overrides;
  if (!same || trained.cluster.gpus != checkpoint.ranks)
    return tl::unexpected(Error{
        .message = fmt::format("a checkpoint of {}, but the plan's model is {}", model_name(trained), model_name(plan)),
        .file = folder,
        .key = "model.config",
        .hint = "name the model of the plan that wrote it"});
  const auto layout = TRY(model::make_layout(trained, architecture));
  const auto program = TRY(model::compile(trained, architecture, layout));
  TrainedParameters parameters;
  parameters.folder_ = folder;
  parameters.step_ = checkpoint.step;
  parameters.architecture_ = architecture;
  for (std::int32_t stage = 0; stage < program.schedule.stages; ++stage)
    parameters.add_stage(trained, architecture, layout, program, stage);
  return parameters;
}

void TrainedParameters::add_stage(const model::Plan& trained, const model::Architecture& architecture,
                                  const model::Layout& layout, const model::StepProgram& program, std::int32_t stage) {
  const auto blocks = model::stage_blocks(trained, architecture, layout, stage);
  const model::LayerContext undivided = model::plan_context(trained, architecture, layout, {1, 1}).undivided();
  const auto& held =
      program.stage_kinds[static_cast<std::size_t>(program.stages[static_cast<std::size_t>(stage)].kind)];
  const std::int64_t per_stage = trained.cluster.gpus / trained.parallelism.pipeline;
  const std::int64_t first_rank = holders(program.schedule, stage).front() * per_stage;
  const auto graph = [&](std::size_t position) -> const model::Graph& { return program.blocks[held.blocks[position]]; };

  for (std::size_t position = 0; position < held.blocks.size(); ++position)
    for (const Tensor& tensor : graph(position).tensors)
      if (tensor.role == Role::constant && tensor.name == "router_bias")
        wholes_[{blocks[position].layer, tensor.name}] = {tensor,
                                                          {{static_cast<std::int32_t>(first_rank),
                                                            fmt::format("stage{}/block{}/router_bias", stage, position),
                                                            0,
                                                            tensor,
                                                            {}}}};

  for (std::size_t unit = 0; unit < program.stage_units[static_cast<std::size_t>(stage)].size(); ++unit) {
    std::int64_t first = 0;
    for (const auto& [position, id] : owned_parameters(program, stage, unit)) {
      const Tensor& part = graph(position).tensor(id);
      Whole& whole = wholes_[{blocks[position].layer, part.name}];
      whole.tensor = named(model::make_stage_block(blocks[position].kind, blocks[position].pass, undivided), part.name);
      std::set<std::pair<std::int64_t, std::int64_t>> seen;  // parts that one rank at least holds
      for (std::int64_t index = 0; index < per_stage; ++index) {
        const Division division = division_of(trained.parallelism, index);
        if (seen.insert({part.divided ? division.tensor_rank : 0, part.expert ? division.expert_rank : 0}).second)
          whole.parts.push_back({static_cast<std::int32_t>(first_rank + index),
                                 fmt::format("stage{}/unit{}/parameters", stage, unit), first, part, division});
      }
      first += static_cast<std::int64_t>(size_of(part));
    }
  }
}

model::Result<const std::vector<float>*> TrainedParameters::piece(const Part& part) {
  const auto [entry, fresh] = pieces_.try_emplace({part.rank, part.piece});
  if (fresh) entry->second = TRY(read_checkpoint_piece(folder_, step_, part.rank, part.piece));
  if (entry->second.size() < static_cast<std::size_t>(part.first) + size_of(part.held))
    return tl::unexpected(
        Error{.message = fmt::format("piece '{}' is shorter than '{}' needs", part.piece, part.held.name),
              .file = folder_,
              .hint = "the model's file has changed since the training"});
  return &entry->second;
}

model::Result<std::vector<float>> TrainedParameters::read(std::int64_t layer, const std::string& name) {
  const auto found = wholes_.find({layer, name});
  if (found == wholes_.end())
    return tl::unexpected(Error{.message = fmt::format("the checkpoint has no parameter '{}' of layer {}", name, layer),
                                .file = folder_,
                                .hint = "use a checkpoint of the plan's model"});
  const Whole& whole = found->second;
  std::vector<float> values(size_of(whole.tensor));
  for (const Part& part : whole.parts) {
    const auto stored = TRY(piece(part));
    put_part(architecture_, whole.tensor, part.held, part.division,
             std::span(*stored).subspan(static_cast<std::size_t>(part.first), size_of(part.held)), values);
  }
  return values;
}

}  // namespace plumbline::real
