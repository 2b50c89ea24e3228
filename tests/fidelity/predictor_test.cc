// What a predictor caches of other plans changes no result, in closed form and by events.
#include "sim/predict/predictor.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/predict/memos.h"
#include "sim/predict/simulate.h"
#include "tests/support/costs.h"
#include "tests/support/inputs.h"
#include "tests/support/random_choice.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

// The same numbers are summed in different orders.
constexpr double relative_rounding = 1e-9;

void vary(tests::Draw& draw, model::Plan& plan, bool experts) {
  auto& degrees = plan.parallelism;
  degrees.tensor = draw.one_of<std::int64_t>({1, 1, 2, 4});
  degrees.sequence = degrees.tensor > 1 && (experts || draw.chance(2));
  degrees.context = draw.one_of<std::int64_t>({1, 1, 1, 2});
  degrees.context_method = draw.one_of<std::string>({"ring", "all-gather"});
  degrees.pipeline = draw.one_of<std::int64_t>({1, 2, 4, 4});
  degrees.expert = experts ? draw.one_of<std::int64_t>({1, 4, 8, 16}) : 1;
  degrees.expert_tensor = experts && draw.chance(4) ? 2 : 1;
  degrees.zero_stage = draw.one_of<std::int64_t>({0, 1, 1, 2, 3});
  degrees.shard_group = degrees.zero_stage > 0 && draw.chance(4) ? 4 : 0;
  degrees.reshard_after_forward = !draw.chance(3);
  degrees.synchronization_interval = degrees.zero_stage == 0 && draw.chance(3) ? 4 : 1;
  plan.batch.micro_batch_size = draw.one_of<std::int64_t>({1, 1, 2});
  plan.batch.global_batch_size = draw.one_of<std::int64_t>({256, 512, 768});
  plan.schedule.kind = draw.one_of<std::string>(
      {"gpipe", "1f1b", "interleaved", "interleaved-overlap", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipev"});
  const bool chunks = plan.schedule.kind.starts_with("interleaved");
  plan.schedule.virtual_stages = chunks ? draw.one_of<std::int64_t>({1, 2}) : 1;
  plan.schedule.layers_per_stage = {};
  plan.recompute.policy = draw.one_of<std::string>({"none", "selective", "full"});
  plan.recompute.operators = draw.one_of<std::vector<std::string>>({{"rmsnorm", "swiglu"}, {"core_attention"}});
  plan.recompute.layers = draw.chance(3) ? std::optional<std::int64_t>(1) : std::nullopt;
  plan.attention.kernel = draw.chance(5) ? "unfused" : "fused";
  plan.loss.kernel = draw.chance(5) ? "unfused" : "fused";
  plan.precision.gradient_reduce = draw.chance(3) ? std::optional(model::Precision::bf16) : std::nullopt;
  plan.overlap.gradient_reduce = !draw.chance(3);
  plan.overlap.parameter_gather = !draw.chance(3);
  plan.overlap.communication_sms = experts ? draw.one_of<std::int64_t>({0, 20}) : 0;
  plan.overlap.sm_policy = draw.one_of<std::string>({"static", "none", "dynamic"});
  plan.overlap.tensor = draw.chance(3);
  plan.overlap.gradient_bucket_bytes = draw.one_of<double>({40e6, 400e6});
  plan.offload.optimizer = draw.chance(6);
  plan.offload.activations = draw.chance(12) ? 0.5 : 0;
  plan.optimizer.ema = draw.chance(6) ? "host" : "none";
  plan.optimizer.gradient_clipping = !draw.chance(4);
  plan.routing.imbalance = experts && draw.chance(10) ? 0.05 : 0;
  plan.routing.capacity_factor = experts && draw.chance(4) ? std::optional(1.25) : std::nullopt;
  plan.routing.pad_to_capacity = plan.routing.capacity_factor && draw.chance(2);
  plan.stack.dispatch_overlap = draw.chance(3) ? std::optional(draw.chance(2)) : std::nullopt;
  plan.stack.dispatcher = draw.one_of<std::string>({"deepep", "deepep", "hybridep", "alltoall", "allgather"});
  plan.input.prefetch = !draw.chance(5);
}

std::string describe(const model::Plan& plan) { return model::to_toml(plan); }

struct Covered {
  int valid = 0, invalid = 0;
  std::set<std::string> kinds;
  std::set<std::int64_t> zero_stages;
};

// Compares a predictor that has evaluated other plans before with a fresh one.
Covered compare(Inputs inputs, std::uint32_t seed, int plans, Fidelity fidelity = Fidelity::closed_form) {
  inputs.routing = std::make_shared<ExpertGroupMemo>();
  inputs.tables = std::make_shared<ScheduleTables>();
  Predictor predictor(inputs);
  const bool experts = inputs.architecture.experts.routed_experts > 0;
  const bool by_events = fidelity == Fidelity::step;
  tests::Draw draw(seed);
  Covered covered;
  for (int i = 0; i < plans; ++i) {
    vary(draw, inputs.plan, experts);
    const auto estimate = by_events ? predictor.events(inputs.plan) : predictor.closed_form(inputs.plan);
    const auto whole = simulate(inputs, fidelity, by_events);  // with a timeline recorded, segment by segment
    EXPECT_EQ(estimate.has_value(), whole.has_value()) << describe(inputs.plan);
    if (!whole || !estimate) {
      if (!whole && !estimate) {
        EXPECT_EQ(to_string(estimate.error()), to_string(whole.error()));
      }
      ++covered.invalid;
      continue;
    }
    ++covered.valid;
    covered.kinds.insert(inputs.plan.schedule.kind);
    covered.zero_stages.insert(inputs.plan.parallelism.zero_stage);
    const model::StepTimes &found = estimate->step, &expected = whole->result.step;
    EXPECT_EQ(found.time_s, expected.time_s) << describe(inputs.plan);
    EXPECT_EQ(found.bubble_s, expected.bubble_s) << describe(inputs.plan);
    EXPECT_EQ(found.exposed_gradient_reduce_s, expected.exposed_gradient_reduce_s) << describe(inputs.plan);
    EXPECT_EQ(found.exposed_parameter_gather_s, expected.exposed_parameter_gather_s) << describe(inputs.plan);
    EXPECT_EQ(found.optimizer_s, expected.optimizer_s) << describe(inputs.plan);
    const PlanLimits limits = predictor.limits(inputs.plan, fidelity, found.time_s).value();
    EXPECT_NEAR(limits.bound_s, *whole->result.bound_s, relative_rounding * limits.bound_s) << describe(inputs.plan);
    // The peaks by schedule, compared with its memory op by op.
    EXPECT_NEAR(estimate->peak.bytes, whole->result.memory.peak_bytes,
                relative_rounding * whole->result.memory.peak_bytes)
        << describe(inputs.plan);
    EXPECT_EQ(estimate->fits, whole->result.memory.fits);
    if (testing::Test::HasFailure()) break;
  }
  return covered;
}

// Few layers keep the slow computation short: the middle stages are those of the whole model.
Inputs shallow(const std::string& plan, std::int64_t layers, bool wired = false) {
  const auto make = wired ? tests::wired_inputs : tests::step_inputs;
  Inputs inputs = make(plan, "h800", {"cluster.gpus=64", "cluster.topology=h800-rail-fat-tree"});
  inputs.architecture.layers = layers;
  return inputs;
}

void expect_all_covered(const Covered& covered) {
  EXPECT_EQ(covered.kinds.size(), 9U);  // all schedules
  EXPECT_EQ(covered.zero_stages, (std::set<std::int64_t>{0, 1, 2, 3}));
  EXPECT_GT(covered.valid, 100);
}

// The plan's step at an imbalance, by a predictor whose constants are replaced after those in `before`.
double step_at(double imbalance, const std::vector<double>& before) {
  Inputs inputs = shallow(tests::deepseek_plan, 9);
  inputs.plan.parallelism.pipeline = 4;
  inputs.plan.parallelism.expert = 16;
  inputs.plan.batch.global_batch_size = 512;
  inputs.plan.schedule.layers_per_stage = {};
  Predictor predictor(inputs);
  const auto at = [&](double variation) {
    inputs.plan.routing.imbalance = variation;
    return predictor.step_parts(inputs.plan).value().time_s;
  };
  for (const double variation : before) at(variation);
  if (!before.empty()) predictor.set_profile(inputs.profile);
  return at(imbalance);
}

// Group runs take most of a prediction's time, so that changed constants take their waits between known ones.
TEST(Predictor, WaitsForStragglersLieBetweenThoseBeforeTheChange) {
  const std::vector<double> known = {0.05, 0.2, 0.6};
  for (const double imbalance : known) EXPECT_DOUBLE_EQ(step_at(imbalance, known), step_at(imbalance, {}));
  EXPECT_NEAR(step_at(0.1, known) / step_at(0.1, {}), 1, 0.005);
  EXPECT_NEAR(step_at(0.4, known) / step_at(0.4, {}), 1, 0.005);
  EXPECT_GT(step_at(0.4, known), step_at(0.2, {}));
}

TEST(Predictor, ForgetsNothingOfRandomPlansWithExperts) {
  expect_all_covered(compare(shallow(tests::deepseek_plan, 9), 1, 400));
}

TEST(Predictor, ForgetsNothingOfRandomDensePlans) {
  expect_all_covered(compare(shallow(tests::llama_plan, 8), 2, 400));
}

TEST(Predictor, ForgetsNothingOfRandomPlansByEvents) {
  expect_all_covered(compare(shallow(tests::deepseek_plan, 9), 3, 200, Fidelity::step));
}

TEST(Predictor, ForgetsNothingOfRandomDensePlansByEvents) {
  expect_all_covered(compare(shallow(tests::llama_plan, 8), 4, 200, Fidelity::step));
}

// Costs then depend on where the groups of each plan lie.
TEST(Predictor, ForgetsNothingOfRandomPlansOnLinks) {
  expect_all_covered(compare(shallow(tests::deepseek_plan, 9, true), 6, 300));
}

// A slot of few layers takes the host longer than the GPU, and it is synchronized where a plan has a pipeline.
TEST(Predictor, ForgetsNothingOfPlansOfASlowHost) {
  for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
    Inputs inputs = shallow(tests::deepseek_plan, 9);
    inputs.profile = tests::with_host(inputs.profile, {{"launch", 40},
                                                       {"operator.forward", 100},
                                                       {"layer.backward", 500},
                                                       {"synchronization", 200},
                                                       {"synchronizations.moe", 1},
                                                       {"synchronizations.slot", 1},
                                                       {"step", 1000}});
    EXPECT_GT(compare(inputs, 5, 100, fidelity).valid, 25);
  }
}

// Returns the step of a predictor, which must be that of simulate().
double same_step(Predictor& predictor, const Inputs& inputs) {
  const double seconds = predictor.closed_form(inputs.plan).value().step.time_s;
  EXPECT_EQ(seconds, simulate(inputs, Fidelity::closed_form, false).value().result.step.time_s)
      << describe(inputs.plan);
  return seconds;
}

// Experts that are padded have the same rows whatever the routing, so that the host need not wait for their number.
TEST(Predictor, DistinguishesPaddedExperts) {
  Inputs inputs = shallow(tests::deepseek_plan, 9);
  inputs.profile =
      tests::with_host(inputs.profile, {{"launch", 40}, {"synchronization", 5000}, {"synchronizations.moe", 1}});
  inputs.plan.parallelism.expert = 8;
  inputs.plan.parallelism.pipeline = 4;
  inputs.plan.schedule.layers_per_stage = {};
  inputs.plan.stack.dispatcher = "alltoall";
  inputs.plan.routing.capacity_factor = 1.25;
  Predictor predictor(inputs);
  std::set<double> steps;
  for (const bool padded : {false, true}) {
    inputs.plan.routing.pad_to_capacity = padded;
    steps.insert(same_step(predictor, inputs));
  }
  EXPECT_EQ(steps.size(), 2U);
}

// A stack may state what the kernels of each loss move.
TEST(Predictor, DistinguishesKernelsOfTheLoss) {
  Inputs inputs = shallow(tests::llama_plan, 8);
  inputs.profile = tests::with_constants(inputs.profile, {{"kernel.cross_entropy.unfused.passes", 9}});
  Predictor predictor(inputs);
  for (const char* loss : {"fused", "unfused"}) {
    inputs.plan.loss.kernel = loss;
    same_step(predictor, inputs);
  }
}

// A stack may state copies before reductions, which those after runs of passes do not have in every slot.
TEST(Predictor, DistinguishesWhenGradientsAreReduced) {
  Inputs inputs = shallow(tests::llama_plan, 8);
  inputs.profile =
      tests::with_constants(inputs.profile, {{"sharding.gather_passes", 2}, {"sharding.reduce_passes", 2}});
  inputs.plan.parallelism.pipeline = 1;
  inputs.plan.parallelism.zero_stage = 3;
  inputs.plan.schedule.layers_per_stage = {};
  Predictor predictor(inputs);
  std::set<double> steps;
  for (const char* after : {"pass", "run", "step", "pass"}) {
    inputs.plan.parallelism.reduce_after = after;
    steps.insert(same_step(predictor, inputs));
  }
  EXPECT_EQ(steps.size(), 2U) << "without a pipeline the step is one run";
}

// A stack may state that tensor ranks divide messages between stages, and copies of several sequences' tokens.
TEST(Predictor, DistinguishesHowTokensAreDivided) {
  Inputs inputs = shallow(tests::llama_plan, 8);
  inputs.plan.parallelism.pipeline = 4;
  inputs.plan.schedule.layers_per_stage = {};
  const Inputs whole_messages = inputs;
  inputs.profile = tests::with_constants(
      inputs.profile, {{"message.divided", 1}, {"sequence.gather_passes", 2}, {"sequence.reduce_passes", 2}});
  Predictor predictor(inputs), undivided(whole_messages);
  for (const std::int64_t tensor : {1, 4, 2})
    for (const bool sequence : {false, true})
      for (const std::int64_t micro_batch_size : {1, 2}) {
        inputs.plan.parallelism.tensor = tensor;
        inputs.plan.parallelism.sequence = sequence && tensor > 1;
        inputs.plan.batch.micro_batch_size = micro_batch_size;
        const double seconds = same_step(predictor, inputs);
        const double otherwise = undivided.closed_form(inputs.plan).value().step.time_s;
        const bool divides = tensor > 1 && !sequence, copies = tensor > 1 && sequence && micro_batch_size > 1;
        EXPECT_EQ(seconds < otherwise, divides) << describe(inputs.plan);
        EXPECT_EQ(seconds > otherwise, copies) << describe(inputs.plan);
      }
}

// A device whose host_bandwidth is not stated has none.
TEST(Predictor, RefusesOffloadedActivationsAfterPlansWithout) {
  Inputs inputs = shallow(tests::llama_plan, 8);
  inputs.cluster.device.host_bandwidth = {};
  Predictor predictor(inputs);
  EXPECT_TRUE(predictor.closed_form(inputs.plan));
  inputs.plan.offload.activations = 0.5;
  tests::expect_error(predictor.closed_form(inputs.plan), model::ErrorKind::infeasible, "offload.activations");
}

TEST(Predictor, DistinguishesPlacements) {
  Inputs inputs = tests::wired_inputs(tests::llama_plan, "h800", {"cluster.placement=striped"});
  Predictor predictor(inputs);
  std::set<double> steps;
  for (const char* placement : {"striped", "contiguous"}) {
    inputs.plan.cluster.placement = placement;
    steps.insert(same_step(predictor, inputs));
  }
  EXPECT_EQ(steps.size(), 2U);
}

// Stages of several chunks send their messages without the host, so that plans with and without share no costs.
TEST(Predictor, DistinguishesVirtualStages) {
  Inputs inputs = shallow(tests::llama_plan, 8);
  inputs.profile =
      tests::with_host(inputs.profile, {{"launch", 40}, {"synchronization", 5000}, {"synchronizations.slot", 1}});
  inputs.plan.parallelism.pipeline = 4;
  inputs.plan.schedule.kind = "interleaved";
  inputs.plan.schedule.layers_per_stage = {};
  Predictor predictor(inputs);
  for (const std::int64_t chunks : {2, 1, 2}) {
    inputs.plan.schedule.virtual_stages = chunks;
    same_step(predictor, inputs);
  }
}

}  // namespace
}  // namespace plumbline::sim
