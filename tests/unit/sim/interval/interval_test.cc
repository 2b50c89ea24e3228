#include "sim/interval/interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "sim/interval/detail/parts.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/uncertainty.h"
#include "sim/predict/simulate.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::PredictionInterval;

Inputs llama() { return tests::wired_inputs(tests::llama_plan, "h800"); }

model::StepResult result_of(const Inputs& inputs) {
  return simulate(inputs, Fidelity::closed_form, false).value().result;
}

PredictionInterval interval(const Inputs& inputs, const IntervalOptions& options = {}) {
  return interval_of(inputs, result_of(inputs), options).value();
}

double share_of(const PredictionInterval& interval, const std::string& source) {
  const auto part = std::ranges::find(interval.parts, source, &model::IntervalPart::source);
  return part == interval.parts.end() ? 0 : part->share;
}

// Returns the inputs with the uncertainty of every constant whose name has the prefix times a factor.
Inputs with_uncertainty(Inputs inputs, const std::string& prefix, double factor) {
  std::vector<model::Parameter> constants = inputs.profile.parameters();
  for (model::Parameter& constant : constants)
    if (constant.name.starts_with(prefix)) constant.relative_uncertainty = factor * 0.1;
  inputs.profile = model::Profile(inputs.profile.name(), "", constants, inputs.profile.devices());
  return inputs;
}

std::vector<double> time_ratios(const Inputs& inputs, IntervalOptions options) {
  options.parts = false;
  return draw(inputs, options).value().draws.time_ratio;
}

// Returns a watch that stops after so many pieces of work.
Watch ending_after(std::size_t pieces) {
  const auto done = std::make_shared<std::atomic<std::size_t>>(0);
  return {[=] { return *done >= pieces; }, [=](std::size_t, std::size_t) { ++*done; }};
}

TEST(Interval, ThatIsStoppedRestsOnTheDrawsSoFar) {
  const Inputs inputs = llama();
  const IntervalOptions options{.draws = 32, .threads = 1, .watch = ending_after(20)};
  const PredictionInterval some = interval(inputs, options);
  EXPECT_EQ(some.draws, 20u);
  EXPECT_LT(some.time_s.p10, some.time_s.p90);
  EXPECT_TRUE(some.parts.empty());
  const PredictionInterval whole = interval(inputs, {.draws = 32, .threads = 1, .watch = ending_after(1'000'000)});
  EXPECT_EQ(whole.draws, 32u);
  EXPECT_FALSE(whole.parts.empty());
}

// Returns how many pieces of an interval are done where its watch answers so many questions before it stops.
std::size_t pieces_after(const Inputs& inputs, std::size_t questions) {
  std::size_t asked = 0, pieces = 0;
  const Watch watch{[&] { return ++asked > questions; }, [&](std::size_t done, std::size_t) { pieces = done; }};
  EXPECT_EQ(draw(inputs, {.draws = 16, .threads = 1, .watch = watch}).error().kind, model::ErrorKind::interrupted);
  return pieces;
}

// It is asked before the numbers of each uncertainty, then before each draw.
TEST(Interval, BeginsNothingAfterItIsStopped) {
  const Inputs inputs = llama();
  const std::size_t uncertainties = draw(inputs, {.draws = 16, .parts = false})->uncertainties.size();
  EXPECT_EQ(pieces_after(inputs, 2), 0u);
  EXPECT_EQ(pieces_after(inputs, uncertainties), 0u);
  EXPECT_EQ(pieces_after(inputs, uncertainties + 5), 5u);
  Drawn drawn{.uncertainties = {{"one"}, {"two"}, {"three"}}};
  std::size_t asked = 0;
  EXPECT_FALSE(draw_numbers({.draws = 16, .watch = {[&] { return ++asked > 2; }}}, drawn));
  EXPECT_EQ(drawn.z.size(), 2u);
}

TEST(Interval, RefusesNumbersOfDraws) {
  const Inputs inputs = llama();
  model::StepResult result = result_of(inputs);
  for (const std::size_t draws : {std::size_t{0}, fewest_draws - 1, most_draws + 1}) {
    EXPECT_EQ(add_spread(inputs, result, IntervalOptions{.draws = draws}).error().key, "draws");
    EXPECT_EQ(interval_of(inputs, result, {.draws = draws}).error().kind, model::ErrorKind::input);
  }
}

TEST(Interval, OfTooFewDrawsIsNone) {
  const Inputs inputs = llama();
  model::StepResult result = result_of(inputs);
  IntervalOptions options{.draws = 32, .threads = 1, .watch = ending_after(3)};
  EXPECT_EQ(interval_of(inputs, result, options).error().kind, model::ErrorKind::interrupted);
  bool kept = false;  // the step is, before a draw is begun
  options.watch = {[] { return true; }, [&](std::size_t, std::size_t) { kept = true; }};
  ASSERT_TRUE(add_spread(inputs, result, options));
  EXPECT_TRUE(kept);
  EXPECT_FALSE(result.interval);
  EXPECT_TRUE(result.memory.fits_probability);
}

void expect_same_for_any_threads(const Inputs& inputs, IntervalOptions options) {
  const IntervalOptions one = {options.draws, options.seed, 1, options.without};
  const IntervalOptions three = {options.draws, options.seed, 3, options.without};
  EXPECT_EQ(time_ratios(inputs, one), time_ratios(inputs, three));
  const PredictionInterval alone = interval(inputs, one), many = interval(inputs, three);
  EXPECT_EQ(alone.time_s, many.time_s);
  ASSERT_EQ(alone.parts.size(), many.parts.size());
  for (std::size_t i = 0; i < alone.parts.size(); ++i) {
    EXPECT_EQ(alone.parts[i].share, many.parts[i].share);
    EXPECT_EQ(alone.parts[i].half_width_after, many.parts[i].half_width_after);
  }
}

TEST(Interval, IsTheSameForAnyNumberOfThreads) { expect_same_for_any_threads(llama(), {.draws = 32}); }

// The ranks of its expert groups are uneven, and their waits are kept while the gradient is found.
TEST(Interval, IsTheSameForAnyNumberOfThreadsWithUnevenExperts) {
  const Inputs inputs = tests::wired_inputs(tests::deepseek_plan, "h800", {"batch.global_batch_size=4096"});
  expect_same_for_any_threads(inputs, {.draws = 16, .without = {"memory-bound shapes", "memory-bound constants"}});
}

TEST(Interval, HasPartsThatAddUp) {
  Inputs inputs = llama();
  inputs.left = Left{.location = 0.02, .common = 0.03, .own = 0.04, .rows = "10 steps"};
  const PredictionInterval found = interval(inputs);
  EXPECT_LT(found.time_s.p10, found.time_s.p50);
  EXPECT_LT(found.time_s.p50, found.time_s.p90);
  EXPECT_NEAR(found.tokens_per_s.p10 * found.time_s.p90, found.tokens_per_s.p50 * found.time_s.p50, 1e-6);
  double sum = 0;
  for (const model::IntervalPart& part : found.parts) sum += part.share;
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_TRUE(std::ranges::is_sorted(found.parts, std::ranges::greater{}, &model::IntervalPart::share));
  EXPECT_GT(share_of(found, "what is left"), 0);
  for (const model::IntervalPart& part : found.parts)
    if (part.half_width_after) {
      EXPECT_LT(*part.half_width_after, found.time_s.half_width()) << part.source;
    }
}

// A normal distribution of ln(time) with deviation s has 10 % below location - 1.2816 s and above location + 1.2816 s.
TEST(Interval, MixesWhatIsLeftExactly) {
  Inputs inputs = llama();
  IntervalOptions options{.draws = 16};
  const Drawn drawn = draw(inputs, options).value();
  for (const Uncertainty& one : drawn.uncertainties) options.without.insert(one.source);
  const PredictionInterval nothing = interval(inputs, options);
  EXPECT_TRUE(nothing.parts.empty());
  EXPECT_DOUBLE_EQ(nothing.time_s.p10, nothing.time_s.p90);
  inputs.left = Left{.location = 0.05, .common = 0.03, .own = 0.04};
  const PredictionInterval some = interval(inputs, options);
  EXPECT_NEAR(std::log(some.time_s.p50 / nothing.time_s.p50), 0.05, 1e-9);
  EXPECT_NEAR(std::log(some.time_s.p90 / some.time_s.p50), 1.2815515655 * 0.05, 1e-9);
  ASSERT_EQ(some.parts.size(), 1u);
  EXPECT_EQ(some.parts[0].share, 1);
}

TEST(Interval, LeavesOutASourceThatIsOff) {
  const Inputs inputs = llama();
  const PredictionInterval all = interval(inputs);
  const double share = share_of(all, "GEMM constants");
  ASSERT_GT(share, 0);
  const PredictionInterval without = interval(inputs, {.without = {"GEMM constants"}});
  EXPECT_EQ(share_of(without, "GEMM constants"), 0);
  EXPECT_LT(without.time_s.half_width(), all.time_s.half_width());
  EXPECT_EQ(time_ratios(inputs, {.draws = 16, .without = {"GEMM constants"}}),
            time_ratios(with_uncertainty(inputs, "gemm.", 0), {.draws = 16}));
}

// Where a source has the share v of the variance, half its deviation leaves (1 - 3/4 v) of the variance. Quantiles of
// 512 draws in strata, and the share itself, are uncertain by some percent.
TEST(Interval, NarrowsAsTheShareSays) {
  const IntervalOptions options{.draws = 512};
  const PredictionInterval whole = interval(with_uncertainty(llama(), "gemm.", 1), options);
  const PredictionInterval half = interval(with_uncertainty(llama(), "gemm.", 0.5), options);
  const double share = share_of(whole, "GEMM constants");
  ASSERT_GT(share, 0.3);
  EXPECT_NEAR(half.time_s.half_width() / whole.time_s.half_width(), std::sqrt(1 - 0.75 * share), 0.08);
}

// Measuring the GEMMs leaves the uncertainty of a measurement.
TEST(Interval, SaysWhatAMeasurementLeaves) {
  const IntervalOptions options{.draws = 512, .without = {"GEMM shapes"}};
  const PredictionInterval before = interval(with_uncertainty(llama(), "gemm.", 1), options);
  const auto part = std::ranges::find(before.parts, "GEMM constants", &model::IntervalPart::source);
  ASSERT_NE(part, before.parts.end());
  ASSERT_TRUE(part->half_width_after);
  EXPECT_NE(part->measurement.find("GEMMs"), std::string::npos);
  const PredictionInterval after = interval(with_uncertainty(llama(), "gemm.", 0.3), options);
  EXPECT_NEAR(*part->half_width_after / after.time_s.half_width(), 1, 0.08);
}

TEST(Interval, GivesEqualConstantsEqualDraws) {
  std::vector<Uncertainty> llama_constants, deepseek_constants;
  add_constants(llama(), llama_constants);
  add_constants(tests::step_inputs(tests::deepseek_plan, "h800"), deepseek_constants);
  ASSERT_EQ(llama_constants.size(), deepseek_constants.size());
  for (std::size_t i = 0; i < llama_constants.size(); ++i) EXPECT_EQ(llama_constants[i].key, deepseek_constants[i].key);
}

// Constants that err together may be of several kinds of kernels, and count to none of them.
TEST(Interval, CountsWhatSeveralKindsShareApart) {
  Inputs inputs = llama();
  const std::vector<model::ConstantFit> fits = {{{{"gemm.bf16.k_time"}, {"attention.forward_rate"}}, {{-1}}}};
  inputs.profile = model::Profile(inputs.profile.name(), "", inputs.profile.parameters(), inputs.profile.devices(),
                                  inputs.profile.stack(), fits);
  std::vector<Uncertainty> found;
  add_constants(inputs, found);
  const auto several = std::ranges::find(found, "shared constants", &Uncertainty::source);
  ASSERT_NE(several, found.end());
  EXPECT_EQ(std::ranges::count(found, "shared constants", &Uncertainty::source), 1);
  InputChange change;
  several->apply(1, change);
  ASSERT_EQ(change.constants.size(), 2u);
  for (const auto& [index, factor] : change.constants)
    EXPECT_EQ(factor > 1, inputs.profile.parameters()[index].name == "gemm.bf16.k_time");
}

// A constant of more than its whole range leaves no draw beyond it: an error would end the interval.
TEST(Interval, KeepsConstantsInTheirRange) {
  EXPECT_EQ(time_ratios(with_uncertainty(llama(), "", 1000), {.draws = 64}).size(), 64);
}

TEST(PriceDraws, LieBetweenTheEndsAndAreSharedByKey) {
  const model::HourlyPrice price{.value = 2, .low = 1, .high = 4};
  const std::vector<double> factors = price_draws(price, "a", 1, 1000);
  EXPECT_EQ(factors, price_draws(price, "a", 1, 1000));
  EXPECT_NE(factors, price_draws(price, "b", 1, 1000));
  const auto [low, high] = std::ranges::minmax(factors);
  EXPECT_GT(low, 0.5);
  EXPECT_LT(high, 2);
  EXPECT_EQ(std::ranges::count_if(factors, [](double factor) { return factor < 1; }), 500);
  // A third of each side's end and two of its middle: (5 / 3 + 8 / 3) / 2 over 2.
  EXPECT_NEAR(std::accumulate(factors.begin(), factors.end(), 0.0) / 1000, 13.0 / 12, 1e-3);
}

TEST(Interval, HasTheFitOfTheMemoryAlone) {
  Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  inputs.memory_left = Left{0.02, 0.1, 0.1, ""};
  model::StepResult result = result_of(inputs);
  result.memory.capacity_bytes = 1.1 * result.memory.peak_bytes;
  model::Memory memory = result.memory;
  add_fit(inputs, memory);
  ASSERT_TRUE(memory.fits_probability);
  EXPECT_EQ(*memory.fits_probability, interval_of(inputs, result, {.parts = false})->fits_probability);
  EXPECT_GT(*memory.fits_probability, 0);
  EXPECT_LT(*memory.fits_probability, 1);
}

std::optional<double> bubble(const model::StepTimes& step) { return step.bubble_s; }

// A step of 10 s with a bubble of 2 s, and as many draws of it in which both are `longer`; what makes whole steps
// longer adds `whole` to that.
StepDraws draws_of(double longer, double whole) {
  StepDraws draws;
  draws.step.time_s = 10;
  draws.step.bubble_s = 2;
  for (int i = 0; i < 16; ++i) {
    model::StepTimes step;
    step.time_s = 10 * longer;
    step.bubble_s = 2 * longer;
    draws.steps.push_back(step);
    draws.time_ratio.push_back(longer * whole);
  }
  return draws;
}

// In a result whose bubble is 3 s, where its closed form has 2 s, all draws take 3 * 1.1 * 1.2 s.
TEST(PartInterval, HasTheRatiosOfTheDrawsAndOfWholeSteps) {
  const auto interval = part_interval(draws_of(1.1, 1.2), {}, 3, bubble);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->p10, 3.96, 1e-12);
  EXPECT_NEAR(interval->p90, 3.96, 1e-12);
}

// What is left moves the middle by its location, and widens the interval.
TEST(PartInterval, HasWhatIsLeft) {
  const auto interval = part_interval(draws_of(1, 1), {.location = 0.07, .common = 0.1}, 3, bubble);
  ASSERT_TRUE(interval);
  EXPECT_NEAR(interval->p50, 3 * std::exp(0.07), 0.02);
  EXPECT_NEAR(interval->p90, 3 * std::exp(0.07 + 1.2816 * 0.1), 0.05);
}

TEST(PartInterval, AStepWithoutThePartHasNone) {
  StepDraws draws = draws_of(1.1, 1);
  draws.step.bubble_s = 0;
  EXPECT_FALSE(part_interval(draws, {}, 3, bubble));
  draws.step.bubble_s.reset();
  EXPECT_FALSE(part_interval(draws, {}, 3, bubble));
}

// z from tables of the normal distribution (Abramowitz and Stegun, table 26.1 and its inverse).
TEST(NormalQuantile, EqualsTables) {
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-12);
  EXPECT_NEAR(normal_quantile(0.9), 1.2815515655446004, 1e-12);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_quantile(1e-9), -5.997807015008182, 1e-9);
}

TEST(NormalQuantile, InvertsTheDistribution) {
  for (double probability = 1e-6; probability < 1; probability += 0.001)
    EXPECT_NEAR(std::erfc(-normal_quantile(probability) / std::numbers::sqrt2) / 2, probability, 1e-14);
}

TEST(Hypercube, HasOneNumberInEachStratum) {
  constexpr std::size_t draws = 128;
  std::vector<double> column = uniform_column("gemm.bf16.k_time", 1, draws);
  ASSERT_EQ(column.size(), draws);
  EXPECT_FALSE(std::ranges::is_sorted(column));
  std::ranges::sort(column);
  for (std::size_t i = 0; i < draws; ++i) EXPECT_EQ(static_cast<std::size_t>(column[i] * draws), i);
}

TEST(Hypercube, DependsOnKeyAndSeed) {
  const auto column = normal_column("a", 1, 64);
  EXPECT_EQ(column, normal_column("a", 1, 64));
  EXPECT_NE(column, normal_column("b", 1, 64));
  EXPECT_NE(column, normal_column("a", 2, 64));
}

// FNV-1a of the key, exclusive-or the first number of the seed, starts SplitMix64; its numbers shuffle the strata from
// the last and place the draws within them. These four were computed apart, in Python.
TEST(Hypercube, IsTheSameOnEveryMachine) {
  const std::vector<double> expected = {0.037969237934359565, 0.6314097087627102, 0.4263525419370868,
                                        0.7976385434188858};
  const auto column = uniform_column("price", 1, 4);
  ASSERT_EQ(column.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_DOUBLE_EQ(column[i], expected[i]);
}

// Columns of different keys are independent: their correlation over 1,024 draws has a standard deviation of 1/32.
TEST(Hypercube, ColumnsDoNotCorrelate) {
  const auto one = normal_column("one", 1, 1024), other = normal_column("other", 1, 1024);
  double sum = 0;
  for (std::size_t i = 0; i < one.size(); ++i) sum += one[i] * other[i] / 1024;
  EXPECT_LT(std::abs(sum), 4.0 / 32);
}

}  // namespace
}  // namespace plumbline::sim
