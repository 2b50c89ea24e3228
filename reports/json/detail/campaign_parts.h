// What campaigns look like in JSON, of a plan by itself and of the plans that a search found.
#pragma once

#include <string_view>

#include "model/result/prediction_interval.h"
#include "reports/json/detail/shared_fields.h"
#include "sim/campaign/campaign_data.h"
#include "sim/goodput/campaign_answer.h"

namespace plumbline::reports {

// Days of a campaign that never ends are infinite, which is null.
inline model::Quantiles scaled(const model::Quantiles& quantiles, double factor) {
  return {quantiles.p10 * factor, quantiles.p50 * factor, quantiles.p90 * factor};
}

// The fewest GPUs by a date and the numbers that were tried.
void fields(auto& to, const sim::CampaignOnGpus& of) {
  const bool ran = of.reason.empty();
  to("gpus", of.gpus, "number of GPUs");
  to("step_s", where(ran, of.step_s), "seconds of a step");
  to("days", where(ran, of.days), "days of the training");
  to("in_time", where(ran, of.in_time), "share of the campaigns that end by then");
  to("reason", unless_empty(of.reason), "why not, where it cannot be");
}
void fields(auto& to, const sim::FinishBy& of) {
  to("days", of.days, "days of the training");
  to("gpus", of.gpus, "number of GPUs");
  to("tried", of.tried, "what was tried");
}
template <>
inline constexpr std::string_view definition_name<sim::FinishBy> = "finish_by";

void fields(auto& to, const sim::CampaignTime& of) {
  to("useful_s", of.useful_s, "seconds in which training advances");
  to("lost_s", of.lost_s, "seconds of work that failures undo");
  to("checkpoint_s", of.checkpoint_s, "seconds in which training waits for checkpoints");
  to("detect_s", of.detect_s, "seconds until a failure is noticed");
  to("restart_s", of.restart_s, "seconds of restarts");
  to("wait_s", of.wait_s, "seconds without enough nodes");
  to("slow_s", of.slow_s, "seconds lost to slow nodes");
  to("planned_s", of.planned_s, "seconds of planned stops");
  to("total_s", of.total(), "sum of all");
}
template <>
inline constexpr std::string_view definition_name<sim::CampaignTime> = "campaign_time";

}  // namespace plumbline::reports
