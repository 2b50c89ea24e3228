#include <gtest/gtest.h>

#include <string>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using tests::expect_error;

class CostFile : public testing::Test {
 protected:
  Result<CostTable> read(const std::string& name, const std::string& text) {
    path_ = folder_.write(name, text).string();
    return read_costs(path_);
  }
  void expect_refused(const std::string& name, const std::string& text, int line, const std::string& key,
                      const std::string& what) {
    const auto costs = read(name, text);
    ASSERT_FALSE(costs) << text;
    expect_error(costs.error(), ErrorKind::input, path_, line, key, what);
  }

  const tests::TemporaryDirectory folder_;
  std::string path_;
};

// Missing costs are B = I + W = 5 and FB = F + B = 6 in the first stage.
TEST_F(CostFile, TomlListsStagesInOrder) {
  const auto costs = read("a.toml",
                          "p2p = 0.25\nmicro_batch_factors = [1, 1.5]\n"
                          "[[stage]]\nF = 1\nI = 2.0\nW = 3\n"
                          "[[stage]]\nF = 4\nI = 5\nW = 6\nB = 10\nFB = 12\n");
  ASSERT_TRUE(costs) << to_string(costs.error());
  EXPECT_EQ(costs->file, path_);
  EXPECT_EQ(costs->uniform.p2p, 0.25);
  EXPECT_EQ(costs->micro_batch_factors, (std::vector<double>{1, 1.5}));
  ASSERT_EQ(costs->stages.size(), 2U);
  EXPECT_EQ(costs->stages[0].F, 1);
  EXPECT_EQ(costs->stages[0].I, 2);
  EXPECT_EQ(costs->stages[0].W, 3);
  EXPECT_EQ(costs->stages[0].B, 5);
  EXPECT_EQ(costs->stages[0].FB, 6);
  EXPECT_EQ(costs->stages[1].B, 10);
  EXPECT_EQ(costs->stages[1].FB, 12);
}

// Columns may have any order; blank lines, spaces and a missing last line break are accepted.
TEST_F(CostFile, CsvListsStagesInOrder) {
  const auto costs = read("a.csv", "W, F,I\r\n3,1,2\r\n\n6, 4, 5");
  ASSERT_TRUE(costs) << to_string(costs.error());
  ASSERT_EQ(costs->stages.size(), 2U);
  EXPECT_EQ(costs->stages[0].F, 1);
  EXPECT_EQ(costs->stages[0].B, 5);
  EXPECT_EQ(costs->stages[1].W, 6);
  EXPECT_EQ(costs->stages[1].FB, 15) << "4 + 5 + 6";
  EXPECT_EQ(costs->uniform.p2p, 0);
}

TEST_F(CostFile, TomlErrorsNameLineAndKey) {
  const std::string stage = "[[stage]]\nF = 1\nI = 1\nW = 1\n";
  expect_refused("a.toml", "[[stage]]\nF = 1\nI = 1\n", 1, "stage.W", "a stage without this cost");
  expect_refused("a.toml", stage + "FBB = 2\n", 5, "stage.FBB", "did you mean 'stage.FB'?");
  expect_refused("a.toml", stage + "latency = 2\n", 5, "stage.latency", "known here: F, B, I, W, FB");
  expect_refused("a.toml", stage + "B = -1\n", 5, "stage.B", "not a number from 0 to 1e100");
  expect_refused("a.toml", stage + "B = nan\n", 5, "stage.B", "not a number from 0 to 1e100");
  expect_refused("a.toml", stage + "B = \"2\"\n", 5, "stage.B", "not a number from 0 to 1e100");
  expect_refused("a.toml", "micro_batch_factor = [1]\n" + stage, 1, "micro_batch_factor",
                 "did you mean 'micro_batch_factors'?");
  expect_refused("a.toml", "micro_batch_factors = 2\n" + stage, 1, "micro_batch_factors", "not a list");
  expect_refused("a.toml", "micro_batch_factors = [1,\n-2]\n" + stage, 2, "micro_batch_factors", "not a number from 0");
  expect_refused("a.toml", "p2p = true\n" + stage, 1, "p2p", "not a number from 0 to 1e100");
  expect_refused("a.toml", "[stage]\nF = 1\n", 1, "stage", "not a list");
  expect_refused("a.toml", "stage = [1, 2]\n", 1, "stage", "a stage is a table");
  expect_refused("a.toml", "p2p = 1\n", 0, "stage", "lists no stage");
  expect_refused("a.toml", "[[stage]\n", 1, "", "");
}

TEST_F(CostFile, CsvErrorsNameLineAndColumn) {
  expect_refused("a.csv", "F,I\n1,1\n", 2, "W", "a stage without this cost");
  expect_refused("a.csv", "F,I,W,FBB\n", 1, "FBB", "did you mean 'FB'?");
  expect_refused("a.csv", "F,I,W,latency\n", 1, "latency", "known here: F, B, I, W, FB");
  expect_refused("a.csv", "F,I,W,I\n", 1, "I", "two columns of this name");
  expect_refused("a.csv", "F,I,W\n1,1\n", 2, "", "2 fields below a header of 3");
  expect_refused("a.csv", "F,I,W\n1,1,1\n1,x,1\n", 3, "I", "'x' is not a number from 0 to 1e100");
  expect_refused("a.csv", "F,I,W\n1,1,-1\n", 2, "W", "'-1' is not a number from 0 to 1e100");
  expect_refused("a.csv", "F,I,W\n1,,1\n", 2, "I", "'' is not a number from 0 to 1e100");
  expect_refused("a.csv", "F,I,W\n", 0, "", "lists no stage");
  expect_refused("a.csv", "", 0, "", "lists no stage");
}

TEST_F(CostFile, MissingFileIsAnError) {
  const std::string path = (folder_.path() / "missing.toml").string();
  const auto costs = read_costs(path);
  ASSERT_FALSE(costs);
  EXPECT_NE(to_string(costs.error()).find("missing.toml"), std::string::npos);
}

TEST(InlineCosts, DefaultsFollowTheGivenOnes) {
  const auto costs = read_costs("F=2,W=0.5,p2p=0.1");
  ASSERT_TRUE(costs) << to_string(costs.error());
  EXPECT_TRUE(costs->stages.empty());
  EXPECT_EQ(costs->uniform.I, 1);
  EXPECT_EQ(costs->uniform.B, 1.5) << "I + W";
  EXPECT_EQ(costs->uniform.FB, 3.5) << "F + B";
  EXPECT_EQ(costs->uniform.p2p, 0.1);
}

TEST(InlineCosts, ErrorsNameTheEntry) {
  const auto refuse = [](const std::string& text, const std::string& what) {
    const auto costs = read_costs(text);
    ASSERT_FALSE(costs) << text;
    expect_error(costs.error(), ErrorKind::input, "", 0, "--costs", what);
  };
  refuse("F=1,p2=3", "did you mean 'p2p'?");
  refuse("stages.tml", "name a .toml or .csv file");
  refuse("F=1e308", "'F=1e308' is not a number");
  refuse("F=-1", "'F=-1' is not a number from 0 to 1e100");
  refuse("F=1,F=2", "'F' is given twice");
}

// Schedules of many ranks: the cost of ordering them grows with their ops, and no count ends at 16 bits.

// One micro-batch passes all ranks forwards and backwards: P (F + B), with F = 1 and B = 2.
TEST(WideSchedule, RanksAndOpsBeyond16BitsAreDistinct) {
  for (const char* name : {"gpipe", "1f1b"}) {
    const auto kind = find_schedule(name);
    ASSERT_TRUE(kind);
    const ScheduleShape shape{.ranks = 70'000, .micro_batches = 1};
    CostTable costs;
    costs.uniform = {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3, .p2p = 0};
    const auto output = evaluate_schedule(**kind, shape, costs);
    ASSERT_TRUE(output) << to_string(output.error());
    EXPECT_EQ(output->evaluation.makespan, 210'000) << name;
    EXPECT_EQ(output->lower_bound, 210'000) << name;
    EXPECT_EQ(output->evaluation.start.back().front(), 69'999) << name;
  }
}

// Of the chunks that a schedule may have, six million, a pipeline of six ranks has a million micro-batches, and
// one of two chunks a rank half of them.
TEST(WideSchedule, MoreThanCanBeHeldIsRefusedWithTheMost) {
  const auto hint = [](const char* name, const ScheduleShape& shape) {
    const auto allowed = find_schedule(name).value()->check(shape);
    return allowed ? "" : allowed.error().hint;
  };
  EXPECT_EQ(hint("gpipe", {.ranks = 6, .micro_batches = 1'000'000}), "");
  EXPECT_EQ(hint("gpipe", {.ranks = 6, .micro_batches = 1'000'001}), "use at most 1000000 micro-batches");
  EXPECT_EQ(hint("interleaved", {.ranks = 6, .micro_batches = 600'000, .virtual_stages = 2}),
            "use at most 500000 micro-batches");
  EXPECT_EQ(hint("gpipe", {.ranks = 6'000'001, .micro_batches = 1}), "use at most 6000000 ranks");
}

}  // namespace
}  // namespace plumbline::model
