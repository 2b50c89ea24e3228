// Sums and figures of a measured chunk, and its comparison with a predicted one.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/validate/case_evaluation.h"
#include "tests/support/inputs.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/step_inputs.h"

namespace plumbline::calibrate {
namespace {

using model::summarize;
using model::TimelineSummary;
using Kernels = std::vector<TracedKernel>;
using tests::shipped_kernel_classes;

constexpr double us = 1e-6;
constexpr std::int64_t ps_per_us = 1'000'000;
constexpr double exact = 1e-12;  // seconds; for sums of a few doubles

// Two pairs of layers. Every compute phase is one kernel of 100 us, with gaps of 2 us. Every all-to-all is a notify of
// 12 to 15 us and a transfer of 50 us after it. All-to-alls start every 200 us, so that none is exposed.
Kernels two_slots() {
  Kernels kernels;
  const auto add = [&](int stream, const char* kind, const char* phase, int slot, std::int64_t start,
                       std::int64_t duration, const char* note = "") {
    kernels.push_back({start * ps_per_us,
                       duration * ps_per_us,
                       *phase == 'F' ? slot : 1 - slot,
                       {.class_name = kind, .phase = phase, .note = note, .queue = stream, .grid = 1}});
  };
  for (int slot = 0; slot < 2; ++slot) {
    const std::int64_t begin = slot * 612;  // six phases of 100 us and their gaps
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
      const std::int64_t at = begin + 5 + 140 * i;
      add(27, "notify", phases[i], slot, at, 12 + i);
      add(27, transfers[i], phases[i], slot, at + 20, 50);
    }
  }
  return kernels;
}

model::Timeline timeline(Kernels kernels) { return kernel_timeline(std::move(kernels), shipped_kernel_classes()); }

TEST(ChunkSummary, CountsLaunchGapsAsBusyAndLongerOnesAsWaits) {
  const TimelineSummary summary = summarize(timeline(two_slots()));
  // Twelve kernels and their gaps of 2 us follow each other: from 0 to 612 + 610 us.
  EXPECT_NEAR(summary.seconds, 1222 * us, exact);
  EXPECT_NEAR(summary.compute_busy, 1222 * us, exact);
  // There are 8 transfers of 50 us, each 20 us after the start of its notify with a launch gap between the two.
  EXPECT_NEAR(summary.communication_busy, 8 * 70 * us, exact);
  EXPECT_NEAR(summary.exposed_communication, 0, exact);

  Kernels kernels = two_slots();
  for (TracedKernel& traced : kernels)
    if (traced.start_ps > 600 * ps_per_us) traced.start_ps += 50 * ps_per_us;  // a pause of 52 us on the compute stream
  const TimelineSummary later = summarize(timeline(kernels));
  EXPECT_NEAR(later.compute_busy, (1222 - 2) * us, exact);
  EXPECT_NEAR(later.seconds, 1272 * us, exact);
}

TEST(ChunkSummary, NamesPhasesByTheirOrder) {
  const TimelineSummary summary = summarize(timeline(two_slots()));
  ASSERT_EQ(summary.slots, 2);
  ASSERT_EQ(summary.phases.size(), 20u);
  EXPECT_NEAR(metric_value("chunk.span_s.mlp(W).1", summary).value(), 100 * us, exact);
  EXPECT_NEAR(metric_value("chunk.span_s.combine(F).0", summary).value(), 70 * us, exact);
  EXPECT_NEAR(metric_value("chunk.period_s.1", summary).value(), 612 * us, exact);
  EXPECT_EQ(metric_value("chunk.period_s.0", summary), std::nullopt);
  EXPECT_EQ(metric_value("chunk.span_s.mlp(W).2", summary), std::nullopt);
}

TEST(ChunkSummary, AnnotationsNamePhasesInAnyOrder) {
  const auto traced = [](std::int64_t start, std::int64_t duration, const char* phase, const char* note) {
    return TracedKernel{start * ps_per_us,
                        duration * ps_per_us,
                        0,
                        {.class_name = "elementwise", .phase = phase, .note = note, .queue = 1}};
  };
  const Kernels kernels = {traced(5, 2, "F", "section=attn(F) threads=384"), traced(8, 3, "B", "section=attn(B)"),
                           traced(12, 1, "F", "section=attn(F)")};
  const TimelineSummary summary = summarize(timeline(kernels));
  ASSERT_EQ(summary.phases.size(), 2u);
  EXPECT_NEAR(metric_value("chunk.span_s.attn(F).0", summary).value(), 8 * us, exact);  // 5 to 13
  EXPECT_NEAR(metric_value("chunk.span_s.attn(B).0", summary).value(), 3 * us, exact);
}

TEST(ChunkSummary, ClassesAndGemms) {
  const TimelineSummary summary = summarize(timeline(two_slots()));
  // 60 us of the second stream lie within the first stream's 100 + 2.
  EXPECT_NEAR(metric_value("chunk.class_s.weight-gradient GEMM", summary).value(), 204 * us, exact);
  EXPECT_NEAR(metric_value("chunk.gemm_s.experts_down.wgrad", summary).value(), 102 * us, exact);
  EXPECT_NEAR(metric_value("chunk.gemm_sum_s.fprop+wgrad", summary).value(), 204 * us, exact);
  // Casts: 102 us of scales and 102 of a cast; the very last one has no gap after it.
  EXPECT_NEAR(metric_value("chunk.class_s.cast", summary).value(), (4 * 102 - 2) * us, exact);
  EXPECT_EQ(metric_value("chunk.class_s.attention", summary), std::nullopt);
  EXPECT_EQ(metric_value("chunk.gemm_sum_s.recompute", summary), std::nullopt);
}

TEST(ChunkMetric, UnknownNamesHaveANearestOne) {
  EXPECT_TRUE(check_metric("chunk.time_s").has_value());
  EXPECT_TRUE(check_metric("chunk.span_s.attn(F).1").has_value());
  EXPECT_FALSE(check_step_metric("chunk.time_s").has_value());
  for (const char* unknown : {"chunk.tims_s", "chunk.span_s", "chunk.span_s.", "chunk.", ""})
    EXPECT_FALSE(check_metric(unknown).has_value()) << unknown;
  EXPECT_NE(check_metric("chunk.spam_s.attn(F).1").error().hint.find("chunk.span_s"), std::string::npos);
}

// "kernel=at::native::copy" is the name of a kernel, not of a GEMM.
TEST(ChunkSummary, NamesOfKernelsAreNoGemms) {
  Kernels kernels = two_slots();
  for (TracedKernel& traced : kernels) traced.kernel.note = "threads=256 kernel=at::native::copy";
  EXPECT_TRUE(summarize(timeline(kernels)).gemms.empty());
}

TEST(ChunkRank, TakesRowsAndWaits) {
  const sim::ChunkRank rank = rank_of(timeline(two_slots()), true);
  ASSERT_EQ(rank.slots.size(), 2u);
  EXPECT_EQ(rank.slots[0].forward_rows, 31104);
  EXPECT_EQ(rank.slots[1].backward_rows, 34688);
  // combine(B), dispatch(F), dispatch(B), combine(F): 12, 13, 14, 15 us.
  double expected = 12;
  for (const auto& wait : rank.slots[1].waits) EXPECT_NEAR(wait.value(), expected++ * us, exact);
  EXPECT_FALSE(rank_of(timeline(two_slots()), false).slots[0].waits[0].has_value());

  Kernels kernels = two_slots();
  std::erase_if(kernels, [](const TracedKernel& traced) {
    return traced.kernel.class_name == "notify" && traced.start_ps < 100 * ps_per_us;
  });
  const sim::ChunkRank partial = rank_of(timeline(kernels), true);
  EXPECT_FALSE(partial.slots[0].waits[0].has_value());  // which of its barriers is missing is unknown
  EXPECT_TRUE(partial.slots[1].waits[0].has_value());
}

TEST(ChunkComparison, LinesUpWhatBothHave) {
  Kernels other = two_slots();
  for (TracedKernel& traced : other)
    if (traced.kernel.class_name == "quant_cast") traced.kernel.class_name = "rotary";
  const model::TimelineComparison comparison = model::compare(timeline(other), timeline(two_slots()));
  EXPECT_TRUE(comparison.same_slots);
  EXPECT_EQ(comparison.phases.size(), 20u);
  for (const model::ComparedTime& row : comparison.phases) EXPECT_NEAR(row.error().value(), 0, exact);
  const auto row_of = [&](const char* name) {
    return *std::ranges::find(comparison.classes, name, &model::ComparedTime::name);
  };
  // Of four casts of 102 us, the last without a gap after it, two are predicted.
  EXPECT_NEAR(row_of("cast").error().value(), 204.0 / 406 - 1, 1e-9);
  EXPECT_EQ(row_of("GEMM").error(), 0);
  EXPECT_FALSE(row_of("rotary").measured_s.has_value() || row_of("rotary").error().has_value());
}

TEST(ChunkComparison, WithoutPhasesTotalsAndClassesRemain) {
  Kernels kernels = two_slots();
  for (TracedKernel& traced : kernels) {
    traced.layer = -1;
    traced.kernel.phase = traced.kernel.note = "";
  }
  const auto inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  const auto comparison = compare_chunk(timeline(kernels), inputs, Waits::measured);
  ASSERT_TRUE(comparison.has_value()) << to_string(comparison.error());
  const model::TimelineComparison& times = comparison->times;
  EXPECT_FALSE(times.same_slots || comparison->rows_given || comparison->waits_given);
  ASSERT_EQ(times.totals.size(), 4u);
  EXPECT_TRUE(times.phases.empty() && times.gemms.empty());
  EXPECT_FALSE(times.classes.empty());
  EXPECT_TRUE(times.totals[0].predicted_s && times.totals[0].measured_s);
  EXPECT_FALSE(times.totals[0].error().has_value());  // their work differs
}

TEST(ChunkComparison, NeedsAnOverlappedPair) {
  const auto inputs = tests::step_inputs(tests::llama_plan, "h800");
  const auto refused = compare_chunk(timeline(two_slots()), inputs, Waits::measured);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, model::ErrorKind::infeasible);
}

TEST(ChunkComparison, HostileLayersAreNoSlots) {
  const model::Timeline hostile = timeline({{0, 1, 2147483647, {.class_name = "gemm_bf16", .phase = "F"}}});
  EXPECT_EQ(summarize(hostile).slots, 0);
  EXPECT_TRUE(rank_of(hostile, true).slots.empty());
}

// The notes of the published profile give 129.01 ms and compute busy for 96.3 % without the 909 launch gaps of 1.83 ms
// in all, that is 97.7 % with them.
TEST(PublishedChunk, IsReadAsPublished) {
  const auto chunk =
      read_chunk(tests::shipped("calibrate/published/h800_dualpipe_chunk.csv"), shipped_kernel_classes()).value();
  const TimelineSummary summary = summarize(chunk);
  EXPECT_EQ(chunk.kernels.size(), 983u);
  EXPECT_EQ(summary.slots, 4);
  EXPECT_EQ(summary.phases.size(), 40u);
  EXPECT_NEAR(summary.seconds, 129.01e-3, 0.01e-3);
  EXPECT_NEAR(summary.compute_busy / summary.seconds, 0.963 + 1.83 / 129.01, 0.0005);
  EXPECT_NEAR(metric_value("chunk.period_s.2", summary).value(), 32.56e-3, 0.01e-3);
  const sim::ChunkRank rank = rank_of(chunk, true);
  EXPECT_EQ(rank.slots[2].forward_rows, 36864);
  EXPECT_EQ(rank.slots[2].backward_rows, 32896);
  EXPECT_NEAR(rank.slots[3].waits[2].value(), 973e-6, exact);  // dispatch(B) of slot 3
}

}  // namespace
}  // namespace plumbline::calibrate
