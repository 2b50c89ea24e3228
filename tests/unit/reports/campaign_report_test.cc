#include "reports/text/campaign/campaign_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// 64 GPUs for ten days, of which one was lost.
struct Example {
  model::Plan plan = support::example_plan();
  model::StepResult step = support::example_result();
  calibrate::Reliability reliability;
  sim::CampaignAnswer answer;

  Example() {
    reliability.name = "rates";
    reliability.description = "made up";
    reliability.parameters = {{"restart.time", 7.5, "min", model::Evidence::assumed, "a paper", {}}};
    plan.campaign.checkpoint = "asynchronous";
    answer.input.gpus = 64;
    answer.input.phases = {{"ramp", 1e9, 100, 1}, {"rest", 2e9, 200, 2}};
    answer.input.failures = {{.name = "faulty GPU", .per_gpu_hour = 1e-4, .detect_s = 300, .repair_s = 86400},
                             {.name = "slow node", .per_gpu_hour = 1e-5, .slows = 1.1}};
    answer.input.checkpoint = {.stall_s = 2, .write_s = 30, .load_s = 40};
    sim::CampaignResult& result = answer.result;
    result.finished = 1;
    result.days = {9, 10, 11};
    result.goodput = {0.85, 0.9, 0.95};
    result.interruptions = {1, 2, 3};
    result.mean_interruptions = 2;
    result.mean_goodput = 0.9;
    result.interruptions_of_mode = {2, 0.5};
    result.hours_between_failures = 12;
    result.mean = {.useful_s = 9 * 86400, .lost_s = 86400};
    result.checkpoint_interval_s = 1800;
    result.days_of_seed = {9.5, 10.5};
    result.events = {{86400, "failure: faulty GPU", 600, 0.1}, {87000, "restart", 0, 0.1}, {864000, "finished", 0, 1}};
    answer.days = result.days;
    answer.run = step.run;
    answer.intervals = {{"half of it", 900, {9, 10, 11}, 0.89}, {"best", 1800, {9, 10, 11}, 0.9}};
    answer.spares = {{"", 2, {9, 10, 11}, 0.91}};
    answer.finish = sim::FinishBy{.days = 12,
                                  .tried = {{.gpus = 32, .step_s = 2, .days = {20, 20, 21}},
                                            {.gpus = 48, .refused = true, .reason = "no"},
                                            {.gpus = 64, .step_s = 1, .days = {9, 10, 11}, .in_time = 0.97}},
                                  .gpus = 64};
  }
  CampaignReport report() const {
    return {.plan = plan, .step = step, .answer = answer, .reliability = reliability, .start = 20788};
  }
};

TEST(CampaignReport, APlanAtTheEdgeOfMemoryIsNamed) {
  Example example;
  EXPECT_THAT(campaign_text(example.report(), {}), Not(HasSubstr("memory at the edge")));
  example.step.memory.fits_probability = 0.762;
  EXPECT_THAT(campaign_text(example.report(), {}), HasSubstr("\nmemory at the edge: it fits with 76.2 %; "));
  EXPECT_EQ(nlohmann::json::parse(campaign_json(example.report()))["fit"]["verdict"], "edge");
}

TEST(CampaignReport, PartsOfAShortRunHaveTheirUnits) {
  Example example;
  const auto words = [&] { return tests::one_line(campaign_text(example.report(), {})); };
  EXPECT_THAT(words(), HasSubstr("steps done again 1.00 10.0 %"));
  example.answer.result.mean = {.useful_s = 1800, .lost_s = 12};
  EXPECT_THAT(words(), HasSubstr("steps done again 12.00 s"));
}

// Ten days of 64 GPUs at the value of the price are 1,000 USD, in the middle 1,200; two spare nodes of 8 are a quarter
// more GPUs.
TEST(CampaignReport, SparesCostWhatTheWholeTrainingDoes) {
  Example example;
  example.answer.result.days_of_seed = {10};
  example.answer.usd_per_day = 100;
  example.answer.usd_factor = {1.1, 1.2, 1.3};
  example.answer.input.gpus_per_node = 8;
  const std::string text = campaign_text(example.report(), {});
  EXPECT_THAT(text, HasSubstr("$1,200"));
  EXPECT_THAT(text, HasSubstr("$1,500"));
  EXPECT_THAT(text, Not(HasSubstr("do not count")));
  example.answer.input.spare_nodes = 2;
  EXPECT_THAT(tests::one_line(campaign_text(example.report(), {})),
              HasSubstr("GPU-hours and cost do not count theirs (25.0 % more). A restart takes"));
}

TEST(CampaignReport, SaysWhatTheDeadlineHoldsWithAndWhatWasNotLookedAt) {
  Example example;
  sim::FinishBy& finish = *example.answer.finish;
  const auto words = [&] { return tests::one_line(campaign_text(example.report(), {})); };
  EXPECT_THAT(words(), HasSubstr("64 GPUs end by 2026-12-13 in nine of ten cases (the deadline holds with 97.0 %, p90 "
                                 "11.0 days); fewer of those over which the batch divides do not; 1 could not be "
                                 "predicted and was not looked at (48 GPUs: no)."));
  finish.tried.back().in_time = 1;
  EXPECT_THAT(words(), AllOf(HasSubstr("holds with > 99 %"), HasSubstr("11.0 > 99 %")));
  finish.tried.front().reason = "at the edge: fits with 76 %";
  EXPECT_THAT(words(), HasSubstr("fewer of those over which the batch divides do not, or may not fit in memory; 1 "));
  finish.tried.front().reason.clear();
  finish.gpus.reset();
  finish.tried.back() = {.gpus = 96, .refused = true, .reason = "too many"};
  EXPECT_THAT(words(),
              HasSubstr("No number of GPUs up to 32, over which the batch divides, ends by 2026-12-13 in nine "
                        "of ten cases (on 32 the deadline holds with < 1 %, p90 21.0 days); 2 could not be predicted "
                        "and were not looked at (the nearest, 48 GPUs: no)."));
}

TEST(CampaignReport, NeverIsSaidAndIsNullInJson) {
  Example example;
  example.answer.result.finished = 0;
  example.answer.result.never = "no node is left";
  example.answer.days.p50 = std::numeric_limits<double>::infinity();
  example.answer.run.reset();
  EXPECT_THAT(campaign_text(example.report(), {}), HasSubstr("The training never finishes, because no node is left."));
  const auto json = nlohmann::json::parse(campaign_json(example.report()));
  EXPECT_TRUE(json["campaign"]["days"]["p50"].is_null());
  EXPECT_TRUE(json["run"].is_null());
  EXPECT_EQ(json["campaign"]["never"], "no node is left");
}

TEST(CampaignReport, CsvHasEventsAndCampaigns) {
  const std::string csv = campaign_csv(Example().report());
  EXPECT_THAT(csv, HasSubstr("record,campaign,days,what,lost_s,progress\nevent,0,1,\"failure: faulty GPU\",600,0.1\n"));
  EXPECT_THAT(csv, HasSubstr("\ncampaign,1,10.5,finished,,1\n"));
  Example example;
  example.answer.result.days_of_seed[1] = std::numeric_limits<double>::infinity();
  EXPECT_THAT(campaign_csv(example.report()), HasSubstr("\ncampaign,1,,never finishes,,\n"));
}

TEST(CampaignReport, TimelineMarksInterruptions) {
  const std::string svg = campaign_svg(Example().report());
  EXPECT_THAT(svg, HasSubstr("day 1.00: failure: faulty GPU, 600.0 s of steps lost"));
}

// Comparisons follow the campaigns, so that all of these may be there when the answer is stopped.
TEST(CampaignReport, StoppedWordsNameWhatIsMissing) {
  sim::CampaignAnswer answer;
  answer.complete = answer.result.complete = false;
  answer.input.seeds = 7;
  EXPECT_EQ(stopped_words(answer, 20), " after 7 of 20 campaigns");
  answer.result.complete = true;
  answer.input.seeds = 20;
  EXPECT_EQ(stopped_words(answer, 20), " after all 20 campaigns, before all comparisons with others were made");
}

}  // namespace
}  // namespace plumbline::reports
