// Three policies that divide the SMs between computation and communication.
#include "model/cost/sm_partition.h"

#include <gtest/gtest.h>

namespace plumbline::model {
namespace {

constexpr CoRunner all[] = {CoRunner::none, CoRunner::waiting, CoRunner::transferring};

SmPartition partition(SmPolicy policy) { return {policy, 132, 20}; }

TEST(SmPartition, WordsOfThePlan) {
  EXPECT_EQ(sm_policy("static"), SmPolicy::fixed);
  EXPECT_EQ(sm_policy("none"), SmPolicy::none);
  EXPECT_EQ(sm_policy("dynamic"), SmPolicy::dynamic);
}

TEST(SmPartition, StaticReservesSmsAlsoWhileCommunicationIsIdle) {
  for (const CoRunner co_runner : all) EXPECT_EQ(partition(SmPolicy::fixed).launch_width(co_runner), 112);
}

TEST(SmPartition, NoneLaunchesOnTheWholeGpu) {
  for (const CoRunner co_runner : all) EXPECT_EQ(partition(SmPolicy::none).launch_width(co_runner), 132);
}

TEST(SmPartition, DynamicLaunchesOnWhatIsFree) {
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(CoRunner::none), 132);
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(CoRunner::waiting), 112);
  EXPECT_EQ(partition(SmPolicy::dynamic).launch_width(CoRunner::transferring), 112);
}

TEST(SmPartition, CommunicationHoldsItsSmsUnderEveryPolicy) {
  for (const SmPolicy policy : {SmPolicy::fixed, SmPolicy::none, SmPolicy::dynamic}) {
    for (const CoRunner co_runner : all) {
      const Conditions conditions = partition(policy).overlapped(co_runner);
      EXPECT_EQ(conditions.sms, partition(policy).launch_width(co_runner));
      EXPECT_EQ(conditions.held, co_runner == CoRunner::none ? 0 : 20);
      EXPECT_EQ(conditions.co_runner, co_runner);
      EXPECT_EQ(conditions.row_scale, 1);
    }
  }
}

TEST(SmPartition, ACollectiveLeavesSmsAndBandwidth) {
  const SmPartition partition{SmPolicy::none, 132, 20, 24, 0.7};
  const Conditions conditions = partition.overlapped(CoRunner::collective);
  EXPECT_EQ(conditions.sms, 108);
  EXPECT_EQ(conditions.held, 24);
  EXPECT_EQ(conditions.bandwidth, 0.7);
  EXPECT_EQ(partition.overlapped(CoRunner::transferring).bandwidth, 1);
}

TEST(SmPartition, WithoutCommunicationSmsAllPoliciesAreOne) {
  for (const SmPolicy policy : {SmPolicy::fixed, SmPolicy::none, SmPolicy::dynamic}) {
    for (const CoRunner co_runner : all) {
      const Conditions conditions = SmPartition{policy, 132, 0}.overlapped(co_runner);
      EXPECT_EQ(conditions.sms, 132);
      EXPECT_EQ(conditions.held, 0);
    }
  }
}

}  // namespace
}  // namespace plumbline::model
