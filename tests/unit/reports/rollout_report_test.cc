#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "model/memory/memory.h"
#include "model/result/comparison.h"
#include "reports/json/json.h"
#include "reports/json/read_json.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/plan/plan_report.h"
#include "reports/text/step/summary.h"
#include "reports/text/whatif/whatif_report.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

model::RolloutResult example_rollout() {
  model::RolloutResult rollout;
  rollout.algorithm = "grpo";
  rollout.placement = "split";
  rollout.step_s = 100;
  rollout.parts = {{"weights to the engines", "all", 2},
                   {"generation", "engines", 60},
                   {"old log-probabilities", "training", 8},
                   {"training of the policy", "training", 30}};
  rollout.tail_s = 12;
  rollout.longest_tokens = 8192;
  rollout.cut_share = 0.02;
  rollout.engines_idle = 0.4;
  rollout.training_idle = 0.6;
  rollout.tokens_per_s = 50000;
  rollout.tokens_per_s_per_gpu = 1562.5;
  rollout.generated_tokens_per_s = 80000;
  rollout.gpus = 32;
  rollout.engine_gpus = rollout.training_gpus = 16;
  rollout.instances = 4;
  rollout.requests_at_once = 200;
  rollout.updates = 2;
  rollout.weights_bytes = 16e9;
  rollout.memory = {60e9, 70e9, 500e9, 85e9, 2000e9, true};
  rollout.step_usd = 2.5;
  rollout.run = model::RunCost{.steps = 1000, .days = 1.157, .gpu_hours = 889, .cost_usd = 2500};
  return rollout;
}

TEST(RolloutReport, HasTheStepItsRatesAndItsRun) {
  const std::string text = rollout_section(example_rollout());
  tests::expect_parts(
      text, {"A step of reinforcement learning (grpo, split)", "generation              engines   60.00 s  60.0 %",
             "step                              100.0 s", "idle, GPUs that train", "of 4 GPUs, 200 answers at once",
             "60.0 GB in training and 70.0 GB in generation", "It fits.", "1,000 such steps take 1.2 days and 889",
             "$2,500"});
  model::RolloutResult ranged = example_rollout();
  ranged.interval_s = model::Quantiles{90, 110, 140};
  const std::string middle = rollout_section(ranged);
  tests::expect_parts(middle, {"step time              110.0 s  8 of 10 take 90.00 to 140.0 s",
                               "tokens/s                45,455  1,420 per GPU, of those trained on",
                               "cost of a step           $2.75", "from components        100.0 s  divided below",
                               "step                              100.0 s", "take 1.3 days", "$2,750"});
  EXPECT_LE(tests::longest_line(text), terminal_width);
}

TEST(RolloutReport, ComesBeforeTheUpdateItIsMadeOf) {
  model::StepResult result = support::example_result();
  EXPECT_EQ(summary(result, support::example_plan()).find("reinforcement"), std::string::npos);
  result.rollout = example_rollout();
  const std::string text = summary(result, support::example_plan());
  const std::size_t rollout = text.find("A step of reinforcement learning"),
                    update = text.find("An update of the policy");
  ASSERT_NE(update, std::string::npos) << text;
  EXPECT_LT(rollout, update);
  EXPECT_NE(text.find("MFU (BF16 peak)", update), std::string::npos);
}

TEST(RolloutReport, StatesWhichHalfDoesNotFit) {
  model::RolloutResult rollout = example_rollout();
  EXPECT_EQ(model::infeasible_reason(rollout.memory), "");
  rollout.memory.fits = false;
  rollout.memory.host_bytes = 3000e9;
  EXPECT_EQ(model::infeasible_reason(rollout.memory), "does not fit: a host needs 3000.0 GB of 2000.0 GB");
  rollout.memory.generation_bytes = 90e9;
  EXPECT_EQ(model::infeasible_reason(rollout.memory), "does not fit: a GPU that generates needs 90.0 GB of 85.0 GB");
  rollout.memory.training_bytes = 91e9;
  EXPECT_EQ(model::infeasible_reason(rollout.memory), "does not fit: a GPU that trains needs 91.0 GB of 85.0 GB");
}

// The update and its memory are there, too.
TEST(RolloutReport, StatesWhyEnginesCannotBe) {
  model::StepResult result = support::example_result();
  result.rollout_error = model::Error{model::ErrorKind::infeasible, "weights do not fit", "", 0, "rollout.tensor", ""};
  const std::string text = summary(result, support::example_plan());
  EXPECT_NE(text.find("No step of reinforcement learning: rollout.tensor: weights do not fit"), std::string::npos);
  EXPECT_NE(text.find("An update of the policy"), std::string::npos) << text;
  EXPECT_EQ(model::infeasible_reason(result), "rollout.tensor: weights do not fit");
  const auto json = nlohmann::json::parse(to_json(result, support::example_plan()));
  EXPECT_TRUE(json["rollout"].is_null());
  EXPECT_EQ(json["rollout_reason"], "rollout.tensor: weights do not fit");
}

// 110 seconds in the middle of a step of 100: rates are lower and costs higher by a tenth.
TEST(RolloutReport, HasTheMiddleInJsonAndIsReadBack) {
  model::StepResult result = support::example_result();
  result.rollout = example_rollout();
  EXPECT_TRUE(nlohmann::json::parse(to_json(result, support::example_plan()))["rollout"]["middle"].is_null());
  result.rollout->interval_s = model::Quantiles{90, 110, 140};
  const std::string text = to_json(result, support::example_plan());
  const auto rollout = nlohmann::json::parse(text)["rollout"];
  EXPECT_EQ(rollout["step_s"], 100);
  EXPECT_EQ(rollout["middle"]["time_s"], 110);
  EXPECT_DOUBLE_EQ(rollout["middle"]["tokens_per_s"], 50000 / 1.1);
  EXPECT_DOUBLE_EQ(rollout["middle"]["gpu_hours"], 889 * 1.1);
  EXPECT_DOUBLE_EQ(rollout["middle"]["cost_usd"], 2750);
  EXPECT_DOUBLE_EQ(rollout["middle"]["step_usd"], 2.75);
  const auto stored = read_result(text, "result.json");
  ASSERT_TRUE(stored) << to_string(stored.error());
  model::StepResult again = stored->result;
  ASSERT_TRUE(again.rollout);
  again.memory = result.memory;
  EXPECT_EQ(nlohmann::json::parse(to_json(again, support::example_plan()))["rollout"], rollout);
}

TEST(RolloutReport, IsAnObjectOfTheJson) {
  model::StepResult result = support::example_result();
  result.rollout = example_rollout();
  const auto json = nlohmann::json::parse(to_json(result, support::example_plan()))["rollout"];
  EXPECT_EQ(json["step_s"], 100);
  EXPECT_EQ(json["parts"][1]["name"], "generation");
  EXPECT_EQ(json["parts"][1]["pool"], "engines");
  EXPECT_EQ(json["parts"][1]["seconds"], 60);
  EXPECT_EQ(json["engines_idle_share"], 0.4);
  EXPECT_EQ(json["memory"]["fits"], true);
  EXPECT_EQ(json["run"]["cost_usd"], 2500);
  result.rollout->run.reset();
  result.rollout->memory.host_capacity_bytes = 0;
  const auto open = nlohmann::json::parse(to_json(result, support::example_plan()))["rollout"];
  EXPECT_TRUE(open["run"].is_null());
  EXPECT_TRUE(open["memory"]["host_capacity_bytes"].is_null());
}

sim::RolloutAnswer example_splits() {
  sim::RolloutAnswer answer;
  answer.name = "policy";
  answer.options.resize(1);
  answer.options.front().cluster = "h100-dgx";
  sim::RankedPlan best;
  best.plan = support::example_plan();
  best.result = support::example_result();
  best.result.rollout = example_rollout();
  best.cost.step_s = 100;
  best.cost.usd = 2500;
  answer.splits = {{0, "split", 16, 16, best, ""}, {0, "colocated", 32, 32, {}, "does not fit"}};
  return answer;
}

TEST(RolloutPlans, ListSplitsAndWhyOthersHaveNoPlan) {
  const std::string text = rollout_plans_text(example_splits(), 5, false);
  tests::expect_parts(text, {"policy: how to divide the GPUs", "16+16  100.0 s", "4 engines of 4 GPUs, 200 answers at",
                             "None: colocated, 32 GPUs: does not fit."});
}

// 150 s are half as long again as 100.
TEST(RolloutPlans, BeginWithTheSplitToTakeAndTheNext) {
  sim::RolloutAnswer answer = example_splits();
  answer.splits[0].best->result.rollout->interval_s = model::Quantiles{90, 100, 120};
  tests::expect_parts(tests::one_line(rollout_plans_text(answer, 5, false)),
                      {"Recommended is h100-dgx, split, 16+16 GPUs: a step of 100.0 s (90.00-120.0 s). Splits"});
  sim::RankedPlan slower = *answer.splits[0].best;
  slower.cost.step_s = 150;
  answer.splits.insert(answer.splits.begin() + 1, {0, "colocated", 32, 32, slower, ""});
  answer.limits.usd = 2000;
  tests::expect_parts(tests::one_line(rollout_plans_text(answer, 5, false)),
                      {"Nothing meets the limits; the first is h100-dgx, split, 16+16 GPUs: ",
                       "Next is h100-dgx, colocated, 32 GPUs: 50.0 % longer."});
}

TEST(RolloutPlans, AreSitesWithPlansInJsonAndRowsInCsv) {
  sim::RolloutAnswer answer = example_splits();
  answer.limits.usd = 3000;
  const auto json = nlohmann::json::parse(rollout_plans_json(answer));
  EXPECT_EQ(json["limits_met"], true);
  const auto& site = json["sites"][0];
  EXPECT_EQ(site["rank"], 1);
  EXPECT_EQ(site["plans"][0]["rollout"]["step_s"], 100);
  EXPECT_EQ(site["plans"][0]["engine_gpus"], 16);
  EXPECT_EQ(site["plans"][0]["plan"], json["plan"]);
  EXPECT_EQ(site["refused"][0]["reason"], "does not fit");
  const std::string csv = rollout_plans_csv(answer);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 3);
  EXPECT_NE(csv.find("h100-dgx,does not fit,colocated,32,32"), std::string::npos) << csv;
}

// Half of the generation, and training that takes 10 seconds more.
model::RolloutResult with_fast_engines() {
  model::RolloutResult rollout = example_rollout();
  rollout.parts[1].seconds = 30;
  rollout.parts[3].seconds = 40;
  rollout.step_s = 80;
  rollout.tokens_per_s = 62500;
  return rollout;
}

TEST(RolloutSweep, HasBothHalvesOfEachPoint) {
  sim::SweepPoint slow, fast;
  slow.result.rollout = example_rollout();
  fast.result.rollout = with_fast_engines();
  sim::SweepPoint large = fast;
  large.result.rollout->memory.fits = false;
  large.infeasible_reason = "does not fit: a host";
  sim::SweepResult result = sim::sweep_result(sim::SweepGrid::make({*sim::parse_axis("rollout.tensor=1,2,4")}).value(),
                                              sim::Fidelity::step, {}, {slow, fast, large});
  result.plan = support::example_plan();
  EXPECT_EQ(result.best, 1U);
  EXPECT_TRUE(result.same_tokens);
  const std::string text = sweep_text(result, false);
  tests::expect_parts(
      text, {"generation  training", "80.00 s", "30.00 s", "Best: tensor 2, a step of 80.00 s.", "does not fit"});
  const auto json = nlohmann::json::parse(sweep_json(result));
  EXPECT_EQ(json["optimum"]["time_s"], 80);
  EXPECT_EQ(json["points"][0]["rollout"]["step_s"], 100);
  const std::string csv = sweep_csv(result);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 4);
  EXPECT_NE(csv.find("rollout.tensor,feasible,best,algorithm,placement,step_s"), std::string::npos) << csv;
}

// Twenty seconds less: generation 30 less, training 10 more.
TEST(RolloutComparison, StatesWhichHalfMakesTheDifference) {
  const auto subject = [](const char* name, model::RolloutResult rollout) {
    model::StepResult result = support::example_result();
    result.rollout = std::move(rollout);
    return model::ComparisonSubject{name, "plan", support::example_plan(), std::move(result), ""};
  };
  const model::ResultComparison comparison =
      model::compare_results({subject("one", example_rollout()), subject("two", with_fast_engines())},
                             model::Against::first, model::WaterfallDetail::categories);
  EXPECT_TRUE(comparison.rollouts());
  EXPECT_TRUE(comparison.same_tokens);
  EXPECT_DOUBLE_EQ(comparison.differences.front().waterfall.change_s(), -20);
  const std::string text = result_comparison_text(comparison, false);
  tests::expect_parts(text, {"From A to B generation changes most: generation by -30.00 s, training by",
                             "parts of a step", "generation -30.00 s (training of the policy +10.00 s)", "-20.0 %"});
  const auto json = nlohmann::json::parse(result_comparison_json(comparison));
  EXPECT_EQ(json["subjects"][1]["rollout"]["step_s"], 80);
}

// Of asynchronous halves the shorter one costs nothing.
TEST(RolloutComparison, HalvesThatRunAtOnceAddUpToTheStep) {
  model::RolloutResult at_once = example_rollout();
  at_once.placement = "asynchronous";
  at_once.step_s = 62;
  const model::Waterfall waterfall = model::waterfall(example_rollout(), at_once);
  ASSERT_FALSE(waterfall.rows.empty());
  EXPECT_EQ(waterfall.rows.back().name, "halves at once");
  EXPECT_DOUBLE_EQ(waterfall.rows.back().change_s(), -38);
  EXPECT_DOUBLE_EQ(waterfall.change_s(), -38);
}

}  // namespace
}  // namespace plumbline::reports
