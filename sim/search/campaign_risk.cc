#include "sim/search/campaign_risk.h"

#include <cmath>
#include <utility>
#include <vector>

#include "sim/campaign/campaign.h"
#include "sim/campaign/closed_form.h"

namespace plumbline::sim {
namespace {

constexpr double seconds_of_day = 86400;

// Returns the cost at the mean goodput, whose draws of the time contain failures.
PlanCost cost_with_failures(const PlanCost& cost, const CampaignRisk& risk) {
  const CampaignResult& campaign = risk.result;
  const double days = ideal_seconds(risk.input.phases) / seconds_of_day / campaign.mean_goodput;
  const double longer = days / *cost.days;
  const auto scaled = [&](const std::optional<double>& value) {
    return value ? std::optional(*value * longer) : std::nullopt;
  };
  PlanCost with = cost;
  with.days = days;
  with.gpu_hours = scaled(cost.gpu_hours);
  with.usd = scaled(cost.usd);
  with.usd_low = scaled(cost.usd_low);
  with.usd_high = scaled(cost.usd_high);
  const std::vector<double>& seeds = campaign.days_of_seed;
  for (std::size_t i = 0; i < with.time_draws.size(); ++i) with.time_draws[i] *= seeds[i % seeds.size()] / days;
  return with;
}

// Returns the values of the draws in which the plan fits in memory.
std::vector<double> fitting_draws(const PlanCost& without, const PlanCost& cost, double value, bool priced) {
  std::vector<double> values;
  for (std::size_t i = 0; i < cost.time_draws.size(); ++i)
    if (std::isfinite(without.time_draws[i]))
      values.push_back(value * cost.time_draws[i] * (priced ? cost.price_draws[i] : 1));
  return values;
}

// Returns the interval of a value with failures: that without them, times by what they make the quantiles of the same
// draws longer, so that no failure makes anything shorter.
std::optional<model::Quantiles> interval_with_failures(const std::optional<model::Quantiles>& interval,
                                                       const PlanCost& without, const PlanCost& with, bool priced) {
  const auto& before = priced ? without.usd : without.days;
  const auto& after = priced ? with.usd : with.days;
  if (!interval || !before || !after) return std::nullopt;
  std::vector<double> draws = fitting_draws(without, without, *before, priced);
  if (draws.empty()) return std::nullopt;
  const model::Quantiles alone = model::quantiles_of(std::move(draws));
  const model::Quantiles failing = model::quantiles_of(fitting_draws(without, with, *after, priced));
  model::Quantiles longer = *interval;
  for (const auto part : {&model::Quantiles::p10, &model::Quantiles::p50, &model::Quantiles::p90})
    longer.*part *= failing.*part / alone.*part;
  return longer;
}

}  // namespace

model::Result<CampaignRisk> campaign_risk(const Inputs& inputs, const model::StepResult& step, const PlanCost& cost,
                                          Tasks& tasks) {
  const auto& batch = inputs.plan.batch;
  const double tokens_per_step = static_cast<double>(batch.global_batch_size * batch.sequence_length);
  CampaignRisk risk;
  risk.input = *inputs.campaign;
  risk.input.phases = {{"training", step.run->tokens, tokens_per_step, cost.step_s}};
  risk.result = TRY(run_campaign(risk.input, tasks));
  risk.cost.gpus = cost.gpus;
  risk.cost.step_s = cost.step_s;
  if (risk.result.finished <= 0) return risk;
  risk.cost = cost_with_failures(cost, risk);
  if (!step.interval) return risk;
  risk.days = interval_with_failures(step.interval->days, cost, risk.cost, false);
  risk.usd = interval_with_failures(step.interval->cost_usd, cost, risk.cost, true);
  return risk;
}

}  // namespace plumbline::sim
