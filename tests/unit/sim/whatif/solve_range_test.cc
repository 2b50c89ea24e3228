#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/whatif/solve_plan.h"

namespace plumbline::sim {
namespace {

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
