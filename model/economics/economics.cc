#include "model/economics/economics.h"

#include "model/economics/ownership.h"

namespace plumbline::model {
namespace {

constexpr double seconds_per_hour = 3600;
constexpr double hours_per_day = 24;
constexpr double watts_per_megawatt = 1e6;

std::optional<double> cost(double gpu_hours, const Known<HourlyPrice>& price, double HourlyPrice::*end) {
  return price.value ? std::optional(gpu_hours * (*price.value).*end) : std::nullopt;
}

CampaignGoodput goodput_of(const Plan& plan, const std::optional<CampaignGoodput>& campaign) {
  if (!plan.run.goodput) return {1, "without failures"};
  if (const auto stated = number_of(*plan.run.goodput)) return {*stated, "stated by the plan"};
  return campaign.value_or(CampaignGoodput{1, "without failures, whose rates this prediction lacks"});
}

}  // namespace

std::optional<double> RunCost::cost_low_usd(double hours) const { return cost(hours, price(), &HourlyPrice::low); }
std::optional<double> RunCost::cost_high_usd(double hours) const { return cost(hours, price(), &HourlyPrice::high); }
std::optional<double> RunCost::energy_mwh(double hours) const {
  return power_w.value ? std::optional(hours * *power_w.value / watts_per_megawatt) : std::nullopt;
}

std::optional<RunCost> run_cost(const Plan& plan, double step_time_s, const ClusterShape& cluster,
                                std::optional<double> gpu_power_w, const std::optional<CampaignGoodput>& campaign) {
  if (!plan.run.tokens) return std::nullopt;
  RunCost run;
  run.tokens = *plan.run.tokens;
  const auto tokens_per_step =
      static_cast<double>(plan.batch.global_batch_size) * static_cast<double>(plan.batch.sequence_length);
  run.steps = run.tokens / tokens_per_step;
  const auto [goodput, source] = goodput_of(plan, campaign);
  run.goodput = goodput;
  run.goodput_source = source;
  const double hours = run.steps * step_time_s / seconds_per_hour / goodput;
  run.days = hours / hours_per_day;
  run.gpu_hours = hours * static_cast<double>(plan.cluster.gpus);
  run.phases.push_back({"pretraining", run.gpu_hours, "predicted", ""});
  for (const RunPhase& phase : plan.run.phases)
    run.phases.push_back({phase.name, phase.gpu_hours, "published", phase.source});
  for (const RunPhaseCost& phase : run.phases) run.total_gpu_hours += phase.gpu_hours;
  run.ownership = plan.run.ownership;
  run.rent = rent_price(plan, cluster);
  run.purchase = purchase_price(plan, cluster, gpu_power_w);
  run.cost_usd = cost(run.gpu_hours, run.price(), &HourlyPrice::value);
  run.total_cost_usd = cost(run.total_gpu_hours, run.price(), &HourlyPrice::value);
  run.power_w = supplied_power(plan, cluster, gpu_power_w);
  run.power_predicted = gpu_power_w.has_value();
  run.fabric = cluster.fabric;
  run.fabric_usd = fabric_price(cluster);
  return run;
}

}  // namespace plumbline::model
