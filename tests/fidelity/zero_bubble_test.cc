// Zero-bubble schedules compared with their forms and memory limits. P ranks, M micro-batches.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/support/schedules.h"

namespace plumbline::model {
namespace {

using tests::build;
using tests::describe;
using tests::expect_close;
using tests::kind;
using tests::listing;
using tests::makespan;

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

}  // namespace
}  // namespace plumbline::model
