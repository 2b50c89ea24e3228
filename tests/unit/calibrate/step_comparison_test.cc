// Cases over published training steps: their files, the plans of rows, and summaries of errors.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "calibrate/validate/step_case.h"
#include "tests/support/inputs.h"
#include "tests/support/published_rows.h"
#include "tests/support/step_inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

const std::string case_text = R"(name = "ours"
steps = "steps"
[naive]
mfu = 0.4
source = "assumed"
[[hardware]]
name = "H800"
topology = "h800-rail-fat-tree"
profile = "h800-public"
[[reading]]
set = "ours"
plan = ["overlap.gradient_reduce=false", "schedule.virtual_stages=1"]
source = "a reading"
[[reading]]
set = "ours"
variant = "second"
cluster = "h800-multi-rail"
profile = "h800"
stack = "megatron-2022"
missing = ["something"]
source = "a reading of some rows"
[[demand]]
name = "all of them"
mean_absolute_error = 0.2
bias = 0.1
aim_mean_absolute_error = 0.12
)";

class StepCases : public testing::Test {
 protected:
  const tests::TemporaryDirectory folder_;

  StepCase load(const std::string& text = case_text) const {
    return load_step_case(folder_.write("case.toml", text).string()).value();
  }
  PublishedStep row(const std::map<std::string, std::string>& changes) const {
    return read_published_steps(folder_.write("steps.csv", tests::step_row_csv(changes)).string()).value().at(0);
  }
  void expect_refused(const std::string& was, const std::string& is, int line, const char* key, const char* message) {
    std::string text = case_text;
    text.replace(text.find(was), was.size(), is);
    const std::string path = folder_.write("wrong.toml", text).string();
    const auto loaded = load_step_case(path);
    ASSERT_FALSE(loaded) << key;
    tests::expect_error(loaded.error(), model::ErrorKind::input, path, line, key, message);
  }
};

TEST_F(StepCases, AreDistinguishedFromCasesAboutFigures) {
  EXPECT_TRUE(is_step_case(folder_.write("case.toml", case_text).string()));
  EXPECT_FALSE(is_step_case(tests::shipped("calibrate/cases/deepseek-v3-2048xh800.toml")));
  EXPECT_FALSE(is_step_case("no-such-file.toml"));
}

TEST_F(StepCases, RefuseWhatIsWrong) {
  expect_refused("steps = \"steps\"", "step = \"steps\"", 0, "steps", "required key is missing");
  expect_refused("mfu = 0.4", "mfu = 0", 4, "naive.mfu", "a number above 0");
  expect_refused("topology =", "topologie =", 6, "hardware.topology", "required key is missing");
  expect_refused("profile = \"h800\"\n", "profil = \"h800\"\n", 18, "reading.profil", "did you mean 'profile'?");
  expect_refused("[[demand]]", "[interval]\ncoverage = [0.9, 0.7]\n[[demand]]", 23, "interval.coverage",
                 "two shares from 0 to 1, the smaller one first");
  expect_refused("bias = 0.1", "bias = \"0.1\"", 25, "demand.bias", "a number above 0");
}

TEST_F(StepCases, ReadingsBecomePlanKeysAndLaterOnesWin) {
  const auto made = step_plan(row({}), load());
  ASSERT_TRUE(made) << to_string(made.error());
  const model::Plan& plan = made->plan;
  EXPECT_EQ(plan.cluster.gpus, 32);
  EXPECT_EQ(plan.cluster.topology, "h800-rail-fat-tree");
  EXPECT_EQ(plan.parallelism.tensor, 8);
  EXPECT_EQ(plan.parallelism.pipeline, 2);
  EXPECT_EQ(plan.schedule.kind, "interleaved");
  EXPECT_EQ(plan.schedule.virtual_stages, 1);  // the reading, not the row
  EXPECT_FALSE(plan.overlap.gradient_reduce);
  EXPECT_EQ(plan.batch.global_batch_size, 8);
  EXPECT_EQ(plan.recompute.policy, "none");
  EXPECT_EQ(made->profile, "h800-public");
  EXPECT_TRUE(made->missing.empty());
  const auto second = step_plan(row({{"variant", "the second"}, {"recompute", "rmsnorm+swiglu"}}), load()).value();
  EXPECT_EQ(second.profile, "h800");
  EXPECT_EQ(second.plan.cluster.topology, "h800-multi-rail");
  EXPECT_EQ(second.plan.stack.name, "megatron-2022");
  EXPECT_FALSE(plan.stack.name);
  EXPECT_EQ(second.missing, std::vector<std::string>{"something"});
  EXPECT_EQ(second.plan.recompute.policy, "selective");
  EXPECT_EQ(second.plan.recompute.operators, (std::vector<std::string>{"rmsnorm", "swiglu"}));
}

TEST_F(StepCases, NameTheRowThatHasNoPlan) {
  const auto hardware = step_plan(row({{"hardware", "abacus"}}), load());
  ASSERT_FALSE(hardware);
  tests::expect_error(hardware.error(), model::ErrorKind::input, "", 0, "row1", "has no hardware 'abacus'");
  const auto type = step_plan(row({{"model_type", "perceptron"}}), load());
  ASSERT_FALSE(type);
  tests::expect_error(type.error(), model::ErrorKind::input, "", 0, "row1",
                      "known: deepseek_v2, deepseek_v3, gpt2, llama, mixtral, mpt, qwen2_moe, qwen3_moe");
}

// Errors of +10 %, -30 % and +50 %: the median of 10, 30, 50 is 30 %, the largest +50 %, the mean 30 %, the bias 30 / 3
// = 10 %.
TEST(ErrorStatistics, OfThreeRows) {
  const ErrorStatistics errors = errors_of({0.1, -0.3, 0.5});
  EXPECT_EQ(errors.rows, 3u);
  EXPECT_DOUBLE_EQ(errors.median_absolute, 0.3);
  EXPECT_DOUBLE_EQ(errors.largest, 0.5);
  EXPECT_DOUBLE_EQ(errors.mean_absolute, 0.3);
  EXPECT_NEAR(errors.bias, 0.1, 1e-15);
  EXPECT_EQ(errors_of({}).rows, 0u);
}

TEST(ErrorStatistics, DemandsNeedBothLimitsAndABetterBaseline) {
  const auto holds = [](double mean, double bias, double baseline) {
    ComparedDemand row{{"", {}, 0.2, 0.1, 0.12, {}}, {}};
    row.summary.prediction = {5, 0, 0, mean, bias};
    row.summary.baseline = {5, 0, 0, baseline, 0};
    return std::pair(row.holds(), row.reaches_aim());
  };
  EXPECT_EQ(holds(0.10, -0.05, 0.15), std::pair(true, true));
  EXPECT_EQ(holds(0.15, 0.05, 0.30), std::pair(true, false));  // within, short of aim
  EXPECT_FALSE(holds(0.25, 0.05, 0.30).first);                 // too far off
  EXPECT_FALSE(holds(0.15, -0.12, 0.30).first);                // to one side
  EXPECT_FALSE(holds(0.10, 0.05, 0.10).first);                 // no better than the baseline
}

// The rows have no tensor parallelism, so that every version simulates them alike.
TEST_F(StepCases, RowsAreComparedOneByOne) {
  const auto simple = [&](const std::string& id, std::map<std::string, std::string> changes) {
    changes.insert({{"id", id},
                    {"tensor", "1"},
                    {"pipeline", "1"},
                    {"virtual_stages", "1"},
                    {"data", "32"},
                    {"schedule", "1f1b"},
                    {"global_batch", "64"}});
    return row(changes);
  };
  const std::vector<PublishedStep> rows = {simple("runs", {{"memory_gib", "8"}}), simple("lacks", {{"gemm", ""}}),
                                           simple("unknown", {{"hardware", "abacus"}})};
  std::set<std::string> held_out;
  const InputsOf inputs = [&](const model::Plan& plan, const std::string& profile, const std::string& set) {
    auto of_plan = tests::inputs_of_plan(plan, profile, set);
    if (of_plan) of_plan->left = sim::Left{0.1, 0.3, 0.4, ""};
    held_out.insert(set);
    return of_plan;
  };
  const StepComparison compared = compare_steps(load(), rows, inputs, true);
  EXPECT_EQ(held_out, (std::set<std::string>{"", "ours"}));
  ASSERT_EQ(compared.steps.size(), 3u);
  const ComparedStep& runs = compared.steps[0];
  ASSERT_TRUE(runs.predicted) << to_string(runs.error.value_or(model::Error{}));
  EXPECT_DOUBLE_EQ(runs.prediction_error().value(), *runs.predicted / 1.5 - 1);
  EXPECT_GT(runs.baseline.value(), 0);
  // The predicted 1.5 s lie in a wide interval, and memory suffices.
  ASSERT_TRUE(runs.ranges.step && runs.ranges.memory);
  EXPECT_GE(runs.ranges.step->quantiles.p90 / runs.ranges.step->quantiles.p10, std::exp(2 * 1.28 * 0.5));
  EXPECT_GT(runs.ranges.step->quantiles.p50, *runs.predicted);
  EXPECT_DOUBLE_EQ(runs.ranges.fits_probability.value(), 1);
  EXPECT_EQ(runs.ranges.ran, true);
  EXPECT_FALSE(compared.steps[1].ranges.step);
  EXPECT_EQ(compared.steps[1].lacking, std::vector<std::string>{"gemm"});
  EXPECT_FALSE(compared.steps[1].predicted);
  EXPECT_TRUE(compared.steps[2].error);
  // One summary is that of the set, one that of all rows; only one of the three rows counts.
  ASSERT_EQ(compared.summaries.size(), 2u);
  EXPECT_EQ(compared.summaries[0].name, "ours");
  EXPECT_EQ(compared.summaries[1].prediction.rows, 1u);
  EXPECT_DOUBLE_EQ(compared.demands.at(0).summary.prediction.bias, runs.prediction_error().value());
}

// The logarithms of measured over baseline are 0 in set a, 0.2 in b, 0.2 and 0.4 in c. Without a their mean is (0.2 +
// 0.3) / 2 = 0.25 and that of their squares (0.04 + (0.04 + 0.16) / 2) / 2 = 0.07, so that the deviation is
// sqrt(0.07 - 0.25^2) = 0.0866.
TEST(IntervalScores, BaselinesLeaveTheirSetOut) {
  const auto compared = [](const std::string& set, double logarithm) {
    ComparedStep step;
    step.step.set = set;
    step.step.seconds = 2 * std::exp(logarithm);
    step.predicted = step.baseline = 2;
    step.ranges.step = lognormal_range(2, 0.25, *step.step.seconds);
    step.ranges.fits_probability = 1;
    return step;
  };
  StepComparison first, second;
  first.definition.interval = IntervalDemand{{0.7, 0.9}, {}, {}, {}, {}, {}};
  first.steps = {compared("a", 0), compared("b", 0.2)};
  second.steps = {compared("c", 0.2), compared("c", 0.4)};
  const IntervalScores scores = interval_scores({first, second});
  ASSERT_EQ(scores.scores.size(), 4u);
  EXPECT_EQ(scores.scores[2].first, "c");
  EXPECT_EQ(scores.scores[2].second.step.rows, 2u);
  EXPECT_EQ(scores.scores[3].second.baseline.rows, 4u);
  const RangeScores& a = scores.scores[0].second;
  EXPECT_NEAR(a.baseline.half_width, std::sinh(1.2815515655446004 * std::sqrt(0.07 - 0.0625)), 1e-9);
  EXPECT_NEAR(a.baseline.middle.bias, std::exp(0.25) - 1, 1e-12);
  // 1.28 * 0.25 = 0.32: three of four rows are covered, and all but one set entirely.
  EXPECT_DOUBLE_EQ(scores.scores[3].second.step.coverage, 0.75);
  EXPECT_TRUE(scores.holds());
  EXPECT_FALSE(interval_scores({first}).holds());  // all covered, too many
  EXPECT_TRUE(interval_scores({second}).holds());  // half of them, but nothing is demanded
  EXPECT_TRUE(interval_scores({}).holds());
}

}  // namespace
}  // namespace plumbline::calibrate
