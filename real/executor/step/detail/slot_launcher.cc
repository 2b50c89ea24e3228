#include "real/executor/step/detail/slot_launcher.h"

#include <algorithm>
#include <cmath>

#include "model/cost/operator_class.h"
#include "model/memory/slot_memory.h"

namespace plumbline::real {

using model::OpType;
using model::Segment;
using model::Stream;
using model::Transfer;

namespace {

// Returns the channel of the messages of one kind between two ranks.
std::int32_t channel_of(const Transfer& transfer, const model::Schedule& schedule) {
  return (transfer.forward ? 0 : 1) * schedule.directions + transfer.direction;
}

std::int32_t tag_of(const Transfer& transfer, const model::Schedule& schedule) {
  return (channel_of(transfer, schedule) * schedule.stages + transfer.stage) * schedule.shape.micro_batches +
         transfer.micro_batch;
}

bool has_backward(OpType type) { return type == OpType::B || type == OpType::FB; }

const model::Operator& copy_operator() {
  static const model::Operator op{.kind = model::OperatorKind::add, .name = "hand over"};
  return op;
}

}  // namespace

SlotLauncher::SlotLauncher(RankState& rank) : rank_(rank) {
  for (auto& [stage, local] : rank_.stages)
    for (std::uint16_t position = 0; position < local.state->positions(); ++position)
      for (const model::Operator& op : local.state->block(position).operators)
        if (op.kind == model::OperatorKind::router && op.phase == model::Phase::F) {
          const auto experts = std::get<model::RouterAttributes>(op.attributes).experts;
          loads_[{stage, position}] =
              rank_.device().allocate({.name = "expert_load", .shape = {{experts}}, .type = model::DataType::fp32});
        }
}

Buffer* SlotLauncher::data(std::int32_t stage, std::uint16_t position, model::TensorId id, std::int64_t key) {
  BufferPointer& buffer = data_[{stage, position, id, key}];
  if (buffer == nullptr) buffer = rank_.device().allocate(rank_.stages.at(stage).state->block(position).tensor(id));
  return buffer.get();
}

const std::vector<SlotLauncher::Step>& SlotLauncher::steps(std::uint16_t index) {
  const auto [entry, fresh] = steps_.try_emplace(index);
  if (!fresh) return entry->second;
  const std::vector<Segment>& segments = rank_.program().templates[index].segments;
  std::vector<Step>& steps = entry->second;
  steps.resize(segments.size());
  std::map<std::tuple<bool, std::uint16_t, std::vector<std::uint16_t>>, std::int32_t> seen;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    for (const std::uint16_t waited : s.waits) steps[waited].records = true;
    if (s.share == 1) continue;
    steps[i].parts = static_cast<std::int32_t>(std::lround(1 / s.share));
    steps[i].part = seen[{s.forward_side, s.block_of_stage, s.operators}]++;
  }
  return steps;
}

Buffer* SlotLauncher::message_buffer(const Transfer& transfer) {
  const std::int64_t key = rank_.key(transfer.direction, transfer.micro_batch);
  const std::int32_t stage = transfer.send      ? transfer.stage
                             : transfer.forward ? transfer.stage + 1
                                                : transfer.stage - 1;
  Activations& activations = *rank_.stages.at(stage).activations;
  constexpr Stream stream = Stream::pipeline;
  if (transfer.forward) return transfer.send ? activations.output(key, stream) : activations.input(key, stream);
  return transfer.send ? activations.input_gradient(key, stream) : activations.output_gradient(key, stream);
}

void SlotLauncher::send_and_receive(std::int32_t slot) {
  const std::vector<Transfer>& batch =
      rank_.program().batches[static_cast<std::size_t>(rank_.place.pipeline)][static_cast<std::size_t>(slot)];
  if (batch.empty()) return;
  std::vector<Message> messages;
  for (const Transfer& transfer : batch)
    messages.push_back({transfer.send, transfer.peer * rank_.place.per_stage + rank_.place.index,
                        tag_of(transfer, rank_.program().schedule), message_buffer(transfer),
                        channel_of(transfer, rank_.program().schedule)});
  Device& device = rank_.device();
  if (previous_) device.wait(Stream::pipeline, *previous_);
  const bool rendezvous = rank_.program().schedule.point_to_point == model::PointToPoint::batched;
  const std::uint32_t label = rank_.labels.add({slot, -1, "messages", batch.front().micro_batch});
  rank_.communicator().send_receive(Stream::pipeline, messages, rendezvous, label);
  const Event event = device.record(Stream::pipeline);
  device.wait(Stream::compute, event);
  for (const Transfer& transfer : batch) {
    if (!transfer.send) continue;
    const std::int64_t key = rank_.key(transfer.direction, transfer.micro_batch);
    Activations& activations = *rank_.stages.at(transfer.stage).activations;
    transfer.forward ? activations.sent_output(key, event) : activations.sent_input_gradient(key, event);
  }
}

// Makes other streams wait for the end of the previous slot and for its messages.
void SlotLauncher::start_streams(const model::SlotTemplate& slot) {
  used_.clear();
  for (const Segment& segment : slot.segments)
    if (segment.stream != Stream::compute && std::ranges::find(used_, segment.stream) == used_.end())
      used_.push_back(segment.stream);
  if (used_.empty()) return;
  const Event start = rank_.device().record(Stream::compute);
  for (const Stream stream : used_) rank_.device().wait(stream, start);
}

void SlotLauncher::join_streams() {
  for (const Stream stream : used_) rank_.device().wait(Stream::compute, rank_.device().record(stream));
  previous_ = rank_.device().record(Stream::compute);
}

std::uint16_t SlotLauncher::template_of(std::int32_t slot) const {
  return rank_.program().slot_templates[static_cast<std::size_t>(rank_.place.pipeline)][static_cast<std::size_t>(slot)];
}

const Segment& SlotLauncher::segment_of(std::int32_t slot, std::int32_t index) const {
  return rank_.program().templates[template_of(slot)].segments[static_cast<std::size_t>(index)];
}

void SlotLauncher::launch(std::int32_t slot, const ConcurrentWork& concurrent) {
  send_and_receive(slot);
  if (slot >= static_cast<std::int32_t>(rank_.ops().size())) return;
  const std::uint16_t index = template_of(slot);
  const model::SlotTemplate& whole = rank_.program().templates[index];
  concurrent.before(slot, -1, Stream::compute);
  start_streams(whole);
  const std::vector<Step>& steps = this->steps(index);
  ended_.assign(whole.segments.size(), std::nullopt);
  launched_ = 0;
  for (std::size_t i = 0; i < whole.segments.size(); ++i)
    launch_segment(slot, static_cast<std::int32_t>(i), steps[i], concurrent);
  join_streams();
  concurrent.after(slot, -1);
  hand_over(slot);
  end_phases(rank_.ops()[static_cast<std::size_t>(slot)]);
  rank_.pool->end_slot();
}

// Returns the last uses in a slot that runs the template for the stages of `op`.
const SlotLauncher::LastUses& SlotLauncher::last_uses(std::uint16_t index, const model::ScheduleOp& op) {
  const auto [entry, fresh] = last_uses_.try_emplace({index, op.f_stage, op.b_stage});
  if (!fresh) return entry->second;
  const auto side = [&](std::int32_t stage) { return stage < 0 ? nullptr : rank_.stages.at(stage).activations.get(); };
  const auto tensors = [](const Activations* of) { return of == nullptr ? nullptr : &of->tensors(); };
  const Activations* const forward = side(op.f_stage);
  const Activations* const backward = side(op.b_stage);
  const model::SlotUses uses =
      model::slot_uses(rank_.program().blocks, rank_.program().templates[index], tensors(forward), tensors(backward));
  entry->second.resize(uses.operators);
  const auto add = [&](bool is_forward, const Activations* activations, const std::vector<model::SlotUse>& all) {
    for (std::uint32_t i = 0; i < all.size(); ++i)
      if (all[i].last >= 0 && activations->is_temporary(i))
        entry->second[static_cast<std::size_t>(all[i].last)].push_back({is_forward, i, all[i].only_stream});
  };
  add(true, forward, uses.forward);
  add(false, backward, uses.backward);
  return entry->second;
}

// Ends the temporaries whose last user is the operator that was launched last.
void SlotLauncher::end_temporaries(std::int32_t slot) {
  const model::ScheduleOp& op = rank_.ops()[static_cast<std::size_t>(slot)];
  for (const LastUse& use : last_uses(template_of(slot), op)[launched_ - 1])
    rank_.stages.at(use.forward ? op.f_stage : op.b_stage)
        .activations->end_temporary(use.index, use.forward, use.only_stream);
}

void SlotLauncher::launch_segment(std::int32_t slot, std::int32_t index, const Step& step,
                                  const ConcurrentWork& concurrent) {
  const Segment& segment = segment_of(slot, index);
  for (const std::uint16_t waited : segment.waits) rank_.device().wait(segment.stream, *ended_[waited]);
  concurrent.before(slot, index, segment.stream);
  const model::Graph& graph = rank_.program().blocks[segment.block];
  for (const std::uint16_t operator_index : segment.operators) {
    launch_operator(slot, index, step, graph.operators[operator_index]);
    ++launched_;
    end_temporaries(slot);
  }
  if (step.records) ended_[static_cast<std::size_t>(index)] = rank_.device().record(segment.stream);
  concurrent.after(slot, index);
}

Buffer* SlotLauncher::bind(std::int32_t stage, const Segment& segment, model::TensorId id, std::int64_t key) {
  const std::uint16_t position = segment.block_of_stage;
  LocalStage& local = rank_.stages.at(stage);
  const model::Tensor& tensor = local.state->block(position).tensor(id);
  switch (tensor.role) {
    case model::Role::parameter:
    case model::Role::gradient: {
      if (Buffer* own = local.state->find(position, id)) return own;
      for (const auto& [other, candidate] : rank_.stages)
        if (Buffer* shared = candidate.state->owner(tensor.name)) return shared;
      return nullptr;
    }
    case model::Role::constant:
      if (Buffer* bias = local.state->find(position, id)) return bias;
      return data(stage, position, id, key);
    default:
      return local.activations->find(position, id, key, segment.forward_side, segment.stream);
  }
}

void SlotLauncher::launch_operator(std::int32_t slot, std::int32_t index, const Step& step, const model::Operator& op) {
  const model::ScheduleOp& o = rank_.ops()[static_cast<std::size_t>(slot)];
  const Segment& segment = segment_of(slot, index);
  const std::int32_t stage = segment.forward_side ? o.f_stage : o.b_stage;
  const std::int64_t key = segment.forward_side ? rank_.key(o.f_dir, o.f_mb) : rank_.key(o.b_dir, o.b_mb);
  Kernel kernel{.graph = &rank_.program().blocks[segment.block],
                .op = &op,
                .part = step.part,
                .parts = step.parts,
                .tensor_rank = rank_.place.tensor,
                .numbers = rank_.numbers};
  for (const model::TensorId id : op.reads) kernel.reads.push_back(bind(stage, segment, id, key));
  for (const model::TensorId id : op.writes) kernel.writes.push_back(bind(stage, segment, id, key));
  if (op.kind == model::OperatorKind::router && !op.recomputed)
    kernel.writes.push_back(loads_.at({stage, segment.block_of_stage}).get());
  kernel.label = rank_.labels.add({slot, index, op.name, segment.forward_side ? o.f_mb : o.b_mb,
                                   model::breakdown_name(model::operator_class(*kernel.graph, op))});
  if (is_collective(op.kind) || is_all_to_all(op.kind)) return rank_.launch_collective(segment.stream, kernel, stage);
  rank_.device().launch(segment.stream, kernel);
}

// Copies tensors between two stages of this rank, where no message is needed.
void SlotLauncher::hand_over(std::int32_t slot) {
  const model::ScheduleOp& op = rank_.ops()[static_cast<std::size_t>(slot)];
  const model::Schedule& schedule = rank_.program().schedule;
  const auto here = [&](std::int32_t direction, std::int32_t stage) {
    return stage >= 0 && stage < schedule.stages && schedule.rank_of(direction, stage) == rank_.place.pipeline;
  };
  if (op.f_stage >= 0 && here(op.f_dir, op.f_stage + 1)) {
    const std::int64_t key = rank_.key(op.f_dir, op.f_mb);
    Activations& from = *rank_.stages.at(op.f_stage).activations;
    Activations& to = *rank_.stages.at(op.f_stage + 1).activations;
    copy(from.output(key, Stream::compute), to.input(key, Stream::compute), slot);
    from.sent_output(key, rank_.device().record(Stream::compute));
  }
  if (op.b_stage >= 0 && op.type != OpType::W && here(op.b_dir, op.b_stage - 1)) {
    const std::int64_t key = rank_.key(op.b_dir, op.b_mb);
    Activations& from = *rank_.stages.at(op.b_stage).activations;
    Activations& to = *rank_.stages.at(op.b_stage - 1).activations;
    copy(from.input_gradient(key, Stream::compute), to.output_gradient(key, Stream::compute), slot);
    from.sent_input_gradient(key, rank_.device().record(Stream::compute));
  }
}

void SlotLauncher::copy(Buffer* from, Buffer* to, std::int32_t slot) {
  const std::uint32_t label = rank_.labels.add({.slot = slot, .name = "hand over"});
  const Kernel kernel{.op = &copy_operator(), .reads = {from}, .writes = {to}, .label = label};
  rank_.device().launch(Stream::compute, kernel);
}

void SlotLauncher::end_phases(const model::ScheduleOp& op) {
  if (op.f_stage >= 0) rank_.stages.at(op.f_stage).activations->end_forward(rank_.key(op.f_dir, op.f_mb));
  if (op.b_stage < 0) return;
  Activations& activations = *rank_.stages.at(op.b_stage).activations;
  const std::int64_t key = rank_.key(op.b_dir, op.b_mb);
  if (op.type == OpType::I || has_backward(op.type)) activations.end_input_gradient(key);
  if (op.type == OpType::W || has_backward(op.type)) activations.end_weight_gradient(key);
}

}  // namespace plumbline::real
