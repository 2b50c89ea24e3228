#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/result/comparison.h"
#include "reports/json/json.h"
#include "reports/json/read_json.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/table.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using testing::HasSubstr;

model::ComparisonSubject subject(const std::string& name, double gemm) {
  model::StepResult result = support::example_result();
  result.step.time_s += gemm - result.step.breakdown[0].seconds;
  result.step.breakdown[0].seconds = gemm;
  result.step.tokens_per_s = 4096 * 15360 / result.step.time_s;
  return {name, "plan", support::example_plan(), std::move(result), ""};
}

model::ComparisonSubject impossible_plan(const std::string& name) {
  return {name, "plan", support::example_plan(),
          tl::unexpected(model::Error{model::ErrorKind::infeasible, "cannot be", "", 0, "cluster.gpus", ""}), ""};
}

model::ResultComparison comparison(model::Against against) {
  return model::compare_results({subject("one", 9), impossible_plan("two"), subject("three", 10), subject("four", 12)},
                                against, model::WaterfallDetail::categories);
}

TEST(ComparePlans, InfeasibleSubjectsArePassedOver) {
  const model::ResultComparison first = comparison(model::Against::first),
                                previous = comparison(model::Against::previous);
  ASSERT_EQ(first.differences.size(), 2U);
  EXPECT_EQ(first.differences[1].from, 0U);
  EXPECT_EQ(first.differences[1].to, 3U);
  EXPECT_DOUBLE_EQ(first.differences[1].waterfall.change_s(), 3);
  ASSERT_EQ(previous.differences.size(), 2U);
  EXPECT_EQ(previous.differences[1].from, 2U);
  EXPECT_DOUBLE_EQ(previous.differences[1].waterfall.change_s(), 2);
  EXPECT_TRUE(first.same_tokens);
}

// Returns a deployment of a pool whose step of 8 ms has two equal parts, with a TPOT of 10 ms.
model::ComparisonSubject deployment(const std::string& name, double tokens_per_s_per_gpu, double usd_per_gpu_hour) {
  model::ComparisonSubject subject{name, "plan", support::example_plan(), model::StepResult(), ""};
  model::ServingResult& serving = subject.serving.emplace();
  serving.tpot_s = 0.010;
  serving.output_tokens_per_s_per_gpu = tokens_per_s_per_gpu;
  serving.usd_per_million_tokens_all_in = usd_per_gpu_hour / (tokens_per_s_per_gpu * 3600) * 1e6;
  model::ServingPool& pool = serving.pools.emplace_back();
  pool.name = "both";
  pool.gpus = 8;
  pool.step_s = 0.008;
  pool.parts = {{"attention", 0.004}, {"experts", 0.004}};
  subject.usd_per_gpu_hour = usd_per_gpu_hour;
  return subject;
}

TEST(CompareDeployments, PartsAndPromptsAddUpToTheGpuTimeOfTokens) {
  const model::Waterfall both = model::waterfall(*deployment("a", 1000, 2).serving, *deployment("b", 2000, 3).serving);
  EXPECT_DOUBLE_EQ(both.from_s, 1);  // a thousand tokens at a thousand a second
  EXPECT_DOUBLE_EQ(both.to_s, 0.5);
  ASSERT_EQ(both.rows.size(), 3U);
  EXPECT_NEAR(both.rows[0].from_s, 0.4, 1e-12);  // 4 of 10 ms
  EXPECT_NEAR(both.rows[1].to_s, 0.2, 1e-12);
  EXPECT_EQ(both.rows[2].name, "prompts");
  EXPECT_NEAR(both.rows[2].from_s, 0.2, 1e-12);  // the 2 ms between
}

// Of 32 GPUs 8 only prefill; the others' step is their time per token.
TEST(CompareDeployments, GpusThatPrefillAreThePrompts) {
  model::ServingResult apart = *deployment("a", 1000, 2).serving;
  apart.tpot_s = 0.008;
  apart.pools.insert(apart.pools.begin(), model::ServingPool{.name = "prefill", .gpus = 8});
  apart.pools.back().gpus = 24;
  const model::Waterfall rows = model::waterfall(apart, apart);
  ASSERT_EQ(rows.rows.size(), 3U);
  EXPECT_NEAR(rows.rows[0].from_s, 0.375, 1e-12);
  EXPECT_NEAR(rows.rows[2].from_s, 0.25, 1e-12);
}

TEST(CompareDeployments, TextSaysWhyOneIsCheaper) {
  const model::ResultComparison compared = model::compare_results(
      {deployment("a", 1000, 2), deployment("b", 2000, 3)}, model::Against::first, model::WaterfallDetail::categories);
  EXPECT_TRUE(compared.deployments());
  const std::string text = tests::one_line(result_comparison_text(compared, false));
  EXPECT_THAT(text, HasSubstr("An output token of B, with its prompt, is 25.0 % cheaper than one of A: it takes 50.0 % "
                              "less GPU time, and a GPU-hour costs 50.0 % more."));
  EXPECT_THAT(text, HasSubstr("Where the GPU time of output tokens differs"));
  EXPECT_THAT(text, HasSubstr("attention -0.20 s, experts -0.20 s, prompts -0.10 s."));
  EXPECT_THAT(text, testing::Not(HasSubstr("rank 0")));
  const auto json = nlohmann::json::parse(result_comparison_json(compared));
  EXPECT_TRUE(json["subjects"][0]["step"].is_null());
  EXPECT_EQ(json["subjects"][1]["serving"]["tpot_s"], 0.010);
  EXPECT_EQ(json["subjects"][1]["usd_per_gpu_hour"], 3);
  EXPECT_DOUBLE_EQ(json["waterfalls"][0]["change_s"], -0.5);
  EXPECT_THAT(result_comparison_csv(compared), HasSubstr("serving.tpot_s"));
  EXPECT_THAT(result_comparison_svg(compared), HasSubstr("GPU-seconds of 1,000 output tokens"));
}

// Returns the sentence of two deployments.
std::string cost_words(model::ComparisonSubject a, model::ComparisonSubject b) {
  const auto compared =
      model::compare_results({std::move(a), std::move(b)}, model::Against::first, model::WaterfallDetail::categories);
  return tests::one_line(result_comparison_text(compared, false));
}

// A rate of 900 in the middle instead of 1,000, and 1.25 times the cost: 0.9 * 1.25 = 1.125 times the price.
TEST(CompareDeployments, TheMiddleCostIsAMiddlePriceTimesAMiddleTime) {
  model::ComparisonSubject drawn = deployment("b", 1000, 2);
  drawn.serving->usd_per_million_output_tokens = drawn.serving->usd_per_million_tokens_all_in;
  model::ServingInterval& interval = drawn.serving->interval.emplace();
  interval.output_tokens_per_s_per_gpu = model::Quantiles{800, 900, 1000};
  const double cost = *drawn.serving->usd_per_million_output_tokens;
  interval.usd_per_million_output_tokens = model::Quantiles{cost, 1.25 * cost, 2 * cost};
  const std::string text = cost_words(deployment("a", 1000, 2), std::move(drawn));
  EXPECT_THAT(text, HasSubstr("is 25.0 % dearer than one of A: it takes 11.1 % more GPU time, and a GPU-hour costs "
                              "12.5 % more."));
  EXPECT_THAT(text, testing::ContainsRegex("USD of a GPU-hour +.2[.]000 +.2[.]250"));
}

TEST(CompareDeployments, OneThatCannotBeHasNoSchedule) {
  model::ComparisonSubject none = impossible_plan("b");
  none.plan.inference.given = true;
  none.plan.batch = {};
  none.plan.parallelism.tensor = 4;
  const std::string kind = none.plan.schedule.kind, text = cost_words(deployment("a", 1000, 2), std::move(none));
  EXPECT_THAT(text, HasSubstr("; TP4"));
  EXPECT_THAT(text, testing::Not(HasSubstr(kind)));
}

TEST(CompareDeployments, WhatIsAlikeIsNotMore) {
  EXPECT_THAT(cost_words(deployment("a", 1000, 2), deployment("b", 1000, 2)),
              HasSubstr("is as dear as one of A: it takes as much GPU time, and a GPU-hour costs as much."));
}

TEST(ComparePlans, APlanAtTheEdgeOfMemoryIsNamed) {
  model::ComparisonSubject edge = subject("two", 9);
  edge.result->memory.fits_probability = 0.6;
  const auto compared = model::compare_results({subject("one", 9), std::move(edge), impossible_plan("three")},
                                               model::Against::first, model::WaterfallDetail::categories);
  EXPECT_THAT(result_comparison_text(compared, false), testing::ContainsRegex("feasible +yes +at the edge +no"));
  const auto subjects = nlohmann::json::parse(result_comparison_json(compared))["subjects"];
  EXPECT_EQ(subjects[0]["fit"]["verdict"], "fits");
  EXPECT_EQ(subjects[1]["fit"]["verdict"], "edge");
  EXPECT_EQ(subjects[1]["fit"]["probability"], 0.6);
  EXPECT_TRUE(subjects[2]["fit"].is_null());
}

// 2,000 USD of 1,000 GPU-hours, and 2,250 USD of 900.
TEST(ComparePlans, FewerGpuHoursThatCostMoreHaveADearerHour) {
  std::vector subjects = {subject("one", 10), subject("two", 9)};
  for (model::ComparisonSubject& one : subjects) one.result->run.emplace();
  subjects[0].result->run->gpu_hours = 1000;
  subjects[0].result->run->cost_usd = 2000;
  subjects[1].result->run->gpu_hours = 900;
  subjects[1].result->run->cost_usd = 2250;
  const std::string text = result_comparison_text(
      model::compare_results(std::move(subjects), model::Against::first, model::WaterfallDetail::categories), false);
  EXPECT_THAT(text, testing::ContainsRegex("cost per GPU-hour +.2[.]000 +.2[.]500"));
  EXPECT_THAT(text, testing::ContainsRegex("cost +.2,000 +.2,250"));
}

TEST(ComparePlans, PictureHasAPanelForEachDifference) {
  const std::string svg = result_comparison_svg(comparison(model::Against::first));
  EXPECT_THAT(svg, HasSubstr("one to three: +1.000 s"));
  EXPECT_THAT(svg, HasSubstr("one to four: +3.000 s"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("var(")));
}

// The interval of the first is 19 to 24 s, that of the second 22.8 to 28.8 s.
TEST(ComparePlans, IntervalsOverlapOrDoNot) {
  const auto text = [](double factor) {
    std::vector subjects = {subject("one", 9), subject("two", 13)};
    for (model::ComparisonSubject& one : subjects) one.result->interval = support::example_interval();
    model::Quantiles& time = subjects[1].result->interval->time_s;
    time = {time.p10 * factor, time.p50 * factor, time.p90 * factor};
    return result_comparison_text(
        model::compare_results(std::move(subjects), model::Against::first, model::WaterfallDetail::categories), false);
  };
  EXPECT_THAT(text(1.2), HasSubstr("eight of ten cases  19.00 to 24.00 s  22.80 to 28.80 s"));
  EXPECT_THAT(text(1.2), HasSubstr("The intervals of A and B overlap: 22.80 to 24.00 s."));
  EXPECT_THAT(text(2), HasSubstr("The intervals of A and B do not overlap."));
}

// What was measured is 19.9 s at first and 29.9 s then; the interval is 19 to 24 s with its middle at 21 s.
TEST(ComparePlans, AMeasuredStepIsInsideOrOutsideTheInterval) {
  const auto compared = [](double gemm) {
    std::vector subjects = {subject("one", 9), subject("measured", gemm)};
    subjects[0].result->interval = support::example_interval();
    subjects[1].result->fidelity = "measured";
    return model::compare_results(std::move(subjects), model::Against::first, model::WaterfallDetail::categories);
  };
  EXPECT_THAT(result_comparison_text(compared(9), false), HasSubstr("B lies inside the interval of A: 24.5 % of its"));
  EXPECT_THAT(result_comparison_text(compared(19), false), HasSubstr("B lies outside the interval of A: 10"));
  const auto pair = nlohmann::json::parse(result_comparison_json(compared(19)))["predicted_and_measured"][0];
  EXPECT_EQ(pair["inside_interval"], false);
  EXPECT_GT(pair["share_of_interval_below"], 0.99);
}

TEST(ReadResult, ReadsBackWhatWasWritten) {
  model::StepResult written = support::example_result();
  written.interval = support::example_interval();
  model::Plan plan = support::example_plan();
  plan.model.overrides["n_routed_experts"] = std::int64_t{128};
  const auto read = read_result(to_json(written, plan), "result.json");
  ASSERT_TRUE(read) << model::to_string(read.error());
  model::Plan known = read->plan;
  known.run.phases = plan.run.phases;  // stated costs are not read
  EXPECT_EQ(to_json({}, known), to_json({}, plan));
  EXPECT_EQ(step_json(read->result.step), step_json(written.step));
  EXPECT_EQ(read->result.bound_s, written.bound_s);
  EXPECT_EQ(read->result.run->total_cost_usd, written.run->total_cost_usd);
  EXPECT_EQ(read->result.memory.peak_bytes, written.memory.peak_bytes);
  EXPECT_EQ(read->result.profile, "h800");
  ASSERT_TRUE(read->result.interval);
  const auto interval = [&](const model::StepResult& result) {
    return nlohmann::json::parse(to_json(result, plan))["interval"];
  };
  EXPECT_EQ(interval(read->result), interval(written));
}

TEST(ReadResult, WhatIsNotAResultIsRefused) {
  const auto message = [](const std::string& text) { return model::to_string(read_result(text, "r.json").error()); };
  EXPECT_THAT(message("{"), HasSubstr("r.json: not JSON"));
  EXPECT_THAT(message("{\"hidden_size\": 1}"), HasSubstr("no result"));
  EXPECT_THAT(message("{\"step\": {\"time_s\": \"long\"}}"), HasSubstr("step.time_s: expected a number"));
  EXPECT_THAT(message("{\"step\": {\"time_s\": 1}, \"plan\": {\"cluster\": {\"gpus\": 1.5}}}"),
              HasSubstr("plan.cluster.gpus: expected a whole number"));
  EXPECT_THAT(message(R"({"step": {"time_s": 1}, "interval": {"time_s": {"p50": 1}, "parts": [{"share": "most"}]}})"),
              HasSubstr("interval.parts.share: expected a number"));
}

// The measured step has no other value than its time.
TEST(ReadResult, WhatIsMissingStaysUnset) {
  const auto read = read_result("{\"step\": {\"time_s\": 2, \"bubble_s\": null}, \"run\": null}", "r.json");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->result.step.time_s, 2);
  EXPECT_FALSE(read->result.step.bubble_s);
  EXPECT_FALSE(read->result.run);
}

TEST(IsResult, ByEndingOrByContent) {
  const auto file = std::filesystem::path(testing::TempDir()) / "comparison_subject_without_ending";
  std::ofstream(file) << "\n  {\"step\": {}}";
  EXPECT_TRUE(is_result(file.string()));
  EXPECT_TRUE(is_result("somewhere/result.json"));
  EXPECT_FALSE(is_result("plan.toml"));
  EXPECT_FALSE(is_result("deepseek-v3-2048xh800"));
  std::filesystem::remove(file);
}

model::ComparisonSubject predicted() {
  model::ComparisonSubject subject{"plan", "plan", support::example_plan(), support::example_result(), ""};
  subject.timeline = support::example_timeline();
  subject.rank_names = support::example_rank_names();
  return subject;
}

// A pair takes 0.1 s less than predicted, 10.6 s together.
model::ComparisonSubject measured() {
  model::ComparisonSubject subject{"run", "result", support::example_plan(), support::example_result(), ""};
  subject.result->fidelity = "measured";
  subject.result->profile = "";
  model::StepTimes& step = subject.result->step;
  const auto pair = static_cast<std::size_t>(model::OpType::FB);
  constexpr double less = 10.6;
  step.slots_s[pair] = *step.slots_s[pair] - less;
  step.breakdown[0].seconds -= less;
  step.time_s -= less;
  subject.clock = "cpu";
  subject.measured_seconds = {9.2, 9.4, 9.8};
  subject.timeline = support::example_timeline();
  return subject;
}

model::ResultComparison comparison(std::vector<model::ComparisonSubject> subjects) {
  return model::compare_results(std::move(subjects), model::Against::first, model::WaterfallDetail::categories);
}

TEST(CompareMeasured, TheOrderOfTheSubjectsDoesNotMatter) {
  const model::ResultComparison transposed = comparison({measured(), predicted()});
  ASSERT_EQ(transposed.measured.size(), 1U);
  EXPECT_EQ(transposed.measured[0].predicted, 1U);
  EXPECT_EQ(transposed.measured[0].measured, 0U);
  EXPECT_DOUBLE_EQ(*transposed.measured[0].error.step.error(), 20.0 / 9.4 - 1);
}

TEST(CompareMeasured, TwoMeasuredStepsHaveAWaterfall) {
  const model::ResultComparison both = comparison({measured(), measured(), predicted()});
  EXPECT_EQ(both.differences.size(), 2U);
  EXPECT_EQ(both.measured.size(), 1U);
  EXPECT_THAT(result_comparison_text(both, false), HasSubstr("Where the step times differ"));
}

TEST(CompareMeasured, AnotherPlanIsReported) {
  model::ComparisonSubject other = predicted();
  other.plan.schedule.kind = "1f1b";
  other.plan.cluster.profile = "h800";  // of the prediction alone
  other.plan.batch.global_batch_size = 30720;
  other.result->step.slot_counts[0] = 12;
  const std::string text = result_comparison_text(comparison({other, measured()}), false);
  EXPECT_THAT(text, HasSubstr("(predicted 30720, measured 15360)"));
  EXPECT_THAT(text, HasSubstr("schedule.kind"));
  EXPECT_THAT(text, testing::Not(HasSubstr("cluster.profile")));
  EXPECT_THAT(text, HasSubstr("do not correspond"));
  EXPECT_THAT(text, testing::Not(HasSubstr("one slot of rank 0")));
}

// What a trace of two subjects is made of is tested with it.
TEST(CompareMeasured, OneTraceHoldsBothSteps) {
  const model::ResultComparison both = comparison({predicted(), measured()});
  const auto subjects = trace_subjects(both);
  ASSERT_TRUE(subjects) << model::to_string(subjects.error());
  ASSERT_EQ(subjects->size(), 2U);
  EXPECT_EQ(subjects->front().label, "predicted");
  EXPECT_EQ(subjects->front().rank_names, support::example_rank_names());
  EXPECT_EQ(subjects->back().label, "measured");
  EXPECT_TRUE(subjects->back().rank_names.empty());
  for (const TraceSubject& subject : *subjects) EXPECT_FALSE(subject.timeline->spans.empty());
}

TEST(CompareMeasured, AStoredPredictionHasNoTimeline) {
  model::ComparisonSubject stored = predicted();
  stored.origin = "result";
  stored.timeline = {};
  const auto trace = trace_subjects(comparison({stored, measured()}));
  ASSERT_FALSE(trace);
  EXPECT_THAT(model::to_string(trace.error()), HasSubstr("'plan' has no timeline"));
}

TEST(ReadResult, OfARunHoldsClockAndTimeline) {
  TrainingReport training;
  training.clock = "cpu";
  training.measured_seconds = {1, 2};
  const model::Timeline timeline = support::example_timeline(2);
  const auto read =
      read_result(to_json(support::example_result(), support::example_plan(), training, timeline), "run.json");
  ASSERT_TRUE(read) << model::to_string(read.error());
  EXPECT_EQ(read->clock, "cpu");
  EXPECT_EQ(read->measured_seconds, training.measured_seconds);
  EXPECT_EQ(read->timeline.spans.size(), timeline.spans.size());
  EXPECT_EQ(read->timeline.ranks, timeline.ranks);
}

}  // namespace
}  // namespace plumbline::reports
