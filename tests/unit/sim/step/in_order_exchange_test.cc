// Where tokens travel by NCCL's collectives, nothing runs during a transfer; else other kernels fill the wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/cost/operator_class.h"
#include "sim/predict/simulate.h"
#include "sim/step/stragglers.h"
#include "tests/support/cost_models.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::OpType;

Inputs inputs(const std::string& dispatcher, const std::string& kind = "1f1b",
              const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = {"stack.dispatcher=" + dispatcher, "schedule.kind=" + kind,
                                       "overlap.communication_sms=0"};
  settings.insert(settings.end(), more.begin(), more.end());
  return tests::step_inputs(tests::deepseek_plan, "h800", settings);
}

bool computes(const model::Segment& segment) {
  return segment.stream == model::Stream::compute || segment.stream == model::Stream::weight_gradient;
}

// Returns how many kernels' segments may run during a transfer: those launched between it and the first that waits.
int during_transfers(const model::SlotTemplate& slot) {
  int found = 0;
  for (std::size_t i = 0; i < slot.segments.size(); ++i) {
    if (slot.segments[i].stream != model::Stream::communication) continue;
    const auto waits = [&](const model::Segment& s) { return std::ranges::find(s.waits, i) != s.waits.end(); };
    for (std::size_t j = i + 1; j < slot.segments.size() && !waits(slot.segments[j]); ++j)
      found += computes(slot.segments[j]) ? 1 : 0;
    for (std::size_t j = 0; j < i; ++j)  // those before it that it does not wait for
      if (computes(slot.segments[j]) && slot.segments[i].waits.empty()) ++found;
  }
  return found;
}

TEST(InOrderExchange, NothingRunsDuringCollectives) {
  for (const std::string dispatcher : {"alltoall", "allgather"}) {
    const model::StepProgram program = tests::program_of(inputs(dispatcher));
    for (const OpType type : {OpType::F, OpType::B})
      EXPECT_EQ(during_transfers(tests::middle_slot(program, type)), 0) << dispatcher << to_string(type);
  }
  EXPECT_GT(during_transfers(tests::middle_slot(tests::program_of(inputs("deepep")), OpType::B)), 0);
}

// Megatron runs DeepEP's kernels in order too; other software may overlap NCCL's.
TEST(InOrderExchange, TheStackMayChoose) {
  const auto found = [](const std::string& dispatcher, const std::string& overlap) {
    const model::StepProgram program =
        tests::program_of(inputs(dispatcher, "1f1b", {"stack.dispatch_overlap=" + overlap}));
    return during_transfers(tests::middle_slot(program, OpType::B));
  };
  EXPECT_EQ(found("deepep", "false"), 0);
  EXPECT_GT(found("alltoall", "true"), 0);
}

TEST(InOrderExchange, OnlyTransfersAreOnTheirStream) {
  const model::StepProgram program = tests::program_of(inputs("alltoall"));
  for (const model::Segment& segment : tests::middle_slot(program, OpType::F).segments) {
    if (segment.stream != model::Stream::communication) continue;
    for (const std::uint16_t index : segment.operators)
      EXPECT_TRUE(is_all_to_all(program.blocks[segment.block].operators[index].kind));
  }
}

TEST(InOrderExchange, CopiesAndWaitsMakeTheStepLonger) {
  const auto seconds = [](const Inputs& of) { return simulate(of, Fidelity::closed_form, false)->result.step.time_s; };
  EXPECT_GT(seconds(inputs("alltoall")), seconds(inputs("deepep")));
  // A schedule with pairs hides part of the transfers.
  EXPECT_LT(seconds(inputs("alltoall", "dualpipe")), seconds(inputs("alltoall")));
}

// Every expert as many rows as its capacity: nobody waits, however uneven the routing.
TEST(InOrderExchange, PaddingEvensOutTheRanks) {
  Inputs padded = inputs("deepep");
  padded.plan.routing.imbalance = 0.3;
  const Imbalance uneven = imbalance_of(padded.plan, padded.architecture.experts, 0);
  EXPECT_FALSE(uneven.even());
  padded.plan.routing.capacity_factor = 1.5;
  EXPECT_EQ(imbalance_of(padded.plan, padded.architecture.experts, 0).most, 1.5);
  padded.plan.routing.pad_to_capacity = true;
  EXPECT_TRUE(imbalance_of(padded.plan, padded.architecture.experts, 0).even());
}

}  // namespace
}  // namespace plumbline::sim
