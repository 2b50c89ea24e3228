// A step of every GPU against one of representative GPUs: the same where all are equal, and laws where they are not.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "model/plan/layout.h"
#include "sim/predict/predictor.h"
#include "sim/step/step_executor.h"
#include "tests/support/random_choice.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

constexpr double rounding = 1e-9;

// Draws a plan over all schedules, degrees, shardings and overlaps. Most do not divide; the caller draws again.
model::Plan draw_plan(tests::Draw& draw, model::Plan plan, bool experts) {
  auto& degrees = plan.parallelism;
  degrees.tensor = draw.one_of<std::int64_t>({1, 1, 2});
  degrees.sequence = degrees.tensor > 1 && (experts || draw.one_of<int>({0, 1}) == 1);
  degrees.context = draw.one_of<std::int64_t>({1, 1, 2});
  degrees.context_method = draw.one_of<std::string>({"ring", "all-gather"});
  degrees.pipeline = draw.one_of<std::int64_t>({1, 2, 2, 4});
  degrees.expert = experts ? draw.one_of<std::int64_t>({1, 2, 4, 8}) : 1;
  degrees.expert_tensor = experts ? draw.one_of<std::int64_t>({1, 1, 2}) : 1;
  degrees.zero_stage = draw.one_of<std::int64_t>({0, 1, 2, 3});
  degrees.shard_group = degrees.zero_stage > 0 ? draw.one_of<std::int64_t>({0, 0, 2, 4}) : 0;
  degrees.reshard_after_forward = draw.one_of<int>({0, 1}) == 1;
  degrees.synchronization_interval = draw.one_of<std::int64_t>({1, 1, 3});
  plan.cluster.gpus = draw.one_of<std::int64_t>({8, 16, 32});
  plan.batch.micro_batch_size = 1;
  plan.batch.global_batch_size = draw.one_of<std::int64_t>({32, 64});
  std::vector<std::string> kinds;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) kinds.emplace_back(kind->name());
  plan.schedule.kind = draw.one_of(kinds);
  plan.schedule.virtual_stages = plan.schedule.kind.starts_with("interleaved") ? draw.one_of<std::int64_t>({1, 2}) : 1;
  plan.schedule.layers_per_stage = {};
  plan.recompute.policy = draw.one_of<std::string>({"none", "full"});
  plan.overlap.gradient_reduce = draw.one_of<int>({0, 1}) == 1;
  plan.overlap.parameter_gather = draw.one_of<int>({0, 1}) == 1;
  plan.overlap.prefetch = draw.one_of<std::int64_t>({0, 1, 3});
  plan.offload.activations = draw.one_of<double>({0, 0, 0.5});
  plan.offload.optimizer = draw.one_of<int>({0, 0, 1}) == 1;
  plan.routing.imbalance = 0;
  return plan;
}

Fleet even_fleet(const model::Plan& plan) {
  Fleet fleet;
  fleet.replicas = plan.cluster.gpus / plan.parallelism.pipeline;
  fleet.exchange = model::expert_group(plan.parallelism);
  return fleet;
}

double run(Predictor& predictor, const model::Plan& plan, const Fleet& fleet) {
  const auto every_gpu = [&](ExecutionInput input) {
    input.fleet = &fleet;
    Execution execution = execute(input).value();
    execution.ranks = mean_over_replicas(execution.ranks, fleet.replicas);
    return execution;
  };
  return predictor.simulate(plan, {.fidelity = Fidelity::cluster, .execute = every_gpu}).value().result.step.time_s;
}

std::string described(const model::Plan& plan) {
  const auto& d = plan.parallelism;
  std::string text = plan.schedule.kind;
  for (const std::int64_t value : {plan.cluster.gpus, plan.batch.global_batch_size, d.tensor, d.context, d.pipeline,
                                   d.expert, d.expert_tensor, d.zero_stage, d.shard_group, d.synchronization_interval})
    text += " " + std::to_string(value);
  return text;
}

TEST(ClusterRun, OfEqualGpusIsTheStep) {
  tests::Draw draw(7);
  for (const bool wired : {false, true}) {
    for (const bool experts : {true, false}) {
      const auto make = wired ? tests::wired_inputs : tests::step_inputs;
      Inputs inputs = make(experts ? tests::deepseek_plan : tests::llama_plan, "h800", {});
      inputs.architecture.layers = 8;
      Predictor predictor(inputs);
      std::set<std::string> kinds;
      for (int found = 0; found < 60;) {
        const model::Plan plan = draw_plan(draw, inputs.plan, experts);
        const auto step = predictor.simulate(plan, {.fidelity = Fidelity::step});
        if (!step) continue;
        ++found;
        kinds.insert(plan.schedule.kind);
        SCOPED_TRACE(described(plan));
        const double expected = step->result.step.time_s;
        Fleet fleet = even_fleet(plan);
        EXPECT_NEAR(run(predictor, plan, fleet), expected, rounding * expected);
        fleet.by_kernels = true;
        EXPECT_NEAR(run(predictor, plan, fleet), expected, rounding * expected);
      }
      EXPECT_EQ(kinds.size(), model::schedule_kinds().size());
    }
  }
}

// Two pipeline ranks of sixteen GPUs, whose experts' ranks wait for each other in groups of four.
class UnevenRuns : public testing::Test {
 protected:
  UnevenRuns() : inputs_(inputs()), predictor_(inputs_), fleet_(even_fleet(inputs_.plan)) {}

  static Inputs inputs() {
    return tests::step_inputs(
        tests::deepseek_plan, "h800",
        {"cluster.gpus=32", "parallelism.pipeline=2", "parallelism.expert=4", "model.num_hidden_layers=6",
         "schedule.layers_per_stage=even", "schedule.kind=1f1b", "batch.global_batch_size=128", "routing.imbalance=0"});
  }
  double seconds() { return run(predictor_, inputs_.plan, fleet_); }

  Inputs inputs_;
  Predictor predictor_;
  Fleet fleet_;
};

TEST_F(UnevenRuns, ASlowerGpuNeverMakesTheStepShorter) {
  for (const bool by_kernels : {false, true}) {
    fleet_.by_kernels = by_kernels;
    fleet_.slowness.assign(32, 1);
    double before = seconds();
    for (const std::size_t gpu : {5U, 5U, 20U, 31U, 6U, 0U}) {
      fleet_.slowness[gpu] *= 1.07;
      const double now = seconds();
      EXPECT_GE(now, before) << "GPU " << gpu << (by_kernels ? " by kernels" : "");
      before = now;
    }
  }
}

// Every GPU takes s times as long for its compute, so the step lies between its time and s times that.
TEST_F(UnevenRuns, EquallySlowGpusWaitForNobody) {
  const double even = seconds();
  fleet_.slowness.assign(32, 1.2);
  EXPECT_GT(seconds(), even);
  EXPECT_LT(seconds(), 1.2 * even);
  fleet_.slowness[17] = 1;
  const double one_fast = seconds();
  fleet_.slowness[17] = 1.2;
  EXPECT_NEAR(one_fast, seconds(), 1e-3 * even);
}

TEST_F(UnevenRuns, TheSeedDecidesOnEveryBit) {
  fleet_.jitter = 0.05;
  for (const bool by_kernels : {false, true}) {
    fleet_.by_kernels = by_kernels;
    fleet_.seed = 1;
    const double first = seconds();
    EXPECT_EQ(seconds(), first);
    fleet_.seed = 2;
    EXPECT_NE(seconds(), first);
  }
}

// The mean of each kernel stays, but barriers wait for the slowest. Whole slots keep the rates of a GPU alone, so two
// streams that share it wait for the slower one, where segments share it anew.
TEST_F(UnevenRuns, JitterCostsAtBothLevels) {
  const double even = seconds();
  fleet_.jitter = 0.1;
  const double slots = seconds() - even;
  fleet_.by_kernels = true;
  const double kernels = seconds() - even;
  EXPECT_GT(kernels, 0);
  EXPECT_GT(slots, 0.8 * kernels);
  EXPECT_LT(slots, 2 * kernels);
}

class HalfMore final : public UnevenWork {
 public:
  HalfMore(double rows, double attention) : rows_(rows), attention_(attention) {}
  double expert_rows(std::int64_t /*replica*/, std::int32_t /*layer*/, std::int32_t /*micro_batch*/) const override {
    return rows_;
  }
  double attention(std::int64_t /*replica*/, std::int32_t /*micro_batch*/) const override { return attention_; }

 private:
  double rows_, attention_;
};

TEST_F(UnevenRuns, MoreRowsAndLongerSequencesTakeLonger) {
  const double even = seconds();
  const HalfMore same(1, 1), rows(1.5, 1), attention(1, 1.5);
  fleet_.work = &same;
  EXPECT_NEAR(seconds(), even, rounding * even);
  for (const UnevenWork* work : {&rows, &attention}) {
    fleet_.work = work;
    EXPECT_GT(seconds(), 1.01 * even);
    EXPECT_LT(seconds(), 1.5 * even);
  }
}

}  // namespace
}  // namespace plumbline::sim
