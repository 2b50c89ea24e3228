// What campaigns look like in JSON, of a plan by itself and of the plans that a search found.
#pragma once

#include <cmath>
#include <optional>

#include "model/result/prediction_interval.h"
#include "reports/json/document.h"
#include "sim/campaign/campaign_data.h"
#include "sim/goodput/campaign_answer.h"

namespace plumbline::reports {

// Days of a campaign that never ends are null.
template <class Json>
Json finite_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

template <class Json>
Json quantile_object(const model::Quantiles& quantiles, double factor = 1) {
  return {{"p10", finite_or_null<Json>(quantiles.p10 * factor)},
          {"p50", finite_or_null<Json>(quantiles.p50 * factor)},
          {"p90", finite_or_null<Json>(quantiles.p90 * factor)}};
}

// Returns the fewest GPUs by a date and the numbers that were tried; null where nobody asked.
template <class Json>
Json finish_object(const std::optional<sim::FinishBy>& finish) {
  if (!finish) return nullptr;
  Json tried = Json::array();
  for (const sim::CampaignOnGpus& on : finish->tried) {
    const bool ran = on.reason.empty();
    tried.push_back({{"gpus", on.gpus},
                     {"step_s", ran ? Json(on.step_s) : Json(nullptr)},
                     {"days", ran ? quantile_object<Json>(on.days) : Json(nullptr)},
                     {"in_time", ran ? Json(on.in_time) : Json(nullptr)},
                     {"reason", text_or_null<Json>(on.reason)}});
  }
  return {{"days", finish->days}, {"gpus", finish->gpus ? Json(*finish->gpus) : Json(nullptr)}, {"tried", tried}};
}

template <class Json>
Json time_of_campaign(const sim::CampaignTime& time) {
  return {{"useful_s", time.useful_s}, {"lost_s", time.lost_s},       {"checkpoint_s", time.checkpoint_s},
          {"detect_s", time.detect_s}, {"restart_s", time.restart_s}, {"wait_s", time.wait_s},
          {"slow_s", time.slow_s},     {"planned_s", time.planned_s}, {"total_s", time.total()}};
}

}  // namespace plumbline::reports
