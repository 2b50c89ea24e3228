#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/result/comparison.h"
#include "reports/json/json.h"
#include "reports/json/read_json.h"
#include "reports/text/compare/comparison.h"
#include "reports/text/table.h"
#include "tests/support/example_result.h"

namespace plumbline::reports {
namespace {

using testing::HasSubstr;

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
