#include "sim/step/detail/slot_factors.h"

#include <algorithm>
#include <cmath>

#include "model/base/random.h"
#include "model/cost/operator_class.h"

namespace plumbline::sim {

using model::Segment;

SlotFactors::SlotFactors(const model::StepProgram& program, const std::vector<std::vector<SegmentTime>>& times,
                         const Fleet& fleet)
    : program_(program),
      fleet_(fleet),
      even_(fleet.slowness.empty() && fleet.jitter == 0 && fleet.work == nullptr),
      micro_batches_(program.schedule.micro_batches_per_direction()) {
  if (even_) return;
  for (std::size_t t = 0; t < program.templates.size(); ++t) {
    std::vector<Part>& parts = parts_.emplace_back();
    for (std::size_t s = 0; s < times[t].size(); ++s) {
      const Segment& segment = program.templates[t].segments[s];
      const SegmentTime& time = times[t][s];
      Part& part = parts.emplace_back();
      if (!(time.compute[0] > 0)) continue;  // it does not compute
      part.rows = static_cast<float>(time.compute_per_row[0] / time.compute[0]);
      double sum = 0, squares = 0, attention = 0;
      const model::Graph& graph = program.blocks[segment.block];
      for (std::size_t k = 0; k < time.kernels.size(); ++k) {
        sum += time.kernels[k];
        squares += time.kernels[k] * time.kernels[k];
        const model::Operator& op = graph.operators[segment.operators[k]];
        if (model::operator_class(graph, op) == model::OperatorClass::attention) attention += time.kernels[k];
      }
      if (!(sum > 0)) continue;
      part.deviation = static_cast<float>(fleet.jitter * std::sqrt(squares) / sum);
      part.attention = static_cast<float>(attention / sum);
    }
  }
}

double SlotFactors::work(const model::ScheduleOp& op, const Segment& segment, const Part& part,
                         std::int64_t replica) const {
  const bool forward = segment.forward_side;
  const std::int32_t stage = forward ? op.f_stage : op.b_stage;
  const std::int32_t micro_batch = forward ? op.f_dir * micro_batches_ + op.f_mb : op.b_dir * micro_batches_ + op.b_mb;
  const std::int32_t layer = program_.stages[static_cast<std::size_t>(stage)].layers[segment.block_of_stage];
  double factor = 1;
  if (part.rows > 0 && layer >= 0) factor += part.rows * (fleet_.work->expert_rows(replica, layer, micro_batch) - 1);
  if (part.attention > 0) factor += part.attention * (fleet_.work->attention(replica, micro_batch) - 1);
  return std::max(0.0, factor);
}

// The exponential is taken to the second order, which keeps it above 0.
void SlotFactors::fill(std::int32_t gpu, std::size_t slot, std::vector<double>& factors) const {
  const auto rank = static_cast<std::size_t>(gpu / fleet_.replicas);
  const std::uint16_t index = program_.slot_templates[rank][slot];
  const std::vector<Part>& parts = parts_[index];
  const std::vector<Segment>& segments = program_.templates[index].segments;
  const model::ScheduleOp& op = program_.schedule.ranks[rank][slot];
  const std::uint64_t draws =
      model::mixed(model::mixed(model::mixed(fleet_.seed) + static_cast<std::uint64_t>(gpu)) + slot);
  const double slow = slowness(gpu);
  factors.resize(parts.size());
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const double deviation = parts[s].deviation;
    const double x = deviation * model::nearly_normal(model::mixed(draws + s)) - deviation * deviation / 2;
    factors[s] = slow * (1 + x + x * x / 2);
  }
  if (fleet_.work == nullptr) return;
  const std::int64_t replica = gpu % fleet_.replicas;
  for (std::size_t s = 0; s < parts.size(); ++s)
    if (parts[s].rows > 0 || parts[s].attention > 0) factors[s] *= work(op, segments[s], parts[s], replica);
}

}  // namespace plumbline::sim
