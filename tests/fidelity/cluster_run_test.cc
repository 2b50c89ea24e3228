// A step of every GPU against one of representative GPUs: the same where all are equal, and laws where they are not.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "model/plan/layout.h"
#include "sim/predict/predictor.h"
#include "sim/step/fleet.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

constexpr double rounding = 1e-9;

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  template <class Value>
  Value one_of(const std::vector<Value>& values) {
    return values[random_() % values.size()];
  }

 private:
  std::mt19937 random_;
};

// Draws a plan over all schedules, degrees, shardings and overlaps. Most do not divide; the caller draws again.
model::Plan draw_plan(Draw& draw, model::Plan plan, bool experts) {
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
  return predictor.simulate(plan, {.fidelity = Fidelity::cluster, .fleet = &fleet}).value().result.step.time_s;
}

std::string describe(const model::Plan& plan) {
  const auto& d = plan.parallelism;
  std::string text = plan.schedule.kind;
  for (const std::int64_t value : {plan.cluster.gpus, plan.batch.global_batch_size, d.tensor, d.context, d.pipeline,
                                   d.expert, d.expert_tensor, d.zero_stage, d.shard_group, d.synchronization_interval})
    text += " " + std::to_string(value);
  return text;
}

TEST(ClusterRun, OfEqualGpusIsTheStep) {
  Draw draw(7);
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
        SCOPED_TRACE(describe(plan));
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

}  // namespace
}  // namespace plumbline::sim
