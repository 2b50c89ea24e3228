// Durations of segments: the cost functions summed over the kernels, on the SMs that communication leaves free.
#include "sim/step/segment_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/cost/operator_class.h"
#include "model/program/compile.h"
#include "sim/analysis/load.h"
#include "sim/step/slot_host.h"
#include "tests/support/cost_models.h"
#include "tests/support/costs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::Conditions;
using model::OpType;
using model::Segment;
using model::Stream;

constexpr double rounding_of_times = 1e-12;  // sums have another order

// DeepSeek-V3's shipped plan on an H800 with 20 SMs for communication: GEMMs always have 112.
class SegmentTimes : public testing::Test {
 protected:
  explicit SegmentTimes(const std::vector<std::string>& overrides = {})
      : inputs_(tests::step_inputs(tests::deepseek_plan, "h800", overrides)),
        program_(tests::program_of(inputs_)),
        costs_(tests::costs_of(inputs_)) {}

  const model::SlotTemplate& slot(OpType type) const { return tests::middle_slot(program_, type); }
  std::vector<SegmentTime> times(OpType type) const { return segment_times(program_, slot(type), costs_); }
  const model::Graph& graph(const Segment& segment) const { return program_.blocks[segment.block]; }

  // Returns the sum over the kernels of a compute segment, each times its share.
  double over_kernels(const Segment& segment, const Conditions& conditions) const {
    double sum = 0;
    for (std::uint16_t index : segment.operators)
      sum += segment.share * costs_.kernels.time(graph(segment), graph(segment).operators[index], conditions).seconds;
    return sum;
  }
  bool is_gemm(const Segment& segment, std::uint16_t index) const {
    const model::OperatorClass kind = model::operator_class(graph(segment), graph(segment).operators[index]);
    return kind == model::OperatorClass::gemm || kind == model::OperatorClass::weight_gradient_gemm;
  }

  Inputs inputs_;
  model::StepProgram program_;
  CostModels costs_;
};

constexpr Conditions alone{.sms = 112};
constexpr Conditions overlapped_waiting{.sms = 112, .held = 20, .co_runner = model::CoRunner::waiting};
constexpr Conditions overlapped_transfer{.sms = 112, .held = 20, .co_runner = model::CoRunner::transferring};

TEST_F(SegmentTimes, ComputeIsTheSumOfItsKernels) {
  for (const OpType type : {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB}) {
    SCOPED_TRACE(to_string(type));
    const std::vector<SegmentTime> all = times(type);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Segment& segment = slot(type).segments[i];
      if (segment.stream == Stream::communication) continue;
      EXPECT_NEAR(all[i].compute[0], over_kernels(segment, alone), rounding_of_times);
      EXPECT_NEAR(all[i].compute[1], over_kernels(segment, overlapped_waiting), rounding_of_times);
      EXPECT_NEAR(all[i].compute[2], over_kernels(segment, overlapped_transfer), rounding_of_times);
      EXPECT_NEAR(std::accumulate(all[i].kernels.begin(), all[i].kernels.end(), 0.0), all[i].compute[0],
                  rounding_of_times);
      EXPECT_EQ(all[i].kernels.size(), segment.operators.size());
      EXPECT_TRUE(std::ranges::is_sorted(all[i].compute));
      EXPECT_EQ(all[i].held, 0);
    }
  }
}

TEST_F(SegmentTimes, ExpectedRowsLeaveOutTheSlope) {
  bool some = false;
  for (const Segment& segment : slot(OpType::FB).segments) {
    const SegmentTime varying = segment_time(graph(segment), segment, costs_);
    const SegmentTime expected = segment_time(graph(segment), segment, costs_, 1, Rows::expected);
    EXPECT_EQ(expected.compute, varying.compute);
    EXPECT_EQ(expected.transfer, varying.transfer);
    EXPECT_EQ(expected.compute_per_row[0], 0);
    some = some || varying.compute_per_row[0] > 0;
  }
  EXPECT_TRUE(some);
}

TEST_F(SegmentTimes, SegmentsWithGemmsFillTheirSms) {
  const std::vector<SegmentTime> all = times(OpType::FB);
  int with_gemms = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = slot(OpType::FB).segments[i];
    if (segment.stream == Stream::communication) continue;
    const bool gemms = std::ranges::any_of(segment.operators, [&](auto index) { return is_gemm(segment, index); });
    const std::int64_t width = gemms ? 112 : 0;
    EXPECT_EQ(all[i].width, (std::array<std::int64_t, 4>{width, width, width, width}));
    EXPECT_EQ(all[i].drain > 0, gemms);
    with_gemms += gemms;
  }
  EXPECT_GE(with_gemms, 4 * 6);  // six compute phases in each of four layer pairs
}

TEST_F(SegmentTimes, AWaitForSmsIsHalfOfAGemm) {
  // A GEMM of t seconds among T of the segment runs at a random moment with probability t / T and has t / 2 left; a
  // weight gradient of four experts is four kernels, each a quarter as long. Other kernels free SMs all the time.
  const std::vector<SegmentTime> all = times(OpType::FB);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = slot(OpType::FB).segments[i];
    if (segment.stream == Stream::communication) continue;
    double expected = 0;
    for (std::size_t k = 0; k < segment.operators.size(); ++k) {
      const model::Operator& op = graph(segment).operators[segment.operators[k]];
      const double kernels = op.kind == model::OperatorKind::grouped_matmul && op.phase == model::Phase::W ? 4 : 1;
      const double seconds = all[i].kernels[k];
      if (is_gemm(segment, segment.operators[k])) expected += seconds / all[i].compute[0] * seconds / (2 * kernels);
    }
    EXPECT_NEAR(all[i].drain, expected, rounding_of_times);
  }
}

TEST_F(SegmentTimes, BothHalvesOfTheExpertsWeightGradientsAreTheWhole) {
  const std::vector<SegmentTime> all = times(OpType::FB);
  int pairs = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = slot(OpType::FB).segments[i];
    if (segment.stream != Stream::weight_gradient) continue;
    ASSERT_LT(i + 1, all.size());
    const Segment& other = slot(OpType::FB).segments[i + 1];
    EXPECT_EQ(other.stream, Stream::compute);
    EXPECT_EQ(other.operators, segment.operators);
    double whole = 0;
    for (std::uint16_t index : segment.operators)
      whole += costs_.kernels.time(graph(segment), graph(segment).operators[index], alone).seconds;
    EXPECT_NEAR(all[i].compute[0] + all[i + 1].compute[0], whole, rounding_of_times);
    ++pairs;
  }
  EXPECT_EQ(pairs, 4 * 2);  // gate and up, and down, of the layers of a middle stage
}

TEST_F(SegmentTimes, AnAllToAllPreparesWaitsAndTransfers) {
  const std::vector<SegmentTime> all = times(OpType::FB);
  int all_to_alls = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = slot(OpType::FB).segments[i];
    if (segment.stream != Stream::communication) continue;
    SegmentTime expected;
    for (std::uint16_t index : segment.operators) {
      const model::Operator& op = graph(segment).operators[index];
      if (!tests::between_ranks(graph(segment), op)) {  // on the whole GPU, or where a GEMM's blocks leave space
        const Conditions overlapped{.sms = 132, .held = 112, .co_runner = model::CoRunner::computing};
        expected.prepare += costs_.kernels.time(graph(segment), op, {.sms = 132}).seconds;
        expected.prepare_overlapped += costs_.kernels.time(graph(segment), op, overlapped).seconds;
        continue;
      }
      const model::AllToAllTime time = costs_.communication.all_to_all(graph(segment), op);
      expected.prepare += time.prepare;
      expected.prepare_overlapped += time.prepare;
      expected.notify += time.notify;
      expected.transfer += time.alone;
      expected.transfer_overlapped += time.overlapped;
    }
    EXPECT_NEAR(all[i].prepare, expected.prepare, rounding_of_times);
    EXPECT_NEAR(all[i].prepare_overlapped, expected.prepare_overlapped, rounding_of_times);
    EXPECT_GE(all[i].prepare_overlapped, all[i].prepare);
    EXPECT_NEAR(all[i].notify, expected.notify, rounding_of_times);
    EXPECT_NEAR(all[i].transfer, expected.transfer, rounding_of_times);
    EXPECT_NEAR(all[i].transfer_overlapped, expected.transfer_overlapped, rounding_of_times);
    EXPECT_GT(all[i].transfer, 0);
    EXPECT_EQ(all[i].held, 20);
    EXPECT_EQ(all[i].wait, 0);  // stragglers are computed later
    ++all_to_alls;
  }
  EXPECT_EQ(all_to_alls, 4 * 4);  // per layer pair: dispatch and combine, forward and backward
}

TEST_F(SegmentTimes, RowsEnterByTheirSlope) {
  // There are 7.5 % more rows, as much as the published profile's ranks differ. Wave steps of single kernels are
  // ignored: over a segment they matter less than half a per cent.
  constexpr double rows = 1.075;
  const std::vector<SegmentTime> all = times(OpType::FB);
  int with_rows = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = slot(OpType::FB).segments[i];
    if (segment.stream == Stream::communication) continue;
    const double expected = over_kernels(segment, {.sms = 112, .row_scale = rows});
    EXPECT_NEAR(all[i].compute[0] + (rows - 1) * all[i].compute_per_row[0], expected, 0.005 * expected);
    EXPECT_GE(all[i].compute_per_row[0], 0);
    EXPECT_TRUE(std::ranges::is_sorted(all[i].compute_per_row));
    with_rows += all[i].compute_per_row[0] > 0.1 * all[i].compute[0];
    if (segment.section == model::Section::attention) {
      EXPECT_EQ(all[i].compute_per_row[0], 0);
    }
  }
  EXPECT_GE(with_rows, 4 * 3);  // mlp(F), mlp(B) and mlp(W) of four layers
}

class WithoutPartition : public SegmentTimes {
 protected:
  WithoutPartition() : SegmentTimes({"overlap.communication_sms=0"}) {}
};

TEST_F(WithoutPartition, CommunicationTakesWhatItsKernelsNeedAndGemmsTheWholeGpu) {
  // DeepEP's kernels need 14 SMs (CommunicationCost). Only then does a GEMM of 132 blocks have to wait.
  constexpr std::int64_t needed = 14;
  const std::vector<SegmentTime> all = times(OpType::FB);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = slot(OpType::FB).segments[i];
    if (segment.stream == Stream::communication) {
      EXPECT_EQ(all[i].held, needed);
      continue;
    }
    EXPECT_NEAR(all[i].compute[0], over_kernels(segment, {.sms = 132}), rounding_of_times);
    EXPECT_NEAR(all[i].compute[2],
                over_kernels(segment, {.sms = 132, .held = needed, .co_runner = model::CoRunner::transferring}),
                rounding_of_times);
    if (all[i].drain > 0) {
      // With a dense collective they leave it an SM for each of its 24 channels.
      EXPECT_EQ(all[i].width, (std::array<std::int64_t, 4>{132, 132, 132, 108}));
    }
  }
}

class WithDynamicPartition : public SegmentTimes {
 protected:
  WithDynamicPartition() : SegmentTimes({"overlap.sm_policy=dynamic"}) {}
};

TEST_F(WithDynamicPartition, GemmsTakeTheSmsThatAreFree) {
  const std::vector<SegmentTime> all = times(OpType::FB);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Segment& segment = slot(OpType::FB).segments[i];
    if (segment.stream == Stream::communication) continue;
    EXPECT_NEAR(all[i].compute[0], over_kernels(segment, {.sms = 132}), rounding_of_times);
    EXPECT_NEAR(all[i].compute[2], over_kernels(segment, overlapped_transfer), rounding_of_times);
    if (all[i].drain > 0) {
      EXPECT_EQ(all[i].width, (std::array<std::int64_t, 4>{132, 112, 112, 112}));
    }
  }
}

// A gather over tensor ranks, or a reduction, of all tokens of several sequences comes with a copy of them: 4096
// columns in 16 bits, read and written.
// In pieces nothing is copied but what sums input gradients as a whole.
TEST(SequencesInOrder, AreCopiedAfterAGatherAndBeforeAReduction) {
  for (const auto& one : {std::pair(1, false), std::pair(2, false), std::pair(2, true)}) {
    const int sequences = one.first;
    const bool in_pieces = one.second;
    Inputs inputs = tests::step_inputs(
        tests::llama_plan, "h800",
        {"parallelism.tensor=4", "parallelism.sequence=true", "batch.micro_batch_size=" + std::to_string(sequences),
         "overlap.tensor=" + std::string(in_pieces ? "true" : "false"),
         "overlap.tensor_gradients=" + std::string(in_pieces ? "false" : "true")});
    const model::StepProgram program = tests::program_of(inputs);
    const CostModels plain = tests::costs_of(inputs);
    inputs.profile =
        tests::with_constants(inputs.profile, {{"sequence.gather_passes", 2}, {"sequence.reduce_passes", 2}});
    const CostModels copying = tests::costs_of(inputs);
    const double copy = plain.kernels.moving(model::Bytes(2.0 * sequences * 8192 * 4096 * 2), {.sms = 132});
    int moved = 0;
    for (const Segment& segment : tests::middle_slot(program, OpType::B).segments) {
      if (segment.stream != Stream::collective) continue;
      const model::Graph& graph = program.blocks[segment.block];
      const auto copies = std::ranges::count_if(segment.operators, [&](const std::uint16_t index) {
        const model::Operator& op = graph.operators[index];
        const bool sums = op.kind == model::OperatorKind::reduce_scatter;
        return in_pieces ? sums && model::sums_input_gradient(op) : sums || op.kind == model::OperatorKind::all_gather;
      });
      const double more = segment_time(graph, segment, copying).transfer - segment_time(graph, segment, plain).transfer;
      EXPECT_NEAR(more, sequences == 1 ? 0 : static_cast<double>(copies) * copy, rounding_of_times);
      moved += static_cast<int>(copies);
    }
    EXPECT_GT(moved, 0);
  }
}

// Two projections of one input each have a gradient of all tokens: a kernel reads both and writes their sum, 3 passes
// over one sequence of 8192 tokens and 4096 columns in 16 bits.
TEST(SumsOfInputGradients, AreAddedUpBeforeTheyAreReduced) {
  Inputs inputs = tests::step_inputs(
      tests::llama_plan, "h800",
      {"parallelism.tensor=4", "parallelism.sequence=true", "overlap.tensor=true", "overlap.tensor_gradients=false"});
  const model::StepProgram program = tests::program_of(inputs);
  const CostModels plain = tests::costs_of(inputs);
  inputs.profile = tests::with_constants(inputs.profile, {{"sequence.gradient_passes", 3}});
  const CostModels adding = tests::costs_of(inputs);
  const double added = plain.kernels.moving(model::Bytes(3.0 * 8192 * 4096 * 2), {.sms = 132});
  int sums = 0;
  for (const Segment& segment : tests::middle_slot(program, OpType::B).segments) {
    if (segment.stream != Stream::collective) continue;
    const model::Graph& graph = program.blocks[segment.block];
    const auto here = std::ranges::count_if(segment.operators, [&](const std::uint16_t index) {
      const model::Operator& op = graph.operators[index];
      return op.kind == model::OperatorKind::reduce_scatter && model::sums_input_gradient(op);
    });
    const double more = segment_time(graph, segment, adding).transfer - segment_time(graph, segment, plain).transfer;
    EXPECT_NEAR(more, static_cast<double>(here) * added, rounding_of_times);
    sums += static_cast<int>(here);
  }
  EXPECT_GT(sums, 0);
}

// Once the last of four pieces of a sum is there, a kernel reads what all ranks sent, 8192 tokens and 4096 columns in
// 16 bits, and writes a quarter as much: 1.25 passes. The pieces before it, gathers and whole sums have none. The load
// of a link has these kernels too, so that none of it counts as a link that idles.
TEST(SumsInPieces, AreAddedUpAfterTheLastPiece) {
  for (const bool in_pieces : {true, false}) {
    Inputs inputs = tests::step_inputs(tests::llama_plan, "h800",
                                       {"parallelism.tensor=4", "parallelism.sequence=true",
                                        "overlap.tensor=" + std::string(in_pieces ? "true" : "false")});
    const model::StepProgram program = tests::program_of(inputs);
    const CostModels plain = tests::costs_of(inputs);
    inputs.profile = tests::with_constants(inputs.profile, {{"sequence.partial_passes", 1.25}});
    const CostModels adding = tests::costs_of(inputs);
    const double added = plain.kernels.moving(model::Bytes(1.25 * 8192 * 4096 * 2), {.sms = 132});
    const model::SlotTemplate& slot = tests::middle_slot(program, OpType::F);
    const auto taken = [&](const CostModels& costs) {
      const Load load = SegmentLoads(program, costs, inputs.cluster.device).of(slot, 1).load;
      return std::accumulate(load.taken.begin(), load.taken.end(), 0.0);
    };
    int sums = 0, pieces = 0;
    for (const Segment& segment : slot.segments) {
      if (segment.stream != Stream::collective) continue;
      const model::Graph& graph = program.blocks[segment.block];
      if (graph.operators[segment.operators.front()].kind == model::OperatorKind::reduce_scatter) ++pieces;
      const double more = segment_time(graph, segment, adding).transfer - segment_time(graph, segment, plain).transfer;
      if (more == 0) continue;
      EXPECT_TRUE(segment.ends);
      EXPECT_NEAR(more, added, rounding_of_times);
      ++sums;
    }
    // Attention's output and the MLP's.
    EXPECT_EQ(sums % 2, 0);
    EXPECT_EQ(sums, in_pieces ? pieces / 4 : 0);
    EXPECT_GT(pieces, 0);
    EXPECT_NEAR(taken(adding) - taken(plain), sums * added, rounding_of_times);
  }
}

// Sums of input gradients overlap with weight gradients, or are cut into pieces with the GEMM before them; without
// either they are whole and the next kernel waits for them.
TEST(SumsOfInputGradients, OverlapUnlessThePlanSaysNot) {
  const auto sums = [](const std::string& pieces, const std::string& overlap) {
    const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800",
                                             {"parallelism.tensor=4", "parallelism.sequence=true",
                                              "overlap.tensor=" + pieces, "overlap.tensor_gradients=" + overlap});
    const model::StepProgram program = tests::program_of(inputs);
    const std::vector<Segment>& segments = tests::middle_slot(program, OpType::B).segments;
    std::pair<int, int> whole_and_awaited;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const Segment& segment = segments[i];
      if (!model::sums_input_gradient(program.blocks[segment.block].operators[segment.operators.front()])) continue;
      if (segment.share == 1) ++whole_and_awaited.first;
      const auto next = std::find_if(segments.begin() + static_cast<std::ptrdiff_t>(i), segments.end(),
                                     [](const Segment& other) { return other.stream == Stream::compute; });
      if (next != segments.end() && std::ranges::find(next->waits, i) != next->waits.end()) ++whole_and_awaited.second;
    }
    return whole_and_awaited;
  };
  const auto usual = sums("false", "true"), awaited = sums("false", "false"), cut = sums("true", "false");
  EXPECT_GT(usual.first, 0);
  EXPECT_LT(usual.second, usual.first);
  EXPECT_EQ(awaited.first, usual.first);
  EXPECT_EQ(awaited, cut);
  EXPECT_EQ(awaited.second, awaited.first);
  EXPECT_EQ(sums("true", "true").first, 0);
}

// Software that waits for sums waits for what it gathers again, whole and after the kernels before, too.
TEST(InputsGatheredAgain, OverlapUnlessSoftwareWaits) {
  const auto gathers = [](const std::string& pieces, const std::string& overlap) {
    const Inputs inputs = tests::step_inputs(
        tests::llama_plan, "h800",
        {"parallelism.tensor=4", "parallelism.sequence=true", "overlap.tensor=" + pieces,
         "overlap.tensor_gradients=" + overlap, "recompute.policy=selective", "recompute.operators=[\"swiglu\"]"});
    const model::StepProgram program = tests::program_of(inputs);
    const std::vector<Segment>& segments = tests::middle_slot(program, OpType::B).segments;
    std::pair<int, int> all_and_alone;
    std::size_t kernels = 0;  // the last segment of compute
    for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
      if (segments[i].stream == Stream::compute) kernels = i;
      const model::Operator& op = program.blocks[segments[i].block].operators[segments[i].operators.front()];
      if (op.phase != model::Phase::W || op.kind != model::OperatorKind::all_gather) continue;
      ++all_and_alone.first;
      const bool waits = std::ranges::find(segments[i].waits, kernels) != segments[i].waits.end();
      const bool awaited = std::ranges::find(segments[i + 1].waits, i) != segments[i + 1].waits.end();
      if (segments[i].share == 1 && waits && awaited) ++all_and_alone.second;
    }
    return all_and_alone;
  };
  for (const char* pieces : {"false", "true"}) {
    const auto alone = gathers(pieces, "false");
    EXPECT_GT(alone.first, 0);
    EXPECT_EQ(alone.second, alone.first) << pieces;
    EXPECT_EQ(gathers(pieces, "true").second, 0) << pieces;
  }
}

}  // namespace
}  // namespace plumbline::sim
