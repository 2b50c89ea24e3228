#include "model/program/span_labels.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/cost/operator_class.h"
#include "model/cost/work.h"

namespace plumbline::model {
namespace {

Direction direction_of(OpType type) {
  using enum Direction;
  constexpr std::array by_type = {forward, backward, input_gradient, weight_gradient, both};
  return by_type[static_cast<std::size_t>(type)];
}

Direction direction_of(Phase phase) {
  if (phase == Phase::F) return Direction::forward;
  return phase == Phase::I ? Direction::input_gradient : Direction::weight_gradient;
}

// Whether a segment sends: its bytes are those on links, not those in memory.
bool sends(Stream stream) { return stream == Stream::communication || stream == Stream::collective; }

SpanWork operator_work(const Graph& graph, const Segment& segment, std::uint16_t index) {
  const Operator& op = graph.operators[index];
  SpanWork work{std::string(to_string(operator_class(graph, op))), 0, 0};
  if (sends(segment.stream)) return work;
  work.flops = segment.share * flops(graph, op, 1, true).value();
  work.bytes = segment.share * bytes_moved(graph, op, 1).value();
  return work;
}

}  // namespace

SpanWork SpanLabels::work_of(const Segment& segment, double sent_bytes) const {
  SpanWork sum;
  for (const std::uint16_t index : segment.operators) {
    const SpanWork work = operator_work(program_.blocks[segment.block], segment, index);
    if (index == segment.operators.front()) sum.class_name = work.class_name;
    if (work.class_name != sum.class_name) sum.class_name.clear();
    sum.flops += work.flops;
    sum.bytes += work.bytes;
  }
  if (sends(segment.stream)) sum.bytes = sent_bytes;
  return sum;
}

SpanLabels::SpanLabels(const StepProgram& program) : program_(program), chunks_(program.schedule.ranks.size()) {
  const Schedule& schedule = program.schedule;
  for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
    for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
      chunks_[static_cast<std::size_t>(schedule.rank_of(direction, stage))].emplace_back(direction, stage);
}

std::int32_t SpanLabels::chunk_of(std::size_t rank, std::int32_t direction, std::int32_t stage) const {
  const auto found = std::ranges::find(chunks_[rank], std::pair(direction, stage));
  return found == chunks_[rank].end() ? -1 : static_cast<std::int32_t>(found - chunks_[rank].begin());
}

const Segment& SpanLabels::segment_of(std::size_t rank, std::size_t op, std::size_t segment) const {
  return program_.templates[program_.slot_templates[rank][op]].segments[segment];
}

Span SpanLabels::slot(std::size_t rank, std::size_t op) const {
  const ScheduleOp& o = program_.schedule.ranks[rank][op];
  const bool forward = o.f_stage >= 0, both = forward && o.b_stage >= 0;
  const std::int32_t stage = forward ? o.f_stage : o.b_stage;
  return {.rank = static_cast<std::int32_t>(rank),
          .micro_batch = forward ? o.f_mb : o.b_mb,
          .direction = direction_of(o.type),
          .stage = stage,
          .chunk = chunk_of(rank, forward ? o.f_dir : o.b_dir, stage),
          .overlapped_stage = both ? o.b_stage : -1,
          .overlapped_micro_batch = both ? o.b_mb : -1};
}

Span SpanLabels::segment(std::size_t rank, std::size_t op, std::size_t segment, double sent_bytes) {
  const ScheduleOp& o = program_.schedule.ranks[rank][op];
  const Segment& s = segment_of(rank, op, segment);
  const std::int32_t stage = s.forward_side ? o.f_stage : o.b_stage;
  Span span{.rank = static_cast<std::int32_t>(rank),
            .stream = s.stream,
            .layer = program_.stages[static_cast<std::size_t>(stage)].layers[s.block_of_stage],
            .micro_batch = s.forward_side ? o.f_mb : o.b_mb,
            .direction = direction_of(s.phase),
            .stage = stage,
            .chunk = chunk_of(rank, s.forward_side ? o.f_dir : o.b_dir, stage)};
  const auto [known, fresh] = known_.try_emplace({program_.slot_templates[rank][op], segment, 0}, -1);
  if (fresh) known->second = add_work(work_of(s, sent_bytes));
  span.work = known->second;
  return span;
}

Span SpanLabels::kernel(const Span& place, std::size_t op, std::size_t segment, std::size_t index) {
  const auto rank = static_cast<std::size_t>(place.rank);
  const Segment& s = segment_of(rank, op, segment);
  const auto [known, fresh] = known_.try_emplace({program_.slot_templates[rank][op], segment, index + 1}, -1);
  if (fresh) known->second = add_work(operator_work(program_.blocks[s.block], s, s.operators[index]));
  Span span = place;
  span.work = known->second;
  return span;
}

Span SpanLabels::message(std::size_t rank, const Transfer& sent, double sent_bytes) {
  if (message_ < 0) message_ = add_work({"point_to_point", 0, sent_bytes});
  return {.rank = static_cast<std::int32_t>(rank),
          .stream = Stream::pipeline,
          .micro_batch = sent.micro_batch,
          .direction = sent.forward ? Direction::forward : Direction::backward,
          .stage = sent.stage,
          .chunk = chunk_of(rank, sent.direction, sent.stage),
          .peer = sent.peer,
          .work = message_};
}

Span SpanLabels::outside_slots(std::size_t rank, std::string_view name, std::int32_t stage,
                               const std::string& class_name, double sent_bytes) {
  Span span{.rank = static_cast<std::int32_t>(rank), .stream = Stream::optimizer, .stage = stage};
  if (name != reduce_gradients && name != gather_parameters) return span;
  const auto [known, fresh] = collectives_.try_emplace({class_name, sent_bytes}, -1);
  if (fresh) known->second = add_work({class_name, 0, sent_bytes});
  span.work = known->second;
  return span;
}

std::int32_t SpanLabels::add_work(const SpanWork& work) {
  works_.push_back(work);
  return static_cast<std::int32_t>(works_.size() - 1);
}

void SpanLabels::describe(Timeline& timeline) const {
  timeline.works = works_;
  timeline.stage_layers.clear();
  for (const Stage& stage : program_.stages) timeline.stage_layers.push_back(stage.layers);
}

}  // namespace plumbline::model
