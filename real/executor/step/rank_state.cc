#include "real/executor/step/rank_state.h"

#include <algorithm>

#include "model/cost/operator_class.h"
#include "model/plan/plan.h"

namespace plumbline::real {

RankPlace rank_place(const model::Plan& plan, std::int32_t world_rank) {
  RankPlace place;
  const auto tensor = static_cast<std::int32_t>(plan.parallelism.tensor);
  place.world = world_rank;
  place.per_stage = static_cast<std::int32_t>(plan.cluster.gpus / plan.parallelism.pipeline);
  place.pipeline = world_rank / place.per_stage;
  place.index = world_rank % place.per_stage;
  place.tensor = place.index % tensor;
  place.data = place.index / tensor;
  return place;
}

std::vector<std::int32_t> holders(const model::Schedule& schedule, std::int32_t stage) {
  std::vector<std::int32_t> ranks;
  for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
    ranks.push_back(schedule.rank_of(direction, stage));
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  return ranks;
}

Group strided_group(const RankPlace& place, const std::vector<std::int32_t>& holders, std::int64_t ranks,
                    std::int64_t stride) {
  const auto holder = std::ranges::find(holders, place.pipeline) - holders.begin();
  const std::int64_t own = place.index + holder * place.per_stage;
  Group group;
  group.position = static_cast<std::int32_t>(own / stride % ranks);
  for (std::int64_t i = 0; i < ranks; ++i) {
    const std::int64_t member = own + (i - group.position) * stride;
    const std::int32_t pipeline = holders[static_cast<std::size_t>(member / place.per_stage)];
    group.ranks.push_back(pipeline * place.per_stage + static_cast<std::int32_t>(member % place.per_stage));
  }
  return group;
}

Group RankState::expert_group() const {
  const model::RankGroup group = model::expert_group(input.plan->parallelism);
  return strided_group(place, {place.pipeline}, group.ranks, group.stride);
}

Group RankState::world() const { return all_ranks(static_cast<std::int32_t>(input.plan->cluster.gpus), place.world); }

void RankState::launch_collective(model::Stream stream, const Kernel& kernel, std::int32_t stage) {
  const auto group = [&] {
    if (is_all_to_all(kernel.op->kind)) return expert_group();
    const auto& attributes = std::get<model::CollectiveAttributes>(kernel.op->attributes);
    return strided_group(place, stages.at(stage).holders, attributes.ranks, attributes.stride);
  };
  communicator().launch(stream, group(), kernel);
}

using model::Lifetime;
using model::TensorId;

Activations::Activations(BufferPool& pool, const model::StepProgram& program, std::int32_t stage_kind)
    : pool_(pool),
      program_(program),
      blocks_(program.stage_kinds[static_cast<std::size_t>(stage_kind)].blocks),
      tensors_(program, stage_kind) {
  input_ = tensors_.index(0, first().input);
  output_gradient_ = tensors_.index(last_position(), last().output_gradient);
  for (std::uint16_t position = 0; position < blocks_.size(); ++position)
    for (const model::Operator& op : graph(position).operators) {
      if (op.kind == model::OperatorKind::cross_entropy) retained_.insert(tensors_.index(position, op.writes[0]));
      if (op.kind == model::OperatorKind::cross_entropy_grad && op.reads.size() > 2)
        retained_.insert(tensors_.index(position, op.reads[2]));
    }
}

const model::Graph& Activations::graph(std::uint16_t position) const { return program_.blocks[blocks_[position]]; }

bool Activations::per_micro_batch(std::uint32_t index) const {
  const Lifetime lifetime = tensors_[index].lifetime;
  return (lifetime != Lifetime::never && lifetime != Lifetime::within_slot) || index == input_ ||
         index == output_gradient_ || index == tensors_.output() || index == tensors_.input_gradient() ||
         retained_.contains(index);
}

Buffer* Activations::find(std::uint16_t position, TensorId id, std::int64_t key, bool forward, model::Stream stream) {
  const std::uint32_t index = tensors_.index(position, id);
  Held& held = per_micro_batch(index) ? in_flight_[{index, key}] : temporary_[{index, forward}];
  if (held.buffer == nullptr) {
    held.tensor = &graph(position).tensor(id);
    held.buffer = pool_.take(*held.tensor, stream);
  }
  return held.buffer.get();
}

void Activations::end_temporary(std::uint32_t index, bool forward, std::optional<model::Stream> only_user) {
  const auto found = temporary_.find({index, forward});
  if (found == temporary_.end()) return;
  pool_.give_back(*found->second.tensor, std::move(found->second.buffer), only_user);
  temporary_.erase(found);
}

void Activations::release(std::uint32_t index, std::int64_t key, std::optional<Event> busy_until) {
  const auto found = in_flight_.find({index, key});
  if (found == in_flight_.end()) return;
  pool_.give_back(*found->second.tensor, std::move(found->second.buffer), std::nullopt, busy_until);
  in_flight_.erase(found);
}

void Activations::release_kept(Lifetime lifetime, std::int64_t key) {
  for (std::uint32_t index = 0; index < tensors_.size(); ++index)
    if (tensors_[index].lifetime == lifetime && !retained_.contains(index)) release(index, key, std::nullopt);
}

void Activations::end_forward(std::int64_t key) {
  if (tensors_[input_].lifetime == Lifetime::within_slot) release(input_, key, std::nullopt);
}

void Activations::end_input_gradient(std::int64_t key) {
  release_kept(Lifetime::forward_to_input, key);
  if (tensors_[output_gradient_].lifetime == Lifetime::within_slot) release(output_gradient_, key, std::nullopt);
}

void Activations::end_weight_gradient(std::int64_t key) {
  release_kept(Lifetime::forward_to_weight, key);
  release_kept(Lifetime::input_gradient_to_weight, key);
}

// Releases a tensor after its message. A tensor that a later phase reads stays until then.
void Activations::sent(std::uint32_t index, std::int64_t key, Event event) {
  if (tensors_[index].lifetime == Lifetime::within_slot) release(index, key, event);
}

void Activations::sent_output(std::int64_t key, Event event) { sent(tensors_.output(), key, event); }

void Activations::sent_input_gradient(std::int64_t key, Event event) { sent(tensors_.input_gradient(), key, event); }

}  // namespace plumbline::real
