// GPipe and 1F1B compared with their exact forms; costs that differ by stage; the lower bound. P ranks, M
// micro-batches.
#include "tests/support/schedules.h"

#include <gtest/gtest.h>

#include "model/schedule/evaluate.h"

namespace plumbline::model {
namespace {

using tests::build;
using tests::describe;
using tests::expect_close;
using tests::kind;
using tests::makespan;

// The last rank starts after P-1 forwards and transfers and runs M forwards and M backwards without a break. The last
// gradient goes back over P-1 backwards and transfers: T = (P-1)(F + p2p) + M (F + B) + (P-1)(B + p2p) = (M+P-1)(F+B) +
// 2 (P-1) p2p.
TEST(GPipe, MakespanIsExactWithAnyTransferTime) {
  tests::RandomCosts random;
  for (int round = 0; round < 300; ++round) {
    const std::int32_t P = random.integer(1, 12), M = random.integer(1, 40);
    ScheduleCosts c = random();
    c.p2p = random.positive();
    SCOPED_TRACE(describe(P, M, c));
    const double expected = (M + P - 1) * (c.F + c.B) + 2 * (P - 1) * c.p2p;
    expect_close(makespan(build("gpipe", P, M), c), expected);
    expect_close(*kind("gpipe").exact_makespan({.ranks = P, .micro_batches = M}, c), expected);
  }
}

// P = 2, M = 3, F = 1, B = 2, p2p = 0.5 by hand. Rank 0: F 0-1 1-2 2-3. Rank 1: F 1.5-2.5 2.5-3.5 3.5-4.5,
// B 4.5-6.5 6.5-8.5 8.5-10.5. Rank 0: B 7-9 9-11 11-13, each 0.5 after the gradient. T = 4 * 3 + 2 * 0.5 = 13.
TEST(GPipe, ByHand) {
  const Schedule schedule = build("gpipe", 2, 3);
  const auto evaluation = evaluate(schedule, {.F = 1, .B = 2, .p2p = 0.5}).value();
  EXPECT_EQ(evaluation.start[0], (std::vector<double>{0, 1, 2, 7, 9, 11}));
  EXPECT_EQ(evaluation.start[1], (std::vector<double>{1.5, 2.5, 3.5, 4.5, 6.5, 8.5}));
  EXPECT_DOUBLE_EQ(evaluation.makespan, 13);
  EXPECT_EQ(evaluation.busy, (std::vector<double>{9, 9}));
  EXPECT_EQ(evaluation.idle, (std::vector<double>{4, 4}));
  EXPECT_EQ(evaluation.window, (std::vector<double>{13, 9}));
  EXPECT_EQ(evaluation.peak_activations, (std::vector<std::int32_t>{3, 3}));
}

// Fill and drain cost P-1 forwards and P-1 backwards; between them the last rank never waits:
//   T = (M+P-1)(F+B), M >= P.
TEST(OneForwardOneBackward, MakespanIsExactWithoutTransfers) {
  tests::RandomCosts random;
  for (int round = 0; round < 300; ++round) {
    const std::int32_t P = random.integer(1, 12), M = random.integer(P, 4 * P + 3);
    const ScheduleCosts c = random();
    SCOPED_TRACE(describe(P, M, c));
    expect_close(makespan(build("1f1b", P, M), c), (M + P - 1) * (c.F + c.B));
    expect_close(*kind("1f1b").exact_makespan({.ranks = P, .micro_batches = M}, c), (M + P - 1) * (c.F + c.B));
  }
}

// A path that starts with F_j on rank 0 can go down through n ranks and come back up: at the last rank (n = P) it goes
// on with B_j, at rank n-1 < P-1 with the op after F_j there, B_{j-P+n}. It costs n (F+B) + 2(n-1) p2p, and on rank 0
// the next op is F_{j+n}. From F_0 to B_{M-1} such lengths n must add up to M+P-1. Transfers per micro-batch grow with
// n, so the longest path takes n = P as often as it can, M/P times, and n = P-1 once (not first: B_{-1} does not exist;
// hence M >= 2P). Point-to-point transfers are not hidden, whatever their size: T = (M+P-1)(F+B) + [2(P-1) M/P +
// 2(P-2)] p2p, P divides M, M >= 2P, P >= 2.
TEST(OneForwardOneBackward, MakespanIsExactWithTransfers) {
  tests::RandomCosts random;
  for (int round = 0; round < 500; ++round) {
    const std::int32_t P = random.integer(2, 12), groups = random.integer(2, 6), M = P * groups;
    ScheduleCosts c = random();
    c.p2p = random.positive() * (round % 2 == 0 ? 0.01 : 2);
    SCOPED_TRACE(describe(P, M, c));
    const double expected = (M + P - 1) * (c.F + c.B) + (2 * (P - 1) * groups + 2 * (P - 2)) * c.p2p;
    expect_close(makespan(build("1f1b", P, M), c), expected);
    expect_close(*kind("1f1b").exact_makespan({.ranks = P, .micro_batches = M}, c), expected);
  }
}

// No form is given where none is known: M < P, and transfer times with a broken or a single group.
TEST(OneForwardOneBackward, NoExactFormOutsideItsConditions) {
  const ScheduleCosts transfers{.p2p = 0.1};
  EXPECT_FALSE(kind("1f1b").exact_makespan({.ranks = 4, .micro_batches = 3}, {}));
  EXPECT_FALSE(kind("1f1b").exact_makespan({.ranks = 4, .micro_batches = 9}, transfers));
  EXPECT_FALSE(kind("1f1b").exact_makespan({.ranks = 4, .micro_batches = 4}, transfers));
  // One rank has no transfers: M (F+B) = 6 * 3.
  EXPECT_DOUBLE_EQ(kind("1f1b").exact_makespan({.ranks = 1, .micro_batches = 6}, transfers).value(), 18);
}

// Rank r warms up with P-1-r forwards and holds one more while it alternates: P-r, or M when there are fewer.
TEST(OneForwardOneBackward, ActivationsShrinkTowardsTheEnd) {
  EXPECT_EQ(evaluate(build("1f1b", 4, 8), {}).value().peak_activations, (std::vector<std::int32_t>{4, 3, 2, 1}));
  EXPECT_EQ(evaluate(build("1f1b", 4, 2), {}).value().peak_activations, (std::vector<std::int32_t>{2, 2, 2, 1}));
}

// GPipe, P = 2, M = 2, p2p = 0.5, stage 0 F = 1 B = 2, stage 1 F = 2 B = 3. Rank 0: F 0-1 1-2. Rank 1: F 1.5-3.5
// 3.5-5.5, B 5.5-8.5 8.5-11.5. Rank 0: B 9-11 12-14. The bound: rank 1 waits 1.5, works 10, and 2.5 remain: 14.
// With micro-batch 1 twice as long: F 0-1 1-3; F 1.5-3.5 3.5-7.5, B 7.5-10.5 10.5-16.5; B 11-13 17-21.
TEST(UnevenCosts, ByHand) {
  const Schedule schedule = build("gpipe", 2, 2);
  const std::vector<StageCost> stages = {{.F = 1, .B = 2}, {.F = 2, .B = 3}};
  const StageCosts even(stages, 0.5), uneven(stages, 0.5, 1, {{1, 2}});
  EXPECT_DOUBLE_EQ(evaluate(schedule, even).value().makespan, 14);
  EXPECT_DOUBLE_EQ(lower_bound(schedule, even), 14);
  const auto evaluation = evaluate(schedule, uneven).value();
  EXPECT_EQ(evaluation.start[0], (std::vector<double>{0, 1, 11, 17}));
  EXPECT_EQ(evaluation.start[1], (std::vector<double>{1.5, 3.5, 7.5, 10.5}));
  EXPECT_DOUBLE_EQ(evaluation.makespan, 21);
  EXPECT_EQ(evaluation.busy, (std::vector<double>{9, 15}));
}

// One rank, two micro-batches: F, a pair of F + B = 3, B; the pair at 0.8 of its sum takes 2.4.
TEST(UnevenCosts, APairTakesAShareOfItsParts) {
  const Schedule schedule = build("interleaved-overlap", 1, 2);
  EXPECT_DOUBLE_EQ(evaluate(schedule, StageCosts({{.F = 1, .B = 2}}, 0)).value().makespan, 1 + 3 + 2);
  EXPECT_DOUBLE_EQ(evaluate(schedule, StageCosts({{.F = 1, .B = 2}}, 0, 0.8)).value().makespan, 1 + 2.4 + 2);
}

// GPipe and 1F1B reach the bound, as does ZB-V at equal costs; DualPipe at P = 4, M = 8 ends at 26 while the middle
// ranks wait 1, work 24 and end with a weight gradient: 25.
TEST(LowerBound, IsReachedWhereNothingIsLost) {
  const ScheduleCosts c{.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3};
  for (const std::string_view name : {"gpipe", "1f1b", "zb-h2", "zb-v"}) {
    const Schedule schedule = build(name, 4, 8);
    expect_close(lower_bound(schedule, UniformCosts(c)), makespan(schedule, c));
  }
  EXPECT_DOUBLE_EQ(lower_bound(build("dualpipe", 4, 8), UniformCosts(c)), 25);
}

}  // namespace
}  // namespace plumbline::model
