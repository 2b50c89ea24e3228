// Steps under a power limit: every fidelity takes the same clocks, bounds hold, and a profile without a power model
// gives what it gave.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/interval/interval.h"
#include "sim/predict/predictor.h"
#include "sim/search/search.h"
#include "sim/step/segment_time.h"
#include "sim/step/slot_host.h"
#include "sim/step/slot_power.h"
#include "tests/support/cost_models.h"
#include "tests/support/costs.h"
#include "tests/support/power_inputs.h"
#include "tests/support/search_inputs.h"

namespace plumbline::sim {
namespace {

using Settings = std::vector<std::string>;

Settings with_limit(double watts, Settings settings = {}) {
  settings.push_back("cluster.power_limit_w=" + std::to_string(watts));
  return settings;
}

model::StepResult run(const Inputs& inputs, Fidelity fidelity = Fidelity::closed_form) {
  const auto simulation = simulate(inputs, fidelity, false);
  EXPECT_TRUE(simulation) << to_string(simulation.error());
  return simulation ? simulation->result : model::StepResult();
}

model::StepResult run(const std::string& profile, const Settings& settings, Fidelity fidelity = Fidelity::closed_form) {
  return run(tests::power_inputs(tests::llama_plan, profile, settings), fidelity);
}

void expect_account(const model::StepResult& result, const std::string& text) {
  const double step = result.step.time_s;
  double sum = result.bound_s.value();
  for (const model::LostTime& part : result.lost) sum += part.seconds;
  EXPECT_LE(*result.bound_s, step) << text;
  EXPECT_NEAR(sum, step, 1e-9 * step) << text;
}

double lost_to_clock(const model::StepResult& result) {
  for (const model::LostTime& part : result.lost)
    if (part.cause == "clock under the power limit") return part.seconds;
  return 0;
}

TEST(PowerLimit, ALowerOneIsSlowerAndDrawsLess) {
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    double seconds = 0, watts = 1e9;
    for (const double limit : {700.0, 600.0, 500.0, 400.0, 300.0}) {
      const model::StepResult result = run("h100-power", with_limit(limit), fidelity);
      EXPECT_GT(result.step.time_s, seconds) << limit;
      EXPECT_LT(result.step.gpu_power_w.value(), watts) << limit;
      EXPECT_LE(*result.step.gpu_power_w, limit);
      EXPECT_NEAR(*result.step.energy_j / (*result.step.gpu_power_w * result.step.time_s * 64), 1, 1e-12);
      EXPECT_GT(lost_to_clock(result), 0);
      expect_account(result, std::to_string(limit));
      seconds = result.step.time_s;
      watts = *result.step.gpu_power_w;
    }
  }
}

TEST(PowerLimit, TheUsualOneIsTheTdp) {
  const model::StepResult usual = run("h100-power", {});
  EXPECT_EQ(usual.step.time_s, run("h100-power", with_limit(700)).step.time_s);
  EXPECT_LT(usual.step.clock[0].value(), 1);
  EXPECT_GT(usual.step.time_s,
            run(tests::step_inputs(tests::llama_plan, "h100-public", {"cluster.topology=h100-dgx"})).step.time_s);
}

// Rates that were measured under 600 W hold there as they are: the same step as without a power model.
TEST(PowerLimit, AtTheReferenceNothingIsSlower) {
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    const double plain =
        run(tests::step_inputs(tests::llama_plan, "h100-public", {"cluster.topology=h100-dgx"}), fidelity).step.time_s;
    const model::StepResult held = run("h100-power-held", with_limit(600), fidelity);
    EXPECT_EQ(held.step.time_s, plain);
    EXPECT_EQ(held.step.clock[0].value(), 1);
    EXPECT_EQ(lost_to_clock(held), 0);
    const model::StepResult more = run("h100-power-held", with_limit(700), fidelity);
    EXPECT_LT(more.step.time_s, plain);
    EXPECT_GT(more.step.clock[0].value(), 1);
    expect_account(more, "above the reference");
    const model::StepResult less = run("h100-power-held", with_limit(500), fidelity);
    EXPECT_GT(less.step.time_s, plain);
    expect_account(less, "below the reference");
  }
}

TEST(PowerLimit, FidelitiesAgree) {
  for (const char* profile : {"h100-power", "h100-power-held"})
    for (const char* schedule : {"1f1b", "zb-h1", "dualpipev"}) {
      const Settings settings = with_limit(500, {std::string("schedule.kind=") + schedule, "parallelism.pipeline=4"});
      const double closed = run(profile, settings).step.time_s;
      const double events = run(profile, settings, Fidelity::step).step.time_s;
      EXPECT_NEAR(closed, events, 0.01 * events) << profile << " " << schedule;
    }
}

// The kernels of a slot, back to back, draw the limit on average: energies are those of the mean GPU.
TEST(PowerLimit, SlotsDrawTheLimit) {
  const Inputs inputs = tests::power_inputs(tests::deepseek_plan, "h100-power", with_limit(400));
  const model::StepProgram program = tests::program_of(inputs);
  const CostModels costs = tests::costs_of(inputs);
  PowerWindows windows;
  for (const model::OpType type : {model::OpType::F, model::OpType::B, model::OpType::FB}) {
    const model::SlotTemplate& slot = tests::middle_slot(program, type);
    const SlotPower power = slot_power(program, slot, costs, windows);
    EXPECT_LT(power.clock, 1);
    double seconds = 0;
    const std::vector<SegmentTime> times = segment_times(program, slot, costs);
    for (std::size_t i = 0; i < times.size(); ++i) seconds += times[i].compute[0];
    EXPECT_NEAR(120 + power.joules * costs.kernels.slowdown() / seconds, 0.987 * 400, 0.01);
  }
}

// Memory, launches and links do not follow the clock.
TEST(PowerLimit, SlowsOnlyWhatTheSmsBound) {
  const Inputs inputs = tests::power_inputs(tests::deepseek_plan, "h100-power");
  const model::StepProgram program = tests::program_of(inputs);
  const CostModels costs = tests::costs_of(inputs);
  for (const model::Graph& graph : program.blocks)
    for (const model::Operator& op : graph.operators) {
      if (tests::between_ranks(graph, op)) continue;
      const model::OperatorClass kind = model::operator_class(graph, op);
      const bool clocked = is_gemm(kind) || kind == model::OperatorClass::attention;
      const model::KernelTime whole = costs.kernels.time(graph, op, {.sms = 132});
      const model::KernelTime half = costs.kernels.time(graph, op, {.sms = 132, .clock = 0.5});
      const double expected = clocked ? 2 * (whole.seconds - whole.gaps) + whole.gaps : whole.seconds;
      EXPECT_NEAR(half.seconds / expected, 1, 1e-12) << op.name;
    }
}

TEST(PowerLimit, IsRefusedWhereNothingSaysWhatItCosts) {
  const auto without =
      simulate(tests::step_inputs(tests::llama_plan, "h100-public", with_limit(500, {"cluster.topology=h100-dgx"})),
               Fidelity::closed_form, false);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().key, "cluster.power_limit_w");
  EXPECT_EQ(without.error().file, "--set");
  const auto below =
      simulate(tests::power_inputs(tests::llama_plan, "h100-power", with_limit(90)), Fidelity::closed_form, false);
  ASSERT_FALSE(below);
  EXPECT_EQ(below.error().key, "cluster.power_limit_w");
}

TEST(PowerLimit, TheExponentSpansTheStep) {
  for (const char* profile : {"h100-power", "h100-power-held"}) {
    const Inputs inputs = tests::power_inputs(tests::llama_plan, profile, with_limit(450));
    const double step = run(inputs).step.time_s;
    const auto span = power_span(inputs, step).value();
    ASSERT_TRUE(span);
    EXPECT_LT((*span)[0], step);
    EXPECT_GT((*span)[1], step);
    EXPECT_FALSE(power_span(tests::power_inputs(tests::llama_plan, profile), step).value());
  }
  EXPECT_FALSE(power_span(tests::power_inputs(tests::llama_plan, "h100-power-held", with_limit(650)), 1).value());
}

TEST(PowerLimit, OnePredictorTellsLimitsApart) {
  const Inputs inputs = tests::power_inputs(tests::llama_plan, "h100-power");
  Predictor predictor(inputs);
  model::Plan plan = inputs.plan;
  const double usual = predictor.closed_form(plan)->step.time_s;
  plan.cluster.power_limit_w = 450;
  EXPECT_GT(predictor.closed_form(plan)->step.time_s, usual);
  plan.cluster.power_limit_w.reset();
  EXPECT_EQ(predictor.closed_form(plan)->step.time_s, usual);
}

TEST(PowerLimit, ASearchCutsNoBestPlan) {
  for (const char* profile : {"h100-power", "h100-power-held"})
    for (const double limit : {450.0, 700.0}) {
      Inputs inputs = tests::small_searches()[2].inputs;
      const Inputs power = tests::power_inputs(tests::llama_plan, profile);
      inputs.profile = power.profile;
      inputs.cluster = power.cluster;
      inputs.cluster.gpus = inputs.plan.cluster.gpus;
      inputs.plan.cluster.power_limit_w = limit;
      SearchOptions options;
      options.top = 5;
      const auto cut = search(inputs, options);
      options.exhaustive = true;
      const auto all = search(inputs, options);
      ASSERT_TRUE(cut && all);
      ASSERT_GE(all->best.size(), options.top);
      for (std::size_t i = 0; i < options.top; ++i)
        EXPECT_EQ(cut->best[i].estimate.step.time_s, all->best[i].estimate.step.time_s) << profile << limit << i;
    }
}

}  // namespace
}  // namespace plumbline::sim
