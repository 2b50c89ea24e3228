// The table of published training steps: values read, values missing, and rows refused.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "calibrate/validate/step_case.h"
#include "tests/support/inputs.h"
#include "tests/support/published_rows.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

class PublishedSteps : public testing::Test {
 protected:
  const tests::TemporaryDirectory folder_;
  std::string path_ = (folder_.path() / "steps.csv").string();

  model::Result<std::vector<PublishedStep>> read(const std::map<std::string, std::string>& changes) const {
    folder_.write("steps.csv", tests::step_row_csv(changes));
    return read_published_steps(path_);
  }
};

TEST_F(PublishedSteps, ReadsWhatIsStated) {
  const auto steps = read({{"memory_gib", "2"}, {"assumed", "micro_batch+sequence"}, {"sequence_parallel", "yes"}});
  ASSERT_TRUE(steps) << to_string(steps.error());
  const PublishedStep& step = steps->at(0);
  EXPECT_EQ(step.id, "row1");
  EXPECT_EQ(step.numbers.at("gpus"), 32);
  EXPECT_EQ(step.numbers.at("zero_stage"), 0);
  EXPECT_DOUBLE_EQ(step.seconds.value(), 1.5);
  EXPECT_DOUBLE_EQ(step.memory_bytes.value(), 2147483648.0);  // 2 GiB
  EXPECT_EQ(step.assumed, (std::vector<std::string>{"micro_batch", "sequence"}));
  EXPECT_TRUE(step.sequence_parallel);
  EXPECT_TRUE(step.lacking().empty());
  EXPECT_EQ(step.layout(), "TP+SP8 PP2x3 DP2");
}

TEST_F(PublishedSteps, NameWhatTheyLack) {
  const auto steps = read({{"micro_batch", ""}, {"zero_stage", ""}, {"schedule", ""}, {"step_s", ""}});
  ASSERT_TRUE(steps) << to_string(steps.error());
  EXPECT_EQ(steps->at(0).lacking(), (std::vector<std::string>{"micro_batch", "zero_stage", "schedule", "step_s"}));
}

// What is computed again decides what a plan holds.
TEST_F(PublishedSteps, ShowWhetherTheyFitUnlessRecomputationIsAssumed) {
  EXPECT_EQ(read({})->at(0).ran(), true);
  EXPECT_EQ(read({{"step_s", ""}, {"status", "out-of-memory"}})->at(0).ran(), false);
  EXPECT_EQ(read({{"step_s", ""}})->at(0).ran(), std::nullopt);
  EXPECT_EQ(read({{"assumed", "micro_batch+recompute"}})->at(0).ran(), std::nullopt);
}

TEST_F(PublishedSteps, LeaveDegreesOfOneOutOfTheLayout) {
  const auto steps = read(
      {{"gpus", "1"}, {"tensor", "1"}, {"pipeline", "1"}, {"virtual_stages", "1"}, {"data", "1"}, {"zero_stage", "3"}});
  ASSERT_TRUE(steps) << to_string(steps.error());
  EXPECT_EQ(steps->at(0).layout(), "ZeRO-3");
}

TEST_F(PublishedSteps, RefuseWhatIsWrong) {
  const auto expect = [&](const std::map<std::string, std::string>& changes, const char* column, const char* message) {
    const auto steps = read(changes);
    ASSERT_FALSE(steps) << column;
    tests::expect_error(steps.error(), model::ErrorKind::input, path_, 2, column, message);
  };
  expect({{"tensor", "eight"}}, "tensor", "'eight' is no number above 0");
  expect({{"layers", "1.5"}}, "layers", "no whole number");
  expect({{"zero_stage", "4"}}, "zero_stage", "'4' is no stage from 0 to 3");
  expect({{"step_s", "-1"}}, "step_s", "'-1' is no number above 0");
  expect({{"memory_gib", "much"}}, "memory_gib", "'much' is no number above 0");
  // 8 * 1 * 2 * 2 = 32.
  expect({{"gpus", "64"}}, "gpus", "tensor * context * pipeline * data is 32, not 64");
}

TEST_F(PublishedSteps, AreNamedOnce) {
  const std::string one = tests::step_row_csv({});
  folder_.write("steps.csv", one + one.substr(one.find('\n') + 1));
  const auto steps = read_published_steps(path_);
  ASSERT_FALSE(steps);
  tests::expect_error(steps.error(), model::ErrorKind::input, path_, 3, "id", "'row1' names two rows");
}

// Every row has its source and how it was read.
// The name of a test of Megatron-LM has the options under which it ran.
TEST(ShippedSteps, OfMegatronsTestsAreReadWithTheirOptions) {
  const auto steps = read_published_steps(tests::shipped("calibrate/published/steps/megatron_ci.csv"));
  ASSERT_TRUE(steps) << to_string(steps.error());
  for (const PublishedStep& step : *steps) {
    const bool again = step.variant.find("full_recompute") != std::string::npos;
    EXPECT_EQ(step.recompute, again ? "full" : "none") << step.id;
    EXPECT_EQ(step.variant.find("qk_layernorm"), std::string::npos)
        << step.id << ": no model of the table has such norms";
    EXPECT_EQ(step.variant.find("8experts2parallel"), std::string::npos)
        << step.id << ": routes by Sinkhorn's iteration, which waits for the GPU each time";
  }
}

TEST(ShippedSteps, AreReadWithTheirSources) {
  const auto steps = read_published_steps(tests::shipped("calibrate/published/training_steps.csv"));
  ASSERT_TRUE(steps) << to_string(steps.error());
  EXPECT_EQ(steps->size(), 88u);
  for (const PublishedStep& step : *steps) {
    EXPECT_FALSE(step.source.empty()) << step.id;
    EXPECT_FALSE(step.status.empty()) << step.id;
    EXPECT_EQ(step.seconds.has_value(), !step.time.empty()) << step.id << ": a time and where it is from";
  }
}

}  // namespace
}  // namespace plumbline::calibrate
