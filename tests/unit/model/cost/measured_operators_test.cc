#include "model/cost/measured_operators.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "model/cost/kernel_cost.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::deepseek_rank;
using tests::find;

constexpr double micro = 1e-6;

// Returns a profile of host cores in which these operators have measured times, in us.
Profile with_measured(const std::vector<std::pair<std::string, double>>& entries) {
  std::vector<Parameter> parameters = tests::profile("host-datasheet").parameters();
  for (const auto& [name, value] : entries) parameters.push_back({name, value, "us", Evidence::measured, "a test"});
  return {"host", "", parameters};
}

Device cores(std::int64_t count) {
  Device device;
  device.name = "host-core";
  device.sms = count;
  device.sm = {2048, 65536, 233472};
  return device;
}

class MeasuredTimes : public testing::Test {
 protected:
  const Graph layer_ = make_block(BlockKind::moe_layer, deepseek_rank(Precision::bf16));
  const double gap_ = 2e-6;  // kernel.launch_gap of the profile

  std::string key(const Operator& op) const { return operator_key(layer_, op); }
  KernelCost cost(const std::vector<std::pair<std::string, double>>& entries, std::int64_t device_cores = 1) const {
    return KernelCost::make(with_measured(entries), cores(device_cores)).value();
  }
  std::string entry(const std::string& op, std::int64_t on, Phase phase = Phase::F) const {
    return MeasuredOperators::name(key(find(layer_, op, phase)), {on});
  }
};

TEST_F(MeasuredTimes, OfTheTableCountBeforeTheForm) {
  const KernelCost with = cost({{entry("q_a", 1), 1000}}), without = cost({});
  const Operator &measured = find(layer_, "q_a"), &other = find(layer_, "q_b");
  EXPECT_DOUBLE_EQ(with.time(layer_, measured, {.sms = 1}).seconds, 1000 * micro + gap_);
  EXPECT_EQ(with.time(layer_, other, {.sms = 1}).seconds, without.time(layer_, other, {.sms = 1}).seconds);
}

TEST_F(MeasuredTimes, RestOnTheirEntry) {
  const Profile profile = with_measured({{entry("q_a", 1), 1000}});
  const KernelTime time = KernelCost::make(profile, cores(1)).value().time(layer_, find(layer_, "q_a"), {.sms = 1});
  double sum = 0;
  for (const Share& share : time.shares) sum += share.seconds;
  EXPECT_DOUBLE_EQ(sum, time.seconds);
  EXPECT_EQ(profile.parameters()[static_cast<std::size_t>(time.shares[0].index)].name, entry("q_a", 1));
  EXPECT_DOUBLE_EQ(time.shares[0].seconds, 1000 * micro);
  EXPECT_DOUBLE_EQ(time.gaps, gap_);
}

TEST_F(MeasuredTimes, HoldForTheCoresTheyWereMeasuredOn) {
  const KernelCost with = cost({{entry("q_a", 2), 700}}, 2), without = cost({}, 2);
  const Operator& op = find(layer_, "q_a");
  EXPECT_DOUBLE_EQ(with.time(layer_, op, {.sms = 2}).seconds, 700 * micro + gap_);
  EXPECT_EQ(with.time(layer_, op, {.sms = 1}).seconds, without.time(layer_, op, {.sms = 1}).seconds);
  // The norm runs while no other kernel holds SMs.
  const KernelCost norm = cost({{entry("attention_norm", 1), 50}}, 2);
  const Operator& of_norm = find(layer_, "attention_norm");
  const Conditions overlapped{.sms = 1, .held = 1, .co_runner = CoRunner::waiting};
  EXPECT_DOUBLE_EQ(norm.time(layer_, of_norm, overlapped).seconds, 50 * micro + gap_);
  EXPECT_EQ(norm.time(layer_, of_norm, {.sms = 1}).seconds, cost({}, 2).time(layer_, of_norm, {.sms = 1}).seconds);
}

// With a tile of one element and no ramp the formula is proportional to the rows, and so is the table.
TEST_F(MeasuredTimes, FollowTheRowsAsTheFormDoes) {
  const KernelCost with = cost({{entry("experts_down", 1), 1000}});
  const Operator& op = find(layer_, "experts_down");
  EXPECT_NEAR(with.time(layer_, op, {.sms = 1, .row_scale = 1.5}).seconds, 1500 * micro + gap_, 1e-9);
}

TEST_F(MeasuredTimes, SlowDownWithTransfersAsTheFormDoes) {
  std::vector<Parameter> parameters = with_measured({{entry("q_a", 1), 1000}}).parameters();
  for (Parameter& parameter : parameters)
    if (parameter.name == "gemm.slowdown_beside_transfer") parameter.value = 1.2;
  const KernelCost slowed = KernelCost::make({"slowed", "", parameters}, cores(1)).value();
  const Conditions overlapped{.sms = 1, .co_runner = CoRunner::transferring};
  EXPECT_NEAR(slowed.time(layer_, find(layer_, "q_a"), overlapped).seconds, 1200 * micro + gap_, 1e-12);
}

// With a transfer the time measured with one applies, on the SMs that were free, whatever the kernel was launched on.
TEST_F(MeasuredTimes, WithATransferAreThoseMeasuredWithOne) {
  const auto overlapped = [&](const char* name) {
    return MeasuredOperators::name(key(find(layer_, name)), {1, true}, MeasuredOperators::Unit::sms);
  };
  const KernelCost with =
      cost({{entry("q_a", 2), 700}, {overlapped("q_a"), 900}, {overlapped("attention_norm"), 80}}, 2);
  const Conditions transfer{.sms = 2, .held = 1, .co_runner = CoRunner::transferring};
  const Operator &gemm = find(layer_, "q_a"), &norm = find(layer_, "attention_norm");
  EXPECT_DOUBLE_EQ(with.time(layer_, gemm, transfer).seconds, 900 * micro + gap_);
  EXPECT_DOUBLE_EQ(with.time(layer_, gemm, {.sms = 2}).seconds, 700 * micro + gap_);
  EXPECT_DOUBLE_EQ(with.time(layer_, norm, transfer).seconds, 80 * micro + gap_);
  // A rank that waits transfers nothing.
  const Conditions waiting{.sms = 2, .held = 1, .co_runner = CoRunner::waiting};
  EXPECT_DOUBLE_EQ(with.time(layer_, gemm, {.sms = 2, .co_runner = CoRunner::waiting}).seconds, 700 * micro + gap_);
  EXPECT_EQ(with.time(layer_, norm, waiting).seconds, cost({}, 2).time(layer_, norm, waiting).seconds);
}

// On any number of cores the time is at most the measured one and never below the formula's best.
TEST_F(MeasuredTimes, AreNeverBelowTheBest) {
  for (const double us : {0.001, 1e9}) {
    const KernelCost with =
        cost({{entry("q_a", 1), us}, {entry("q_a", 2), us / 3}, {entry("attention_norm", 2), us}}, 2);
    for (const char* name : {"q_a", "attention_norm"}) {
      const Operator& op = find(layer_, name);
      for (const std::int64_t sms : {1, 2}) {
        const Conditions conditions{.sms = sms, .held = 2 - sms};
        const double share = is_gemm(operator_class(layer_, op)) ? static_cast<double>(sms) / 2 : 1;
        EXPECT_GE(with.time(layer_, op, conditions).seconds * share, with.best(layer_, op)) << name << " " << us;
      }
      EXPECT_LE(with.best(layer_, op), cost({}, 2).best(layer_, op));
    }
  }
}

TEST(MeasuredOperators, RefusesWhatIsNoTime) {
  const auto read = [](const std::string& name, double value, const std::string& unit) {
    return MeasuredOperators::read(Profile("p", "", {{name, value, unit, Evidence::measured, "a test"}}));
  };
  EXPECT_TRUE(read("measured.cores1.matmul-F-fp32-1-to-1", 1, "us"));
  EXPECT_TRUE(read("measured.sms112_beside.matmul-F-fp32-1-to-1", 1, "us"));
  for (const char* name : {"measured.matmul-F", "measured.cores0.matmul-F", "measured.coresx.matmul-F",
                           "measured.cores1.", "measured.cores1", "measured.sms_beside.matmul-F",
                           "measured.beside.matmul-F", "measured.sms1_besides.matmul-F"}) {
    const auto wrong = read(name, 1, "us");
    ASSERT_FALSE(wrong) << name;
    tests::expect_error(wrong.error(), ErrorKind::input, "", 0, name, "measured.cores1.");
  }
  EXPECT_FALSE(read("measured.cores1.matmul-F", 0, "us"));
  EXPECT_FALSE(read("measured.cores1.matmul-F", 1, "GB/s"));
  EXPECT_TRUE(read("gemm.ramp", 1, "us")->empty());
}

}  // namespace
}  // namespace plumbline::model
