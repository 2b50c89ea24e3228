// Free shares of SMs, and grids that take more than one round.
#include <gtest/gtest.h>

#include <limits>

#include "model/cost/sm_partition.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

// A Hopper SM: 2048 threads, 65536 registers, 228 KiB.
const SmResources sm = tests::h800_device().sm;

TEST(FreeShare, TheScarcestResourceDecides) {
  // DeepEP's kernels with their published launches: threads, and registers a thread.
  EXPECT_DOUBLE_EQ(free_share(sm, {320, 56, 0}), 1 - 17920.0 / 65536);  // cached notify: 0.727
  EXPECT_DOUBLE_EQ(free_share(sm, {800, 72, 0}), 1 - 57600.0 / 65536);  // combine: 0.121
  EXPECT_DOUBLE_EQ(free_share(sm, {512, 113, 0}), 1 - 57856.0 / 65536);
  // A GEMM takes 63 of 64 Ki registers; its shared memory alone would leave 4 %.
  EXPECT_DOUBLE_EQ(free_share(sm, {384, 168, 223232}), 1 - 64512.0 / 65536);
  EXPECT_DOUBLE_EQ(free_share(sm, {384, 32, 223232}), 1 - 223232.0 / 233472);
  EXPECT_DOUBLE_EQ(free_share(sm, {1024, 16, 0}), 0.5);  // threads: half of 2048, registers a quarter
  EXPECT_NEAR(free_share(sm, {320, 56, 0}), 0.727, 0.0005);
  EXPECT_NEAR(free_share(sm, {800, 72, 0}), 0.121, 0.0005);
}

TEST(FreeShare, IsBetweenNoneAndAll) {
  EXPECT_EQ(free_share(sm, {}), 1);
  EXPECT_EQ(free_share(sm, {1024, 64, 0}), 0);
  EXPECT_EQ(free_share(sm, {4096, 64, 0}), 0);  // more than there is
}

TEST(FreeShare, BlocksOfAnSm) {
  EXPECT_EQ(blocks_per_sm(sm, {256, 32, 0}), 8);        // threads and registers each allow 8
  EXPECT_EQ(blocks_per_sm(sm, {384, 168, 223232}), 1);  // a GEMM
  EXPECT_EQ(blocks_per_sm(sm, {320, 56, 0}), 3);        // 3.66
  EXPECT_EQ(blocks_per_sm(sm, {}), 1);                  // without any constants
}

TEST(OccupancyOf, SmallBlocksFillTheFreeShareByTheBlock) {
  EXPECT_DOUBLE_EQ((SmOccupancy{132, 0, 1}.effective(8)), 132);
  // Three of the eight blocks of an SM fit into 0.4 of it: 112 + 20 * 3 / 8.
  EXPECT_DOUBLE_EQ((SmOccupancy{112, 20, 0.4}.effective(8)), 119.5);
  EXPECT_DOUBLE_EQ((SmOccupancy{112, 20, 0.1}.effective(8)), 112);
  EXPECT_DOUBLE_EQ((SmOccupancy{112, 20, 0.9}.effective(1)), 112);
}

TEST(Rounds, WhatFitsTakesOne) {
  EXPECT_EQ(rounds(132, 1, {132, 0, 1}, 0.5), 1);
  EXPECT_EQ(rounds(396, 3, {132, 0, 1}, 0.5), 1);
  EXPECT_EQ(rounds(1, 1, {132, 0, 1}, 0.5), 1);
  EXPECT_EQ(rounds(396, 3, {112, 30, 0.7}, 0.5), 1);  // 336, and two on each of 30 shared SMs: exactly 396
}

TEST(Rounds, ASecondWaveOfOneBlockPerSmTakesAsLongAsTheFirst) {
  // Even few blocks that fill their SM take a whole round.
  EXPECT_EQ(rounds(132, 1, {112, 20, 0.1}, 0.5), 2);
  EXPECT_EQ(rounds(113, 1, {112, 20, 0.1}, 0.5), 2);
  EXPECT_EQ(rounds(132, 1, {112, 20, 0.1}, 0), 2);
}

TEST(Rounds, FewerBlocksOnAnSmEndTheirRoundSooner) {
  // Three are on an SM, 336 on 112 SMs; the other 60 get an SM each. Bound by latency they take a whole round, by
  // throughput a third; the test has half of each.
  EXPECT_DOUBLE_EQ(rounds(396, 3, {112, 20, 0.1}, 0.5), 1 + 0.5 + 0.5 / 3);
  EXPECT_DOUBLE_EQ(rounds(396, 3, {112, 20, 0.1}, 1), 2);
  EXPECT_DOUBLE_EQ(rounds(396, 3, {112, 20, 0.1}, 0), 1 + 1.0 / 3);
  // 180 left over 108 SMs: two on the fullest.
  EXPECT_DOUBLE_EQ(rounds(504, 3, {108, 0, 0}, 0.5), 1 + 0.5 + 0.5 * 2 / 3);
}

TEST(Rounds, MultiplesAreFullRounds) {
  EXPECT_EQ(rounds(264, 1, {132, 0, 1}, 0.5), 2);
  EXPECT_EQ(rounds(396, 3, {66, 66, 0.1}, 0.5), 2);
  EXPECT_EQ(rounds(396, 1, {132, 0, 1}, 0.5), 3);
}

TEST(Rounds, WithoutAFreeSmTheyNeverEnd) {
  EXPECT_EQ(rounds(1, 1, {0, 132, 0.9}, 0.5), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounds(3, 3, {0, 0, 1}, 0.5), std::numeric_limits<double>::infinity());
}

TEST(Rounds, MoreFreeSmsNeverTakeLonger) {
  for (const std::int64_t per_sm : {1, 2, 3, 8}) {
    for (const double share : {0.0, 0.121, 0.727}) {
      for (const double latency_share : {0.0, 0.5, 1.0}) {
        double before = std::numeric_limits<double>::infinity();
        for (std::int64_t free = 1; free <= 132; ++free) {
          const double now = rounds(132 * per_sm, per_sm, {free, 132 - free, share}, latency_share);
          EXPECT_LE(now, before) << per_sm << " per SM on " << free << ", share " << share;
          before = now;
        }
        EXPECT_EQ(before, 1);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::model
