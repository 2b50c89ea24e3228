#include "sim/search/detail/branch_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "sim/predict/memos.h"

namespace plumbline::sim {
namespace {

using model::CoRunner;
using model::Stream;

constexpr double unreachable = -std::numeric_limits<double>::infinity();
constexpr std::size_t forward_door = 3, backward_door = 4;

double best(const SegmentTime& time) { return *std::ranges::min_element(time.compute); }
double least_transfer(const SegmentTime& time) { return std::min(time.transfer, time.transfer_overlapped); }

bool computes(Stream stream) { return stream == Stream::compute || stream == Stream::weight_gradient; }

double least_seconds_of(Stream stream, const SegmentTime& time) {
  if (computes(stream)) return best(time);
  if (stream != Stream::communication) return time.transfer;
  return std::min(time.prepare, time.prepare_overlapped) + time.notify + least_transfer(time);
}

std::size_t door_of(Stream stream) {
  switch (stream) {
    case Stream::compute:
      return 0;
    case Stream::communication:
      return 1;
    case Stream::collective:
      return 2;
    default:
      return Path::doors;
  }
}

void add_mixed(const SegmentTime& time, double share, StreamWork& work) {
  const double least = best(time), overlapped = time.compute[static_cast<std::size_t>(CoRunner::transferring)];
  if (overlapped <= 0) return;
  const auto rate = static_cast<std::size_t>(std::ceil(least / overlapped * StreamWork::rates));
  work.overlapped[std::clamp<std::size_t>(rate, 1, StreamWork::rates) - 1] += share * overlapped;
}

bool touches(const model::Graph& graph, const model::Segment& segment, model::TensorId id, bool writes) {
  return std::ranges::any_of(segment.operators, [&](std::uint16_t index) {
    const model::Operator& op = graph.operators[index];
    const std::vector<model::TensorId>& tensors = writes ? op.writes : op.reads;
    return std::ranges::find(tensors, id) != tensors.end();
  });
}

using model::OpType;

constexpr std::size_t index(OpType type) { return static_cast<std::size_t>(type); }

model::LayerContext context_of(const Inputs& inputs, const model::Plan& plan) {
  const model::Layout layout = *model::make_layout(plan, inputs.architecture);
  return model::plan_context(plan, inputs.architecture, layout, spread_of(inputs, plan));
}

}  // namespace

double least_sharing_slowdown(const model::SmPartition& partition) {
  double slowdown = 2;
  for (std::size_t s = 0; s < model::communication_states; ++s) {
    const auto co_runner = static_cast<CoRunner>(s);
    const model::Conditions conditions = partition.overlapped(co_runner);
    const std::int64_t free = partition.device_sms - (co_runner == CoRunner::none ? 0 : conditions.held);
    const double share =
        2.0 * static_cast<double>(conditions.sms) / static_cast<double>(std::max<std::int64_t>(1, free));
    slowdown = std::min(slowdown, std::max(1.0, share));
  }
  return slowdown;
}

StreamWork& StreamWork::add(const StreamWork& other, double times) {
  compute += times * other.compute;
  second += times * other.second;
  communication += times * other.communication;
  collective += times * other.collective;
  transfer += times * other.transfer;
  for (std::size_t i = 0; i < rates; ++i) overlapped[i] += times * other.overlapped[i];
  return *this;
}

double StreamWork::bound() const {
  double held = 0, left = transfer, slowest = 1;
  for (std::size_t i = rates; i-- > 0 && left > 0;) {
    const double seconds = std::min(left, overlapped[i]);
    if (seconds == 0) continue;
    slowest = static_cast<double>(i + 1) / rates;
    held += seconds * slowest;
    left -= seconds;
  }
  if (left > 0) slowest = 0;  // the rest of the transfers overlaps nothing
  return std::max(
      {compute + second, communication, collective, compute + transfer - std::min(held, compute) + second * slowest});
}

Path::Path() {
  for (auto& row : paths_) row.fill(unreachable);
  for (std::size_t door = 0; door < doors; ++door) paths_[door][door] = 0;
}

Path::Path(const model::SlotTemplate& slot, const model::Graph* forward, const model::Graph* backward,
           const std::vector<double>& seconds)
    : Path() {
  // Returns whether the segment uses the tensor by which its side enters or leaves the block.
  const auto uses = [&](const model::Segment& segment, std::size_t door, bool leaves) {
    if (door != (segment.forward_side ? forward_door : backward_door)) return false;
    const model::Graph& graph = segment.forward_side ? *forward : *backward;
    const model::TensorId in = segment.forward_side ? graph.input : graph.output_gradient;
    const model::TensorId out = segment.forward_side ? graph.output : graph.input_gradient;
    return touches(graph, segment, leaves ? out : in, leaves);
  };
  // A side that is missing, or passes its tensor on, lets paths through.
  if (forward != nullptr && forward->input != forward->output) paths_[forward_door][forward_door] = unreachable;
  if (backward != nullptr && backward->output_gradient != backward->input_gradient)
    paths_[backward_door][backward_door] = unreachable;
  for (std::size_t entry = 0; entry < doors; ++entry) {
    std::array<double, doors>& path = paths_[entry];
    std::vector<double> ends(seconds.size(), unreachable);
    std::array<double, 8> stream_ends{};
    stream_ends.fill(unreachable);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const model::Segment& segment = slot.segments[i];
      const std::size_t door = door_of(segment.stream);
      double start = stream_ends[static_cast<std::size_t>(segment.stream)];
      if (door == entry || uses(segment, entry, false)) start = std::max(start, 0.0);
      for (const std::uint16_t wait : segment.waits) start = std::max(start, ends[wait]);
      ends[i] = stream_ends[static_cast<std::size_t>(segment.stream)] = start + seconds[i];
      if (door < doors) path[door] = std::max(path[door], ends[i]);
      for (const std::size_t exit : {forward_door, backward_door})
        if (uses(segment, exit, true)) path[exit] = std::max(path[exit], ends[i]);
    }
  }
}

Path Path::then(const Path& next) const {
  Path both;
  for (std::size_t i = 0; i < doors; ++i)
    for (std::size_t j = 0; j < doors; ++j) {
      double path = unreachable;
      for (std::size_t k = 0; k < doors; ++k) path = std::max(path, paths_[i][k] + next.paths_[k][j]);
      both.paths_[i][j] = path;
    }
  return both;
}

double Path::longest() const {
  double longest = 0;
  for (const auto& row : paths_)
    for (const double path : row) longest = std::max(longest, path);
  return longest;
}

BlockSlots::BlockSlots(model::Graph block, const model::TensorOverlap& overlap) : overlap_(overlap) {
  program_.blocks.push_back(std::move(block));
  program_.stage_kinds.push_back({{0}});
}

const model::SlotTemplate& BlockSlots::slot(model::OpType type) {
  std::optional<model::SlotTemplate>& known = slots_[static_cast<std::size_t>(type)];
  const bool forward = type == model::OpType::F;
  if (!known)
    known = model::make_slot_template(type, forward ? 0 : -1, forward ? -1 : 0, program_.stage_kinds, program_.blocks,
                                      overlap_);
  return *known;
}

BlockTimes::BlockTimes(BlockSlots& slots, const CostModels& costs)
    : slots_(slots),
      costs_(costs),
      slowdown_(least_sharing_slowdown(costs.partition)),
      known_(slots.graph().operators.size()) {}

const SegmentTime& BlockTimes::time(const model::Segment& segment, std::uint16_t index) {
  std::optional<SegmentTime>& known = known_[index];
  if (known) return *known;
  model::Segment alone;
  alone.stream = computes(segment.stream) ? Stream::compute : segment.stream;
  alone.operators = {index};
  const double clock = costs_.power ? costs_.power->highest_clock() : 1;
  return known.emplace(segment_time(slots_.graph(), alone, costs_, clock, Rows::expected));
}

double BlockTimes::least_seconds(const model::Segment& segment) {
  double seconds = 0;
  for (const std::uint16_t index : segment.operators)
    seconds += segment.share * least_seconds_of(segment.stream, time(segment, index));
  return seconds;
}

StreamWork BlockTimes::stream_work(const model::SlotTemplate& slot) {
  StreamWork work;
  for (const model::Segment& segment : slot.segments) {
    const double seconds = least_seconds(segment);
    const bool second = segment.stream == Stream::weight_gradient;
    const bool shared = second && slowdown_ < 2;  // otherwise its work counts like that of the first stream
    if (computes(segment.stream)) (shared ? work.second : work.compute) += (second ? slowdown_ - 1 : 1) * seconds;
    if (segment.stream == Stream::communication) work.communication += seconds;
    if (segment.stream == Stream::collective) work.collective += seconds;
    for (const std::uint16_t index : segment.operators) {
      const SegmentTime& found = time(segment, index);
      if (segment.stream == Stream::communication) work.transfer += segment.share * least_transfer(found);
      if (computes(segment.stream) && !shared) add_mixed(found, segment.share, work);
    }
  }
  return work;
}

const StreamWork& BlockTimes::work(model::OpType type) {
  std::optional<StreamWork>& known = works_[static_cast<std::size_t>(type)];
  if (!known) known = stream_work(slots_.slot(type));
  return *known;
}

const Path& BlockTimes::path(model::OpType type) {
  std::optional<Path>& known = paths_[static_cast<std::size_t>(type)];
  if (known) return *known;
  const model::SlotTemplate& slot = slots_.slot(type);
  std::vector<double> seconds;
  for (const model::Segment& segment : slot.segments) seconds.push_back(least_seconds(segment));
  const bool forward = type == model::OpType::F;
  return known.emplace(slot, forward ? &graph() : nullptr, forward ? nullptr : &graph(), seconds);
}

StageLists stage_lists(const model::Plan& plan, const model::Architecture& architecture, std::int64_t stages) {
  model::Layout layout;
  layout.stages = stages;
  std::int64_t next = 0;
  for (const std::int64_t count : model::stage_layer_counts(plan, architecture, stages)) {
    std::vector<std::int64_t>& layers = layout.stage_layers.emplace_back();
    for (std::int64_t i = 0; i < count; ++i) layers.push_back(next++);
  }
  return stage_lists(plan, architecture, layout);
}

BranchBlocks::BranchBlocks(const Inputs& inputs, const model::Plan& plan)
    : context_(context_of(inputs, plan)),
      overlap_(model::tensor_overlap(plan)),
      p2p_(model::stage_message_bytes(context_)) {}

BlockSlots& BranchBlocks::block(const StageBlock& block) {
  auto known = known_.find(block);
  if (known == known_.end())
    known =
        known_.emplace(block, BlockSlots(model::make_stage_block(block.first, block.second, context_), overlap_)).first;
  return known->second;
}

BlockTimes& BranchBounds::block(const StageBlock& block) {
  auto known = known_.find(block);
  if (known == known_.end()) known = known_.emplace(block, BlockTimes(blocks_.block(block), costs_)).first;
  return known->second;
}

BranchBounds::Stage& BranchBounds::stage(const model::BlockList& blocks) {
  const auto [entry, fresh] = stages_.try_emplace(blocks);
  if (fresh) entry->second.blocks = blocks;
  return entry->second;
}

const StreamWork& BranchBounds::work(Stage& stage, OpType type) {
  std::optional<StreamWork>& known = stage.works[index(type)];
  if (known) return *known;
  known.emplace();
  for (const auto& one : stage.blocks) known->add(block(one).work(type));
  return *known;
}

double BranchBounds::slot(Stage& stage, OpType type) {
  std::optional<double>& known = stage.seconds[index(type)];
  if (known) return *known;
  Path path;
  const auto add = [&](const StageBlock& one) { path = path.then(block(one).path(type)); };
  if (type == OpType::F)
    std::ranges::for_each(stage.blocks, add);
  else
    std::for_each(stage.blocks.rbegin(), stage.blocks.rend(), add);
  return known.emplace(std::max(work(stage, type).bound(), path.longest()));
}

const model::SlotTemplate& BranchBlocks::pair(const StageBlock& forward, const StageBlock& backward) {
  const auto [entry, fresh] = pairs_.try_emplace({forward, backward});
  if (fresh)
    entry->second = model::make_slot_template(OpType::FB, 0, 1, {{{0}}, {{1}}},
                                              {block(forward).graph(), block(backward).graph()}, overlap_);
  return entry->second;
}

const Path& BranchBounds::pair(const StageBlock& forward, const StageBlock& backward) {
  const auto known = layer_pairs_.find({forward, backward});
  if (known != layer_pairs_.end()) return known->second;
  const model::SlotTemplate& slot = blocks_.pair(forward, backward);
  BlockTimes& first = block(forward);
  BlockTimes& second = block(backward);
  std::vector<double> seconds;
  for (const model::Segment& segment : slot.segments)
    seconds.push_back((segment.forward_side ? first : second).least_seconds(segment));
  return layer_pairs_.try_emplace({forward, backward}, slot, &first.graph(), &second.graph(), seconds).first->second;
}

// Combines the blocks of both sides in the order of model::make_slot_template: ends of the model alone, then layers in
// pairs, then the rest of the longer side.
double BranchBounds::pair(Stage& forward, Stage& backward) {
  const auto [entry, fresh] = pairs_.try_emplace({&forward, &backward}, 0.0);
  if (!fresh) return entry->second;
  const auto alone = [](const StageBlock& one) {
    return one.first == model::BlockKind::embedding || one.first == model::BlockKind::head;
  };
  Path path;
  auto f = forward.blocks.begin();
  auto b = std::find_if(backward.blocks.rbegin(), backward.blocks.rend(),
                        [](const StageBlock& one) { return one.second != model::BlockPass::reference; });
  for (; f != forward.blocks.end() && alone(*f); ++f) path = path.then(block(*f).path(OpType::F));
  for (; b != backward.blocks.rend() && alone(*b); ++b) path = path.then(block(*b).path(OpType::B));
  for (; f != forward.blocks.end() && b != backward.blocks.rend() && !alone(*f) && !alone(*b); ++f, ++b)
    path = path.then(pair(*f, *b));
  for (; f != forward.blocks.end(); ++f) path = path.then(block(*f).path(OpType::F));
  for (; b != backward.blocks.rend(); ++b) path = path.then(block(*b).path(OpType::B));
  StreamWork both = work(forward, OpType::F);
  return entry->second = std::max(both.add(work(backward, OpType::B)).bound(), path.longest());
}

double BranchBounds::branch(const model::Plan& plan) {
  const auto& degrees = plan.parallelism;
  const double passes = static_cast<double>(plan.batch.global_batch_size * degrees.tensor * degrees.context) /
                        static_cast<double>(plan.batch.micro_batch_size * plan.cluster.gpus);
  model::Plan one_stage = plan;
  one_stage.schedule.layers_per_stage = {};
  const StageLists whole = stage_lists(one_stage, blocks_.architecture(), 1);
  StreamWork all;
  for (const StageBlock& one : whole.kinds.front())
    for (const OpType type : {OpType::F, OpType::B}) all.add(block(one).work(type));
  return passes * all.bound();
}

std::vector<double> BranchBounds::slots(const model::ScheduleOutline& outline, const StageLists& stages) {
  std::vector<Stage*> known;
  for (const model::BlockList& blocks : stages.kinds) known.push_back(&stage(blocks));
  const auto of = [&](std::int32_t at) -> Stage& {
    return *known[static_cast<std::size_t>(stages.kind_of_stage[static_cast<std::size_t>(at)])];
  };
  std::vector<double> costs;
  for (const auto& one : outline.classes) {
    if (one.type == OpType::FB)
      costs.push_back(pair(of(one.f_stage), of(one.b_stage)));
    else
      costs.push_back(slot(of(one.f_stage >= 0 ? one.f_stage : one.b_stage), one.type));
  }
  return costs;
}

}  // namespace plumbline::sim
