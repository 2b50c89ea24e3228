// One overlapped pair of chunks kernel by kernel, against the same pair segment by segment.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/step/chunk.h"
#include "sim/step/step_executor.h"
#include "tests/support/cost_models.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::OpType;
using model::Stream;

constexpr double picoseconds = 5e-12;  // times are rounded to one, differences and sums to a few

// Pairs of interior stages of DeepSeek-V3's shipped plan: four layers, expected rows, nobody waits.
class ChunkRuns : public testing::Test {
 protected:
  static Inputs inputs(std::vector<std::string> overrides = {}) {
    overrides.emplace_back("routing.imbalance=0");
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

std::vector<ChunkKernel> named(const ChunkRun& run, const std::string& name, std::int32_t slot, Stream stream) {
  std::vector<ChunkKernel> found;
  for (const ChunkKernel& kernel : run.kernels)
    if (kernel.name == name && kernel.slot == slot && kernel.stream == stream) found.push_back(kernel);
  return found;
}

const ChunkSpan& span(const ChunkRun& run, const std::string& name, std::int32_t slot) {
  return *std::ranges::find_if(run.spans, [&](const ChunkSpan& s) { return s.name == name && s.slot == slot; });
}

TEST_F(ChunkRuns, KernelsOfAStreamFollowEachOther) {
  const ChunkRun chunk = run(inputs());
  ASSERT_GT(chunk.kernels.size(), 400u);  // more than a hundred operators in each of four layer pairs
  for (std::size_t i = 1; i < chunk.kernels.size(); ++i) {
    const ChunkKernel& before = chunk.kernels[i - 1];
    const ChunkKernel& kernel = chunk.kernels[i];
    if (before.stream == kernel.stream) {
      EXPECT_LE(before.end, kernel.start + picoseconds) << before.name << " and " << kernel.name;
    }
  }
  for (const ChunkKernel& kernel : chunk.kernels) {
    EXPECT_LT(kernel.start, kernel.end);
    EXPECT_GE(kernel.start, 0);
    EXPECT_LE(kernel.end, chunk.seconds + picoseconds);
  }
}

TEST_F(ChunkRuns, SpansCoverTheirKernels) {
  const ChunkRun chunk = run(inputs());
  // attn, mlp, dispatch and combine of both sides and two weight gradients, in four slots.
  EXPECT_EQ(chunk.spans.size(), 4u * 10);
  std::map<std::pair<std::int32_t, std::string>, std::pair<double, double>> ends;
  for (const ChunkKernel& kernel : chunk.kernels) {
    const auto [entry, fresh] =
        ends.try_emplace({kernel.slot, model::span_name(kernel.section, kernel.phase)}, kernel.start, kernel.end);
    entry->second.first = std::min(entry->second.first, kernel.start);
    entry->second.second = std::max(entry->second.second, kernel.end);
  }
  EXPECT_EQ(ends.size(), chunk.spans.size());
  for (const auto& [key, covered] : ends) {
    const ChunkSpan& phase = span(chunk, key.second, key.first);
    EXPECT_LE(phase.start, covered.first + picoseconds) << key.second;
    EXPECT_NEAR(phase.end, covered.second, picoseconds) << key.second;
  }
  EXPECT_TRUE(std::ranges::is_sorted(chunk.spans, {}, &ChunkSpan::start));
}

TEST_F(ChunkRuns, TimesAddUp) {
  const ChunkRun chunk = run(inputs());
  EXPECT_NEAR(chunk.compute_busy + chunk.exposed_communication, chunk.seconds, picoseconds);
  double busy = 0, until = 0;  // the union of the compute streams
  std::vector<ChunkKernel> compute;
  for (const ChunkKernel& kernel : chunk.kernels)
    if (kernel.stream != Stream::communication) compute.push_back(kernel);
  std::ranges::sort(compute, {}, &ChunkKernel::start);
  for (const ChunkKernel& kernel : compute) {
    busy += std::max(0.0, kernel.end - std::max(kernel.start, until));
    until = std::max(until, kernel.end);
  }
  EXPECT_NEAR(chunk.compute_busy, busy, 400 * picoseconds);
  double last_end = 0;
  for (const ChunkKernel& kernel : chunk.kernels) last_end = std::max(last_end, kernel.end);
  EXPECT_NEAR(chunk.seconds, last_end, picoseconds);
  ASSERT_EQ(chunk.slot_periods.size(), 3u);
  for (std::int32_t slot = 1; slot < 4; ++slot)
    EXPECT_NEAR(chunk.slot_periods[slot - 1], span(chunk, "attn(B)", slot).end - span(chunk, "attn(B)", slot - 1).end,
                picoseconds);
}

TEST_F(ChunkRuns, SlotsPairForwardLayersWithBackwardOnesInReverse) {
  const ChunkRun chunk = run(inputs());
  for (std::int32_t slot = 1; slot < 4; ++slot)
    for (const char* name :
         {"attn(F)", "mlp(F)", "mlp(B)", "mlp(W)", "attn(B)", "attn(W)", "dispatch(F)", "combine(B)"})
      EXPECT_GT(span(chunk, name, slot).start, span(chunk, name, slot - 1).start) << name;
  // Each of them holds one grouped product of either matrix on the forward side.
  for (std::int32_t slot = 0; slot < 4; ++slot)
    EXPECT_EQ(named(chunk, "experts_gate_up", slot, Stream::compute).size(), 1u);
}

TEST_F(ChunkRuns, KernelByKernelIsSegmentBySegmentWithinTwoPerCent) {
  for (const char* policy : {"static", "none", "dynamic"}) {
    const Inputs in = inputs({std::string("overlap.sm_policy=") + policy});
    const model::StepProgram program = tests::program_of(in);
    const CostModels costs = tests::costs_of(in);
    const model::SlotTemplate& pair = tests::interior_slot(program, OpType::FB);
    const double segments = run_template(pair, segment_times(program, pair, costs), costs.partition.device_sms).seconds;
    EXPECT_NEAR(run(in).seconds / segments, 1, 0.02) << policy;
  }
}

TEST_F(ChunkRuns, ExpectedRowsGivenAreExpectedRows) {
  // 4096 tokens * 8 experts of each of 64 ranks, over 64 ranks.
  const Inputs in = inputs();
  const ChunkRun given = run(in, rank({.forward_rows = 32768, .backward_rows = 32768}));
  EXPECT_EQ(given.seconds, run(in).seconds);
}

TEST_F(ChunkRuns, GivenRowsAreRespectedOnTheirSide) {
  const Inputs in = inputs();
  const ChunkRun usual = run(in);
  ChunkRank more = rank({});
  more.slots[1].forward_rows = 1.2 * 32768;
  const ChunkRun chunk = run(in, more);
  const auto seconds = [](const ChunkRun& r, const char* name, std::int32_t slot) {
    const ChunkKernel kernel = named(r, name, slot, Stream::compute).at(0);
    return kernel.end - kernel.start;
  };
  // experts_gate_up of the slot grows by about its rows (its ramp does not), no other slot's and not the input
  // gradient's. Within 2 %: transfers may run beside it for another part of its time.
  EXPECT_NEAR(seconds(chunk, "experts_gate_up", 1) / seconds(usual, "experts_gate_up", 1), 1.2, 0.02 * 1.2);
  EXPECT_NEAR(seconds(chunk, "experts_gate_up", 0), seconds(usual, "experts_gate_up", 0), picoseconds);
  EXPECT_NEAR(seconds(chunk, "experts_gate_up_dgrad", 1) / seconds(usual, "experts_gate_up_dgrad", 1), 1, 0.02);
  ChunkRank backward = rank({});
  backward.slots[1].backward_rows = 1.2 * 32768;
  EXPECT_NEAR(seconds(run(in, backward), "experts_gate_up_dgrad", 1) / seconds(usual, "experts_gate_up_dgrad", 1), 1.2,
              0.02 * 1.2);
}

TEST_F(ChunkRuns, GivenWaitsAreRespected) {
  // In the order combine(B), dispatch(F), dispatch(B), combine(F), from arrival to transfer, the meeting itself
  // included: the profile's notify of 100 us is the least.
  const Inputs in = inputs();
  const std::vector<double> waits = {1e-3, 2e-3, 3e-3, 0};
  ChunkRank::Slot slot;
  for (std::size_t i = 0; i < waits.size(); ++i) slot.waits[i] = waits[i];
  const ChunkRun chunk = run(in, rank(slot));
  const std::vector<std::pair<model::Section, model::Phase>> exchanges = {{model::Section::combine, model::Phase::I},
                                                                          {model::Section::dispatch, model::Phase::F},
                                                                          {model::Section::dispatch, model::Phase::I},
                                                                          {model::Section::combine, model::Phase::F}};
  int meetings = 0;
  for (const ChunkKernel& kernel : chunk.kernels) {
    if (kernel.name != "notify") continue;
    const auto which = std::ranges::find(exchanges, std::pair(kernel.section, kernel.phase)) - exchanges.begin();
    ASSERT_LT(which, 4);
    EXPECT_NEAR(kernel.end - kernel.start, std::max(waits[which], 100e-6), picoseconds);
    ++meetings;
  }
  EXPECT_EQ(meetings, 4 * 4);
  EXPECT_GT(chunk.seconds, run(in).seconds);
}

TEST_F(ChunkRuns, UnevenRanksWaitForEachOther) {
  const Inputs uneven = tests::step_inputs(tests::deepseek_plan, "h800", {"routing.imbalance=0.1"});
  EXPECT_GT(run(uneven).seconds, run(inputs()).seconds);
}

TEST_F(ChunkRuns, TheSameInputsGiveTheSameBits) {
  const Inputs in = tests::step_inputs(tests::deepseek_plan, "h800");
  const ChunkRun once = run(in), again = run(in);
  EXPECT_EQ(once.seconds, again.seconds);
  ASSERT_EQ(once.kernels.size(), again.kernels.size());
  for (std::size_t i = 0; i < once.kernels.size(); ++i) EXPECT_EQ(once.kernels[i].start, again.kernels[i].start);
}

TEST_F(ChunkRuns, AScheduleWithoutPairsIsInfeasible) {
  const auto chunk = run_chunk(inputs({"schedule.kind=1f1b"}), {});
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().kind, model::ErrorKind::infeasible);
  EXPECT_EQ(chunk.error().key, "schedule.kind");
  EXPECT_NE(chunk.error().message.find("1f1b overlaps no two chunks"), std::string::npos) << chunk.error().message;
}

TEST_F(ChunkRuns, SlotsAndLayersMustBeAsMany) {
  const auto chunk = run_chunk(inputs(), {std::vector<ChunkRank::Slot>(3)});
  ASSERT_FALSE(chunk);
  EXPECT_EQ(chunk.error().kind, model::ErrorKind::input);
  EXPECT_EQ(chunk.error().key, "schedule.layers_per_stage");
  EXPECT_NE(chunk.error().message.find("has 3 layers, an interior stage of the plan 4"), std::string::npos)
      << chunk.error().message;
}

}  // namespace
}  // namespace plumbline::sim
