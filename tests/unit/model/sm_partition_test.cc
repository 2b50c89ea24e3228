// Three ways to divide the SMs between computation and communication.
#include "model/cost/sm_partition.h"

#include <gtest/gtest.h>

namespace plumbline::model {
namespace {

constexpr Neighbour all[] = {Neighbour::none, Neighbour::waiting, Neighbour::transferring};

SmPartition partition(SmPolicy policy) { return {policy, 132, 20}; }

TEST(SmPartition, WordsOfThePlan) {
  EXPECT_EQ(sm_policy("static"), SmPolicy::fixed);
  EXPECT_EQ(sm_policy("none"), SmPolicy::none);
  EXPECT_EQ(sm_policy("dynamic"), SmPolicy::dynamic);
}

TEST(SmPartition, StaticSetsSmsAsideAlsoWhileCommunicationIsIdle) {
  for (const Neighbour neighbour : all) EXPECT_EQ(partition(SmPolicy::fixed).launch_width(neighbour), 112);
}

TEST(SmPartition, NoneLaunchesOnTheWholeGpu) {
  for (const Neighbour neighbour : all) EXPECT_EQ(partition(SmPolicy::none).launch_width(neighbour), 132);
}

TEST(SmPartition, DynamicLaunchesOnWhatIsFree) {
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(Neighbour::none), 132);
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(Neighbour::waiting), 112);
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(Neighbour::transferring), 112);
}

TEST(SmPartition, CommunicationHoldsItsSmsUnderEveryPolicy) {
  for (const SmPolicy policy : {SmPolicy::fixed, SmPolicy::none, SmPolicy::dynamic}) {
    for (const Neighbour neighbour : all) {
      const Conditions conditions = partition(policy).beside(neighbour);
      EXPECT_EQ(conditions.sms, partition(policy).launch_width(neighbour));
      EXPECT_EQ(conditions.held, neighbour == Neighbour::none ? 0 : 20);
      EXPECT_EQ(conditions.neighbour, neighbour);
      EXPECT_EQ(conditions.row_scale, 1);
    }
  }
}

TEST(SmPartition, WithoutCommunicationSmsAllPoliciesAreOne) {
  for (const SmPolicy policy : {SmPolicy::fixed, SmPolicy::none, SmPolicy::dynamic}) {
    for (const Neighbour neighbour : all) {
      const Conditions conditions = SmPartition{policy, 132, 0}.beside(neighbour);
      EXPECT_EQ(conditions.sms, 132);
      EXPECT_EQ(conditions.held, 0);
    }
  }
}

}  // namespace
}  // namespace plumbline::model
