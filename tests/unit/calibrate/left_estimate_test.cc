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
  return {LeftOf::time, set, {stack, "bf16", "dense"}, "H100 80GB", rows, mean, deviation, {}};
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
  cells.back().rows = 200;
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
  for (LeftCell& each : cells) each.drawn.mean = 0.03;
  EXPECT_NEAR(left(cells, "slow").location, all.location - 0.03, 0.005);
  for (LeftCell& each : cells) each.drawn = {0, 0.5 * variance};
  const sim::Left rest = left(cells, "slow");
  EXPECT_NEAR(rest.common * rest.common + rest.own * rest.own, 0.5 * variance, 1e-12);
  EXPECT_DOUBLE_EQ(rest.location, all.location);
  for (LeftCell& each : cells) each.drawn.variance = 2 * variance;
  const sim::Left least = left(cells, "slow");
  EXPECT_NEAR(least.common * least.common + least.own * least.own, 0.1 * variance, 1e-12);
}

TEST(LeftEstimate, DrawsOfMixturesOfExpertsExplainNothingOfDenseModels) {
  auto cells = two_stacks();
  cells.push_back(cell("x", "slow", 10, 0.1, 0.05));
  cells.back().kind.model = "moe";
  const StepKind moe = cells.back().kind;
  const sim::Left dense = left(cells, "slow"), mixture = *left_of(cells, moe);
  cells.back().drawn.variance = 10;
  EXPECT_EQ(left(cells, "slow"), dense);
  EXPECT_LT(left_of(cells, moe)->common, 0.5 * mixture.common);
}

// Three sets of each class; those of mixtures of experts scatter by more.
TEST(LeftEstimate, ScatterGoesWithTheClassOfTheModel) {
  std::vector<LeftCell> cells;
  for (int i = 0; i < 3; ++i) {
    cells.push_back(cell("d" + std::to_string(i), "s", 40, 0, 0.05));
    cells.push_back(cell("m" + std::to_string(i), "s", 40, 0, 0.2));
    cells.back().kind.model = "moe";
  }
  EXPECT_NEAR(left_of(cells, {"s", "bf16", "dense"})->own, 0.055, 0.02);
  EXPECT_NEAR(left_of(cells, {"s", "bf16", "moe"})->own, 0.2, 0.05);
}

// The rows of engines widen the band by how far they are off, and move no middle.
TEST(LeftEstimate, OfDeploymentsHasNoLocation) {
  std::vector<LeftCell> cells = {cell("a", "one", 40, 0.4, 0.05), cell("b", "two", 40, 0.5, 0.05)};
  const double location = left(cells, "one").location;
  EXPECT_GT(location, 0.2);
  for (LeftCell& each : cells) each.of = LeftOf::tpot;
  EXPECT_FALSE(left_of(cells, cells[0].kind));
  const sim::Left tpot = left(cells, "one", {}, LeftOf::tpot);
  EXPECT_EQ(tpot.location, 0);
  EXPECT_GT(tpot.common, location);
  EXPECT_EQ(tpot.rows, "80 deployments of 2 sets, 40 of this engine");
  EXPECT_EQ(sets_of_stack(cells, "two"), std::set<std::string>{"b"});
}

// An engine whose rows are off by factors makes the intervals of others as wide.
TEST(LeftEstimate, OfDeploymentsIsAsWideAsRowsAreOff) {
  std::vector<LeftCell> cells = {cell("a", "one", 40, 1.2, 0.1)};
  cells[0].of = LeftOf::ttft;
  EXPECT_GT(left(cells, "new", {}, LeftOf::ttft).common, 0.6);
}

// Times per token have the rates of sets that state no time: ln of the inverse has the other sign.
TEST(LeftEstimate, OfTimesPerTokenCountsRatesOfSetsWithoutThem) {
  std::vector<LeftCell> cells = {cell("a", "one", 40, 0.2, 0.05), cell("a", "one", 40, -0.4, 0.05),
                                 cell("b", "two", 40, -0.1, 0.05)};
  cells[0].of = LeftOf::tpot;
  cells[1].of = cells[2].of = LeftOf::rate;
  cells[2].drawn.mean = -0.02;
  std::vector<LeftCell> times = {cells[0], cell("b", "two", 40, 0.1, 0.05)};
  times[1].of = LeftOf::tpot;
  times[1].drawn.mean = 0.02;
  EXPECT_EQ(left(cells, "new", {}, LeftOf::tpot), left(times, "new", {}, LeftOf::tpot));
  EXPECT_EQ(left(cells, "new", {}, LeftOf::tpot).rows, "80 deployments of 2 sets, 0 of this engine");
  EXPECT_EQ(left(cells, "new", {"b"}, LeftOf::tpot).rows, "40 deployments of 1 sets, 0 of this engine");
  EXPECT_EQ(left(cells, "new", {}, LeftOf::rate).rows, "80 deployments of 2 sets, 0 of this engine");
}

// Where rows of the one set that is known scatter by a factor, the next set may lie as far from it.
TEST(LeftEstimate, IsAsWideAsTheRowsOfTheKnownSetScatter) {
  EXPECT_GT(left({cell("a", "one", 40, 0.2, 0.5)}, "new").common,
            2 * left({cell("a", "one", 40, 0.2, 0.05)}, "new").common);
}

TEST(LeftEstimate, OfMemoryCountsTheRowsThatStateIt) {
  auto cells = two_stacks();
  EXPECT_FALSE(left_of(cells, cells[0].kind, {}, LeftOf::memory));
  for (const std::size_t of : {0u, 3u}) {
    cells.push_back(cells[of]);
    cells.back().of = LeftOf::memory;
    cells.back().rows = 5;
    cells.back().mean = 0.1;
    cells.back().deviation = 0.02;
  }
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
          all.push_back(
              {LeftOf::time, name, {std::to_string(stack), "bf16", "dense"}, "H100 80GB", of_set + normal(0.08), {}});
      }
    }
    const auto cells = left_cells(all);
    for (const std::string set : {"0.0", "3.1"}) {
      const sim::Left found = left(cells, set.substr(0, 1), {set});
      const double half = 1.2816 * std::hypot(found.common, found.own);
      for (const LeftRow& row : all) {
        if (row.set != set) continue;
        ++rows;
        inside += std::abs(row.value - found.location) <= half;
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
  inputs.plan.inference.weights = model::Precision::nvfp4;
  EXPECT_EQ(serving_kind(inputs).precision, "nvfp4");
}

// 200 rows of each GPU scatter by 0.05; one in twenty of them is off by a factor of three. Two cells of a set have one
// deviation.
TEST(LeftCells, ScatterIsThatOfEightRowsOfTen) {
  std::mt19937_64 random(3);
  const StepKind kind{"s", "bf16", "dense"};
  std::vector<LeftRow> rows;
  for (const std::string hardware : {"A100", "H100"})
    for (int row = 0; row < 200; ++row)
      rows.push_back({LeftOf::time, "a", kind, hardware, std::normal_distribution<double>(0, 0.05)(random), {}});
  const double without = left_cells(rows).front().deviation;
  EXPECT_NEAR(without, 0.05, 0.005);
  for (std::size_t row = 0; row < rows.size(); row += 20) rows[row].value = row % 40 == 0 ? 1.1 : -1.1;
  const auto cells = left_cells(rows);
  EXPECT_LT(cells.front().deviation, 1.25 * without);
  EXPECT_EQ(cells.front().deviation, cells.back().deviation);
}

TEST(LeftCells, AreReadAsTheyAreWritten) {
  const StepKind kind{"megatron-2022", "fp16", "dense"};
  const auto cells = left_cells({{LeftOf::time, "b", kind, "A100", 0.25, {0.125, 0.25}},
                                 {LeftOf::time, "b", kind, "A100", 0.75, {0.125, 0.25}},
                                 {LeftOf::ttft, "b", kind, "A100", 0.5, {}},
                                 {LeftOf::time, "a, \"early\"", kind, "A100", -0.5, {}}});
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[1].set, "b");
  EXPECT_EQ(cells[1].rows, 2u);
  EXPECT_EQ(cells[1].mean, 0.5);
  EXPECT_EQ(cells[1].drawn, (sim::DrawnSpread{0.125, 0.25}));
  // Both rows are 0.25 off a mean of two; Bessel's correction is sqrt(2).
  EXPECT_NEAR(cells[1].deviation, 0.25 * std::sqrt(2.0) / 1.2816, 1e-4);
  EXPECT_EQ(cells[2].of, LeftOf::ttft);
  EXPECT_EQ(cells[2].deviation, 0);
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("residuals.csv", left_cells_csv(cells)).string();
  const auto read = load_left_cells(path).value();
  EXPECT_EQ(read.front().set, "a, \"early\"");
  EXPECT_EQ(left_cells_csv(read), left_cells_csv(cells));
  const auto refused_with = [&](const std::string& cell, const std::string& by, const std::string& message) {
    std::string wrong = left_cells_csv(cells);
    wrong.replace(wrong.find(cell), cell.size(), by);
    const auto refused = load_left_cells(folder.write("wrong.csv", wrong).string());
    return !refused && to_string(refused.error()).find(message) != std::string::npos;
  };
  EXPECT_TRUE(refused_with("0.5000", "half", "is not a number"));
  EXPECT_TRUE(refused_with("TTFT", "latency", "none of time, memory, TPOT, TTFT, tokens/s"));
  EXPECT_TRUE(refused_with("0.5000", "1e300", "is not from -10 to 10"));
  EXPECT_TRUE(refused_with("0.25000", "-0.25", "drawn_variance: -0.25 is not from 0 to 10"));
  EXPECT_TRUE(refused_with(",2,0.5000", ",0.5,0.5000", "'0.5' is no whole number"));
}

}  // namespace
}  // namespace plumbline::calibrate
