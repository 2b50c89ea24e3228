// DualPipe and DualPipeV compared with their exact forms. Notation: P ranks, M micro-batches, H = P/2 (P under
// DualPipeV), F forward, B = I + W backward, FB an overlapped pair, h the distance of a rank from the nearer end.
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/inputs.h"
#include "tests/support/schedules.h"

namespace plumbline::model {
namespace {

using tests::build;
using tests::counts;
using tests::describe;
using tests::expect_close;
using tests::kind;
using tests::makespan;
using tests::RandomCosts;

// Counting the eight steps: F is 2(H-h-1) + 2(h+1) + (H-h-1) = 2H + (H-1-h); step 6 has 2(h+1) backwards of
// which h+1 are split, step 3 and 7 add H-h-1 input gradients each, so I = W = 2(H-h-1) + h+1 = 2H-h-1 and
// B = (H-h-1) + (h+1) = H; pairs are 2(M/2-P+h+1) + (H-h-1) = M - 3H + h + 1. On the two middle ranks
// (h = H-1) the first pair runs as F and B.
TEST(DualPipe, OpCounts) {
  for (const auto& [P, M] : {std::pair{2, 4}, {4, 8}, {4, 30}, {6, 12}, {8, 20}, {10, 64}, {16, 32}, {16, 120}}) {
    const Schedule schedule = build("dualpipe", P, M);
    const std::int32_t H = P / 2;
    for (std::int32_t rank = 0; rank < P; ++rank) {
      SCOPED_TRACE("P=" + std::to_string(P) + " M=" + std::to_string(M) + " rank=" + std::to_string(rank));
      const std::int32_t h = std::min(rank, P - 1 - rank), mid = h == H - 1 ? 1 : 0;
      const std::array<std::int32_t, 5> expected = {2 * H + (H - 1 - h) + mid, H + mid, 2 * H - h - 1, 2 * H - h - 1,
                                                    M - 3 * H + h + 1 - mid};
      EXPECT_EQ(counts(schedule, rank), expected);
    }
  }
}

// Micro-batches of one direction pass in order, and weight gradients run in the order of their input gradients.
TEST(DualPipe, MicroBatchesPassInOrder) {
  const Schedule schedule = build("dualpipe", 8, 24);
  for (const auto& ops : schedule.ranks) {
    std::array<std::int32_t, 2> forwards{}, backwards{};
    std::vector<std::pair<std::int32_t, std::int32_t>> split, weights;
    for (const ScheduleOp& op : ops) {
      if (op.f_dir >= 0) {
        EXPECT_EQ(op.f_mb, forwards[static_cast<std::size_t>(op.f_dir)]++);
      }
      if (op.type == OpType::W) {
        weights.emplace_back(op.b_dir, op.b_mb);
      } else if (op.b_dir >= 0) {
        EXPECT_EQ(op.b_mb, backwards[static_cast<std::size_t>(op.b_dir)]++);
        if (op.type == OpType::I) split.emplace_back(op.b_dir, op.b_mb);
      }
    }
    EXPECT_EQ(split, weights);
  }
}

// Every rank keeps P+1 micro-batches: over its two stages P are under way, and the forward of a pair counts
// before its backward frees.
TEST(DualPipe, PeakActivationsAreRanksPlusOne) {
  for (const auto& [P, M] : {std::pair{2, 4}, {4, 8}, {6, 14}, {8, 16}, {16, 32}, {16, 120}}) {
    const auto peaks = evaluate(build("dualpipe", P, M), {}).value().peak_activations;
    EXPECT_EQ(peaks, std::vector<std::int32_t>(static_cast<std::size_t>(P), P + 1)) << P << " " << M;
  }
}

// The critical path.
// Fill: the middle runs its H x {F0, F1} from (H-1) F on and then one F, until 3H F; the first micro-batch to
// come back passes 2H forwards and H-1 input gradients. So the first backward of the middle starts at
//   2H F + max(H F, (H-1) I).
// Steady: one B and M-2H-1 pairs on the middle. Drain: the last forward goes outwards through H-1 pairs, and its
// gradient comes back through all 2H stages, the first as a full B, the others as I, and a W ends the step:
//   B + (M-2H-1) FB + (H-1) FB + B + (2H-1) I + W = (M-H-2) FB + 3B + 2(H-1) I.
// On H-1 of these ranks a W stands before the I (step 7); longer than an I it delays the gradient by W - I each.
// With I = B - W the sum is
//   T = (M-H-2) FB + (2H+1) B - 2(H-1) W + 2H F + max(H F, (H-1) I) + (H-1) max(0, W-I).
double dualpipe_makespan(std::int32_t P, std::int32_t M, const ScheduleCosts& c) {
  const double H = P / 2.0;  // an even number of ranks
  return (M - H - 2) * c.FB + (2 * H + 1) * c.B - 2 * (H - 1) * c.W + 2 * H * c.F + std::max(H * c.F, (H - 1) * c.I) +
         (H - 1) * std::max(0.0, c.W - c.I);
}

TEST(DualPipe, MakespanIsExact) {
  RandomCosts random;
  for (int round = 0; round < 1000; ++round) {
    const std::int32_t P = 2 * random.integer(1, 10), M = 2 * random.integer(P, 3 * P);
    const ScheduleCosts c = random();
    SCOPED_TRACE(describe(P, M, c));
    const auto exact = kind("dualpipe").exact_makespan({.ranks = P, .micro_batches = M}, c);
    ASSERT_TRUE(exact);
    expect_close(*exact, dualpipe_makespan(P, M, c));
    expect_close(makespan(build("dualpipe", P, M), c), *exact);
  }
}

// The middle computes (2H+1)(F+B) + (M-2H-1) FB, so its idle is
//   (H-1)(FB - 2W) - F + max(H F, (H-1) I) + (H-1) max(0, W-I),
// and at F = I >= W, where the maximum is H F: (H-1)(FB - 2W + F) = (H-1)(FB + B - 3W), the published form.
TEST(DualPipe, IdleOfTheMiddleIsThePublishedBubbleAtEqualForwardAndInputGradient) {
  for (const std::int32_t M : {32, 34, 120}) {
    const ScheduleCosts c{.F = 1.1, .B = 1.8, .I = 1.1, .W = 0.7, .FB = 2.5};
    const auto evaluation = evaluate(build("dualpipe", 16, M), c).value();
    expect_close(evaluation.idle[7], 7 * (2.5 + 1.8 - 3 * 0.7));
  }
  // F = 1 != I = 2, W = 1, B = 3, FB = 4: published 7 (4 + 3 - 3) = 28; exact 7 (4 - 2) - 1 + max(8, 14) = 27.
  const ScheduleCosts unequal{.F = 1, .B = 3, .I = 2, .W = 1, .FB = 4};
  expect_close(evaluate(build("dualpipe", 16, 120), unequal).value().idle[7], 27);
}

// From one rank to the next one outwards an F and a B (as I and W) replace a pair, from h = H-2 on; at h = H-1
// the middle runs one pair less as well and equals H-2. So busy grows by F + B - FB per step and
//   idle_h = idle_mid - max(0, H-2-h)(F + B - FB).
TEST(DualPipe, IdlePerRank) {
  RandomCosts random;
  for (int round = 0; round < 200; ++round) {
    const std::int32_t P = 2 * random.integer(1, 9), H = P / 2, M = 2 * random.integer(P, 3 * P);
    const ScheduleCosts c = random();
    SCOPED_TRACE(describe(P, M, c));
    const auto evaluation = evaluate(build("dualpipe", P, M), c).value();
    const double middle = evaluation.idle[static_cast<std::size_t>(H - 1)];
    for (std::int32_t rank = 0; rank < P; ++rank) {
      const std::int32_t h = std::min(rank, P - 1 - rank);
      EXPECT_NEAR(evaluation.idle[static_cast<std::size_t>(rank)], middle - std::max(0, H - 2 - h) * (c.F + c.B - c.FB),
                  1e-9 * evaluation.makespan);
    }
  }
}

// There is no form outside max(F, B) <= FB <= F + B, with B other than I + W, or with transfer times.
TEST(DualPipe, NoExactFormOutsideItsConditions) {
  const ScheduleShape shape{.ranks = 4, .micro_batches = 8};
  const ScheduleKind& dualpipe = kind("dualpipe");
  EXPECT_TRUE(dualpipe.exact_makespan(shape, {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 2}));
  EXPECT_FALSE(dualpipe.exact_makespan(shape, {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 1.9}));
  EXPECT_FALSE(dualpipe.exact_makespan(shape, {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3.1}));
  EXPECT_FALSE(dualpipe.exact_makespan(shape, {.F = 1, .B = 2.5, .I = 1, .W = 1, .FB = 3}));
  EXPECT_FALSE(dualpipe.exact_makespan(shape, {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3, .p2p = 0.1}));
}

// Expects so many transfers on the critical path under blocking batches, of which eager sends leave a part, where no
// rank delays a partner inside a batch: for I >= max(F, W).
void expect_transfers(const std::string& name, std::int32_t P, std::int32_t M, ScheduleCosts c, double transfers,
                      double tolerance, double eager_part) {
  c.I = std::max({c.I, c.F, c.W});
  c.B = c.I + c.W;
  c.FB = c.B + 0.9 * c.F;
  SCOPED_TRACE(describe(P, M, c));
  const Schedule schedule = build(name, P, M);
  EXPECT_EQ(schedule.point_to_point, PointToPoint::batched);
  const double without = makespan(schedule, c);
  EXPECT_NEAR(makespan(schedule, c, PointToPoint::batched), without, 1e-9 * without);
  c.p2p = 1e-3 * c.F;
  const double blocking = makespan(schedule, c, PointToPoint::batched) - without;
  EXPECT_NEAR(blocking / c.p2p, transfers, tolerance);
  const double eager = makespan(schedule, c) - without;
  EXPECT_GE(eager, eager_part * blocking);
  EXPECT_LE(eager, blocking);
}

// Blocking batches: before a slot of the critical path the rank waits for one transfer, if its batch has any. The path
// through the input gradients, 2H F, H-1 I, M-H-2 FB, 2 B, 2H-1 I and a W, has M+4H-1 slots. Three of their batches are
// empty: before the first F of an end rank, before the B that follows an end rank's last pair (no activation to send,
// and the last stage receives no gradient), and before the final W of an end rank. M+4H-4 remain. The path over the
// middle's 3H forwards has one slot more and one empty batch more: before its last F, whose input was asked for a slot
// earlier. So P >= 4 has M + 2P - 4 transfers. Eager sends hide a part of it, never all: 0.7 remains.
TEST(DualPipe, BlockingBatchesCostATransferPerSlot) {
  RandomCosts random;
  for (int round = 0; round < 300; ++round) {
    const std::int32_t P = 2 * random.integer(2, 9), M = 2 * random.integer(P, 3 * P);
    expect_transfers("dualpipe", P, M, random(), M + 2 * P - 4, 1e-4 * M, 0.7);
  }
}

TEST(DualPipe, RefusesShapesItDoesNotExistFor) {
  const ScheduleKind& dualpipe = kind("dualpipe");
  const auto refused = [&](const ScheduleShape& shape, const std::string& key, const std::string& reason) {
    const auto checked = dualpipe.check(shape);
    tests::expect_error(checked, ErrorKind::infeasible, key, reason);
    EXPECT_FALSE(checked.error().hint.empty());
  };
  refused({.ranks = 5, .micro_batches = 20}, "ranks", "even number of ranks");
  refused({.ranks = 4, .micro_batches = 9}, "micro_batches", "even number of micro-batches");
  refused({.ranks = 4, .micro_batches = 6}, "micro_batches", "at least 8");
  refused({.ranks = 4, .micro_batches = 8, .virtual_stages = 2}, "virtual_stages", "no virtual stages");
  EXPECT_TRUE(dualpipe.check({.ranks = 4, .micro_batches = 8}));
}

// DualPipeV is the program of DualPipe's lower half on 2P ranks with 2M micro-batches; direction 0 goes down the V,
// direction 1 back.
TEST(DualPipeV, IsDualPipeCutInHalf) {
  for (const auto& [P, M] : {std::pair{1, 2}, {2, 4}, {3, 7}, {4, 9}, {8, 40}}) {
    const Schedule half = build("dualpipev", P, M), whole = build("dualpipe", 2 * P, 2 * M);
    for (std::int32_t rank = 0; rank < P; ++rank) {
      std::vector<ScheduleOp> ops = whole.ranks[static_cast<std::size_t>(rank)];
      for (ScheduleOp& op : ops) {
        if (op.f_dir >= 0) op.f_stage = std::exchange(op.f_dir, 0) == 0 ? rank : 2 * P - 1 - rank;
        if (op.b_dir >= 0) op.b_stage = std::exchange(op.b_dir, 0) == 0 ? rank : 2 * P - 1 - rank;
      }
      EXPECT_EQ(half.ranks[static_cast<std::size_t>(rank)], ops);
    }
  }
}

// DualPipeV has the counts of DualPipe with h = rank, H = P and 2M micro-batches, and 2P+1 chunks held on every rank.
TEST(DualPipeV, OpCountsAndPeak) {
  for (const auto& [P, M] : {std::pair{1, 2}, {1, 5}, {2, 4}, {3, 7}, {4, 9}, {8, 16}, {8, 61}}) {
    const Schedule schedule = build("dualpipev", P, M);
    const auto peaks = evaluate(schedule, {}).value().peak_activations;
    for (std::int32_t h = 0; h < P; ++h) {
      const std::int32_t last = h == P - 1 ? 1 : 0;
      const std::array<std::int32_t, 5> expected = {2 * P + (P - 1 - h) + last, P + last, 2 * P - h - 1, 2 * P - h - 1,
                                                    2 * M - 3 * P + h + 1 - last};
      EXPECT_EQ(counts(schedule, h), expected) << P << " " << M << " " << h;
      EXPECT_EQ(peaks[static_cast<std::size_t>(h)], 2 * P + 1);
    }
  }
}

// The form is DualPipe's with H = P and M -> 2M, and its idle time per rank counts from the last rank; M may be odd.
TEST(DualPipeV, MakespanAndIdleAreExact) {
  RandomCosts random;
  for (int round = 0; round < 500; ++round) {
    const std::int32_t P = random.integer(1, 10), M = random.integer(2 * P, 6 * P);
    const ScheduleCosts c = random();
    SCOPED_TRACE(describe(P, M, c));
    const auto evaluation = evaluate(build("dualpipev", P, M), c).value();
    expect_close(evaluation.makespan, dualpipe_makespan(2 * P, 2 * M, c));
    expect_close(kind("dualpipev").exact_makespan({.ranks = P, .micro_batches = M}, c).value(), evaluation.makespan);
    for (std::int32_t h = 0; h < P; ++h)
      EXPECT_NEAR(evaluation.idle[static_cast<std::size_t>(h)],
                  evaluation.idle.back() - std::max(0, P - 2 - h) * (c.F + c.B - c.FB), 1e-9 * evaluation.makespan);
  }
}

// Blocking batches add a transfer per slot of the critical path as under DualPipe: M -> 2M and P -> 2P in its M + 2P -
// 4, less those that stay on the last rank: between 2M + 4P - 7 and 2M + 4P - 5. Eager sends leave at least 0.55 of
// them.
TEST(DualPipeV, BlockingBatchesCostATransferPerSlot) {
  RandomCosts random;
  for (int round = 0; round < 200; ++round) {
    const std::int32_t P = random.integer(3, 9), M = random.integer(2 * P, 5 * P);
    expect_transfers("dualpipev", P, M, random(), 2 * M + 4 * P - 6, 1.001, 0.55);
  }
}

TEST(DualPipeV, RefusesTooFewMicroBatches) {
  const auto checked = kind("dualpipev").check({.ranks = 4, .micro_batches = 7});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().key, "micro_batches");
  EXPECT_EQ(checked.error().hint, "use 8 micro-batches, or at most 3 ranks");
}

}  // namespace
}  // namespace plumbline::model
