// Offloaded activations over time: slots on a slow and on a fast link to the host, and laws.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "sim/step/slot_host.h"
#include "sim/step/step_executor.h"
#include "tests/support/cost_models.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::OpType;
using model::Stream;
using Overrides = std::vector<std::string>;

// With Llama 3 8B on four pipeline ranks, a middle stage has eight layers and neither embedding nor head.
class MiddleSlot {
 public:
  MiddleSlot(OpType type, const std::string& share, double host_bandwidth) {
    Inputs inputs =
        tests::step_inputs(tests::llama_plan, "h800", {"parallelism.pipeline=4", "offload.activations=" + share});
    inputs.cluster.device.host_bandwidth = model::BytesPerSecond(host_bandwidth);
    program_ = tests::program_of(inputs);
    slot_ = tests::middle_slot(program_, type);
    const CostModels costs = tests::costs_of(inputs);
    rate_ = host_bandwidth * model::ConstantReader(inputs.profile).require("host.link_efficiency").value;
    run_ = run_template(slot_, segment_times(program_, slot_, costs), costs.partition.device_sms);
  }

  double seconds() const { return run_.seconds; }
  double link_seconds() const { return bytes() / rate_; }

  double bytes() const {
    double sum = 0;
    for (const model::Segment& segment : slot_.segments) {
      if (!model::on_host_link(segment.stream)) continue;
      const model::Graph& graph = program_.blocks[segment.block];
      for (const std::uint16_t index : segment.operators) {
        const model::Operator& op = graph.operators[index];
        const bool out = segment.stream == Stream::to_host;
        sum += graph.tensor(out ? op.writes[0] : op.reads[0]).bytes().value();
      }
    }
    return sum;
  }

  std::vector<SegmentRun> runs(Stream stream) const {
    std::vector<SegmentRun> found;
    for (std::size_t i = 0; i < slot_.segments.size(); ++i)
      if (slot_.segments[i].stream == stream) found.push_back(run_.segments[i]);
    return found;
  }

 private:
  model::StepProgram program_;
  model::SlotTemplate slot_;
  double rate_ = 0;
  TemplateRun run_;
};

constexpr double segment_rounding = 1e-10;  // seconds: a picosecond for each segment

TEST(OffloadedSlots, CopyWhatALayerKeeps) {
  // BF16, 8192 tokens of width 4096, 32 heads and 8 key-value heads of 128, 14336 inside the MLP; two bytes each. The
  // backward needs: the input, its norm, the rotated queries and keys, the values and the output of attention (2 * 4096
  // + 2 * 1024 wide), the residual stream after it and its norm, both halves of the first GEMM's output and the input
  // of the second; FP32 log-sum-exps of 32 heads.
  const double per_token = 2 * (2 * 4096 + (2 * 4096 + 2 * 1024) + 2 * 4096 + 3 * 14336) + 4 * 32;
  EXPECT_DOUBLE_EQ(MiddleSlot(OpType::F, "1", 64e9).bytes(), 8 * 8192 * per_token);
  EXPECT_DOUBLE_EQ(MiddleSlot(OpType::B, "1", 64e9).bytes(), 8 * 8192 * per_token);
  EXPECT_DOUBLE_EQ(MiddleSlot(OpType::F, "0.5", 64e9).bytes(), 4 * 8192 * per_token);
}

TEST(OffloadedSlots, TakeAsLongAsASlowLinkForward) {
  // The first layer's attention segment ends, then the link never rests: a layer computes while the one before it is
  // copied. The slot ends with the last copy, bytes / rate later.
  const MiddleSlot slot(OpType::F, "1", 1e9);
  const std::vector<SegmentRun> out = slot.runs(Stream::to_host);
  const double first = to_seconds(slot.runs(Stream::compute).front().end);
  EXPECT_DOUBLE_EQ(to_seconds(out.front().start), first);
  EXPECT_NEAR(slot.seconds(), first + slot.link_seconds(), segment_rounding);
  EXPECT_TRUE(slot.runs(Stream::from_host).empty());
}

TEST(OffloadedSlots, TakeAsLongAsASlowLinkBackward) {
  // The link is busy from the slot's start until the first layer's attention has its tensors, bytes / rate; then comes
  // that part of the backward, the last compute segment (input and weight gradients, which wait for nothing else).
  const MiddleSlot slot(OpType::B, "1", 1e9);
  const std::vector<SegmentRun> in = slot.runs(Stream::from_host), kernels = slot.runs(Stream::compute);
  EXPECT_EQ(in.front().start, 0);
  EXPECT_NEAR(to_seconds(in.back().end), slot.link_seconds(), segment_rounding);
  EXPECT_GE(kernels.back().start, in.back().end);
  const double tail = to_seconds(kernels.back().end - in.back().end);
  EXPECT_NEAR(slot.seconds(), slot.link_seconds() + tail, segment_rounding);
  EXPECT_LT(tail, MiddleSlot(OpType::B, "0", 1e9).seconds() / 8);  // less than a layer's backward
}

TEST(OffloadedSlots, HideBehindComputeOnAFastLink) {
  // At 100 times the bandwidth only the ends of a slot show: the last layer's last copies of the forward, the first
  // copies of the backward.
  for (const OpType type : {OpType::F, OpType::B}) {
    const MiddleSlot slot(type, "1", 6400e9);
    const double alone = MiddleSlot(type, "0", 6400e9).seconds();
    EXPECT_GE(slot.seconds(), alone);
    EXPECT_LE(slot.seconds(), alone + slot.link_seconds() / 8);  // of eight layers
  }
}

TEST(OffloadedSlots, APairUsesBothDirectionsAtOnce) {
  // Under DualPipe the forward sends as many bytes as the backward fetches, and a slow link carries both at its full
  // rate: the slot takes less than one after the other would.
  Inputs inputs = tests::step_inputs(
      tests::llama_plan, "h800",
      {"parallelism.pipeline=4", "schedule.kind=dualpipe", "offload.activations=1", "batch.global_batch_size=512"});
  inputs.cluster.device.host_bandwidth = model::BytesPerSecond(1e9);
  const model::StepProgram program = tests::program_of(inputs);
  const CostModels costs = tests::costs_of(inputs);
  const model::SlotTemplate& pair = tests::middle_slot(program, OpType::FB);
  const auto times = segment_times(program, pair, costs);
  double out = 0, in = 0;
  for (std::size_t i = 0; i < pair.segments.size(); ++i) {
    if (pair.segments[i].stream == Stream::to_host) out += times[i].transfer;
    if (pair.segments[i].stream == Stream::from_host) in += times[i].transfer;
  }
  EXPECT_DOUBLE_EQ(out, in);
  EXPECT_GT(out, 0);
  const double seconds = run_template(pair, times, costs.partition.device_sms).seconds;
  EXPECT_GE(seconds, out);
  EXPECT_LT(seconds, 1.5 * out);
}

model::StepResult result(const Overrides& overrides) {
  return simulate(tests::step_inputs(tests::llama_plan, "h800", overrides), Fidelity::step, false).value().result;
}

TEST(Offloading, NothingIsTheSameToTheBit) {
  const model::StepResult without = result({}), none = result({"offload.activations=0"});
  EXPECT_EQ(none.step.time_s, without.step.time_s);
  EXPECT_EQ(none.memory.peak_bytes, without.memory.peak_bytes);
}

TEST(Offloading, IsRefusedWithoutALinkRate) {
  Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", {"offload.activations=0.5"});
  inputs.cluster.device.host_bandwidth = model::BytesPerSecond(0);
  tests::expect_error(simulate(inputs, Fidelity::step, false), model::ErrorKind::infeasible, "offload.activations");
}

RC_GTEST_PROP(Offloading, MoreOfItNeverTakesMoreMemoryAndIsNeverFaster, ()) {
  const std::string kind = *rc::gen::element<std::string>("gpipe", "1f1b", "zb-h1", "zb-v");
  const std::string policy = *rc::gen::element<std::string>("none", "full");
  const std::string pipeline = *rc::gen::element<std::string>("2", "4");
  const Overrides plan = {"schedule.kind=" + kind, "recompute.policy=" + policy, "parallelism.pipeline=" + pipeline};
  const int less = *rc::gen::inRange(0, 10), more = *rc::gen::inRange(less + 1, 11);
  const auto with = [&plan](int tenths) {
    Overrides all = plan;
    all.push_back("offload.activations=" + std::to_string(tenths / 10.0));
    return result(all);
  };
  const model::StepResult few = with(less), many = with(more);
  RC_ASSERT(many.step.time_s >= few.step.time_s * (1 - 1e-9));
  RC_ASSERT(few.memory.ranks.size() == many.memory.ranks.size());
  for (std::size_t rank = 0; rank < few.memory.ranks.size(); ++rank) {
    RC_ASSERT(many.memory.ranks[rank].peak_bytes <= few.memory.ranks[rank].peak_bytes);
    RC_ASSERT(many.memory.ranks[rank].activations_peak_bytes <= few.memory.ranks[rank].activations_peak_bytes);
  }
}

}  // namespace
}  // namespace plumbline::sim
