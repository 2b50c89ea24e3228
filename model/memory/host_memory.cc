#include "model/memory/host_memory.h"

#include <algorithm>
#include <cstdint>

#include "model/memory/stage_tensors.h"

namespace plumbline::model {

std::vector<double> waiting_on_host(const Plan& plan, const StepProgram& program) {
  const Schedule& schedule = program.schedule;
  std::vector<double> most(schedule.ranks.size(), 0);
  if (plan.offload.activations == 0) return most;
  std::vector<double> kinds;
  for (std::size_t kind = 0; kind < program.stage_kinds.size(); ++kind)
    kinds.push_back(StageTensors(program, static_cast<std::int32_t>(kind)).on_host().value());
  const auto of_stage = [&](std::int32_t stage) {
    return kinds[static_cast<std::size_t>(program.stages[static_cast<std::size_t>(stage)].kind)];
  };
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    double now = 0;
    for (const ScheduleOp& op : schedule.ranks[rank]) {
      const bool pair = op.type == OpType::FB;
      if (pair || op.type == OpType::F) most[rank] = std::max(most[rank], now += of_stage(op.f_stage));
      if (pair || op.type == OpType::B || op.type == OpType::W) now -= of_stage(op.b_stage);
    }
  }
  return most;
}

double fullest_host(const Plan& plan, const Device& device, const std::vector<double>& ranks) {
  if (std::ranges::all_of(ranks, [](double bytes) { return bytes == 0; })) return 0;
  const std::int64_t gpus = plan.cluster.gpus, of_rank = gpus / static_cast<std::int64_t>(ranks.size());
  double most = 0;
  for (std::int64_t first = 0; first < gpus; first += device.host_gpus) {
    double bytes = 0;
    for (std::int64_t gpu = first; gpu < std::min(gpus, first + device.host_gpus); ++gpu)
      bytes += ranks[static_cast<std::size_t>(gpu / of_rank)];
    most = std::max(most, bytes);
  }
  return most;
}

double fits_on_host(double bytes, double capacity) {
  constexpr double most_more = 0.5;
  if (capacity == 0 || bytes == 0) return 1;
  return std::clamp((capacity / bytes - 1) / most_more, 0.0, 1.0);
}

}  // namespace plumbline::model
