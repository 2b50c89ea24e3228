// The clock under a power limit and the energy of kernels, against closed forms.
#include "model/cost/power_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

Profile power_profile(const std::string& name) {
  return load_profile(tests::shipped("tests/data/" + name + ".toml"), tests::frozen("profiles")).value();
}

PowerModel model_under(const std::string& profile, std::optional<double> limit) {
  return PowerModel::make(power_profile(profile), {limit, 700}).value().value();
}

// A second of GEMMs that would draw 900 W above the idle 120.
constexpr PowerWindow gemms{1, 0, 900};

TEST(PowerModel, AClockBoundByTheSmsHasAClosedForm) {
  // idle + 900 r^gamma / (1 / r) = L, so r = ((L - idle) / 900)^(1 / (1 + gamma)).
  for (const double exponent : {0.0, 0.8, 2.0})
    for (const double limit : {400.0, 700.0}) {
      const PowerConstants constants{120, 0.987, exponent};
      const double clock = clock_under(constants, gemms, limit);
      EXPECT_NEAR(clock, std::pow((0.987 * limit - 120) / 900, 1 / (1 + exponent)), 1e-12);
      EXPECT_NEAR(power_at(constants, gemms, clock), 0.987 * limit, 1e-9);
    }
}

TEST(PowerModel, ALowerLimitIsNeverFaster) {
  const PowerConstants constants{120, 1, 0.8};
  for (const PowerWindow& window : {gemms, PowerWindow{1, 2, 1200}, PowerWindow{0, 1, 900}}) {
    double slowest = 1;
    for (double limit = 1100; limit > 200; limit -= 25) {
      const double clock = clock_under(constants, window, limit);
      EXPECT_LE(clock, slowest) << limit;
      EXPECT_GE(clock, lowest_clock) << limit;
      slowest = clock;
    }
    EXPECT_LT(slowest, 1);
  }
}

TEST(PowerModel, KernelsThatDrawLessRunAtTheHighestClock) {
  // 120 + 570 / 1 = 690 W: the clock is 1 at 700 W, and lower at 600.
  EXPECT_EQ(clock_under({120, 1, 0.8}, {0.4, 0.6, 570}, 700), 1);
  EXPECT_LT(clock_under({120, 1, 0.8}, {0.4, 0.6, 570}, 600), 1);
  EXPECT_EQ(power_at({120, 1, 0.8}, {}, 1), 120);
}

// Kernels that only move bytes take as long at any clock: 120 + 740 r^0.8 = 700 W, as on an H100 that holds SwiGLU.
TEST(PowerModel, BytesDrawLessAtALowerClock) {
  const PowerConstants constants{120, 1, 0.8};
  const PowerWindow bytes{0, 1, 740};
  const double clock = clock_under(constants, bytes, 700);
  EXPECT_NEAR(clock, std::pow(580.0 / 740, 1 / 0.8), 1e-12);
  EXPECT_NEAR(power_at(constants, bytes, clock), 700, 1e-9);
}

TEST(PowerModel, RatesOfBurstsAreSlowedUnderEveryLimit) {
  const auto clock = [](double limit) { return model_under("h100-power", limit).state(gemms).clock; };
  EXPECT_NEAR(clock(700), std::pow((0.987 * 700 - 120) / 900, 1 / 1.8), 1e-12);
  EXPECT_EQ(model_under("h100-power", std::nullopt).state(gemms).clock, clock(700)) << "the device's TDP";
  EXPECT_EQ(clock(2000), 1);
  EXPECT_EQ(model_under("h100-power", 2000).highest_clock(), 1);
}

TEST(PowerModel, RatesThatWereHeldBelongToTheirLimit) {
  const auto clock = [](double limit) { return model_under("h100-power-held", limit).state(gemms).clock; };
  const auto above_idle = [](double limit) { return 0.987 * limit - 120; };
  EXPECT_EQ(clock(600), 1);
  EXPECT_NEAR(clock(500), std::pow(above_idle(500) / above_idle(600), 1 / 1.8), 1e-12);
  EXPECT_NEAR(clock(700), std::pow(above_idle(700) / above_idle(600), 1 / 1.8), 1e-12);
  EXPECT_LE(clock(700), model_under("h100-power-held", 700).highest_clock());
  EXPECT_EQ(model_under("h100-power-held", 500).highest_clock(), 1);
}

TEST(PowerModel, EnergyFallsWithTheClock) {
  const PowerModel model = model_under("h100-power", 500);
  const PowerModel::State state = model.state(gemms);
  EXPECT_NEAR(state.joules, 900 * std::pow(state.clock, 0.8), 1e-9);
  EXPECT_NEAR(model.idle() + state.joules * state.clock, model.drawn_at_limit(), 1e-9);
}

// Energies belong to their exponent: another one draws the same at the TDP and parts from it below.
TEST(PowerModel, AnotherExponentIsScaledToTheUsualLimit) {
  const auto clock = [](double limit, double exponent) {
    return PowerModel::make(power_profile("h100-power"), {limit, 700, exponent}).value()->state(gemms).clock;
  };
  for (const double exponent : {0.0, 2.0}) {
    EXPECT_NEAR(clock(700, exponent), clock(700, 0.8), 1e-12);
    EXPECT_NEAR(clock(500, exponent) / clock(700, exponent),
                std::pow((0.987 * 500 - 120) / (0.987 * 700 - 120), 1 / (1 + exponent)), 1e-12);
  }
}

// A GEMM's window has its FLOPs at the energy of its format (0.60 pJ) and its bytes (60 pJ); those of other kernels
// have bytes only.
TEST(PowerModel, WindowsFollowFromOperators) {
  const PowerModel model = model_under("h100-power", std::nullopt);
  const Graph layer = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::fp8));
  const KernelTime time{5e-3, 1e-3, {}};
  const Operator& gemm = tests::find(layer, "q_a");
  const PowerWindow window = model.window(layer, gemm, time);
  EXPECT_DOUBLE_EQ(window.sm_seconds, 4e-3);
  EXPECT_DOUBLE_EQ(window.other_seconds, 1e-3);
  const auto joules_of_bytes = [&](const Operator& op) { return 60e-12 * bytes_moved(layer, op, 1).value(); };
  EXPECT_GT(joules_of_bytes(gemm), 60e-12 * (4096.0 * 7168 + 7168.0 * 1536 + 2 * 4096.0 * 1536) * 0.99);
  EXPECT_NEAR(window.joules / (0.60e-12 * 2 * 4096 * 7168 * 1536 + joules_of_bytes(gemm)), 1, 1e-12);
  for (const Operator& op : layer.operators) {
    const OperatorClass kind = operator_class(layer, op);
    if (is_gemm(kind) || kind == OperatorClass::attention || tests::between_ranks(layer, op)) continue;
    const PowerWindow other = model.window(layer, op, time);
    EXPECT_EQ(other.sm_seconds, 0) << op.name;
    EXPECT_DOUBLE_EQ(other.joules, joules_of_bytes(op)) << op.name;
    EXPECT_DOUBLE_EQ(other.other_seconds, 5e-3) << op.name;
  }
}

// With an energy of their own the bytes of GEMMs and attention draw 40 pJ, those of other kernels still 60.
TEST(PowerModel, BytesOfGemmsAndAttentionHaveTheirOwnEnergy) {
  const Profile whole = power_profile("h100-power");
  std::vector<Parameter> parameters(whole.parameters().begin(), whole.parameters().end());
  parameters.push_back({.name = "power.gemm.energy_per_byte", .value = 40, .unit = "pJ/B"});
  const PowerModel one = model_under("h100-power", std::nullopt);
  const PowerModel two = PowerModel::make(Profile("two", "", parameters), {std::nullopt, 700}).value().value();
  const Graph layer = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::fp8));
  const KernelTime time{5e-3, 1e-3, {}};
  std::size_t multiply = 0;
  for (const Operator& op : layer.operators) {
    if (tests::between_ranks(layer, op)) continue;
    const OperatorClass kind = operator_class(layer, op);
    const bool multiplies = is_gemm(kind) || kind == OperatorClass::attention;
    const double joules = one.window(layer, op, time).joules;
    const double less = multiplies ? 20e-12 * bytes_moved(layer, op, 1).value() : 0;
    EXPECT_NEAR(two.window(layer, op, time).joules, joules - less, 1e-12 * joules) << op.name;
    multiply += multiplies;
  }
  EXPECT_GT(multiply, 5);
}

TEST(PowerModel, IsAbsentWithoutIdlePower) {
  EXPECT_FALSE(PowerModel::make(tests::profile("h800-public"), {std::nullopt, 700}).value());
}

TEST(PowerModel, RefusesWhatCannotBe) {
  const auto below = PowerModel::make(power_profile("h100-power"), {100, 700});
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().key, "cluster.power_limit_w");
  EXPECT_NE(below.error().message.find("120 W"), std::string::npos) << below.error().message;
  const Profile whole = power_profile("h100-power");
  std::vector<Parameter> parameters;
  for (const Parameter& parameter : whole.parameters())
    if (parameter.name != "power.gemm.bf16.energy_per_flop") parameters.push_back(parameter);
  const auto without = PowerModel::make(Profile("without", "", parameters), {std::nullopt, 700});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().key, "power.gemm.bf16.energy_per_flop");
}

}  // namespace
}  // namespace plumbline::model
