#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/base/text.h"
#include "reports/json/detail/answer_parts.h"
#include "reports/text/campaign/campaign_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

void point_fields(auto& to, const sim::CampaignPoint& point, bool named, const char* key, const char* meaning) {
  if (named) to("name", "name of the choice", point.name);
  to(key, meaning, point.value);
  to("days", "", point.days);
  to("goodput", "share of the time in which training advances", point.goodput);
}

// A kind of failure and how often it happened.
struct FailureOfCampaign {
  sim::FailureMode mode;
  std::optional<double> mean_times;
};

std::vector<FailureOfCampaign> failures_of_campaign(const sim::CampaignAnswer& answer) {
  const auto& means = answer.result.interruptions_of_mode;
  std::vector<FailureOfCampaign> failures;
  for (const sim::FailureMode& mode : answer.input.failures) {
    const std::size_t place = failures.size();
    failures.push_back({mode, place < means.size() ? std::optional(means[place]) : std::nullopt});
  }
  return failures;
}

void checkpoint_fields(auto& to, const sim::CampaignAnswer& answer) {
  const sim::CheckpointPolicy& policy = answer.input.checkpoint;
  const sim::CampaignResult& result = answer.result;
  to("interval_s", "seconds from one checkpoint to the next", if_finite(result.checkpoint_interval_s));
  to("young_s", "best interval by Young", if_finite(result.young_s));
  to("daly_s", "best interval by Daly", if_finite(result.daly_s));
  to("stall_s", "seconds in which the run stands", policy.stall_s);
  to("write_s", "seconds to write a checkpoint", policy.write_s);
  to("load_s", "seconds to load a checkpoint", policy.load_s);
  to("intervals", "the same with other intervals between checkpoints",
     List(answer.intervals, [](auto& point_to, const sim::CampaignPoint& point) {
       point_fields(point_to, point, true, "interval_s", "seconds from one checkpoint to the next");
     }));
}

void body_of_campaign(auto& to, const CampaignReport& report) {
  const sim::CampaignAnswer& answer = report.answer;
  const sim::CampaignResult& result = answer.result;
  const auto failures = failures_of_campaign(answer);
  std::vector<std::optional<double>> days_of_seed;
  for (const double days : result.days_of_seed) days_of_seed.push_back(if_finite(days));
  to("days", "", answer.days);
  to("gpu_hours", "", answer.days.scaled(24 * static_cast<double>(answer.input.gpus)));
  to("cost_usd", "cost in US dollars", answer.usd());
  to("goodput", "", result.goodput);
  to("mean_goodput", "mean over all simulated campaigns", result.mean_goodput);
  to("interruptions", "", result.interruptions);
  to("finished", "share of the campaigns that finish", result.finished);
  to("never", "why others do not", unless_empty(result.never));
  to("hours_between_failures", "mean hours from one failure to the next", if_finite(result.hours_between_failures));
  to("mean_time_s", "", result.mean);
  to("reliability", "name of the rates of failures", report.reliability.name);
  to("failures", "what fails how often", List(failures, [](auto& failure_to, const FailureOfCampaign& failure) {
       failure_to("name", "name of the failure", failure.mode.name);
       failure_to("per_gpu_hour", "failures of one GPU in an hour", failure.mode.per_gpu_hour);
       failure_to("detect_s", "seconds until a failure is noticed", failure.mode.detect_s);
       failure_to("repair_s", "seconds of a repair", if_finite(failure.mode.repair_s));
       failure_to("slows", "factor on the step while it lasts", failure.mode.slows);
       failure_to("mean_times", "times in a campaign", failure.mean_times);
     }));
  to("checkpoint", "how often a checkpoint is written and what it costs",
     Object([&answer](auto& part_to) { checkpoint_fields(part_to, answer); }));
  to("spare_nodes", "nodes kept as spares", answer.input.spare_nodes);
  to("spares", "what more or fewer spares give",
     List(answer.spares, [](auto& point_to, const sim::CampaignPoint& point) {
       point_fields(point_to, point, false, "spare_nodes", "nodes kept as spares");
     }));
  to("finish_by", "with --finish-by, the fewest GPUs that end by then", answer.finish);
  to("start", "first day", report.start ? std::optional(model::date_text(*report.start)) : std::nullopt);
  to("phases", "phases one by one", List(answer.input.phases, [](auto& phase_to, const sim::CampaignPhase& phase) {
       phase_to("name", "name of the phase", phase.name);
       phase_to("tokens", "number of tokens", phase.tokens);
       phase_to("tokens_per_step", "tokens of a step", phase.tokens_per_step);
       phase_to("step_s", "seconds of a step", phase.step_s);
     }));
  to("seeds", "campaigns simulated", answer.input.seeds);
  to("seed", "seed of the random numbers", answer.input.seed);
  to("days_of_seed", "days of each; null: never finished", days_of_seed);
  to("complete", "false: it was interrupted", answer.complete);
  to("events", "what happened in the first of them, without regular checkpoints",
     List(result.events, [](auto& event_to, const sim::CampaignEvent& event) {
       event_to("time_s", "seconds since the start", event.time_s);
       event_to("what", "a failure or something slow with its name, a restart, a planned stop, ...", event.what);
       event_to("lost_s", "seconds of steps that are done again", event.lost_s);
       event_to("progress", "share of all tokens that are trained by then", event.progress);
     }));
}

void campaign_fields(auto& to, const CampaignReport& report) {
  to("campaign", "the outcome of the simulated campaigns",
     Object([&report](auto& part_to) { body_of_campaign(part_to, report); }));
  to("step", "", report.step.step);
  to("interval", "", uncertainty(report.step.interval));
  to("middle", "", middle_of(report.step));
  to("run", "the whole training in the middle of its campaigns; null where none ends", report.answer.run);
  to("reliability", "rates of failures with their sources",
     List(report.reliability.parameters, [](auto& rate_to, const model::Parameter& rate) {
       fields(rate_to, rate);
       rate_to("relative_uncertainty", "standard deviation over the value", rate.relative_uncertainty);
       rate_to("low", "lower end", rate.low);
       rate_to("high", "upper end", rate.high);
     }));
  to("plan", "", plan_part<Json>(report.plan));
  to("fit", "", fit_of_memory(report.step.memory));
}

}  // namespace

std::string campaign_json(const CampaignReport& report) {
  return document("campaign", object_of<Json>([&](auto& to) { campaign_fields(to, report); }));
}

std::string campaign_definitions() {
  return text_of_json(
      Json{{"finish_by",
            definition<Json>("The fewest GPUs that finish in time, with the degrees of the plan.", sim::FinishBy())},
           {"campaign_time",
            definition<Json>("Seconds of a campaign by use, a mean of all that finish.", sim::CampaignTime())}});
}

std::string campaign_schema() {
  const model::Plan plan;
  const model::StepResult step;
  const sim::CampaignAnswer answer;
  const calibrate::Reliability reliability;
  return keys_schema<Json>([&](auto& to) { campaign_fields(to, CampaignReport{plan, step, answer, reliability}); });
}

}  // namespace plumbline::reports
