#include "real/executor/step/detail/data_parallel_runner.h"

#include <algorithm>
#include <limits>

#include "model/cost/operator_class.h"

namespace plumbline::real {

using model::Stream;

namespace {

constexpr Stream own_stream = Stream::optimizer;

std::pair<std::int32_t, std::int32_t> moment(const model::DataParallelCollectives::Moment& m) {
  return {m.slot, m.segment < 0 && m.slot >= 0 ? std::numeric_limits<std::int32_t>::max() : m.segment};
}

}  // namespace

// Two pipeline ranks that hold the same stages finish their units in different orders. Both use the lower rank's order,
// because all ranks of a group must launch its collectives in the same order.
DataParallelRunner::DataParallelRunner(RankState& rank) : rank_(rank) {
  std::int32_t lowest = rank.place.pipeline;
  for (const auto& [stage, local] : rank.stages) lowest = std::min(lowest, local.holders.front());
  const auto& all = rank.program().data_parallel;
  const auto& own = all[static_cast<std::size_t>(rank.place.pipeline)];
  for (const Unit& unit : all[static_cast<std::size_t>(lowest)]) {
    const auto found = std::ranges::find_if(own, [&](const Unit& candidate) {
      return candidate.kind == unit.kind && candidate.stage == unit.stage && candidate.unit == unit.unit;
    });
    if (found != own.end()) order_.push_back(*found);
  }
}

void DataParallelRunner::begin(bool gather) {
  next_ = 0;
  gather_ = gather;
  awaited_.clear();
  rank_.device().wait(own_stream, rank_.device().record(Stream::compute));
  after(-1, -1);
}

void DataParallelRunner::before(std::int32_t slot, std::int32_t segment, Stream stream) {
  const auto found = awaited_.find({slot, segment});
  if (found == awaited_.end()) return;
  for (const Event event : found->second) rank_.device().wait(stream, event);
}

void DataParallelRunner::after(std::int32_t slot, std::int32_t segment) {
  const std::pair now =
      segment < 0 && slot >= 0 ? std::pair(slot, std::numeric_limits<std::int32_t>::max()) : std::pair(slot, segment);
  for (; next_ < order_.size() && moment(order_[next_].after) <= now; ++next_) {
    const bool reduces = order_[next_].kind == model::DataParallelCollectives::Kind::reduce;
    if (reduces && !rank_.device().concurrent()) return;
    launch(order_[next_]);
  }
}

void DataParallelRunner::finish() {
  for (; next_ < order_.size(); ++next_) launch(order_[next_]);
  rank_.device().wait(Stream::compute, rank_.device().record(own_stream));
}

void DataParallelRunner::launch(const Unit& unit) {
  Device& device = rank_.device();
  const auto& units = rank_.program().stage_units[static_cast<std::size_t>(unit.stage)];
  const model::ShardUnit& tensors = units[static_cast<std::size_t>(unit.unit)];
  if (unit.kind == model::DataParallelCollectives::Kind::gather) {
    if (!gather_) return;
    launch_operators(unit.stage, tensors.gather, own_stream, "gather parameters");
    awaited_[{unit.before.slot, unit.before.segment}].push_back(device.record(own_stream));
    return;
  }
  for (const Stream stream : {Stream::compute, Stream::weight_gradient}) device.wait(own_stream, device.record(stream));
  launch_operators(unit.stage, tensors.reduce, own_stream, "reduce gradients");
}

void DataParallelRunner::gather(std::int32_t stage, std::size_t unit, Stream stream) {
  launch_operators(stage, rank_.stages.at(stage).state->unit(unit).gather, stream, "gather parameters");
}

void DataParallelRunner::launch_operators(std::int32_t stage, const std::vector<std::uint16_t>& operators,
                                          Stream stream, const char* name) {
  StageState& state = *rank_.stages.at(stage).state;
  for (const std::uint16_t i : operators) {
    const model::Operator& op = state.optimizer().operators[i];
    const Kernel kernel{.graph = &state.optimizer(),
                        .op = &op,
                        .reads = {state.optimizer_tensor(op.reads[0])},
                        .writes = {state.optimizer_tensor(op.writes[0])},
                        .label = rank_.labels.add({.name = name})};
    if (!is_collective(op.kind)) {
      rank_.device().launch(stream, kernel);
    } else if (kernel.reads[0] != kernel.writes[0] || std::get<model::CollectiveAttributes>(op.attributes).ranks > 1) {
      rank_.launch_collective(stream, kernel, stage);
    }
  }
}

}  // namespace plumbline::real
