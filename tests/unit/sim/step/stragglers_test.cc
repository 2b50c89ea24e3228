// Waits for the slowest rank, computed by simulating the whole group.
#include "sim/step/stragglers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/base/random.h"
#include "sim/predict/memos.h"
#include "sim/step/step_executor.h"
#include "tests/support/gpus.h"

namespace plumbline::sim {
namespace {

using model::Stream;
using tests::compute_time;
using tests::segment;
using tests::transfer_time;

// One second of compute per expected row, then a barrier of no length.
struct ComputeThenMeet {
  model::SlotTemplate slot;
  std::vector<SegmentTime> times;
  ComputeThenMeet() {
    slot.segments = {segment(Stream::compute), segment(Stream::communication, {0})};
    times = {compute_time(1), transfer_time(0, 0)};
    times[0].compute_per_row = times[0].compute;
  }
};

// Two all-to-alls overlapped with and between compute, of two blocks with rows of their own.
struct TwoBlocks {
  model::SlotTemplate slot;
  std::vector<SegmentTime> times;
  TwoBlocks() {
    slot.segments = {segment(Stream::compute), segment(Stream::communication, {0}), segment(Stream::compute),
                     segment(Stream::communication, {2}), segment(Stream::compute, {1, 3})};
    times = {compute_time(1, 1.1), transfer_time(0.5, 0.7, {.prepare = 0.1, .notify = 0.05}), compute_time(2, 2.2),
             transfer_time(0.5, 0.7), compute_time(1, 1.1)};
    for (std::size_t i : {0, 2, 4}) {
      slot.segments[i].block_of_stage = i == 0 ? 0 : 1;
      for (std::size_t state = 0; state < 3; ++state) times[i].compute_per_row[state] = 0.8 * times[i].compute[state];
    }
  }
};

constexpr std::int64_t sms = 132;

Imbalance drawn(double variation, std::uint64_t seed) { return {variation, {}, seed}; }
Imbalance stated(const std::vector<std::int64_t>& rows) { return {0, relative_rows(rows), 0}; }

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TEST(Stragglers, NobodyWaitsWhenRowsAreEven) {
  const TwoBlocks t;
  const GroupRun run = run_group(t.slot, t.times, 8, sms, {});
  EXPECT_EQ(run.waits, std::vector<double>(5, 0.0));
  EXPECT_NEAR(run.seconds, run_template(t.slot, t.times, sms).seconds, 1e-11);
}

TEST(Stragglers, OneRankWaitsForNobody) {
  const TwoBlocks t;
  EXPECT_EQ(run_group(t.slot, t.times, 1, sms, drawn(0.3, 1)).waits, std::vector<double>(5, 0.0));
}

TEST(Stragglers, TwoRanksByHand) {
  constexpr double imbalance = 0.1;
  constexpr std::uint64_t seed = 5;
  const ComputeThenMeet t;
  const GroupRun run = run_group(t.slot, t.times, 2, sms, drawn(imbalance, seed));
  // Both ranks draw their rows when a slot begins, which they do together: two draws a slot. The slot takes as long as
  // the slower rank computes, and the faster one waits for the difference, which is half of it on average over the two.
  // The first of the four slots does not count.
  model::Random random(seed);
  double waits = 0, seconds = 0;
  for (int slot = 0; slot < 4; ++slot) {
    const double a = 1 + imbalance * random.normal();
    const double b = 1 + imbalance * random.normal();
    if (slot == 0) continue;
    waits += std::abs(a - b) / 2 / 3;
    seconds += std::max(a, b) / 3;
  }
  EXPECT_GT(waits, 0.01);
  EXPECT_NEAR(run.waits[1], waits, 1e-11);  // picoseconds
  EXPECT_NEAR(run.seconds, seconds, 1e-11);
  EXPECT_EQ(run.waits[0], 0);
}

TEST(Stragglers, WaitsAndTimeGrowWithImbalance) {
  const TwoBlocks t;
  double waits = 0;
  double seconds = run_template(t.slot, t.times, sms).seconds;
  for (double imbalance : {0.02, 0.05, 0.1, 0.2}) {
    const GroupRun run = run_group(t.slot, t.times, 16, sms, drawn(imbalance, 3));
    EXPECT_GT(sum(run.waits), waits) << imbalance;
    EXPECT_GT(run.seconds, seconds) << imbalance;
    waits = sum(run.waits);
    seconds = run.seconds;
  }
}

TEST(Stragglers, WaitsGrowWithTheGroup) {
  // The expected maximum of n normal numbers above their mean: 0.56 sigma for 2, 1.77 for 16, 2.75 for 256.
  // Three slots of 256 ranks average enough draws for a tenth.
  const ComputeThenMeet t;
  const auto wait = [&](std::int64_t ranks) { return run_group(t.slot, t.times, ranks, sms, drawn(0.05, 7)).waits[1]; };
  EXPECT_LT(wait(2), wait(16));
  EXPECT_LT(wait(16), wait(256));
  EXPECT_NEAR(wait(256), 2.75 * 0.05, 0.1 * 2.75 * 0.05);
}

TEST(Stragglers, TheSeedDecides) {
  const TwoBlocks t;
  const GroupRun once = run_group(t.slot, t.times, 16, sms, drawn(0.1, 11));
  const GroupRun again = run_group(t.slot, t.times, 16, sms, drawn(0.1, 11));
  EXPECT_EQ(once.waits, again.waits);
  EXPECT_EQ(once.seconds, again.seconds);
  EXPECT_NE(once.waits, run_group(t.slot, t.times, 16, sms, drawn(0.1, 12)).waits);
}

// Everything that decides a run is a part of its key.
TEST(Stragglers, TheMemoReturnsTheWaitsOfARun) {
  ExpertGroupMemo memo;
  TwoBlocks t;
  const auto expect_same = [&](std::int64_t ranks, std::int64_t device_sms, const Imbalance& imbalance) {
    const std::vector<double> waits = run_group(t.slot, t.times, ranks, device_sms, imbalance).waits;
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(memo.straggler_waits(group_run_bytes(t.slot, t.times, ranks, device_sms, imbalance),
                                     [&] { return run_group(t.slot, t.times, ranks, device_sms, imbalance).waits; }),
                waits);
    return waits;
  };
  const std::vector<double> first = expect_same(16, sms, drawn(0.1, 11));
  EXPECT_NE(expect_same(8, sms, drawn(0.1, 11)), first);
  EXPECT_NE(expect_same(16, sms, drawn(0.1, 12)), first);
  EXPECT_NE(expect_same(16, sms, drawn(0.2, 11)), first);
  expect_same(4, sms, stated({100, 200, 300, 400}));
  t.slot.segments[2].waits = {1};
  EXPECT_NE(expect_same(16, sms, drawn(0.1, 11)), first);
  t.slot.segments[2].waits = {};
  t.slot.segments[2].block_of_stage = 2;
  EXPECT_NE(expect_same(16, sms, drawn(0.1, 11)), first);
  t.times[1].transfer *= 2;
  expect_same(16, sms, drawn(0.1, 11));
}

// A group runs without links: how long each leg takes by itself, and what it sends, are no part of the key.
TEST(Stragglers, LegsOfATransferDoNotDecideARun) {
  TwoBlocks t;
  const Imbalance imbalance = drawn(0.1, 11);
  const std::string key = group_run_bytes(t.slot, t.times, 16, sms, imbalance);
  const std::vector<double> waits = run_group(t.slot, t.times, 16, sms, imbalance).waits;
  for (SegmentTime& time : t.times) {
    time.network += 1;
    time.network_overlapped += 2;
    time.node += 3;
    time.network_bytes += 4;
    time.node_bytes += 5;
    time.kernels.push_back(6);
  }
  EXPECT_EQ(group_run_bytes(t.slot, t.times, 16, sms, imbalance), key);
  EXPECT_EQ(run_group(t.slot, t.times, 16, sms, imbalance).waits, waits);
  t.times[1].notify += 1;
  EXPECT_NE(group_run_bytes(t.slot, t.times, 16, sms, imbalance), key);
}

TEST(Stragglers, RelativeRowsHaveTheMeanOne) {
  EXPECT_EQ(relative_rows({100, 300}), (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(relative_rows({0, 0, 0}), (std::vector<double>{1, 1, 1}));  // no rank has any: all are equal
  EXPECT_TRUE(relative_rows({}).empty());
  EXPECT_TRUE(drawn(0, 1).even());
  EXPECT_FALSE(drawn(0.1, 1).even());
  EXPECT_FALSE(stated({1, 2}).even());
}

TEST(Stragglers, StatedRowsDecideWhoIsLate) {
  // One second per expected row: ranks compute 0.5, 1, 1.5 s in every slot and leave together, so they wait
  // 1, 0.5 and 0 s.
  const ComputeThenMeet t;
  const GroupRun run = run_group(t.slot, t.times, 3, sms, stated({100, 200, 300}));
  EXPECT_NEAR(run.seconds, 1.5, 1e-11);
  EXPECT_NEAR(run.waits[1], 0.5, 1e-11);
  // Neither the seed nor the unit of the rows changes the result.
  Imbalance other = stated({1, 2, 3});
  other.seed = 99;
  EXPECT_EQ(run_group(t.slot, t.times, 3, sms, other).waits, run.waits);
}

TEST(Stragglers, EqualStatedRowsAreNoImbalance) {
  const TwoBlocks t;
  const GroupRun run = run_group(t.slot, t.times, 4, sms, stated({7, 7, 7, 7}));
  EXPECT_EQ(run.waits, std::vector<double>(5, 0.0));
  EXPECT_NEAR(run.seconds, run_template(t.slot, t.times, sms).seconds, 1e-11);
}

TEST(Stragglers, ExtremeImbalanceStaysFinite) {
  // Rows are limited to zero, so that no kernel ends before it starts.
  const TwoBlocks t;
  const GroupRun run = run_group(t.slot, t.times, 16, sms, drawn(3.0, 2));
  EXPECT_GT(run.seconds, 0);
  for (double wait : run.waits) EXPECT_GE(wait, 0);
}

}  // namespace
}  // namespace plumbline::sim
