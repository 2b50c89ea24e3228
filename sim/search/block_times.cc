#include "sim/search/block_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model/slot_template.h"
#include "sim/segment_time.h"

namespace plumbline::sim {

namespace {

using model::Neighbour;
using model::OpType;
using model::Stream;

constexpr double never = -std::numeric_limits<double>::infinity();
constexpr std::size_t tensor_door = 3;

double best(const SegmentTime& time) { return *std::ranges::min_element(time.compute); }
double least_transfer(const SegmentTime& time) { return std::min(time.transfer, time.transfer_beside); }

bool computes(Stream stream) { return stream == Stream::compute || stream == Stream::weight_gradient; }

// Operators one by one: slots of different types cut them into different segments.
class OperatorTimes {
 public:
  OperatorTimes(const model::Graph& graph, const CostModels& costs)
      : graph_(graph), costs_(costs), known_(graph.operators.size()) {}

  const SegmentTime& of(const model::Segment& segment, std::uint16_t index) {
    std::optional<SegmentTime>& time = known_[index];
    if (time) return *time;
    model::Segment alone;
    alone.stream = computes(segment.stream) ? Stream::compute : segment.stream;
    alone.operators = {index};
    return time.emplace(segment_time(graph_, alone, costs_));
  }

  double least_seconds(const model::Segment& segment) {
    double seconds = 0;
    for (const std::uint16_t index : segment.operators) seconds += segment.share * least(segment, index);
    return seconds;
  }

 private:
  double least(const model::Segment& segment, std::uint16_t index) {
    const SegmentTime& time = of(segment, index);
    if (computes(segment.stream)) return best(time);
    if (segment.stream != Stream::communication) return time.transfer;
    return std::min(time.prepare, time.prepare_beside) + time.notify + least_transfer(time);
  }

  const model::Graph& graph_;
  const CostModels& costs_;
  std::vector<std::optional<SegmentTime>> known_;
};

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
  const double least = best(time), beside = time.compute[static_cast<std::size_t>(Neighbour::transferring)];
  if (beside <= 0) return;
  const auto rate = static_cast<std::size_t>(std::ceil(least / beside * StreamWork::rates));
  work.mixed += share * least;
  work.beside[std::clamp<std::size_t>(rate, 1, StreamWork::rates) - 1] += share * beside;
}

StreamWork stream_work(const model::SlotTemplate& slot, OperatorTimes& times, double slowdown) {
  StreamWork work;
  for (const model::Segment& segment : slot.segments) {
    const double seconds = times.least_seconds(segment);
    const bool second = segment.stream == Stream::weight_gradient;
    if (computes(segment.stream)) work.compute += (second ? slowdown - 1 : 1) * seconds;
    if (segment.stream == Stream::communication) work.communication += seconds;
    if (segment.stream == Stream::collective) work.collective += seconds;
    for (const std::uint16_t index : segment.operators) {
      const SegmentTime& time = times.of(segment, index);
      if (segment.stream == Stream::communication) work.transfer += segment.share * least_transfer(time);
      // Where the second stream hides nothing, its work is as good as on the first.
      if (segment.stream == Stream::compute || (second && slowdown >= 2)) add_mixed(time, segment.share, work);
    }
  }
  return work;
}

bool touches(const model::Graph& graph, const model::Segment& segment, model::TensorId id, bool writes) {
  return std::ranges::any_of(segment.operators, [&](std::uint16_t index) {
    const model::Operator& op = graph.operators[index];
    const std::vector<model::TensorId>& tensors = writes ? op.writes : op.reads;
    return std::ranges::find(tensors, id) != tensors.end();
  });
}

}  // namespace

double least_sharing_slowdown(const model::SmPartition& partition) {
  double slowdown = 2;
  for (std::size_t s = 0; s < model::communication_states; ++s) {
    const auto neighbour = static_cast<Neighbour>(s);
    const model::Conditions conditions = partition.beside(neighbour);
    const std::int64_t free = partition.device_sms - (neighbour == Neighbour::none ? 0 : conditions.held);
    const double share = 2.0 * static_cast<double>(conditions.sms) / static_cast<double>(std::max<std::int64_t>(1, free));
    slowdown = std::min(slowdown, std::max(1.0, share));
  }
  return slowdown;
}

StreamWork& StreamWork::add(const StreamWork& other, double times) {
  compute += times * other.compute;
  communication += times * other.communication;
  collective += times * other.collective;
  transfer += times * other.transfer;
  mixed += times * other.mixed;
  for (std::size_t i = 0; i < rates; ++i) beside[i] += times * other.beside[i];
  return *this;
}

double StreamWork::bound() const {
  double held = 0, left = transfer;
  for (std::size_t i = rates; i-- > 0 && left > 0;) {
    const double seconds = std::min(left, beside[i]);
    held += seconds * static_cast<double>(i + 1) / rates;
    left -= seconds;
  }
  return std::max({compute, communication, collective, mixed + transfer - std::min(held, mixed)});
}

Path::Path() {
  for (auto& row : ways_) row.fill(never);
  for (std::size_t door = 0; door < doors; ++door) ways_[door][door] = 0;
}

Path::Path(const model::SlotTemplate& slot, const model::Graph& graph, const std::vector<double>& seconds,
           bool forward) {
  const model::TensorId in = forward ? graph.input : graph.output_gradient;
  const model::TensorId out = forward ? graph.output : graph.input_gradient;
  for (std::size_t entry = 0; entry < doors; ++entry) {
    std::array<double, doors>& way = ways_[entry];
    way.fill(never);
    if (entry != tensor_door || in == out) way[entry] = 0;  // what passes by
    std::vector<double> ends(seconds.size(), never);
    std::array<double, 8> stream_ends{};
    stream_ends.fill(never);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const model::Segment& segment = slot.segments[i];
      const std::size_t door = door_of(segment.stream);
      double start = stream_ends[static_cast<std::size_t>(segment.stream)];
      if (door == entry || (entry == tensor_door && touches(graph, segment, in, false))) start = std::max(start, 0.0);
      for (const std::uint16_t wait : segment.waits) start = std::max(start, ends[wait]);
      ends[i] = stream_ends[static_cast<std::size_t>(segment.stream)] = start + seconds[i];
      if (door < doors) way[door] = std::max(way[door], ends[i]);
      if (touches(graph, segment, out, true)) way[tensor_door] = std::max(way[tensor_door], ends[i]);
    }
  }
}

Path Path::then(const Path& next) const {
  Path both;
  for (std::size_t i = 0; i < doors; ++i)
    for (std::size_t j = 0; j < doors; ++j) {
      double way = never;
      for (std::size_t k = 0; k < doors; ++k) way = std::max(way, ways_[i][k] + next.ways_[k][j]);
      both.ways_[i][j] = way;
    }
  return both;
}

double Path::longest() const {
  double longest = 0;
  for (const auto& row : ways_)
    for (const double way : row) longest = std::max(longest, way);
  return longest;
}

BlockTimes block_times(const model::Graph& block, std::int64_t pieces, const CostModels& costs) {
  model::StepProgram program;
  program.blocks.push_back(block);
  program.stage_kinds.push_back({{0}});
  const double slowdown = least_sharing_slowdown(costs.partition);
  OperatorTimes times(program.blocks[0], costs);
  BlockTimes all;
  for (std::size_t t = 0; t < all.size(); ++t) {
    const auto type = static_cast<OpType>(t);
    const bool forward = type == OpType::F;
    const model::SlotTemplate slot =
        model::make_slot_template(type, forward ? 0 : -1, forward ? -1 : 0, program.stage_kinds, program.blocks, pieces);
    std::vector<double> seconds;
    for (const model::Segment& segment : slot.segments) seconds.push_back(times.least_seconds(segment));
    all[t] = {stream_work(slot, times, slowdown), Path(slot, program.blocks[0], seconds, forward)};
  }
  return all;
}

}  // namespace plumbline::sim
