// What is left between predictions and measured steps, on cells whose effects are known.
#include "calibrate/residuals/left_estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/step_inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

LeftCell cell(const std::string& set, const std::string& stack, std::size_t rows, double mean, double deviation) {
  return {set, {stack, "bf16", "dense"}, "H100 80GB", {rows, mean, deviation * deviation}, {}};
}

// Two stacks of three sets each, 0.2 apart.
std::vector<LeftCell> two_stacks() {
  return {cell("a", "slow", 40, 0.19, 0.05),  cell("b", "slow", 40, 0.20, 0.05), cell("c", "slow", 40, 0.21, 0.05),
          cell("d", "fast", 40, -0.01, 0.05), cell("e", "fast", 40, 0.00, 0.05), cell("f", "fast", 40, 0.01, 0.05)};
}

sim::Left left(const std::vector<LeftCell>& cells, const std::string& stack, const std::set<std::string>& without = {},
               LeftOf quantity = LeftOf::time) {
  return left_of(cells, {stack, "bf16", "dense"}, without, quantity).value();
}

TEST(LeftEstimate, LiesNearAKnownStackAndBetweenAllForAnUnknownOne) {
  const auto cells = two_stacks();
  EXPECT_NEAR(left(cells, "slow").location, 0.2, 0.02);
  EXPECT_NEAR(left(cells, "fast").location, 0.0, 0.02);
  EXPECT_NEAR(left(cells, "new").location, 0.1, 0.03);
  EXPECT_GT(left(cells, "new").common, 2 * left(cells, "slow").common);
  EXPECT_EQ(left(cells, "slow").rows, "240 steps of 6 sets, 120 of this stack");
}

TEST(LeftEstimate, ShrinksAStackOfFewRowsMoreThanOneOfMany) {
  auto cells = two_stacks();
  cells.push_back(cell("g", "other", 2, 0.3, 0.05));
  const double few = left(cells, "other").location;
  cells.back().time.rows = 200;
  const double many = left(cells, "other").location;
  EXPECT_GT(few, left(two_stacks(), "other").location);
  EXPECT_GT(many, few);
  EXPECT_LT(many, 0.3);
}

TEST(LeftEstimate, HasNothingOfTheSetsThatAreLeftOut) {
  auto cells = two_stacks();
  const sim::Left before = left(cells, "slow", {"a"});
  cells[0] = cell("a", "slow", 400, 2.0, 1.0);
  EXPECT_EQ(left(cells, "slow", {"a"}), before);
  cells.erase(cells.begin());
  EXPECT_EQ(left(cells, "slow"), before);
  EXPECT_FALSE(left_of(cells, {"slow", "bf16", "dense"}, {"b", "c", "d", "e", "f"}));
}

TEST(LeftEstimate, IsWideWhereFewSetsAreKnown) {
  const std::vector<LeftCell> one = {cell("a", "s0", 40, 0.05, 0.05)};
  std::vector<LeftCell> ten;
  for (int i = 0; i < 10; ++i)
    ten.push_back(cell("a" + std::to_string(i), "s" + std::to_string(i), 40, 0.05 + 0.01 * (i % 3 - 1), 0.05));
  EXPECT_GT(left(one, "new").common, 2 * left(ten, "new").common);
  EXPECT_GT(left(one, "new").own, left(ten, "new").own);
  EXPECT_NEAR(left(ten, "new").own, 0.05, 0.01);
}

// Nine narrow sets of few rows, one wide set of many.
TEST(LeftEstimate, LetsNoLargeSetDecideTheSpread) {
  std::vector<LeftCell> cells;
  for (int i = 0; i < 9; ++i) cells.push_back(cell("a" + std::to_string(i), "s", 10, 0, 0.05));
  const double narrow = left(cells, "s").own;
  cells.push_back(cell("wide", "s", 1000, 0, 0.5));
  EXPECT_LT(left(cells, "s").own, 2.2 * narrow);
}

// What draws explain is subtracted from the variance, and their mean from the location; a tenth of the variance stays.
TEST(LeftEstimate, IsWhatDrawsDoNotExplain) {
  auto cells = two_stacks();
  const sim::Left all = left(cells, "slow");
  const double variance = all.common * all.common + all.own * all.own;
  for (LeftCell& each : cells) each.drawn_mean = 0.03;
  EXPECT_NEAR(left(cells, "slow").location, all.location - 0.03, 0.005);
  for (LeftCell& each : cells) each.drawn_mean = 0, each.drawn_variance = 0.5 * variance;
  const sim::Left rest = left(cells, "slow");
  EXPECT_NEAR(rest.common * rest.common + rest.own * rest.own, 0.5 * variance, 1e-12);
  EXPECT_DOUBLE_EQ(rest.location, all.location);
  for (LeftCell& each : cells) each.drawn_variance = 2 * variance;
  const sim::Left least = left(cells, "slow");
  EXPECT_NEAR(least.common * least.common + least.own * least.own, 0.1 * variance, 1e-12);
}

TEST(LeftEstimate, OfMemoryCountsTheRowsThatStateIt) {
  auto cells = two_stacks();
  EXPECT_FALSE(left_of(cells, cells[0].kind, {}, LeftOf::memory));
  cells[0].memory = {5, 0.1, 0.0004};
  cells[3].memory = {5, 0.1, 0.0004};
  const sim::Left memory = left(cells, "slow", {}, LeftOf::memory);
  EXPECT_NEAR(memory.location, 0.1, 0.02);
  EXPECT_EQ(memory.rows, "10 steps of 2 sets, 5 of this stack");
}

// Sets of the model's own form: stacks 0.08, sets 0.04 and rows 0.08 apart. Eight of ten new rows lie in the band.
TEST(LeftEstimate, BandsHoldForSetsThatAreLeftOut) {
  std::mt19937_64 random(7);
  const auto normal = [&](double deviation) { return std::normal_distribution<double>(0, deviation)(random); };
  double inside = 0, rows = 0;
  for (int trial = 0; trial < 25; ++trial) {
    std::vector<LeftRow> all;
    for (int stack = 0; stack < 5; ++stack) {
      const double of_stack = 0.05 + normal(0.08);
      for (int set = 0; set < 2; ++set) {
        const double of_set = of_stack + normal(0.04);
        const std::string name = std::to_string(stack) + "." + std::to_string(set);
        for (int row = 0; row < 12; ++row)
          all.push_back({name, {std::to_string(stack), "bf16", "dense"}, "H100 80GB", of_set + normal(0.08), {}});
      }
    }
    const auto cells = left_cells(all);
    for (const std::string set : {"0.0", "3.1"}) {
      const sim::Left found = left(cells, set.substr(0, 1), {set});
      const double half = 1.2816 * std::hypot(found.common, found.own);
      for (const LeftRow& row : all) {
        if (row.set != set) continue;
        ++rows;
        inside += std::abs(row.time - found.location) <= half;
      }
    }
  }
  EXPECT_NEAR(inside / rows, 0.8, 0.06);
}

// FP16 has the constants of BF16, so that errors of a format's constants are the same.
TEST(LeftCells, AreOfStepsByStackPrecisionAndModel) {
  sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", {"precision.gemm=fp16"});
  EXPECT_EQ(step_kind(inputs), (StepKind{"deepseek-v3", "16 bit", "dense"}));
  inputs.plan.precision.gemm = model::Precision::bf16;
  EXPECT_EQ(step_kind(inputs).precision, "16 bit");
  inputs.plan.precision.gemm = model::Precision::fp8_tensor;
  EXPECT_EQ(step_kind(inputs).precision, "fp8_tensor");
  EXPECT_EQ(step_kind(tests::step_inputs(tests::deepseek_plan, "h800")).model, "moe");
}

TEST(LeftCells, AreReadAsTheyAreWritten) {
  const StepKind kind{"megatron-2022", "fp16", "dense"};
  const auto cells = left_cells({{"b", kind, "A100", 0.25, 0.5, 0.125, 0.25},
                                 {"b", kind, "A100", 0.75, {}, 0.125, 0.25},
                                 {"a", kind, "A100", -0.5, {}, 0, 0}});
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_EQ(cells[1].set, "b");
  EXPECT_EQ(cells[1].time, (Residuals{2, 0.5, 0.0625}));
  EXPECT_EQ(cells[1].memory, (Residuals{1, 0.5, 0}));
  EXPECT_EQ(cells[1].drawn_mean, 0.125);
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("residuals.csv", left_cells_csv(cells)).string();
  EXPECT_EQ(load_left_cells(path).value(), cells);
  std::string wrong = left_cells_csv(cells);
  wrong.replace(wrong.find("0.5000"), 6, "half");
  const auto refused = load_left_cells(folder.write("wrong.csv", wrong).string());
  ASSERT_FALSE(refused);
  EXPECT_NE(to_string(refused.error()).find("is not a number"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::calibrate
