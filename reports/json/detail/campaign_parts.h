// What campaigns look like in JSON, of a plan by itself and of the plans that a search found.
#pragma once

#include <string_view>

#include "model/result/result.h"
#include "reports/json/detail/shared_fields.h"
#include "sim/campaign/campaign.h"
#include "sim/goodput/campaign_answer.h"

namespace plumbline::reports {

// Days of a campaign that never ends are infinite, which is null.
inline model::Quantiles scaled(const model::Quantiles& quantiles, double factor) {
  return {quantiles.p10 * factor, quantiles.p50 * factor, quantiles.p90 * factor};
}

// The fewest GPUs by a date and the numbers that were tried.
void fields(auto& to, const sim::CampaignOnGpus& of) {
  const bool ran = of.reason.empty();
  to("gpus", "number of GPUs", of.gpus);
  to("step_s", "seconds of a step", where(ran, of.step_s));
  to("days", "days of the training", where(ran, of.days));
  to("in_time", "share of the campaigns that end by then", where(ran, of.in_time));
  to("reason", "why not, where it cannot be", unless_empty(of.reason));
}
void fields(auto& to, const sim::FinishBy& of) {
  to("days", "days of the training", of.days);
  to("gpus", "number of GPUs", of.gpus);
  to("tried", "what was tried", of.tried);
}
template <>
inline constexpr std::string_view definition_name<sim::FinishBy> = "finish_by";

void fields(auto& to, const sim::CampaignTime& of) {
  to("useful_s", "seconds in which training advances", of.useful_s);
  to("lost_s", "seconds of work that failures undo", of.lost_s);
  to("checkpoint_s", "seconds in which training waits for checkpoints", of.checkpoint_s);
  to("detect_s", "seconds until a failure is noticed", of.detect_s);
  to("restart_s", "seconds of restarts", of.restart_s);
  to("wait_s", "seconds without enough nodes", of.wait_s);
  to("slow_s", "seconds lost to slow nodes", of.slow_s);
  to("planned_s", "seconds of planned stops", of.planned_s);
  to("total_s", "sum of all", of.total());
}
template <>
inline constexpr std::string_view definition_name<sim::CampaignTime> = "campaign_time";

}  // namespace plumbline::reports
