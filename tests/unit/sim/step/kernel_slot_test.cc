// Splits a slot template into kernels with the same work.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "sim/step/chunk.h"
#include "sim/step/slot_host.h"
#include "tests/support/cost_models.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::Segment;
using model::Stream;

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

}  // namespace
}  // namespace plumbline::sim
