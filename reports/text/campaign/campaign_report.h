// The output of `plumbline campaign`: a whole training with its failures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/reliability/reliability.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "sim/goodput/campaign_answer.h"

namespace plumbline::reports {

struct CampaignReport {
  const model::Plan& plan;
  const model::StepResult& step;
  const sim::CampaignAnswer& answer;
  const calibrate::Reliability& reliability;
  std::vector<Comparison> comparisons = {};
  std::optional<std::int64_t> start = std::nullopt;  // days since 1970-01-01
};

std::string campaign_text(const CampaignReport& report, Style style);
std::string campaign_csv(const CampaignReport& report);   // events of the first campaign, then days of each
std::string campaign_json(const CampaignReport& report);  // in the envelope of reports/json/json.h
std::string campaign_svg(const CampaignReport& report);   // progress of the first campaign over days

// Returns why it never finishes; empty where all seeds do.
std::string never_sentence(const CampaignReport& report);

// Returns what was done of an answer that was stopped, of so many campaigns that were asked for.
std::string stopped_words(const sim::CampaignAnswer& answer, std::int64_t seeds);

}  // namespace plumbline::reports
