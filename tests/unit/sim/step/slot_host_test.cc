// A slot takes as long as the slower of GPU and host.
#include "sim/step/slot_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sim/step/chunk.h"
#include "sim/step/template_run.h"
#include "tests/support/cost_models.h"
#include "tests/support/costs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::OpType;
using HostConstants = std::map<std::string, double>;

constexpr double accuracy_of_delay = 1e-8;  // of what the delay of launches is found to

struct Case {
  Inputs inputs;
  model::StepProgram program = tests::program_of(inputs);
  CostModels costs = tests::costs_of(inputs);

  Case(const std::string& plan, const HostConstants& host, const std::vector<std::string>& changes = {})
      : inputs(tests::step_inputs(plan, "h800", changes)) {
    if (host.empty()) return;
    inputs.profile = tests::with_host(inputs.profile, host);
    costs = tests::costs_of(inputs);
  }
  const model::SlotTemplate& slot(OpType type) const { return tests::middle_slot(program, type); }
  std::vector<SegmentTime> times(OpType type) const { return segment_times(program, slot(type), costs); }
  double seconds(OpType type) const {
    return run_template(slot(type), times(type), costs.partition.device_sms).seconds;
  }
  model::HostCalls calls(OpType type) const {
    SegmentCalls known;
    return slot_host(program, slot(type), costs, times(type), known).calls;
  }
};

std::vector<std::array<double, model::communication_states>> compute(const std::vector<SegmentTime>& times) {
  std::vector<std::array<double, model::communication_states>> all;
  for (const SegmentTime& time : times) all.push_back(time.compute);
  return all;
}

TEST(SlotHost, AFastHostChangesNothing) {
  for (const OpType type : {OpType::F, OpType::FB}) {
    const Case without(tests::deepseek_plan, {}), fast(tests::deepseek_plan, {{"launch", 0.01}});
    EXPECT_EQ(compute(fast.times(type)), compute(without.times(type)));
    EXPECT_EQ(without.calls(type).launches, 0);
  }
}

TEST(SlotHost, ASlowHostIsWhatASlotTakes) {
  for (const std::string& plan : {tests::llama_plan, tests::deepseek_plan})
    for (const OpType type : {OpType::F, OpType::B, OpType::FB}) {
      if (type == OpType::FB && plan == tests::llama_plan) continue;
      const Case slow(plan, {{"launch", 50}, {"operator.forward", 900}, {"operator.backward", 1500}});
      const double issued = slow.costs.host.issue(slow.calls(type));
      EXPECT_GT(issued, 1.2 * Case(plan, {}).seconds(type));
      EXPECT_NEAR(slow.seconds(type), issued, accuracy_of_delay * issued) << plan << " " << to_string(type);
    }
}

TEST(SlotHost, MoreLaunchesAreNeverFaster) {
  double before = 0;
  for (const double launch : {0.0, 1.0, 10.0, 100.0, 1000.0}) {
    const double now = Case(tests::deepseek_plan, {{"launch", launch}}).seconds(OpType::FB);
    EXPECT_GE(now, before * (1 - accuracy_of_delay)) << launch;
    before = now;
  }
}

TEST(SlotHost, CountsWhatItLaunches) {
  // A dense layer counts once in each direction; a pair has four layers of each side.
  const Case some(tests::deepseek_plan, {{"launch", 1}, {"layer.forward", 1}});
  EXPECT_EQ(some.calls(OpType::F).forward_layers, 4);
  EXPECT_EQ(some.calls(OpType::F).backward_layers, 0);
  EXPECT_EQ(some.calls(OpType::FB).forward_layers, 4);
  EXPECT_EQ(some.calls(OpType::FB).backward_layers, 4);
  double operators = 0;
  for (const model::Segment& segment : some.slot(OpType::F).segments)
    operators += segment.share * static_cast<double>(segment.operators.size());
  EXPECT_DOUBLE_EQ(some.calls(OpType::F).forward, operators);
  EXPECT_GE(some.calls(OpType::F).launches, operators);
}

TEST(SlotHost, AWaitOfTheHostLeavesTheGpuIdle) {
  // Four layers of experts in a forward slot, two waits of 500 us in each.
  const std::vector<std::string> counted = {"stack.dispatcher=alltoall"};
  const Case usual(tests::deepseek_plan, {}, counted),
      waits(tests::deepseek_plan, {{"synchronization", 500}, {"synchronizations.moe", 2}}, counted);
  EXPECT_NEAR(waits.seconds(OpType::F) - usual.seconds(OpType::F), 4 * 2 * 500e-6, 1e-6);
}

// What counts is issued while the GPU is behind, so that 40 kernels more of it, 0.8 ms of the host in each of four
// layers, take no longer than the GPU does for them.
TEST(SlotHost, WhatCountsIsIssuedBeforeTheWaitOfADispatch) {
  double kernel = 0;
  const auto seconds = [&](double launches) {
    Case counts(
        tests::deepseek_plan,
        {{"launch", 20}, {"synchronization", 1}, {"synchronizations.moe", 1}, {"synchronizations.at_dispatch", 1}},
        {"stack.dispatcher=alltoall"});
    counts.inputs.profile = tests::with_constants(counts.inputs.profile, {{"kernel.dispatch.launches", launches}});
    counts.costs = tests::costs_of(counts.inputs);
    model::ConstantReader reader(counts.inputs.profile);
    kernel = reader.value("kernel.shortest") + reader.value("kernel.launch_gap");
    return counts.seconds(OpType::F);
  };
  const double few = seconds(1), many = seconds(41);
  EXPECT_GE(many, few * (1 - accuracy_of_delay));
  EXPECT_LE(many - few, 4 * 40 * kernel + 1e-6);
}

TEST(SlotHost, AHostThatWaitsForEachLaunchIsNeverAhead) {
  // A dense slot is one chain of kernels, each of which waits for its launch and is then waited for.
  const Case alone(tests::llama_plan, {});
  const Case blocks(tests::llama_plan, {{"launch", 5}, {"synchronization", 20}, {"launch_blocking", 1}});
  EXPECT_EQ(Case(tests::llama_plan, {{"launch", 5}, {"synchronization", 20}}).seconds(OpType::F),
            alone.seconds(OpType::F));
  const double launches = blocks.calls(OpType::F).launches;
  EXPECT_GT(launches, 0);
  EXPECT_NEAR(blocks.seconds(OpType::F) - alone.seconds(OpType::F), launches * 25e-6, 0.02 * launches * 25e-6);
  // Then nothing is left to wait for at a message.
  const Case messages(tests::llama_plan,
                      {{"launch", 5}, {"synchronization", 20}, {"launch_blocking", 1}, {"synchronizations.slot", 1}});
  EXPECT_DOUBLE_EQ(messages.seconds(OpType::F), blocks.seconds(OpType::F));
}

TEST(SlotHost, TheHostWaitsForWhatADispatchBringsBeforeItGoesOn) {
  const std::vector<std::string> software = {"stack.dispatcher=hybridep"};
  const HostConstants once = {{"synchronization", 500}, {"synchronizations.moe", 1}};
  HostConstants twice = once;
  twice["synchronizations.hybridep.at_permute"] = 1;
  const double more = Case(tests::deepseek_plan, twice, software).seconds(OpType::F) -
                      Case(tests::deepseek_plan, once, software).seconds(OpType::F);
  EXPECT_NEAR(more, 4 * 500e-6, 1e-5);
}

// The scalar that the activation adds is copied once the kernels that limit its input are issued. These last long here,
// so that a host that waited ahead of them would be ahead of the GPU again when they end.
TEST(SlotHost, TheHostWaitsForTheEndOfAClamp) {
  const auto seconds = [](const HostConstants& host) {
    Case limited(tests::llama_plan, host,
                 {"model.config=models/gpt-oss-120b.json", "parallelism.expert=8", "stack.dispatcher=alltoall"});
    limited.inputs.profile = tests::with_constants(limited.inputs.profile, {{"kernel.clamp.passes", 1000}});
    limited.costs = tests::costs_of(limited.inputs);
    return limited.seconds(OpType::F);
  };
  const HostConstants host = {{"launch", 1000}, {"synchronization", 1}};
  HostConstants waiting = host;
  waiting["synchronizations.clamp"] = 1;
  constexpr double layers = 18, launches_after = 10;
  EXPECT_GT(seconds(waiting) - seconds(host), layers * launches_after * 1e-3);
}

TEST(SlotHost, AfterAWaitTheHostIsNotAhead) {
  // The GPU is the slower one, so without waits the host costs nothing. After each it takes longer to issue the first
  // kernels than these take.
  const HostConstants host = {{"launch", 5}, {"synchronization", 1}};
  HostConstants waiting = host;
  waiting["synchronizations.moe"] = 1;
  const std::vector<std::string> counted = {"stack.dispatcher=alltoall"};
  const double usual = Case(tests::deepseek_plan, host, counted).seconds(OpType::F);
  EXPECT_EQ(usual, Case(tests::deepseek_plan, {}, counted).seconds(OpType::F));
  const double router = Case(tests::deepseek_plan, waiting, counted).seconds(OpType::F) - usual;
  EXPECT_GT(router, 0.99 * 4 * (1e-6 + 5e-6));
  EXPECT_LT(router, 4 * 500e-6);
}

TEST(SlotHost, CopiesToTheHostAreNotWaitedFor) {
  HostConstants host = {{"launch", 5}, {"synchronization", 13}};
  const std::vector<std::string> counted = {"stack.dispatcher=alltoall"},
                                 copied = {"stack.dispatcher=alltoall", "offload.activations=0.2"};
  const auto waiting = [&](const std::vector<std::string>& changes) {
    HostConstants waits = host;
    waits["synchronizations.moe"] = 1;
    return Case(tests::deepseek_plan, waits, changes).seconds(OpType::F) -
           Case(tests::deepseek_plan, host, changes).seconds(OpType::F);
  };
  EXPECT_LT(waiting(copied), 1.2 * waiting(counted) + 1e-4);
}

TEST(SlotHost, KernelsAreDelayedLikeTheirSegments) {
  const Case slow(tests::deepseek_plan, {{"launch", 300}, {"synchronization", 50}, {"synchronizations.moe", 1}},
                  {"stack.dispatcher=alltoall"});
  const std::vector<SegmentTime> whole = slow.times(OpType::FB);
  const KernelSlot kernels = take_apart(slow.program, slow.slot(OpType::FB), slow.costs);
  std::vector<double> sums(whole.size());
  for (std::size_t i = 0; i < kernels.times.size(); ++i) sums[kernels.origins[i]] += kernels.times[i].compute[0];
  for (std::size_t s = 0; s < whole.size(); ++s) EXPECT_NEAR(sums[s], whole[s].compute[0], accuracy_of_delay * sums[s]);
}

model::StepResult result(const Inputs& inputs, Fidelity fidelity) {
  const auto simulation = simulate(inputs, fidelity, false);
  EXPECT_TRUE(simulation) << to_string(simulation.error());
  return simulation ? simulation->result : model::StepResult{};
}

double lost_to(const model::StepResult& step, const std::string& cause) {
  const auto found = std::ranges::find(step.lost, cause, &model::LostTime::cause);
  return found == step.lost.end() ? 0 : found->seconds;
}

TEST(SlotHost, StepsNameTheHost) {
  const Case usual(tests::llama_plan, {}),
      slow(tests::llama_plan, {{"launch", 50}, {"operator.forward", 900}, {"operator.backward", 1500}, {"step", 7000}});
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    const model::StepResult fast = result(usual.inputs, fidelity), late = result(slow.inputs, fidelity);
    EXPECT_GT(late.step.time_s, fast.step.time_s);
    EXPECT_DOUBLE_EQ(*late.bound_s, *fast.bound_s);
    EXPECT_EQ(lost_to(fast, "host"), 0);
    // Slots of the middle of the step wait, and its end.
    EXPECT_GT(lost_to(late, "host"), 0.2 * late.step.time_s);
    EXPECT_NEAR(lost_to(late, "host between steps"), 7e-3, 1e-9);
    const auto share = [&](const std::string& name) {
      const auto found = std::ranges::find_if(
          late.provenance, [&](const model::ProvenanceEntry& entry) { return entry.parameter.name == name; });
      return found == late.provenance.end() ? 0 : found->share_of_step;
    };
    EXPECT_GT(share("host.operator.forward"), 0.05);
    EXPECT_GT(share("host.operator.backward"), 0.05);
    EXPECT_GT(share("host.launch"), 0);
    EXPECT_LT(share("host.launch"), share("host.operator.forward"));
  }
}

}  // namespace
}  // namespace plumbline::sim
