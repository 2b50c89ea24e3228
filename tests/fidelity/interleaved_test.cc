// Interleaved schedules compared with their published order and exact forms. P ranks, v chunks each, M micro-batches.
#include <gtest/gtest.h>

#include "tests/support/inputs.h"
#include "tests/support/schedules.h"

namespace plumbline::model {
namespace {

using tests::counts;
using tests::describe;
using tests::expect_close;
using tests::kind;
using tests::listing;
using tests::makespan;

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

}  // namespace
}  // namespace plumbline::model
