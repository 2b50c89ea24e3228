// For random plans of every schedule, no step takes less time than its lower bound, and the reported losses add up to
// the difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "model/schedule/schedule.h"
#include "sim/analysis/load.h"
#include "sim/predict/simulate.h"
#include "tests/support/cost_models.h"
#include "tests/support/costs.h"
#include "tests/support/random_choice.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using tests::choice;
using Settings = std::vector<std::string>;

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) names.emplace_back(kind->name());
  return names;
}

Settings random_settings(model::Random& random, bool experts) {
  const std::string tensor = choice(random, {"1", "1", "2", "8"});
  const std::string schedule = choice(random, schedule_names());
  Settings settings = {
      "parallelism.tensor=" + tensor,
      std::string("parallelism.sequence=") + (tensor == "1" ? "false" : "true"),
      "parallelism.context=" + choice(random, {"1", "1", "2"}),
      "parallelism.context_method=" + choice(random, {"ring", "all-gather"}),
      "parallelism.pipeline=" + choice(random, {"1", "2", "4", "8"}),
      "parallelism.zero_stage=" + choice(random, {"0", "1", "2", "3"}),
      "schedule.kind=" + schedule,
      "schedule.layers_per_stage=[]",
      "schedule.virtual_stages=" +
          std::string(schedule == "gpipe" || schedule == "1f1b" || schedule.starts_with("zb-h") ? "1" : "2"),
      "recompute.policy=" + choice(random, {"none", "full"}),
      "precision.gemm=" + choice(random, {"bf16", "fp8", "fp8_tensor", "fp16", "tf32", "mxfp8"}),
      "attention.kernel=" + choice(random, {"fused", "unfused", "triton"}),
      "precision.scaling=" + choice(random, {"current", "delayed"}),
      "precision.weight_cast=" + choice(random, {"micro_batch", "step"}),
      "overlap.communication_sms=" + choice(random, {"0", "8", "20", "40"}),
      "overlap.sm_policy=" + choice(random, {"static", "none", "dynamic"}),
      "overlap.tensor=" + choice(random, {"false", "true"}),
      "overlap.gradient_reduce=" + choice(random, {"false", "true"}),
      "overlap.parameter_gather=" + choice(random, {"false", "true"}),
      "optimizer.gradient_clipping=" + choice(random, {"false", "true"}),
      "optimizer.ema=" + choice(random, {"none", "host"}),
      "offload.optimizer=" + choice(random, {"false", "false", "true"}),
      "offload.activations=" + choice(random, {"0.0", "0.0", "0.5"}),
      "cluster.nic_gbps=" + choice(random, {"25", "100", "400", "800"}),
      "batch.global_batch_size=" + choice(random, {"128", "256"}),
      "input.prefetch=" + choice(random, {"false", "true"}),
  };
  if (experts) {
    settings.push_back("parallelism.expert=" + choice(random, {"1", "2", "4", "8"}));
    settings.push_back("routing.imbalance=" + choice(random, {"0.0", "0.1", "0.5"}));
    settings.push_back("stack.dispatcher=" + choice(random, {"deepep", "hybridep", "alltoall", "allgather"}));
  }
  return settings;
}

double sum_of(const model::StepResult& result) {
  double sum = *result.bound_s;
  for (const model::LostTime& part : result.lost) sum += part.seconds;
  return sum;
}

void expect_account(const model::StepResult& result, const std::string& text) {
  ASSERT_TRUE(result.bound_s) << text;
  const double step = result.step.time_s;
  EXPECT_GT(*result.bound_s, 0) << text;
  EXPECT_LE(*result.bound_s, step) << text;
  EXPECT_NEAR(sum_of(result), step, 1e-9 * step) << text;
  EXPECT_FALSE(result.bound_by.empty());
  for (const model::LostTime& part : result.lost) {
    EXPECT_GT(part.seconds, 0) << part.cause << "\n" << text;
    EXPECT_FALSE(part.remedy.empty()) << part.cause;
  }
  double breakdown = 0;
  for (const auto& part : result.step.breakdown) breakdown += part.seconds;
  if (!result.step.breakdown.empty()) {
    EXPECT_NEAR(breakdown, step, 1e-9 * step) << text;
  }
}

// Returns how many of the plans were valid.
int run_random_plans(const Settings& common, bool experts, std::uint64_t seed, int plans) {
  model::Random random(seed);
  int valid = 0;
  for (int tried = 0; tried < plans; ++tried) {
    Settings settings = common;
    std::string text;
    for (std::string& setting : random_settings(random, experts)) {
      text += setting + " ";
      settings.push_back(std::move(setting));
    }
    Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", settings);
    if (random.next() % 2 == 0) inputs.profile = tests::with_every_term(inputs.profile);
    if (random.next() % 2 == 0)
      inputs.profile = tests::with_host(inputs.profile, {{"launch", 4},
                                                         {"operator.forward", random.next() % 2 == 0 ? 2 : 200},
                                                         {"layer.backward", 100},
                                                         {"synchronization", 30},
                                                         {"synchronizations.moe", 2},
                                                         {"synchronizations.slot", 1},
                                                         {"step", 3000}});
    const auto events = simulate(inputs, Fidelity::step, false);
    if (!events) {
      EXPECT_EQ(events.error().kind, model::ErrorKind::infeasible) << text << to_string(events.error());
      continue;
    }
    expect_account(events->result, text);
    const auto closed = simulate(inputs, Fidelity::closed_form, false);
    EXPECT_TRUE(closed) << text;
    if (closed) expect_account(closed->result, "closed form: " + text);
    ++valid;
  }
  return valid;
}

TEST(Bound, HoldsAndAddsUpForDenseModels) { EXPECT_GE(run_random_plans({}, false, 21, 60), 20); }

TEST(Bound, HoldsAndAddsUpForMixturesOfExperts) {
  EXPECT_GE(run_random_plans({"model.config=models/mixtral-8x7b.json"}, true, 22, 60), 20);
}

TEST(Bound, HoldsWhereTransfersShareLinks) {
  const Settings slow = {"cluster.nic_gbps=50"};
  for (const Settings& settings :
       {Settings{}, slow, Settings{"schedule.kind=zb-h1"}, Settings{"parallelism.pipeline=4", "schedule.kind=dualpipe"},
        Settings{"model.config=models/mixtral-8x7b.json", "parallelism.expert=8", "cluster.nic_gbps=100"}}) {
    const auto simulation = simulate_on_network(tests::wired_inputs(tests::llama_plan, "h800", settings), false);
    ASSERT_TRUE(simulation) << to_string(simulation.error());
    expect_account(simulation->result, settings.empty() ? "" : settings.front());
  }
}

TEST(Bound, HoldsForUnevenExperts) {
  Settings settings = {"model.config=models/mixtral-8x7b.json", "parallelism.expert=8",
                       "routing.rows_per_rank=[1,2,3,4,5,6,7,36]"};
  for (const Fidelity fidelity : {Fidelity::step, Fidelity::closed_form}) {
    const auto simulation = simulate(tests::step_inputs(tests::llama_plan, "h800", settings), fidelity, false);
    ASSERT_TRUE(simulation) << to_string(simulation.error());
    expect_account(simulation->result, "uneven rows");
  }
}

// A kernel on n SMs for t seconds uses n t of the GPU; GEMMs that leave SMs to other kernels may use no less.
TEST(Bound, NoKernelBeatsItsBestRate) {
  for (const std::string& profile : tests::profile_names)
    for (const char* policy : {"static", "none", "dynamic"}) {
      const Inputs inputs = tests::step_inputs(
          tests::deepseek_plan, profile, {std::string("overlap.sm_policy=") + policy, "overlap.collective_sms=8"});
      const model::StepProgram program = tests::program_of(inputs);
      const CostModels costs = tests::costs_of(inputs);
      for (const model::Graph& graph : program.blocks)
        for (const model::Operator& op : graph.operators) {
          if (tests::between_ranks(graph, op)) continue;
          const double best = costs.kernels.best(graph, op);
          EXPECT_GT(best, 0) << op.name;
          const model::OperatorClass kind = model::operator_class(graph, op);
          const bool gemm = kind == model::OperatorClass::gemm || kind == model::OperatorClass::weight_gradient_gemm;
          for (std::size_t state = 0; state < model::communication_states; ++state) {
            const model::Conditions conditions = costs.partition.overlapped(static_cast<model::CoRunner>(state));
            const double share = gemm ? static_cast<double>(conditions.sms) / 132 : 1;
            EXPECT_GE(costs.kernels.time(graph, op, conditions).seconds * share, best * (1 - 1e-12))
                << op.name << " " << profile << " " << policy << " " << state;
          }
        }
    }
}

TEST(Bound, NoTransferBeatsItsBestRate) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800", {"parallelism.expert=32"});
  const model::StepProgram program = tests::program_of(inputs);
  const CostModels costs = tests::costs_of(inputs);
  SegmentLoads loads(program, costs, inputs.cluster.device);
  for (const model::SlotTemplate& slot : program.templates) {
    const Load load = loads.of(slot, 1).load;
    for (std::size_t i = 1; i < resources; ++i)
      EXPECT_LE(load.best[i], load.taken[i]) << to_string(static_cast<Resource>(i));
  }
  for (const model::Graph& graph : program.stage_optimizers)
    for (const model::Operator& op : graph.operators) {
      if (model::operator_class(graph, op) != model::OperatorClass::collective) continue;
      const auto best = costs.communication.collective_at_best(graph, op);
      EXPECT_LT(std::max(best.network, best.node), costs.communication.collective(graph, op));
      EXPECT_EQ(std::min(best.network, best.node), 0);
    }
}

class LostTimes : public testing::Test {
 protected:
  static model::StepResult run(const Settings& settings) {
    return simulate(tests::step_inputs(tests::llama_plan, "h800", settings), Fidelity::step, false).value().result;
  }
  static double seconds(const model::StepResult& result, const std::string& cause) {
    double sum = 0;
    for (const model::LostTime& part : result.lost)
      if (part.cause == cause) sum += part.seconds;
    return sum;
  }
  static double seconds_of(const Settings& settings, const std::string& cause) { return seconds(run(settings), cause); }
};

TEST_F(LostTimes, OneStageHasNoBubble) {
  const model::StepResult staged = run({"parallelism.pipeline=4"}), whole = run({"parallelism.pipeline=1"});
  for (const char* cause : {"bubble", "point-to-point"}) {
    EXPECT_GT(seconds(staged, cause), 0) << cause;
    EXPECT_EQ(seconds(whole, cause), 0) << cause;
  }
  EXPECT_EQ(seconds(whole, "uneven stages"), 0);
}

TEST_F(LostTimes, WithoutGroupsThereIsNoAllToAll) {
  const std::string mixtral = "model.config=models/mixtral-8x7b.json";
  const model::StepResult experts = run({mixtral, "parallelism.expert=8"}), alone = run({mixtral});
  for (const char* cause : {"exposed dispatch", "exposed combine"}) {
    EXPECT_GT(seconds(experts, cause), 0) << cause;
    EXPECT_EQ(seconds(alone, cause), 0) << cause;
  }
  const std::string tensor = "exposed tensor-parallel collectives";
  EXPECT_GT(seconds_of({"parallelism.tensor=2", "parallelism.sequence=true"}, tensor), 0);
  EXPECT_EQ(seconds_of(Settings{}, tensor), 0);
}

TEST_F(LostTimes, BalancedExpertsDoNotWait) {
  const Settings experts = {"model.config=models/mixtral-8x7b.json", "parallelism.expert=8"};
  Settings uneven = experts;
  uneven.emplace_back("routing.imbalance=0.3");
  EXPECT_GT(seconds_of(uneven, "slowest expert rank"), 0);
  EXPECT_EQ(seconds_of(experts, "slowest expert rank"), 0);
}

TEST_F(LostTimes, CommunicationThatIsNotThereTakesNoSms) {
  const Settings alone = {"parallelism.pipeline=1", "overlap.collective_sms=0", "overlap.communication_sms=0"};
  Settings set_aside = alone;
  set_aside.back() = "overlap.communication_sms=20";
  set_aside.emplace_back("overlap.sm_policy=static");
  const std::string cause = "SMs given to communication";
  EXPECT_GT(seconds_of(set_aside, cause), 0);
  EXPECT_EQ(seconds_of(alone, cause), 0);
  EXPECT_EQ(seconds_of(alone, "slowdown during transfers"), 0);
}

// The cost of recomputation at the best rates is not part of the bound.
TEST_F(LostTimes, RecomputationIsALoss) {
  const model::StepResult none = run({"recompute.policy=none"}), full = run({"recompute.policy=full"});
  EXPECT_EQ(seconds(none, "recomputation"), 0);
  EXPECT_GT(seconds(full, "recomputation"), 0.1 * full.step.time_s);
  EXPECT_EQ(*none.bound_s, *full.bound_s);
}

TEST_F(LostTimes, EndOfTheStep) {
  EXPECT_GT(seconds_of({"overlap.parameter_gather=false"}, "late parameter gather"), 0);
  EXPECT_EQ(seconds_of(Settings{}, "late parameter gather"), 0);
  EXPECT_GT(seconds_of({"offload.optimizer=true"}, "optimizer on the host"), 0);
  EXPECT_EQ(seconds_of(Settings{}, "optimizer on the host"), 0);
  EXPECT_GT(seconds_of(Settings{}, "agreement on the norm"), 0);
  EXPECT_EQ(seconds_of({"optimizer.gradient_clipping=false"}, "agreement on the norm"), 0);
}

TEST_F(LostTimes, ASlowNicBinds) {
  const Inputs slow = tests::step_inputs(tests::deepseek_plan, "h800", {"cluster.nic_gbps=50", "routing.imbalance=0"});
  const model::StepResult result = simulate(slow, Fidelity::step, false).value().result;
  EXPECT_EQ(result.bound_by, "NIC (dispatch and combine)");
  EXPECT_GT(*result.bound_s, 0.5 * result.step.time_s);
  expect_account(result, "slow NIC");
}

}  // namespace
}  // namespace plumbline::sim
