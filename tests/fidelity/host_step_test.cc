// Steps on the cores of one computer: every schedule and division of a tiny mixture of experts. The threads of
// communication take no core from the compute stream.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/cost/measured_operators.h"
#include "sim/predict/simulate.h"
#include "tests/support/cost_models.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

using Settings = std::vector<std::string>;

sim::Inputs host_inputs(const Settings& settings) { return wired_inputs("host-tiny-moe", "host-datasheet", settings); }

class HostSteps : public testing::TestWithParam<Settings> {};

TEST_P(HostSteps, AreFiniteAndAccountedFor) {
  const auto simulation = sim::simulate(host_inputs(GetParam()), sim::Fidelity::step, false);
  ASSERT_TRUE(simulation) << to_string(simulation.error());
  const model::StepResult& result = simulation->result;
  ASSERT_TRUE(result.bound_s);
  EXPECT_GT(*result.bound_s, 0);
  EXPECT_LT(*result.bound_s, result.step.time_s);
  double lost = 0;
  for (const model::LostTime& loss : result.lost) {
    EXPECT_TRUE(std::isfinite(loss.seconds)) << loss.cause;
    EXPECT_NE(loss.cause, "slowdown during transfers");  // a constant factor of 1
    EXPECT_NE(loss.cause, "SMs given to communication");
    lost += loss.seconds;
  }
  EXPECT_NEAR(*result.bound_s + lost, result.step.time_s, 1e-6 * result.step.time_s);
}

INSTANTIATE_TEST_SUITE_P(Divisions, HostSteps,
                         testing::Values(Settings{"cluster.gpus=2", "parallelism.expert=1"}, Settings{},
                                         Settings{"schedule.kind=zb-h1"}, Settings{"schedule.kind=dualpipe"},
                                         Settings{"parallelism.pipeline=1", "parallelism.expert=4"},
                                         Settings{"parallelism.expert=1", "parallelism.zero_stage=0"},
                                         Settings{"cluster.gpus=8", "parallelism.expert=4", "schedule.kind=dualpipe"},
                                         Settings{"cluster.gpus=8", "parallelism.expert=4", "schedule.kind=zb-h1"}));

TEST(HostStep, CommunicationHoldsNoCores) {
  sim::Inputs inputs = host_inputs({"cluster.gpus=8", "parallelism.expert=4"});
  for (const std::int64_t cores : {1, 2}) {
    inputs.cluster.device.sms = cores;
    const model::SmPartition partition = costs_of(inputs).partition;
    EXPECT_EQ(partition.communication_sms, 0);
    EXPECT_EQ(partition.collective_sms, 0);
    for (const auto co_runner : {model::CoRunner::transferring, model::CoRunner::collective}) {
      EXPECT_EQ(partition.overlapped(co_runner).sms, cores);
      EXPECT_EQ(partition.overlapped(co_runner).held, 0);
    }
  }
}

// When every operator takes twice its computed time and there are no gaps, so does a step without transfers.
TEST(HostStep, RestsOnWhatWasMeasured) {
  const Settings alone = {"cluster.gpus=1", "parallelism.pipeline=1", "parallelism.expert=1",
                          "optimizer.gradient_clipping=false"};
  sim::Inputs inputs = host_inputs(alone);
  std::vector<model::Parameter> parameters = inputs.profile.parameters();
  for (model::Parameter& parameter : parameters)
    if (parameter.name == "kernel.launch_gap") parameter.value = 0;
  inputs.profile = model::Profile("no gaps", "", parameters);
  const double before = sim::simulate(inputs, sim::Fidelity::step, false).value().result.step.time_s;
  const model::StepProgram program = program_of(inputs);
  const model::KernelCost kernels = costs_of(inputs).kernels;
  std::map<std::string, double> measured;
  for (const auto* graphs : {&program.blocks, &program.stage_optimizers})
    for (const model::Graph& graph : *graphs)
      for (const model::Operator& op : graph.operators)
        if (operator_class(graph, op) < model::OperatorClass::exchange)
          measured[operator_key(graph, op)] = 2 * kernels.time(graph, op, {.sms = 1}).seconds;
  for (const auto& [key, seconds] : measured)
    parameters.push_back(
        {model::MeasuredOperators::name(key, {1}), seconds, "s", model::Evidence::measured, "a test", std::nullopt});
  inputs.profile = model::Profile("measured", "", parameters);
  const model::StepResult after = sim::simulate(inputs, sim::Fidelity::step, false).value().result;
  EXPECT_NEAR(after.step.time_s / before, 2, 1e-6);
  double share = 0;
  for (const auto& row : after.provenance)
    if (row.parameter.name.starts_with("measured.cores1.")) share += row.share_of_step;
  EXPECT_GT(share, 0.8);  // the optimizer is not divided
}

}  // namespace
}  // namespace plumbline::tests
