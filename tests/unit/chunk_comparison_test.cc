// A measured chunk summed up, asked for figures and laid beside a predicted one.
#include "calibrate/chunk/chunk_comparison.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "calibrate/chunk/chunk_metric.h"
#include "calibrate/chunk/intervals.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::calibrate {
namespace {

constexpr double us = 1e-6;
constexpr double exact = 1e-12;  // s; sums of a few doubles

const KernelClasses& classes() {
  static const KernelClasses loaded = load_kernel_classes(tests::shipped("calibrate/kernels.toml")).value();
  return loaded;
}

// Two pairs of layers. Every compute phase is one kernel of 100 us, 2 us apart; every exchange a notify of 12 to
// 15 us and a transfer of 50 us behind it, 200 us apart, so that none is exposed.
Chunk two_slots() {
  Chunk chunk{"made-up.csv", {}};
  const auto add = [&](int stream, const char* kind, const char* phase, int slot, double start, double duration,
                       const char* note = "") {
    const int layer = *phase == 'F' ? slot : 1 - slot;
    chunk.kernels.push_back({stream, kind, phase, layer, start * us, duration * us, 1, note});
  };
  for (int slot = 0; slot < 2; ++slot) {
    const double begin = slot * 612.0;  // six phases of 100 us and their gaps
    add(7, "gemm_fp8", "F", slot, begin, 100, "q_b:fprop:4096x24576x1536");
    add(7, "permute", "B", slot, begin + 102, 100, "rows=34688 tokens=32120");
    add(7, "gemm_fp8_wgrad_grouped", "W", slot, begin + 204, 100, "ex_down:g_wgrad:1x1x1");
    add(23, "gemm_fp8_wgrad_grouped", "W", slot, begin + 224, 60, "ex_down:g_wgrad:1x1x1");
    add(7, "permute", "F", slot, begin + 306, 100, "rows=31104 tokens=28984");
    add(7, "scale_transpose", "B", slot, begin + 408, 100);
    add(7, "quant_cast", "W", slot, begin + 510, 100);
    const char* phases[] = {"B", "F", "B", "F"};
    const char* transfers[] = {"dispatch_kernel", "dispatch_kernel", "combine_kernel", "combine_kernel"};
    for (int i = 0; i < 4; ++i) {
      const double at = begin + 5 + 140 * i;
      add(27, "notify", phases[i], slot, at, 12 + i);
      add(27, transfers[i], phases[i], slot, at + 20, 50);
    }
  }
  return chunk;
}

TEST(Intervals, CountWhatOverlapsOnce) {
  // [0, 3) and [2, 5) cover 5, [7, 8) one more; without [4, 7.5) remain [0, 4) and [7.5, 8).
  const std::vector<Interval> some = {{2, 5}, {0, 3}, {7, 8}};
  EXPECT_EQ(covered(some), 6);
  EXPECT_EQ(covered_without(some, {{4, 7.5}}), 4.5);
  EXPECT_EQ(merged({{1, 1}, {3, 2}}).size(), 0u);
}

TEST(ChunkSummary, CountsLaunchGapsAsBusyAndLongerOnesAsWaits) {
  const ChunkSummary summary = summarise(two_slots(), classes());
  // Twelve kernels and their gaps of 2 us without pause: from 0 to 612 + 610 us.
  EXPECT_NEAR(summary.seconds, 1222 * us, exact);
  EXPECT_NEAR(summary.compute_busy, 1222 * us, exact);
  // Eight transfers of 50 us, each 20 us behind the start of its notify with a launch gap between the two.
  EXPECT_NEAR(summary.communication_busy, 8 * 70 * us, exact);
  EXPECT_NEAR(summary.exposed_communication, 0, exact);

  Chunk chunk = two_slots();
  for (ChunkKernel& kernel : chunk.kernels)
    if (kernel.start > 600 * us) kernel.start += 50 * us;  // a pause of 52 us on the compute stream
  const ChunkSummary later = summarise(chunk, classes());
  EXPECT_NEAR(later.compute_busy, (1222 - 2) * us, exact);
  EXPECT_NEAR(later.seconds, 1272 * us, exact);
}

TEST(ChunkSummary, NamesPhasesByTheirOrder) {
  const ChunkSummary summary = summarise(two_slots(), classes());
  ASSERT_EQ(summary.slots, 2);
  ASSERT_EQ(summary.spans.size(), 20u);
  EXPECT_NEAR(chunk_value("chunk.span_s.mlp(W).1", summary).value(), 100 * us, exact);
  EXPECT_NEAR(chunk_value("chunk.span_s.combine(F).0", summary).value(), 70 * us, exact);
  EXPECT_NEAR(chunk_value("chunk.period_s.1", summary).value(), 612 * us, exact);
  EXPECT_EQ(chunk_value("chunk.period_s.0", summary), std::nullopt);
  EXPECT_EQ(chunk_value("chunk.span_s.mlp(W).2", summary), std::nullopt);
}

TEST(ChunkSummary, AnnotationsNamePhasesInAnyOrder) {
  Chunk chunk{"annotated.csv", {}};
  chunk.kernels = {{1, "gemm_bf16", "F", 0, 5 * us, 2 * us, 1, "section=attn(F) threads=384"},
                   {1, "gemm_bf16", "B", 0, 8 * us, 3 * us, 1, "section=attn(B)"},
                   {1, "elementwise", "F", 0, 12 * us, 1 * us, 1, "section=attn(F)"}};
  const ChunkSummary summary = summarise(chunk, classes());
  ASSERT_EQ(summary.spans.size(), 2u);
  EXPECT_NEAR(chunk_value("chunk.span_s.attn(F).0", summary).value(), 8 * us, exact);  // 5 to 13
  EXPECT_NEAR(chunk_value("chunk.span_s.attn(B).0", summary).value(), 3 * us, exact);
}

TEST(ChunkSummary, ClassesAndProducts) {
  const ChunkSummary summary = summarise(two_slots(), classes());
  // 60 us of the second stream lie within the first stream's 100 + 2.
  EXPECT_NEAR(chunk_value("chunk.class_s.weight-gradient GEMM", summary).value(), 204 * us, exact);
  EXPECT_NEAR(chunk_value("chunk.gemm_s.experts_down.wgrad", summary).value(), 102 * us, exact);
  EXPECT_NEAR(chunk_value("chunk.gemm_sum_s.fprop+wgrad", summary).value(), 204 * us, exact);
  // Casts: 102 us of scales and 102 of a cast, the very last one with nothing behind it.
  EXPECT_NEAR(chunk_value("chunk.class_s.cast", summary).value(), (4 * 102 - 2) * us, exact);
  EXPECT_EQ(chunk_value("chunk.class_s.attention", summary), std::nullopt);
  EXPECT_EQ(chunk_value("chunk.gemm_sum_s.recompute", summary), std::nullopt);
}

TEST(ChunkMetric, UnknownNamesHaveANearestOne) {
  EXPECT_TRUE(check_chunk_metric("chunk.time_s").has_value());
  EXPECT_TRUE(check_chunk_metric("chunk.span_s.attn(F).1").has_value());
  for (const char* unknown : {"chunk.tims_s", "chunk.span_s", "chunk.span_s.", "step.time_s", "chunk.", ""})
    EXPECT_FALSE(check_chunk_metric(unknown).has_value()) << unknown;
  EXPECT_NE(check_chunk_metric("chunk.spam_s.attn(F).1").error().hint.find("chunk.span_s"), std::string::npos);
}

TEST(ChunkRank, TakesRowsAndWaits) {
  const sim::ChunkRank rank = rank_of(two_slots(), classes(), true);
  ASSERT_EQ(rank.slots.size(), 2u);
  EXPECT_EQ(rank.slots[0].forward_rows, 31104);
  EXPECT_EQ(rank.slots[1].backward_rows, 34688);
  // combine(B), dispatch(F), dispatch(B), combine(F): 12, 13, 14, 15 us.
  double expected = 12;
  for (const auto& wait : rank.slots[1].waits) EXPECT_NEAR(wait.value(), expected++ * us, exact);
  EXPECT_FALSE(rank_of(two_slots(), classes(), false).slots[0].waits[0].has_value());

  Chunk chunk = two_slots();
  std::erase_if(chunk.kernels, [](const ChunkKernel& k) { return k.class_name == "notify" && k.start < 100 * us; });
  const sim::ChunkRank partial = rank_of(chunk, classes(), true);
  EXPECT_FALSE(partial.slots[0].waits[0].has_value());  // which of its meetings is missing is not known
  EXPECT_TRUE(partial.slots[1].waits[0].has_value());
}

TEST(ChunkComparison, LinesUpWhatBothHave) {
  ChunkSummary predicted = summarise(two_slots(), classes());
  predicted.classes = {{"cast", 812 * us}, {"rotary", 5 * us}};
  const ChunkComparison comparison = compare(summarise(two_slots(), classes()), predicted);
  EXPECT_TRUE(comparison.same_slots);
  EXPECT_EQ(comparison.spans.size(), 20u);
  for (const ComparedTime& row : comparison.spans) EXPECT_NEAR(row.error().value(), 0, exact);
  for (const ComparedTime& row : comparison.classes) {
    if (row.name == "cast") {
      EXPECT_NEAR(row.error().value(), 1, 1e-9);  // 812 of 406
    } else {
      EXPECT_NE(row.measured.has_value(), row.name == "rotary") << row.name;
      EXPECT_FALSE(row.error().has_value()) << row.name;
    }
  }
}

TEST(ChunkComparison, WithoutPhasesTotalsAndClassesRemain) {
  Chunk chunk = two_slots();
  for (ChunkKernel& kernel : chunk.kernels)
    kernel = {kernel.stream, kernel.class_name, "", -1, kernel.start, kernel.duration, 1, ""};
  const auto inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  const auto comparison = compare_chunk(chunk, classes(), inputs, Waits::measured);
  ASSERT_TRUE(comparison.has_value()) << to_string(comparison.error());
  EXPECT_FALSE(comparison->same_slots || comparison->rows_given || comparison->waits_given);
  EXPECT_EQ(comparison->totals.size(), 4u);
  EXPECT_TRUE(comparison->spans.empty() && comparison->products.empty());
  EXPECT_FALSE(comparison->classes.empty());
  EXPECT_TRUE(comparison->totals[0].predicted && comparison->totals[0].measured);
  EXPECT_FALSE(comparison->totals[0].error().has_value());  // of different work
}

TEST(ChunkComparison, NeedsAnOverlappedPair) {
  const auto inputs = tests::step_inputs(tests::llama_plan, "h800");
  const auto refused = compare_chunk(two_slots(), classes(), inputs, Waits::measured);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, model::ErrorKind::infeasible);
}

TEST(ChunkComparison, HostileLayersAreNoSlots) {
  Chunk chunk{"hostile.csv", {{1, "gemm_bf16", "F", 2147483647, 0, 1, 1, "rows=1"}}};
  EXPECT_EQ(summarise(chunk, classes()).slots, 0);
  EXPECT_TRUE(rank_of(chunk, classes(), true).slots.empty());
}

// What the published profile says (its own notes): 129.01 ms, compute busy 96.3 % without the 909 launch gaps of 1.83
// ms in all, that is 97.7 % with them.
TEST(PublishedChunk, IsReadAsPublished) {
  const Chunk chunk = read_chunk(tests::shipped("calibrate/published/h800_dualpipe_chunk.csv")).value();
  const ChunkSummary summary = summarise(chunk, classes());
  EXPECT_EQ(chunk.kernels.size(), 983u);
  EXPECT_EQ(summary.slots, 4);
  EXPECT_EQ(summary.spans.size(), 40u);
  EXPECT_NEAR(summary.seconds, 129.01e-3, 0.01e-3);
  EXPECT_NEAR(summary.compute_busy / summary.seconds, 0.963 + 1.83 / 129.01, 0.0005);
  EXPECT_NEAR(chunk_value("chunk.period_s.2", summary).value(), 32.56e-3, 0.01e-3);
  const sim::ChunkRank rank = rank_of(chunk, classes(), true);
  EXPECT_EQ(rank.slots[2].forward_rows, 36864);
  EXPECT_EQ(rank.slots[2].backward_rows, 32896);
  EXPECT_NEAR(rank.slots[3].waits[2].value(), 973e-6, exact);  // dispatch(B) of slot 3
}

}  // namespace
}  // namespace plumbline::calibrate
