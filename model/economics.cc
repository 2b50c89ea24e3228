#include "model/economics.h"

namespace plumbline::model {

namespace {

constexpr double seconds_per_hour = 3600;
constexpr double hours_per_day = 24;

}  // namespace

std::optional<RunCost> run_cost(const Plan& plan, double step_time_s) {
  if (!plan.run.tokens) return std::nullopt;
  const double price = plan.run.price_usd_per_gpu_hour;
  RunCost cost;
  cost.tokens = *plan.run.tokens;
  const auto tokens_per_step =
      static_cast<double>(plan.batch.global_batch_size) * static_cast<double>(plan.batch.sequence_length);
  cost.steps = cost.tokens / tokens_per_step;
  const double hours = cost.steps * step_time_s / seconds_per_hour;
  cost.days = hours / hours_per_day;
  cost.gpu_hours = hours * static_cast<double>(plan.cluster.gpus);
  cost.cost_usd = cost.gpu_hours * price;
  cost.phases.push_back({"pretraining", cost.gpu_hours, "predicted", ""});
  for (const RunPhase& phase : plan.run.phases)
    cost.phases.push_back({phase.name, phase.gpu_hours, "published", phase.source});
  for (const RunPhaseCost& phase : cost.phases) cost.total_gpu_hours += phase.gpu_hours;
  cost.total_cost_usd = cost.total_gpu_hours * price;
  return cost;
}

}  // namespace plumbline::model
