#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/whatif/solve_plan.h"

namespace plumbline::sim {
namespace {

// Counts the calls and returns the value of `f`, where it has one.
template <class F>
SolveFunction counted(F f, std::size_t& calls) {
  return [f, &calls](const std::vector<double>& xs) -> model::Result<std::vector<std::optional<double>>> {
    calls += xs.size();
    std::vector<std::optional<double>> values;
    for (const double x : xs) values.push_back(f(x));
    return values;
  };
}

template <class F>
Solution solved(const SolveRange& range, double target, double near, F f) {
  std::size_t calls = 0;
  return solve(range, target, near, counted(f, calls)).value();
}

TEST(FindRoot, FindsTheRootOfACubic) {
  int calls = 0;
  const auto f = [&](double x) -> model::Result<double> {
    ++calls;
    return x * x * x - 2;
  };
  const Root root = find_root(f, {0, -2}, {4, 62}, 1e-12, 1e-12).value();
  EXPECT_NEAR(root.at.x, std::cbrt(2.0), 1e-11);
  EXPECT_LT(calls, 20);  // halving alone takes more than 40
}

TEST(FindRoot, EndsAtAJump) {
  const auto f = [](double x) -> model::Result<double> { return x < 1.25 ? -1.0 : 2.0; };
  const Root root = find_root(f, {0, -1}, {4, 2}, 1e-9, 1e-12).value();
  EXPECT_NEAR(root.at.x, 1.25, 1e-8);
  EXPECT_NEAR(root.other.x, 1.25, 1e-8);
  EXPECT_LT(root.at.y * root.other.y, 0);
}

TEST(FindRoot, StartsAtTheRoot) {
  const auto f = [](double x) -> model::Result<double> { return x; };
  EXPECT_EQ(find_root(f, {0, 0}, {4, 4}, 1e-9, 1e-12).value().at.x, 0);
}

TEST(Solve, NumbersReachTheTarget) {
  const Solution found = solved({100, 1000}, 15, 400, [](double x) { return 10 + 2000 / x; });
  ASSERT_TRUE(found.exact);
  EXPECT_NEAR(found.exact->x, 400, 0.01);
  EXPECT_NEAR(*found.exact->value, 15, 15e-6);
  EXPECT_EQ(found.crossings, 1U);
  EXPECT_TRUE(std::ranges::is_sorted(found.samples, {}, &SolveSample::x));
}

TEST(Solve, WholeNumbersGiveBothNeighbours) {
  const Solution found = solved({1, 100'000, true}, 0.3, 10, [](double x) { return 1000 / x; });  // 1000 / 3333.33
  EXPECT_FALSE(found.exact);
  EXPECT_EQ(found.below.value().x, 3333);
  EXPECT_EQ(found.above.value().x, 3334);
}

TEST(Solve, AWholeNumberMayReachIt) {
  EXPECT_EQ(solved({1, 64, true}, 21, 1, [](double x) { return x; }).exact.value().x, 21);
  EXPECT_EQ(solved({1, 64, true}, 64, 1, [](double x) { return x; }).exact.value().x, 64);
  EXPECT_EQ(solved({1, 64, true}, 1, 1, [](double x) { return x; }).exact.value().x, 1);
}

TEST(Solve, ValuesThatCannotBeArePassedOver) {
  const auto only_even = [](double x) { return std::fmod(x, 2) == 0 ? std::optional(x) : std::nullopt; };
  const Solution found = solved({1, 40, true}, 21, 1, only_even);
  EXPECT_EQ(found.below.value().x, 20);
  EXPECT_EQ(found.above.value().x, 22);
}

TEST(Solve, AListIsWhatThereIs) {
  const Solution found = solved({8, 64, false, {8, 16, 32, 64}}, 20, 8, [](double x) { return x; });
  EXPECT_EQ(found.below.value().x, 16);
  EXPECT_EQ(found.above.value().x, 32);
  EXPECT_EQ(found.samples.size(), 4U);
}

TEST(Solve, NothingReachesATargetOutside) {
  const Solution found = solved({1, 8}, 100, 1, [](double x) { return x; });
  EXPECT_FALSE(found.exact);
  EXPECT_FALSE(found.below);
  EXPECT_EQ(found.crossings, 0U);
  EXPECT_EQ(found.samples.front().x, 1);
  EXPECT_EQ(found.samples.back().x, 8);
}

TEST(Solve, OfSeveralCrossingsTheNearest) {
  const auto valley = [](double x) { return (x - 5) * (x - 5); };
  const Solution left = solved({0, 10}, 4, 1, valley), right = solved({0, 10}, 4, 9, valley);
  EXPECT_EQ(left.crossings, 2U);
  EXPECT_NEAR(left.exact.value().x, 3, 1e-4);
  EXPECT_NEAR(right.exact.value().x, 7, 1e-4);
}

TEST(Solve, AJumpOverTheTargetHasTwoSides) {
  const Solution found = solved({0, 10}, 4, 1, [](double x) { return x < 6.3 ? 1.0 : 9.0; });
  EXPECT_FALSE(found.exact);
  EXPECT_NEAR(found.below.value().x, 6.3, 1e-6);
  EXPECT_NEAR(found.above.value().x, 6.3, 1e-6);
  EXPECT_EQ(found.below->value, 1);
  EXPECT_EQ(found.above->value, 9);
}

TEST(Solve, ErrorsEndIt) {
  const SolveFunction broken = [](const std::vector<double>&) -> model::Result<std::vector<std::optional<double>>> {
    return tl::unexpected(model::Error{model::ErrorKind::input, "wrong", "", 0, "", ""});
  };
  EXPECT_EQ(solve({0, 1}, 0.5, 0, broken).error().message, "wrong");
}

Inputs inputs() {
  Inputs inputs;
  inputs.plan.cluster.gpus = 48;
  inputs.plan.batch.global_batch_size = 512;
  inputs.plan.routing.imbalance = 0.1;
  inputs.cluster.device.sms = 132;
  inputs.cluster.nic_bandwidth = model::BytesPerSecond(50e9);
  inputs.cluster.parameters = {{"node.gpu_bandwidth", 200, "GB/s", model::Evidence::datasheet, "s", std::nullopt}};
  inputs.profile =
      model::Profile("p", "", {{"kernel.launch_gap", 2, "us", model::Evidence::assumed, "s", std::nullopt}});
  return inputs;
}

SolveKey key(const std::string& name, const std::optional<std::string>& over = std::nullopt) {
  return solve_key(name, inputs(), over).value();
}

model::Error error(const std::string& name, const std::optional<std::string>& over = std::nullopt) {
  const auto found = solve_key(name, inputs(), over);
  return found ? model::Error{} : found.error();
}

TEST(SolveKey, LooksAroundThePresentValue) {
  EXPECT_DOUBLE_EQ(key("cluster.nic_gbps").value.value(), 400);
  EXPECT_DOUBLE_EQ(key("cluster.nic_gbps").range.low, 50);
  EXPECT_DOUBLE_EQ(key("cluster.nic_gbps").range.high, 3200);
  EXPECT_FALSE(key("cluster.nic_gbps").whole);
  EXPECT_TRUE(key("batch.global_batch_size").whole);
  EXPECT_DOUBLE_EQ(key("profile.kernel.launch_gap").range.high, 16);
  EXPECT_DOUBLE_EQ(key("profile.kernel.*").value.value(), 1);  // a factor
  EXPECT_DOUBLE_EQ(key("topology.node.gpu_bandwidth").range.low, 25);
}

TEST(SolveKey, RangesThatFollowFromTheKey) {
  EXPECT_EQ(key("routing.imbalance").range.high, 1);
  EXPECT_EQ(key("overlap.communication_sms").range.high, 131);
  EXPECT_THAT(key("cluster.gpus").range.values, testing::ElementsAre(6, 12, 24, 48, 96, 192, 384));
}

TEST(SolveKey, AGivenRangeIsSearchedAListIsWhatThereIs) {
  EXPECT_TRUE(key("cluster.nic_gbps", "cluster.nic_gbps=0.5..800").range.values.empty());
  EXPECT_DOUBLE_EQ(key("cluster.nic_gbps", "cluster.nic_gbps=0.5..800").range.low, 0.5);
  EXPECT_THAT(key("cluster.gpus", "cluster.gpus=64,16,32").range.values, testing::ElementsAre(16, 32, 64));
  EXPECT_THAT(key("cluster.gpus", "cluster.gpus=16..64:16").range.values, testing::ElementsAre(16, 32, 48, 64));
}

TEST(SolveKey, Refusals) {
  EXPECT_THAT(model::to_string(error("schedule.kind")), testing::HasSubstr("is not a number"));
  EXPECT_THAT(model::to_string(error("cluster.gpu")), testing::HasSubstr("did you mean 'cluster.gpus'?"));
  EXPECT_THAT(model::to_string(error("profile.kernel.launch")), testing::HasSubstr("unknown constant"));
  EXPECT_THAT(model::to_string(error("input.loader_gbps")),
              testing::HasSubstr("give a range: --over input.loader_gbps=A..B"));
  EXPECT_THAT(model::to_string(error("cluster.gpus", "cluster.nic_gbps=1..2")),
              testing::HasSubstr("cluster.gpus is solved for"));
  EXPECT_THAT(model::to_string(error("cluster.gpus", "cluster.gpus=8..4")), testing::HasSubstr("the smaller one"));
}

}  // namespace
}  // namespace plumbline::sim
