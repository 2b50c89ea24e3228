#include "calibrate/validate/case_evaluation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/text/compare/validation_report.h"
#include "reports/text/step/sections.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using calibrate::Figure;
using calibrate::ValidationCase;

ValidationCase two_figures() {
  ValidationCase definition;
  definition.name = "a case";
  definition.plan = "a-plan";
  definition.profiles = {"low", "high"};
  definition.naive_mfu = 0.4;
  definition.naive_source = "assumed";
  definition.figures = {Figure{"step.time_s", "step time", "s", 20.0, 1, 0.1, "a paper"},
                        Figure{"step.bubble_s", "bubble", "s", 2.0, 1, std::nullopt, "a paper"}};
  return definition;
}

model::StepResult step_of(double seconds) {
  model::StepResult result;
  result.step.time_s = seconds;
  return result;
}

calibrate::EvaluatedCase evaluate_steps(const ValidationCase& definition, const std::vector<double>& seconds) {
  std::vector<model::StepResult> steps;
  for (const double value : seconds) steps.push_back(step_of(value));
  std::vector<calibrate::Prediction> predictions;
  for (const model::StepResult& step : steps) predictions.push_back({.step = &step});
  return calibrate::evaluate(definition, predictions, {step_of(22), 0});
}

TEST(Evaluation, HoldsByTheLastProfileAlone) {
  // 19 of 20 is within 10 %, 15 is not; the bubble is unknown and has no tolerance.
  const calibrate::EvaluatedCase good = evaluate_steps(two_figures(), {15, 19});
  EXPECT_TRUE(good.holds());
  EXPECT_EQ(good.figures[0].naive, 22);
  EXPECT_EQ(good.figures[1].predicted[1], std::nullopt);
  EXPECT_FALSE(evaluate_steps(two_figures(), {19, 15}).holds());
}

// The step takes 19 s, 17 to 24 s in eight of ten cases; all draws have a bubble of 1.5 s instead of 1.2 s.
TEST(Evaluation, IntervalsHaveThePublishedValueOrNot) {
  ValidationCase definition = two_figures();
  definition.profiles = {"only"};
  definition.figures.push_back(Figure{"step.tokens_per_s", "rate", "tokens/s", 20, 1, std::nullopt, "a paper"});
  definition.figures.push_back(Figure{"step.mfu", "MFU", "%", 40, 100, std::nullopt, "a paper"});
  model::StepResult step = step_of(19);
  step.step.bubble_s = 1.2;
  step.step.mfu = 0.4;
  step.interval.emplace().time_s = {17, 19.5, 24};
  sim::Inputs inputs;
  inputs.plan.batch.global_batch_size = 340;
  inputs.plan.batch.sequence_length = 1;
  inputs.plan.cluster.gpus = 1;
  sim::StepDraws draws;
  draws.step = step.step;
  draws.steps.assign(16, draws.step);
  for (model::StepTimes& one : draws.steps) one.bubble_s = 1.5;
  draws.time_ratio.assign(16, 1);
  const auto evaluated =
      calibrate::evaluate(definition, {{.step = &step, .inputs = &inputs, .draws = &draws}}, {step_of(22), 0});
  const auto interval = [&](std::size_t figure) { return evaluated.figures[figure].intervals[0]; };
  EXPECT_EQ(interval(0), (model::Quantiles{17, 19.5, 24}));
  EXPECT_NEAR(interval(1).value().p90, 1.5, 1e-12);
  EXPECT_NEAR(interval(2).value().p10, 340.0 / 24, 1e-12);
  EXPECT_NEAR(interval(2).value().p90, 20, 1e-12);
  EXPECT_FALSE(interval(3));
  const std::string text = validation_table(evaluated);
  tests::expect_parts(text, {"17.0-24.0  in", "1.50-1.50 out"});
  const auto json = nlohmann::json::parse(validation_json({.figures = {evaluated}}))["cases"][0]["figures"];
  EXPECT_EQ(json[0]["interval"]["only"]["inside"], true);
  EXPECT_EQ(json[1]["interval"]["only"]["inside"], false);
  EXPECT_TRUE(json[3]["interval"].empty());
}

TEST(Evaluation, AToleranceWithoutAPredictionIsExceeded) {
  ValidationCase definition = two_figures();
  definition.figures[1].tolerance = 0.5;
  EXPECT_FALSE(evaluate_steps(definition, {19, 19}).holds());
}

TEST(Evaluation, GroupsAndTheirAggregates) {
  ValidationCase definition = two_figures();
  definition.figures = {Figure{"step.time_s", "one", "s", 20.0, 1, 0.1, "a paper", "times"},
                        Figure{"step.time_s", "two", "s", 10.0, 1, 0.1, "a paper", "times"}};
  calibrate::Aggregate median{"median", "times"};
  median.tolerance = 0.5;
  definition.aggregates = {median};
  // 19 is 5 % below 20 and 90 % above 10: median 47.5 %. 24 errs by 20 and 140 %: median 80 %.
  const calibrate::EvaluatedCase good = evaluate_steps(definition, {24, 19});
  EXPECT_NEAR(good.aggregates.at(0).values.at(1).value(), 0.475, 1e-12);
  EXPECT_TRUE(good.aggregates[0].within);
  EXPECT_FALSE(good.holds());  // one figure of the group fails
  EXPECT_FALSE(evaluate_steps(definition, {19, 24}).aggregates[0].within);
  const std::string text = validation_table(good);
  tests::expect_parts(text,
                      {"times, s:", "median", "47.5%", "times: largest of 2", "1 EXCEEDED", "Exceeded: two (+90.0%)"});
  const auto json = nlohmann::json::parse(validation_json({.figures = {good}}));
  EXPECT_EQ(json["cases"][0]["aggregates"][0]["within_tolerance"], true);
  EXPECT_EQ(json["cases"][0]["figures"][1]["group"], "times");
}

TEST(Evaluation, BoundsAndPointsAreNamedAsSuch) {
  ValidationCase definition = two_figures();
  definition.figures[0].tolerance.reset();
  definition.figures[0].at_most = 21;
  Figure share{"step.time_s", "share", "%", 20.0, 1, std::nullopt, "a paper"};
  share.absolute_tolerance = 1.5;
  definition.figures.push_back(share);
  const std::string text = validation_table(evaluate_steps(definition, {15, 19}));
  tests::expect_parts(text, {"at most 21.00 s", "19.00 s", "-1.0 points", "1.5 points"});
}

TEST(Evaluation, JsonHasNullForWhatIsUnknown) {
  const auto json = nlohmann::json::parse(validation_json({.figures = {evaluate_steps(two_figures(), {15, 25})}}));
  EXPECT_FALSE(json["passed"].get<bool>());
  const auto& figures = json["cases"][0]["figures"];
  EXPECT_EQ(figures[0]["predicted"]["high"], 25);
  EXPECT_EQ(figures[0]["error"]["high"], 0.25);
  EXPECT_EQ(figures[0]["within_tolerance"], false);
  EXPECT_TRUE(figures[1]["predicted"]["high"].is_null());
  EXPECT_TRUE(figures[1]["within_tolerance"].is_null());
}

TEST(Comparisons, BelongToThePlanOfTheirName) {
  const std::vector<ValidationCase> cases = {two_figures()};
  const auto found = comparisons(cases, "somewhere/a-plan.toml", step_of(19));
  ASSERT_EQ(found.size(), 1u);  // the bubble is not known
  EXPECT_EQ(found[0].name, "step time");
  EXPECT_EQ(found[0].predicted, 19);
  EXPECT_EQ(found[0].published, 20);
  EXPECT_TRUE(comparisons(cases, "somewhere/another-plan.toml", step_of(19)).empty());
}

}  // namespace
}  // namespace plumbline::reports
