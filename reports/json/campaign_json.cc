#include <nlohmann/json.hpp>

#include "model/base/text.h"
#include "reports/json/detail/campaign_parts.h"
#include "reports/json/detail/schemas.h"
#include "reports/json/json.h"
#include "reports/text/campaign/campaign_report.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

void point_fields(auto& to, const sim::CampaignPoint& point, bool named, const char* key, const char* meaning) {
  if (named) to("name", point.name, "name of the choice");
  to(key, point.value, meaning);
  to("days", point.days, "");
  to("goodput", point.goodput, "share of the time in which training advances");
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
  to("interval_s", if_finite(result.checkpoint_interval_s), "seconds from one checkpoint to the next");
  to("young_s", if_finite(result.young_s), "best interval by Young");
  to("daly_s", if_finite(result.daly_s), "best interval by Daly");
  to("stall_s", policy.stall_s, "seconds in which the run stands");
  to("write_s", policy.write_s, "seconds to write a checkpoint");
  to("load_s", policy.load_s, "seconds to load a checkpoint");
  to("intervals",
     List(answer.intervals,
          [](auto& point_to, const sim::CampaignPoint& point) {
            point_fields(point_to, point, true, "interval_s", "seconds from one checkpoint to the next");
          }),
     "the same with other intervals between checkpoints");
}

void body_of_campaign(auto& to, const CampaignReport& report) {
  const sim::CampaignAnswer& answer = report.answer;
  const sim::CampaignResult& result = answer.result;
  const auto failures = failures_of_campaign(answer);
  std::vector<std::optional<double>> days_of_seed;
  for (const double days : result.days_of_seed) days_of_seed.push_back(if_finite(days));
  to("days", answer.days, "");
  to("gpu_hours", scaled(answer.days, 24 * static_cast<double>(answer.input.gpus)), "");
  to("cost_usd", answer.usd(), "cost in US dollars");
  to("goodput", result.goodput, "");
  to("mean_goodput", result.mean_goodput, "mean over all simulated campaigns");
  to("interruptions", result.interruptions, "");
  to("finished", result.finished, "share of the campaigns that finish");
  to("never", unless_empty(result.never), "why others do not");
  to("hours_between_failures", if_finite(result.hours_between_failures), "mean hours from one failure to the next");
  to("mean_time_s", result.mean, "");
  to("reliability", report.reliability.name, "name of the rates of failures");
  to("failures",
     List(failures,
          [](auto& failure_to, const FailureOfCampaign& failure) {
            failure_to("name", failure.mode.name, "name of the failure");
            failure_to("per_gpu_hour", failure.mode.per_gpu_hour, "failures of one GPU in an hour");
            failure_to("detect_s", failure.mode.detect_s, "seconds until a failure is noticed");
            failure_to("repair_s", if_finite(failure.mode.repair_s), "seconds of a repair");
            failure_to("slows", failure.mode.slows, "factor on the step while it lasts");
            failure_to("mean_times", failure.mean_times, "times in a campaign");
          }),
     "what fails how often");
  to("checkpoint", Object{[&answer](auto& part_to) { checkpoint_fields(part_to, answer); }},
     "how often a checkpoint is written and what it costs");
  to("spare_nodes", answer.input.spare_nodes, "nodes kept as spares");
  to("spares",
     List(answer.spares,
          [](auto& point_to, const sim::CampaignPoint& point) {
            point_fields(point_to, point, false, "spare_nodes", "nodes kept as spares");
          }),
     "what more or fewer spares give");
  to("finish_by", answer.finish, "with --finish-by, the fewest GPUs that end by then");
  to("start", report.start ? std::optional(model::date_text(*report.start)) : std::nullopt, "first day");
  to("phases",
     List(answer.input.phases,
          [](auto& phase_to, const sim::CampaignPhase& phase) {
            phase_to("name", phase.name, "name of the phase");
            phase_to("tokens", phase.tokens, "number of tokens");
            phase_to("tokens_per_step", phase.tokens_per_step, "tokens of a step");
            phase_to("step_s", phase.step_s, "seconds of a step");
          }),
     "phases one by one");
  to("seeds", answer.input.seeds, "campaigns simulated");
  to("seed", answer.input.seed, "seed of the random numbers");
  to("days_of_seed", days_of_seed, "days of each; null: never finished");
}

void campaign_fields(auto& to, const CampaignReport& report) {
  to("campaign", Object{[&report](auto& part_to) { body_of_campaign(part_to, report); }},
     "the outcome of the simulated campaigns");
  to("step", embedded<Json>("step", step_json(report.step.step)), "");
  to("interval", embedded<Json>("interval", interval_json(report.step.interval)), "");
  to("middle", embedded<Json>("middle", middle_json(report.step)), "");
  to("run", embedded<Json>("run", run_json(report.answer.run), true),
     "the whole training in the middle of its campaigns; null where none ends");
  to("reliability",
     List(report.reliability.parameters,
          [](auto& rate_to, const model::Parameter& rate) {
            fields(rate_to, rate);
            rate_to("relative_uncertainty", rate.relative_uncertainty, "standard deviation over the value");
            rate_to("low", rate.low, "lower end");
            rate_to("high", rate.high, "upper end");
          }),
     "rates of failures with their sources");
  to("plan", embedded<Json>("plan", plan_json(report.plan)), "");
  to("fit", embedded<Json>("fit", fit_json(report.step.memory)), "");
}

}  // namespace

std::string campaign_json(const CampaignReport& report) {
  return document("campaign", written<Json>(Object{[&](auto& to) { campaign_fields(to, report); }}));
}

std::string campaign_definitions() {
  const auto of = [](std::string_view description, const auto& value) {
    return with_description(description, Schema<Json>::in_full(value));
  };
  return text_of_json(
      Json{{"finish_by", of("The fewest GPUs that finish in time, with the degrees of the plan.", sim::FinishBy())},
           {"campaign_time", of("Seconds of a campaign by use, a mean of all that finish.", sim::CampaignTime())}});
}

std::string campaign_schema() {
  const model::Plan plan;
  const model::StepResult step;
  const sim::CampaignAnswer answer;
  const calibrate::Reliability reliability;
  return text_of_json(document_schema<Json>("campaign", "plumbline campaign PLAN --json",
                                            "A whole training with its failures.", [&](auto& to) {
                                              campaign_fields(to, CampaignReport{plan, step, answer, reliability});
                                            }));
}

}  // namespace plumbline::reports
