#include "real/executor/step/detail/optimizer_step.h"

#include <algorithm>
#include <cmath>

namespace plumbline::real {

using model::Operator;
using model::OperatorKind;
using model::Stream;

namespace {

model::Tensor scalar(const char* name) { return {.name = name, .shape = {{1}}, .type = model::DataType::fp32}; }

const Operator& sum_operator() {
  static const Operator op{.kind = OperatorKind::add, .name = "sum"};
  return op;
}
const Operator& agree_operator() {
  static const Operator op{.kind = OperatorKind::all_reduce, .name = "agree"};
  return op;
}

}  // namespace

OptimizerStep::OptimizerStep(RankState& rank) : rank_(rank) {
  Device& device = rank.device();
  for (std::size_t i = 0; i < rank.stages.size(); ++i) {
    found_.push_back(device.allocate(scalar("found_inf")));
    squares_.push_back(device.allocate(scalar("sum_of_squares")));
  }
  found_anywhere_ = device.allocate(scalar("found_inf_anywhere"));
  all_squares_ = device.allocate(scalar("sum_of_all_squares"));
  scale_ = device.allocate(scalar("loss_scale"));
}

std::vector<std::pair<std::int32_t, const Operator*>> OptimizerStep::operators(OperatorKind kind) const {
  std::vector<std::pair<std::int32_t, const Operator*>> found;
  for (const auto& [stage, local] : rank_.stages)
    for (const Operator& op : local.state->optimizer().operators)
      if (op.kind == kind) found.emplace_back(stage, &op);
  return found;
}

Buffer* OptimizerStep::bind(std::int32_t stage, model::TensorId id) const {
  return rank_.stages.at(stage).state->optimizer_tensor(id);
}

void OptimizerStep::launch(std::int32_t stage, const Operator& op, Buffer* squares) {
  Kernel kernel;
  kernel.graph = &rank_.stages.at(stage).state->optimizer();
  kernel.op = &op;
  for (const model::TensorId id : op.reads) kernel.reads.push_back(kernel.reads.empty() ? bind(stage, id) : squares);
  for (const model::TensorId id : op.writes) kernel.writes.push_back(bind(stage, id));
  kernel.numbers = rank_.numbers;
  kernel.label = rank_.labels.add({-1, -1, op.name, -1});
  rank_.device().launch(Stream::compute, kernel);
}

// Weighs each part of the gradient by 1 / the number of ranks that hold it, so that the sum over ranks counts it once.
void OptimizerStep::weigh(std::int32_t stage, std::size_t unit_index, model::TensorId id, Kernel& kernel) {
  Buffer* gradient = bind(stage, id);
  const auto [entry, fresh] = weighed_.try_emplace({stage, gradient});
  if (fresh) {
    const LocalStage& local = rank_.stages.at(stage);
    const StageState::Unit& unit = local.state->units()[unit_index];
    const std::int64_t shard = (unit.elements + unit.group.shards - 1) / unit.group.shards;
    const Group group = strided_group(rank_.place, local.holders, unit.group.shards, unit.group.stride);
    const auto replicas = static_cast<double>(unit.group.replicas);
    const std::int64_t tensor = unit.expert ? 1 : rank_.input.plan->parallelism.tensor;
    const std::int64_t whole = std::clamp<std::int64_t>(unit.whole - group.position * shard, 0, shard);
    const model::DataType type = local.state->optimizer().tensor(id).type;
    const auto add = [&](std::int64_t first, std::int64_t count, double weight) {
      if (count == 0) return;
      views_.push_back(rank_.device().view(*gradient, first, {.name = "part", .shape = {{count}}, .type = type}));
      entry->second.emplace_back(views_.back().get(), weight);
    };
    add(0, whole, 1 / (replicas * static_cast<double>(tensor)));
    add(whole, shard - whole, 1 / replicas);
  }
  for (const auto& [view, weight] : entry->second) {
    kernel.reads.push_back(view);
    kernel.weights.push_back(weight);
  }
}

void OptimizerStep::launch_sum_of_squares(std::int32_t stage, const Operator& op, Buffer* result) {
  const StageState& state = *rank_.stages.at(stage).state;
  Kernel kernel;
  kernel.graph = &state.optimizer();
  kernel.op = &op;
  // Reads are in the order of the units.
  for (std::size_t unit = 0; unit < op.reads.size(); ++unit) weigh(stage, unit, op.reads[unit], kernel);
  kernel.writes = {result};
  kernel.label = rank_.labels.add({-1, -1, op.name, -1});
  rank_.device().launch(Stream::compute, kernel);
}

void OptimizerStep::agree(std::vector<BufferPointer>& parts, Buffer* sum, const char* name) {
  Kernel kernel;
  kernel.op = &sum_operator();
  for (const BufferPointer& part : parts) kernel.reads.push_back(part.get());
  kernel.writes = {sum};
  kernel.label = rank_.labels.add({-1, -1, name, -1});
  rank_.device().launch(Stream::compute, kernel);
  if (rank_.communicator().ranks() == 1) return;
  Kernel reduce;
  reduce.op = &agree_operator();
  reduce.reads = reduce.writes = {sum};
  reduce.label = rank_.labels.add({-1, -1, name, -1});
  rank_.communicator().launch(Stream::compute, rank_.world(), reduce);
}

model::Result<OptimizerStep::Outcome> OptimizerStep::run(DataParallelRunner& data_parallel) {
  Outcome outcome;
  Device& device = rank_.device();
  if (const auto unscales = operators(OperatorKind::unscale); !unscales.empty()) {
    TRY(device.synchronize());
    const model::Layout& layout = *rank_.input.layout;
    const float scale =
        static_cast<float>(rank_.numbers.loss_scale * static_cast<double>(layout.micro_batches * layout.data));
    device.write(*scale_, {&scale, 1});
    for (std::size_t i = 0; i < unscales.size(); ++i) {
      const auto& [stage, op] = unscales[i];
      Kernel kernel;
      kernel.graph = &rank_.stages.at(stage).state->optimizer();
      kernel.op = op;
      for (std::size_t r = 0; r + 1 < op->reads.size(); ++r) kernel.reads.push_back(bind(stage, op->reads[r]));
      for (std::size_t w = 0; w + 1 < op->writes.size(); ++w) kernel.writes.push_back(bind(stage, op->writes[w]));
      kernel.reads.push_back(scale_.get());
      kernel.writes.push_back(found_[i].get());
      kernel.label = rank_.labels.add({-1, -1, op->name, -1});
      device.launch(Stream::compute, kernel);
    }
    agree(found_, found_anywhere_.get(), "found_inf_anywhere");
    TRY(device.synchronize());
    outcome.finite = device.read(*found_anywhere_)[0] == 0;
    if (!outcome.finite) return outcome;
  }
  const auto norms = operators(OperatorKind::sum_of_squares);
  for (std::size_t i = 0; i < norms.size(); ++i)
    launch_sum_of_squares(norms[i].first, *norms[i].second, squares_[i].get());
  if (!norms.empty()) agree(squares_, all_squares_.get(), "sum_of_all_squares");
  for (const auto& [stage, op] : operators(OperatorKind::adamw)) launch(stage, *op, all_squares_.get());
  if (rank_.program().gather_after_update)
    for (const auto& [stage, local] : rank_.stages)
      for (std::size_t unit = 0; unit < local.state->units().size(); ++unit)
        data_parallel.gather(stage, unit, Stream::compute);
  TRY(device.synchronize());
  if (!norms.empty()) outcome.gradient_norm = std::sqrt(device.read(*all_squares_)[0]);
  return outcome;
}

}  // namespace plumbline::real
