#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/result/comparison.h"
#include "sim/step/chunk.h"
#include "sim/step/segment_memo.h"
#include "sim/step/slot_host.h"
#include "sim/step/step_executor.h"
#include "tests/support/cost_models.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::Segment;
using model::Stream;

// Splits a slot template into kernels with the same work.

constexpr double rounding_of_sums = 1e-12;  // sums have another order

bool is_grouped_weight_gradient(const model::Operator& op) {
  return op.kind == model::OperatorKind::grouped_matmul && op.phase == model::Phase::W;
}

// Pairs of middle stages of DeepSeek-V3's shipped plan: four layers with four local experts.
class KernelSlots : public testing::Test {
 protected:
  const Inputs inputs_ = tests::step_inputs(tests::deepseek_plan, "h800");
  const model::StepProgram program_ = tests::program_of(inputs_);
  const CostModels costs_ = tests::costs_of(inputs_);
  const model::SlotTemplate& pair_ = tests::middle_slot(program_, model::OpType::FB);
  const KernelSlot kernels_ = take_apart(program_, pair_, costs_);

  const model::Operator& op(const Segment& segment, std::uint16_t index) const {
    return program_.blocks[segment.block].operators[index];
  }
  // Returns the kernels of one segment of the template, in order.
  std::vector<std::size_t> pieces(std::size_t segment) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < kernels_.origins.size(); ++i)
      if (kernels_.origins[i] == segment) found.push_back(i);
    return found;
  }
};

TEST_F(KernelSlots, EveryOperatorOnceInItsOrder) {
  ASSERT_EQ(kernels_.segments.size(), kernels_.origins.size());
  ASSERT_EQ(kernels_.segments.size(), kernels_.times.size());
  EXPECT_TRUE(std::ranges::is_sorted(kernels_.origins));
  for (std::size_t s = 0; s < pair_.segments.size(); ++s) {
    const Segment& whole = pair_.segments[s];
    std::vector<std::uint16_t> operators;
    for (const std::size_t i : pieces(s)) {
      const Segment& piece = kernels_.segments[i];
      EXPECT_EQ(piece.stream, whole.stream);
      EXPECT_EQ(piece.block, whole.block);
      EXPECT_EQ(piece.block_of_stage, whole.block_of_stage);
      EXPECT_EQ(piece.forward_side, whole.forward_side);
      for (const std::uint16_t index : piece.operators)
        if (operators.empty() || operators.back() != index) operators.push_back(index);
      EXPECT_TRUE(piece.operators.size() == 1 || whole.stream == Stream::communication);
    }
    EXPECT_EQ(operators, whole.operators);
  }
}

TEST_F(KernelSlots, AllToAllsStayWhole) {
  for (std::size_t s = 0; s < pair_.segments.size(); ++s) {
    if (pair_.segments[s].stream != Stream::communication) continue;
    ASSERT_EQ(pieces(s).size(), 1u);
    const std::size_t piece = pieces(s)[0];
    const SegmentTime whole = segment_time(program_.blocks[pair_.segments[s].block], pair_.segments[s], costs_);
    EXPECT_EQ(kernels_.segments[piece].operators, pair_.segments[s].operators);
    EXPECT_EQ(kernels_.times[piece].prepare, whole.prepare);
    EXPECT_EQ(kernels_.times[piece].transfer_overlapped, whole.transfer_overlapped);
  }
}

TEST_F(KernelSlots, TheTimesOfTheKernelsAddUpToTheirSegment) {
  const std::vector<SegmentTime> whole = segment_times(program_, pair_, costs_);
  for (std::size_t s = 0; s < pair_.segments.size(); ++s) {
    if (pair_.segments[s].stream == Stream::communication) continue;
    SegmentTime sum;
    for (const std::size_t i : pieces(s)) {
      for (std::size_t state = 0; state < model::communication_states; ++state) {
        sum.compute[state] += kernels_.times[i].compute[state];
        sum.compute_per_row[state] += kernels_.times[i].compute_per_row[state];
      }
    }
    for (std::size_t state = 0; state < model::communication_states; ++state) {
      EXPECT_NEAR(sum.compute[state], whole[s].compute[state], rounding_of_sums);
      EXPECT_NEAR(sum.compute_per_row[state], whole[s].compute_per_row[state], rounding_of_sums);
    }
  }
}

TEST_F(KernelSlots, GroupedWeightGradientsAreAKernelPerExpert) {
  // Two matrices in four layers, two of the four experts on each of the two streams.
  std::map<Stream, int> count;
  for (const Segment& kernel : kernels_.segments) {
    if (!is_grouped_weight_gradient(op(kernel, kernel.operators[0]))) continue;
    EXPECT_DOUBLE_EQ(kernel.share, 0.25);
    ++count[kernel.stream];
  }
  EXPECT_EQ(count, (std::map<Stream, int>{{Stream::compute, 4 * 2 * 2}, {Stream::weight_gradient, 4 * 2 * 2}}));
}

TEST_F(KernelSlots, OtherKernelsKeepTheirShare) {
  for (std::size_t i = 0; i < kernels_.segments.size(); ++i) {
    const Segment& kernel = kernels_.segments[i];
    if (is_grouped_weight_gradient(op(kernel, kernel.operators[0]))) continue;
    EXPECT_EQ(kernel.share, pair_.segments[kernels_.origins[i]].share);
  }
}

TEST_F(KernelSlots, TheFirstKernelWaitsForTheLastOfWhatItsSegmentWaitsFor) {
  for (std::size_t s = 0; s < pair_.segments.size(); ++s) {
    const std::vector<std::size_t> own = pieces(s);
    std::vector<std::uint16_t> expected;
    for (const std::uint16_t wait : pair_.segments[s].waits)
      expected.push_back(static_cast<std::uint16_t>(pieces(wait).back()));
    EXPECT_EQ(kernels_.segments[own.front()].waits, expected);
    // The stream's order delays the others, without waits.
    for (std::size_t i = 1; i < own.size(); ++i) EXPECT_TRUE(kernels_.segments[own[i]].waits.empty());
    for (const std::uint16_t wait : expected) EXPECT_LT(wait, own.front());
  }
}

// What is computed once for segments that are alike.

model::Segment of_block(std::int32_t block, model::Stream stream = model::Stream::compute) {
  model::Segment segment;
  segment.block = static_cast<decltype(segment.block)>(block);
  segment.stream = stream;
  segment.operators = {1, 2};
  return segment;
}

TEST(SegmentMemo, ComputesOnceForSegmentsThatAreAlike) {
  SegmentMemo<int> memo;
  int made = 0;
  const auto find = [&](const model::Segment& segment) { return memo.find(segment, [&] { return ++made; }); };
  EXPECT_EQ(find(of_block(0)), 1);
  EXPECT_EQ(find(of_block(0)), 1);
  EXPECT_EQ(find(of_block(0, model::Stream::weight_gradient)), 2);
  EXPECT_EQ(find(of_block(1)), 3);
  model::Segment other = of_block(0);
  other.operators = {1, 3};
  EXPECT_EQ(find(other), 4);
  other = of_block(0);
  other.share = 0.5;
  EXPECT_EQ(find(other), 5);
  other.ends = false;
  EXPECT_EQ(find(other), 6);
  EXPECT_EQ(find(of_block(0)), 1);
}

// Slots keep references to the values of their segments while further blocks come.
TEST(SegmentMemo, ValuesStayWhereTheyAre) {
  SegmentMemo<int> memo;
  const int& first = memo.find(of_block(0), [] { return 7; });
  for (int block = 1; block < 100; ++block) memo.find(of_block(block), [&] { return block; });
  EXPECT_EQ(&memo.find(of_block(0), [] { return 8; }), &first);
  EXPECT_EQ(first, 7);
}

// One overlapped pair of chunks kernel by kernel, compared with the same pair segment by segment.

constexpr double picoseconds = 5e-12;  // times are rounded to one, differences and sums to a few

// A kernel of a chunk with its span.
struct Traced {
  const model::Kernel* kernel;
  std::string name;
  model::Stream stream;
  std::int32_t slot;
  double start, end;
};

double seconds_of(std::int64_t ps) { return static_cast<double>(ps) * 1e-12; }

// Returns the kernels by stream, then by start.
std::vector<Traced> kernels_of(const ChunkRun& run) {
  const model::Timeline& timeline = run.timeline;
  std::vector<Traced> found;
  for (const model::Span& span : timeline.spans)
    if (span.kernel >= 0)
      found.push_back({&timeline.kernels[static_cast<std::size_t>(span.kernel)], timeline.names[span.name], span.stream,
                       span.layer_pair, seconds_of(span.start_ps), seconds_of(span.end_ps())});
  return found;
}

double seconds_of(const ChunkRun& run) { return seconds_of(run.timeline.end_ps); }

// Pairs of middle stages of DeepSeek-V3's shipped plan: four layers, expected rows, no waits.
class ChunkRuns : public testing::Test {
 protected:
  static Inputs inputs(std::vector<std::string> overrides = {}) {
    overrides.insert(overrides.end(), {"routing.imbalance=0", "cluster.speed_deviation=0"});
    return tests::step_inputs(tests::deepseek_plan, "h800", overrides);
  }
  static ChunkRun run(const Inputs& in, const ChunkRank& rank = {}) {
    auto chunk = run_chunk(in, rank);
    EXPECT_TRUE(chunk) << to_string(chunk.error());
    return chunk.value_or(ChunkRun{});
  }
  // Four slots alike.
  static ChunkRank rank(const ChunkRank::Slot& slot) { return {std::vector<ChunkRank::Slot>(4, slot)}; }
};

std::vector<Traced> named(const ChunkRun& run, const std::string& name, std::int32_t slot) {
  std::vector<Traced> found = kernels_of(run);
  std::erase_if(
      found, [&](const Traced& k) { return k.name != name || k.slot != slot || k.stream != model::Stream::compute; });
  return found;
}

using Phase = model::TimelineSummary::Phase;

Phase phase(const model::TimelineSummary& summary, const std::string& name, std::int32_t slot) {
  return *std::ranges::find_if(summary.phases, [&](const Phase& p) { return p.name == name && p.slot == slot; });
}

TEST_F(ChunkRuns, KernelsOfAStreamFollowEachOther) {
  const ChunkRun chunk = run(inputs());
  const std::vector<Traced> kernels = kernels_of(chunk);
  ASSERT_GT(kernels.size(), 400u);  // more than a hundred operators in each of four layer pairs
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    const Traced& before = kernels[i - 1];
    const Traced& kernel = kernels[i];
    if (before.stream == kernel.stream) {
      EXPECT_LE(before.end, kernel.start + picoseconds) << before.name << " and " << kernel.name;
    }
  }
  for (const Traced& kernel : kernels_of(chunk)) {
    EXPECT_LT(kernel.start, kernel.end);
    EXPECT_GE(kernel.start, 0);
    EXPECT_LE(kernel.end, seconds_of(chunk) + picoseconds);
  }
}

TEST_F(ChunkRuns, PhasesCoverTheirKernels) {
  const ChunkRun chunk = run(inputs());
  const model::TimelineSummary summary = model::summarize(chunk.timeline);
  // Four slots have attn, mlp, dispatch and combine of both sides and two weight gradients.
  EXPECT_EQ(summary.phases.size(), 4u * 10);
  std::map<std::pair<std::int32_t, std::string>, std::pair<double, double>> ends;
  for (const Traced& kernel : kernels_of(chunk)) {
    const auto [entry, fresh] = ends.try_emplace({kernel.slot, kernel.kernel->section}, kernel.start, kernel.end);
    entry->second.first = std::min(entry->second.first, kernel.start);
    entry->second.second = std::max(entry->second.second, kernel.end);
  }
  EXPECT_EQ(ends.size(), summary.phases.size());
  for (const auto& [key, covered] : ends) {
    const Phase found = phase(summary, key.second, key.first);
    EXPECT_LE(found.start, covered.first + picoseconds) << key.second;
    EXPECT_NEAR(found.end, covered.second, picoseconds) << key.second;
  }
  EXPECT_TRUE(std::ranges::is_sorted(summary.phases, {}, &Phase::start));
}

// At every moment a compute kernel or else communication runs.
TEST_F(ChunkRuns, TimesAddUp) {
  const ChunkRun chunk = run(inputs());
  const model::TimelineSummary summary = model::summarize(chunk.timeline);
  EXPECT_EQ(summary.seconds, seconds_of(chunk));
  EXPECT_NEAR(summary.compute_busy + summary.exposed_communication, summary.seconds, 400 * picoseconds);
  double last_end = 0;
  for (const Traced& kernel : kernels_of(chunk)) last_end = std::max(last_end, kernel.end);
  EXPECT_NEAR(summary.seconds, last_end, picoseconds);
  ASSERT_EQ(summary.periods.size(), 3u);
  for (std::int32_t slot = 1; slot < 4; ++slot)
    EXPECT_NEAR(summary.periods[static_cast<std::size_t>(slot) - 1],
                phase(summary, "attn(B)", slot).end - phase(summary, "attn(B)", slot - 1).end, picoseconds);
}

TEST_F(ChunkRuns, SlotsPairForwardLayersWithBackwardOnesInReverse) {
  const ChunkRun chunk = run(inputs());
  const model::TimelineSummary summary = model::summarize(chunk.timeline);
  for (std::int32_t slot = 1; slot < 4; ++slot)
    for (const char* name :
         {"attn(F)", "mlp(F)", "mlp(B)", "mlp(W)", "attn(B)", "attn(W)", "dispatch(F)", "combine(B)"})
      EXPECT_GT(phase(summary, name, slot).start, phase(summary, name, slot - 1).start) << name;
  // Each of them has one grouped GEMM of either matrix on the forward side.
  for (std::int32_t slot = 0; slot < 4; ++slot) EXPECT_EQ(named(chunk, "experts_gate_up", slot).size(), 1u);
}

TEST_F(ChunkRuns, KernelByKernelIsSegmentBySegmentWithinTwoPerCent) {
  for (const char* policy : {"static", "none", "dynamic"}) {
    const Inputs in = inputs({std::string("overlap.sm_policy=") + policy});
    const model::StepProgram program = tests::program_of(in);
    const CostModels costs = tests::costs_of(in);
    const model::SlotTemplate& pair = tests::middle_slot(program, model::OpType::FB);
    const double segments = run_template(pair, segment_times(program, pair, costs), costs.partition.device_sms).seconds;
    EXPECT_NEAR(seconds_of(run(in)) / segments, 1, 0.02) << policy;
  }
}

TEST_F(ChunkRuns, ExpectedRowsGivenAreExpectedRows) {
  // 4096 tokens * 8 experts of each of 64 ranks, over 64 ranks.
  const Inputs in = inputs();
  const ChunkRun given = run(in, rank({.forward_rows = 32768, .backward_rows = 32768}));
  EXPECT_EQ(seconds_of(given), seconds_of(run(in)));
}

TEST_F(ChunkRuns, GivenRowsAreRespectedOnTheirSide) {
  const Inputs in = inputs();
  const ChunkRun usual = run(in);
  ChunkRank more = rank({});
  more.slots[1].forward_rows = 1.2 * 32768;
  const ChunkRun chunk = run(in, more);
  const auto seconds = [](const ChunkRun& r, const char* name, std::int32_t slot) {
    const Traced kernel = named(r, name, slot).at(0);
    return kernel.end - kernel.start;
  };
  // experts_gate_up of the slot grows by about its rows (its ramp does not); those of other slots and the input
  // gradient's do not. The tolerance is 2 %, as transfers may overlap with another part of it.
  EXPECT_NEAR(seconds(chunk, "experts_gate_up", 1) / seconds(usual, "experts_gate_up", 1), 1.2, 0.02 * 1.2);
  EXPECT_NEAR(seconds(chunk, "experts_gate_up", 0), seconds(usual, "experts_gate_up", 0), picoseconds);
  EXPECT_NEAR(seconds(chunk, "experts_gate_up_dgrad", 1) / seconds(usual, "experts_gate_up_dgrad", 1), 1, 0.02);
  ChunkRank backward = rank({});
  backward.slots[1].backward_rows = 1.2 * 32768;
  EXPECT_NEAR(seconds(run(in, backward), "experts_gate_up_dgrad", 1) / seconds(usual, "experts_gate_up_dgrad", 1), 1.2,
              0.02 * 1.2);
}

TEST_F(ChunkRuns, GivenWaitsAreRespected) {
  // Waits are in the order combine(B), dispatch(F), dispatch(B), combine(F), from arrival to transfer, including the
  // barrier: they are at least the profile's notify of 100 us.
  const Inputs in = inputs();
  const std::vector<double> waits = {1e-3, 2e-3, 3e-3, 0};
  ChunkRank::Slot slot;
  for (std::size_t i = 0; i < waits.size(); ++i) slot.waits[i] = waits[i];
  const ChunkRun chunk = run(in, rank(slot));
  const std::vector<std::string> all_to_alls = {"combine(B)", "dispatch(F)", "dispatch(B)", "combine(F)"};
  int meetings = 0;
  for (const Traced& kernel : kernels_of(chunk)) {
    if (kernel.name != "notify") continue;
    const auto which = std::ranges::find(all_to_alls, kernel.kernel->section) - all_to_alls.begin();
    ASSERT_LT(which, 4);
    EXPECT_NEAR(kernel.end - kernel.start, std::max(waits[which], 100e-6), picoseconds);
    ++meetings;
  }
  EXPECT_EQ(meetings, 4 * 4);
  EXPECT_GT(seconds_of(chunk), seconds_of(run(in)));
}

TEST_F(ChunkRuns, UnevenRanksWaitForEachOther) {
  const Inputs uneven = tests::step_inputs(tests::deepseek_plan, "h800", {"routing.imbalance=0.1"});
  EXPECT_GT(seconds_of(run(uneven)), seconds_of(run(inputs())));
}

TEST_F(ChunkRuns, TheSameInputsGiveTheSameBits) {
  const Inputs in = tests::step_inputs(tests::deepseek_plan, "h800");
  const ChunkRun once = run(in), again = run(in);
  EXPECT_EQ(seconds_of(once), seconds_of(again));
  ASSERT_EQ(once.timeline.spans.size(), again.timeline.spans.size());
  for (std::size_t i = 0; i < once.timeline.spans.size(); ++i)
    EXPECT_EQ(once.timeline.spans[i].start_ps, again.timeline.spans[i].start_ps);
}

TEST_F(ChunkRuns, AScheduleWithoutPairsIsInfeasible) {
  const auto chunk = run_chunk(inputs({"schedule.kind=1f1b"}), {});
  tests::expect_error(chunk, model::ErrorKind::infeasible, "schedule.kind", "1f1b overlaps no two chunks");
}

TEST_F(ChunkRuns, SlotsAndLayersMustBeAsMany) {
  tests::expect_error(run_chunk(inputs(), {std::vector<ChunkRank::Slot>(3)}), model::ErrorKind::input,
                      "schedule.layers_per_stage", "has 3 layers, a middle stage of the plan 4");
}

}  // namespace
}  // namespace plumbline::sim
