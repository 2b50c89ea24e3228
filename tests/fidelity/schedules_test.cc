#include "tests/support/schedules.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "model/schedule/evaluate.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::build;
using tests::counts;
using tests::describe;
using tests::expect_close;
using tests::kind;
using tests::listing;
using tests::makespan;
using tests::RandomCosts;

// GPipe and 1F1B compared with their exact forms; costs that differ by stage; the lower bound. P ranks, M
// micro-batches.

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

// Interleaved schedules compared with their published order and exact forms. P ranks, v chunks each, M micro-batches.

// P = 2, v = 2, M = 4 in groups of 2. Rank 0 holds the stages 0 and 2. Its forwards: of micro-batches 0 and 1 stage 0
// twice, then stage 2 twice; the same of 2 and 3. Its backwards: of 0 and 1 stage 2 twice, then stage 0 twice; and
// so on. Warm-up: 2 (2-0-1) + 1 * 2 = 4 on rank 0, 2 on rank 1; then F and B in turn, then the backwards that remain.
TEST(Interleaved, ListingByHand) {
  const Schedule schedule = kind("interleaved").build({.ranks = 2, .micro_batches = 4, .virtual_stages = 2});
  EXPECT_EQ(listing(schedule.ranks[0]),
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3 ");
  EXPECT_EQ(listing(schedule.ranks[1]),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3 ");
}

// One group of all 3 micro-batches on 2 ranks: on rank 1 the warm-up is (2-1) * 3.
TEST(Interleaved, ListingOfALongerGroup) {
  const Schedule schedule =
      kind("interleaved").build({.ranks = 2, .micro_batches = 3, .virtual_stages = 2, .micro_batch_group = 3});
  EXPECT_EQ(listing(schedule.ranks[1]), "F1.0 F1.1 F1.2 F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 B1.0 B1.1 B1.2 ");
}

// The last rank starts after P-1 chunk forwards, never waits for v M forwards and backwards, and the last gradient goes
// back over P-1 chunks: (vM+P-1)(F+B). Transfers that the slack of the order hides add time only when the first
// micro-batch goes down all vP stages and the last one comes back: 2 (vP-1).
TEST(Interleaved, MakespanIsExactAndShortTransfersCostOnlyFillAndDrain) {
  tests::RandomCosts random;
  for (int round = 0; round < 300; ++round) {
    const std::int32_t P = random.integer(2, 8), M = P * random.integer(1, 5), v = random.integer(2, 4);
    const ScheduleShape shape{.ranks = P, .micro_batches = M, .virtual_stages = v};
    ScheduleCosts c = random();
    SCOPED_TRACE(describe(P, M, c) + " v=" + std::to_string(v));
    const Schedule schedule = kind("interleaved").build(shape);
    const double compute = (v * M + P - 1) * (c.F + c.B);
    expect_close(makespan(schedule, c), compute);
    expect_close(kind("interleaved").exact_makespan(shape, c).value(), compute);
    c.p2p = 1e-3 * std::min(c.F, c.B);
    expect_close(makespan(schedule, c), compute + 2 * (v * P - 1) * c.p2p);
  }
}

TEST(Interleaved, RefusesGroupsThatDoNotFitAndNamesWhatFits) {
  for (const std::string_view name : {"interleaved", "interleaved-overlap"}) {
    // 9 micro-batches on 4 ranks leave 4, 4 and 1. Groups of 5 leave 4, as many as ranks.
    const auto rest = kind(name).check({.ranks = 4, .micro_batches = 9, .virtual_stages = 2});
    tests::expect_error(rest, ErrorKind::infeasible, "micro_batches");
    EXPECT_EQ(rest.error().hint, "use 8 or 12 micro-batches, or a micro-batch group of 5");
    EXPECT_TRUE(kind(name).check({.ranks = 4, .micro_batches = 9, .virtual_stages = 2, .micro_batch_group = 5}));
    const auto small = kind(name).check({.ranks = 4, .micro_batches = 12, .virtual_stages = 2, .micro_batch_group = 3});
    ASSERT_FALSE(small);
    EXPECT_EQ(small.error().key, "micro_batch_group");
    EXPECT_EQ(small.error().hint, "use a micro-batch group of 4");
    const auto negative = kind(name).check({.ranks = 4, .micro_batches = 12, .micro_batch_group = -1});
    ASSERT_FALSE(negative);
    EXPECT_EQ(negative.error().key, "micro_batch_group");
  }
}

// One warm-up forward more than interleaved, w = 2(P-r-1) + (v-1)N + 1; then vM - w pairs, and w backwards remain. A
// pair holds its forward's chunk before it frees its backward's: w + 1 chunks, against w of interleaved.
TEST(InterleavedOverlap, OpCountsAndPeak) {
  const std::int32_t P = 4, v = 2, M = 16;
  const ScheduleShape shape{.ranks = P, .micro_batches = M, .virtual_stages = v};
  const Schedule schedule = kind("interleaved-overlap").build(shape);
  const auto peaks = evaluate(schedule, {}).value().peak_activations;
  const auto plain_peaks = evaluate(kind("interleaved").build(shape), {}).value().peak_activations;
  for (std::int32_t rank = 0; rank < P; ++rank) {
    const std::int32_t w = 2 * (P - rank - 1) + (v - 1) * P + 1;
    EXPECT_EQ(counts(schedule, rank), (std::array{w, w, 0, 0, v * M - w}));
    EXPECT_EQ(peaks[static_cast<std::size_t>(rank)], w + 1);
    EXPECT_EQ(plain_peaks[static_cast<std::size_t>(rank)], w);
  }
}

// Rank 1 of the listing of Interleaved: warm-up 3, then each next forward with the next backward.
TEST(InterleavedOverlap, ListingByHand) {
  const Schedule schedule = kind("interleaved-overlap").build({.ranks = 2, .micro_batches = 4, .virtual_stages = 2});
  EXPECT_EQ(listing(schedule.ranks[1]),
            "F1.0 F1.1 F3.0 FB3.1/3.0 FB1.2/3.1 FB1.3/1.0 FB3.2/1.1 FB3.3/3.2 B3.3 B1.2 B1.3 ");
}

// Zero-bubble schedules compared with their forms and memory limits. P ranks, M micro-batches.

// P = 3, M = 4, the middle rank: warm-up 1, then F, I and the W of one micro-batch earlier; one W is left.
TEST(ZeroBubbleH1, ListingByHand) {
  EXPECT_EQ(listing(build("zb-h1", 3, 4).ranks[1]), "F1.0 F1.1 I1.0 F1.2 I1.1 W1.0 F1.3 I1.2 W1.1 I1.3 W1.2 W1.3 ");
}

// Idle (P-1)(F+B-2W) with B = I+W: the last rank starts after P-1 forwards, works M (F+I+W), of which P W after its
// last input gradient; that one takes P-1 more I and a W to the end: (P-1) F + M (F+I+W) - P W + (P-1) I + W.
TEST(ZeroBubbleH1, MakespanIsExactForShortWeightGradients) {
  tests::RandomCosts random;
  for (int round = 0; round < 300; ++round) {
    const std::int32_t P = random.integer(1, 12), M = random.integer(2 * P, 5 * P);
    ScheduleCosts c = random();
    c.W = std::min({c.W, c.F, c.I});
    c.B = c.I + c.W;
    SCOPED_TRACE(describe(P, M, c));
    const double expected = M * (c.F + c.B) + (P - 1) * (c.F + c.B - 2 * c.W);
    expect_close(makespan(build("zb-h1", P, M), c), expected);
    expect_close(kind("zb-h1").exact_makespan({.ranks = P, .micro_batches = M}, c).value(), expected);
  }
}

// W > min(F, I): the bubble is larger, and no form is given.
TEST(ZeroBubbleH1, LongWeightGradientsCostMore) {
  const ScheduleCosts c{.F = 1, .B = 3, .I = 1, .W = 2};
  EXPECT_GT(makespan(build("zb-h1", 4, 8), c), 8 * (1 + 3) + 3 * (1 + 3 - 2 * 2));
  EXPECT_FALSE(kind("zb-h1").exact_makespan({.ranks = 4, .micro_batches = 8}, c));
}

// At F = I = W no rank waits inside its window, 3 M F long (6 M F with two chunks), and rank P-1 starts after P-1
// forwards: T = 3 M F + (P-1) F. Memory: P activations as 1F1B's first rank, 2P-1, and 2P chunks of half the size.
TEST(ZeroBubble, WindowsHaveNoBubbleAndMemoryIsKept) {
  for (const std::int32_t P : {1, 2, 3, 4, 5, 8, 16}) {
    for (const std::int32_t M : {2 * P, 2 * P + 1, 3 * P, 5 * P + 2}) {
      const ScheduleCosts c{.F = 0.5, .B = 1, .I = 0.5, .W = 0.5, .FB = 1.5};
      for (const auto& [name, chunks, peak] : {std::tuple{"zb-h2", 1, 2 * P - 1}, {"zb-v", 2, 2 * P}}) {
        SCOPED_TRACE(std::string(name) + " " + describe(P, M, c));
        const auto evaluation = evaluate(build(name, P, M), c).value();
        for (const double window : evaluation.window) expect_close(window, 3 * chunks * M * 0.5);
        expect_close(evaluation.makespan, (3 * chunks * M + P - 1) * 0.5);
        expect_close(kind(name).exact_makespan({.ranks = P, .micro_batches = M}, c).value(), evaluation.makespan);
        EXPECT_EQ(evaluation.peak_activations, std::vector<std::int32_t>(static_cast<std::size_t>(P), peak));
      }
      const auto first = evaluate(build("zb-h1", P, M), c).value();
      EXPECT_EQ(first.peak_activations, std::vector<std::int32_t>(static_cast<std::size_t>(P), P));
    }
  }
}

// The V: stages 0..P-1 go down the ranks, P..2P-1 come back, and the chunks per rank are two.
TEST(Placement, Vee) {
  const Schedule schedule = build("zb-v", 3, 6);
  const std::array<std::int32_t, 6> ranks = {0, 1, 2, 2, 1, 0};
  ASSERT_EQ(schedule.stages, 6);
  for (std::int32_t stage = 0; stage < 6; ++stage) EXPECT_EQ(schedule.rank_of(0, stage), ranks[std::size_t(stage)]);
  for (const std::string_view name : {"zb-v", "dualpipev"}) {
    EXPECT_TRUE(kind(name).check({.ranks = 3, .micro_batches = 6, .virtual_stages = 2}));
    const auto checked = kind(name).check({.ranks = 3, .micro_batches = 6, .virtual_stages = 3});
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().key, "virtual_stages");
  }
}

// DualPipe and DualPipeV compared with their exact forms. Notation: P ranks, M micro-batches, H = P/2 (P under
// DualPipeV), F forward, B = I + W backward, FB an overlapped pair, h the distance of a rank from the nearer end.

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
