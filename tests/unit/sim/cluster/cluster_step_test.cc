#include "sim/cluster/cluster_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <toml++/toml.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "sim/cluster/detail/fleet_draw.h"
#include "sim/cluster/fleet_priors.h"
#include "sim/predict/predictor.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"
#include "tests/support/tiny_programs.h"

namespace plumbline::sim {
namespace {

// Sixteen experts' ranks in two pipeline ranks, with rows that differ by a tenth.
Inputs experts(std::vector<std::string> overrides = {}) {
  std::vector<std::string> all = {"cluster.gpus=32",
                                  "parallelism.pipeline=2",
                                  "parallelism.expert=8",
                                  "model.num_hidden_layers=6",
                                  "schedule.layers_per_stage=even",
                                  "schedule.kind=1f1b",
                                  "batch.global_batch_size=64",
                                  "routing.imbalance=0.1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return tests::step_inputs(tests::deepseek_plan, "h800", all);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += (value - mean(values)) * (value - mean(values));
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

TEST(FleetDraw, SpeedsHaveThePlansDeviation) {
  const Inputs inputs = experts({"cluster.gpus=4096", "cluster.speed_deviation=0.01", "batch.global_batch_size=4096"});
  const FleetDraw draw(inputs, false);
  const FleetDraw::Drawn one = *draw.draw(1, draw.causes(), 0), same = *draw.draw(1, draw.causes(), 0);
  EXPECT_EQ(one.fleet.slowness, same.fleet.slowness);
  EXPECT_NE(one.fleet.slowness, draw.draw(2, draw.causes(), 0)->fleet.slowness);
  // The standard error of a deviation of n draws is deviation / sqrt(2 n): 1.1 % of it.
  EXPECT_NEAR(deviation(one.fleet.slowness), 0.01, 0.0004);
  EXPECT_NEAR(mean(one.fleet.slowness), 1, 0.0005);
}

// Four of 512 machines are slow on average, 0.5 % of them with a deviation of sqrt(0.005 / 512) of the share.
TEST(FleetDraw, ProductionFleetsHaveSlowMachines) {
  const Inputs inputs = experts(
      {"cluster.gpus=4096", "cluster.speed_deviation=0", "cluster.fleet=stragglers", "batch.global_batch_size=4096"});
  const FleetDraw draw(inputs, false);
  double slow = 0;
  constexpr int fleets = 50;
  for (std::uint64_t seed = 1; seed <= fleets; ++seed) {
    const auto drawn = draw.draw(seed, draw.causes(), 0);
    for (const double factor : drawn->fleet.slowness)
      if (factor == slow_machine_factor.middle) ++slow;
  }
  EXPECT_NEAR(slow / fleets / 4096, slow_machines.middle, 4 * std::sqrt(slow_machines.middle / 512 / fleets));
}

TEST(FleetDraw, AGpuMayBeSlowByName) {
  Inputs inputs = experts({"cluster.speed_deviation=0", "cluster.jitter=0", "routing.imbalance=0"});
  inputs.slow_gpus = {{3, 0.8}};
  const FleetDraw draw(inputs, false);
  ASSERT_TRUE(draw.causes().slow_ranks);
  const auto drawn = draw.draw(1, draw.causes(), 0);
  for (std::size_t gpu = 0; gpu < drawn->fleet.slowness.size(); ++gpu)
    EXPECT_EQ(drawn->fleet.slowness[gpu], gpu == 3 ? 1.25 : 1) << gpu;
  EXPECT_EQ(draw.priors(draw.causes()).back(), "speed of GPU 3 over the others': 80 %, stated by --slow");
  const auto slow = simulate_cluster(inputs, {.seeds = 1}), even = simulate(inputs, Fidelity::step, false);
  ASSERT_TRUE(slow && even);
  EXPECT_GT(slow->result.step.time_s, even->result.step.time_s);
  EXPECT_LT(slow->result.step.time_s, 1.25 * even->result.step.time_s);
}

TEST(FleetDraw, LeavesOutWhatThePlanHasNot) {
  const Inputs inputs = experts({"cluster.speed_deviation=0", "cluster.jitter=0", "routing.imbalance=0"});
  const FleetCauses none = FleetDraw(inputs, false).causes();
  EXPECT_FALSE(none.slow_ranks || none.jitter || none.imbalance);
  const Inputs all_inputs = experts();
  const FleetDraw draw(all_inputs, true);
  const FleetCauses all = draw.causes();
  EXPECT_TRUE(all.slow_ranks && all.jitter && all.imbalance);
  EXPECT_EQ(draw.priors(all).size(), 3u);
  // A cause that is left out does not change what the others draw.
  const auto whole = draw.draw(3, all, 0.1), rows = draw.draw(3, {.slow_ranks = false, .jitter = false}, 0.1);
  EXPECT_TRUE(rows->fleet.slowness.empty());
  EXPECT_EQ(rows->fleet.jitter, 0);
  EXPECT_TRUE(rows->fleet.by_kernels);
  EXPECT_EQ(rows->fleet.work->expert_rows(5, 3, 2), whole->fleet.work->expert_rows(5, 3, 2));
}

// The step expects the slowest of 64 GPUs, 1 + 2.344 * 1 % of whose times are kernels'; drawn fleets have their own.
TEST(ClusterStep, AStepExpectsItsSlowestGpu) {
  const auto step = [](const std::string& deviation) {
    const Inputs inputs = experts({"cluster.jitter=0", "routing.imbalance=0", "cluster.speed_deviation=" + deviation});
    return std::pair(simulate(inputs, Fidelity::closed_form, false)->result.step.time_s,
                     simulate_cluster(inputs, {.seeds = 8})->result.step.time_s);
  };
  const auto [even, even_drawn] = step("0");
  const auto [expected, drawn] = step("0.01");
  const double longer = slowest_gpu(experts({"cluster.speed_deviation=0.01"}).plan);
  EXPECT_GT(expected, even);
  EXPECT_LT(expected, longer * even);
  EXPECT_NEAR(expected / even, drawn / even_drawn, 0.3 * (longer - 1));
}

// Rows of the eight ranks of a group add up to its tokens, which leaves them sqrt(7 / 8) of their deviation.
TEST(FleetDraw, RowsDifferByGpuLayerAndMicroBatch) {
  const Inputs inputs = experts({"batch.global_batch_size=512"});
  const FleetDraw draw(inputs, false);
  const auto drawn = draw.draw(1, draw.causes(), 0);
  std::vector<double> rows;
  for (std::int64_t replica = 0; replica < 16; ++replica)
    for (std::int32_t layer = 3; layer < 6; ++layer)
      for (std::int32_t micro_batch = 0; micro_batch < 32; ++micro_batch)
        rows.push_back(drawn->fleet.work->expert_rows(replica, layer, micro_batch));
  EXPECT_NEAR(mean(rows), 1, 1e-3);
  EXPECT_NEAR(deviation(rows), 0.1 * std::sqrt(7.0 / 8), 0.01);
  EXPECT_EQ(drawn->fleet.work->attention(0, 0), 1);
  // Rows that are given belong to the rank of the expert group.
  const Inputs given = experts({"routing.imbalance=0", "routing.rows_per_rank=[10,20,30,40,50,60,70,80]"});
  const FleetDraw of_given(given, false);
  const auto fixed = of_given.draw(1, of_given.causes(), 0);
  ASSERT_TRUE(fixed && fixed->work);
  EXPECT_FLOAT_EQ(static_cast<float>(fixed->fleet.work->expert_rows(9, 3, 0)), 20 / 45.0F);
}

// Kernels of 2, 1 and 1 s: a slot of independent ones deviates by sqrt(4 + 1 + 1) / 4 of one. What does not compute has
// none.
TEST(FleetDraw, KernelsDeviateMoreThanTheirSlot) {
  const Inputs inputs = experts({"cluster.jitter=0.02"});
  SegmentTime first, second, transfer;
  first.compute.fill(3);
  first.kernels = {2, 1};
  second.compute.fill(1);
  second.kernels = {1};
  transfer.kernels = {7};
  ExecutionInput input;
  input.template_times = {{first, transfer, second}};
  EXPECT_DOUBLE_EQ(FleetDraw(inputs, false).kernel_jitter(input), 0.02 * 4 / std::sqrt(6));
}

// Every prior is a row of the published facts, in per cent there.
TEST(FleetPriors, AreThePublishedFacts) {
  const toml::table file = toml::parse_file(tests::shipped("calibrate/published/straggler_priors.toml"));
  const auto fact = [&](const std::string& key, const char* field) {
    for (const toml::node& node : *file["fact"].as_array())
      if (const toml::table& one = *node.as_table(); one["key"].value_or(std::string()) == key)
        return one[field].value_or(-1.0);
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(100 * speed_deviation.low, fact("straggler.trace.rank_speed_cv", "low"));
  EXPECT_DOUBLE_EQ(100 * speed_deviation.middle, fact("straggler.trace.rank_speed_cv", "high"));
  EXPECT_DOUBLE_EQ(100 * speed_deviation.high, fact("straggler.trace.rank_speed_cv_128", "high"));
  EXPECT_DOUBLE_EQ(100 * operation_p90.low, fact("straggler.trace.op_jitter_p90", "low"));
  EXPECT_DOUBLE_EQ(100 * operation_p90.high, fact("straggler.trace.op_jitter_p90", "high"));
  EXPECT_DOUBLE_EQ(100 * slow_machines.middle, fact("straggler.megascale.slow_machines", "value"));
  EXPECT_NEAR(100 * (slow_machine_factor.middle - 1), fact("straggler.megascale.slow_machine_delay", "value"), 1e-9);
  EXPECT_DOUBLE_EQ(100 * failslow_share.high, fact("failslow.greyhound.compute_share", "high"));
  EXPECT_NEAR(100 * (failslow_factor.middle - 1), fact("failslow.greyhound.delay", "value"), 0.02);
}

TEST(ClusterStep, PartsOfTheBubbleAddUp) {
  const auto simulation = simulate_cluster(experts(), {.seeds = 3});
  ASSERT_TRUE(simulation.has_value()) << simulation.error().message;
  const model::StepResult& result = simulation->result;
  ASSERT_TRUE(result.cluster.has_value());
  const model::ClusterSpread& cluster = *result.cluster;
  EXPECT_EQ(result.fidelity, "cluster");
  EXPECT_EQ(cluster.gpus, 32);
  EXPECT_EQ(cluster.seeds, 3);
  double bubble = 0;
  std::vector<std::string> causes;
  for (const model::BubblePart& part : cluster.bubble) {
    bubble += part.seconds;
    causes.push_back(part.cause);
  }
  EXPECT_THAT(causes,
              testing::ElementsAre("slow ranks", "imbalance", "jitter", "point-to-point", "uneven stages", "schedule"));
  EXPECT_NEAR(bubble, *result.step.bubble_s, 1e-9 * result.step.time_s);
  EXPECT_EQ(cluster.rank_wait_s.size(), 2u);
  EXPECT_DOUBLE_EQ(cluster.mean_step_s, result.step.time_s);
  EXPECT_GT(cluster.mean_step_s, cluster.even_step_s);
  EXPECT_LE(cluster.step_s.p10, cluster.step_s.p90);
}

// Nothing differs, so every fleet takes the step of one GPU for each pipeline rank.
TEST(ClusterStep, OfEqualGpusIsTheStep) {
  const Inputs inputs = experts({"cluster.speed_deviation=0", "cluster.jitter=0", "routing.imbalance=0"});
  const auto cluster = simulate_cluster(inputs, {.seeds = 2}), step = simulate(inputs, Fidelity::step, false);
  ASSERT_TRUE(cluster && step);
  EXPECT_NEAR(cluster->result.step.time_s / step->result.step.time_s, 1, 1e-9);
  EXPECT_NEAR(*cluster->result.step.bubble_s / *step->result.step.bubble_s, 1, 1e-9);
  EXPECT_TRUE(cluster->result.cluster->priors.empty());
}

TEST(ClusterStep, DoesNotDependOnThreads) {
  const auto time = [](std::size_t threads) {
    const tbb::global_control most(tbb::global_control::max_allowed_parallelism, threads);
    const auto simulation = simulate_cluster(experts(), {.seeds = 4, .seed = 5});
    const model::ClusterSpread& cluster = *simulation->result.cluster;
    return std::vector<double>{simulation->result.step.time_s, cluster.step_s.p10, cluster.step_s.p90,
                               cluster.wait_s.p50, cluster.bubble.front().seconds};
  };
  EXPECT_EQ(time(1), time(2));
}

// One after another, the three runs of each of two fleets come first.
TEST(ClusterStep, ThatIsStoppedIsOfTheFleetsThatItHas) {
  const tbb::global_control most(tbb::global_control::max_allowed_parallelism, 1);
  const auto stopped_after = [](std::size_t runs) {
    const auto ended = std::make_shared<std::size_t>(0);
    return simulate_cluster(
        experts(),
        {.seeds = 4, .watch = {[=] { return *ended >= runs; }, [=](std::size_t done, std::size_t) { *ended = done; }}});
  };
  const auto two = simulate_cluster(experts(), {.seeds = 2}), some = stopped_after(6);
  ASSERT_TRUE(two && some);
  EXPECT_EQ(some->result.cluster->seeds, 2);
  EXPECT_EQ(some->result.step.time_s, two->result.step.time_s);
  EXPECT_EQ(some->result.cluster->wait_s, two->result.cluster->wait_s);
  EXPECT_EQ(some->result.cluster->bubble.front().seconds, two->result.cluster->bubble.front().seconds);
  EXPECT_EQ(stopped_after(2).error().kind, model::ErrorKind::interrupted);
}

TEST(ClusterStep, NeedsASeed) {
  const auto simulation = simulate_cluster(experts(), {.seeds = 0});
  tests::expect_error(simulation, model::ErrorKind::input, "", 0, "--seeds", "at least one");
}

// Slots of stages with and without the head take the same time, and all of them together as long as before.
TEST(EvenStep, MeanStagesComputeAsLong) {
  const Inputs inputs =
      experts({"routing.imbalance=0", "overlap.parameter_gather=false", "overlap.gradient_reduce=false"});
  Predictor predictor(inputs);
  int calls = 0;
  const auto done = predictor.simulate(inputs.plan, {.execute = [&](const ExecutionInput& input) {
                                         ++calls;
                                         const auto before = execute(without_messages(input)),
                                                    after = execute(with_mean_stages(without_messages(input)));
                                         double slots_before = 0, slots_after = 0;
                                         for (std::size_t rank = 0; rank < before->ranks.size(); ++rank)
                                           for (std::size_t type = 0; type < 5; ++type) {
                                             slots_before += before->ranks[rank].slot_seconds[type];
                                             slots_after += after->ranks[rank].slot_seconds[type];
                                             EXPECT_NEAR(after->ranks[rank].slot_seconds[type],
                                                         after->ranks[0].slot_seconds[type], 1e-3);
                                           }
                                         EXPECT_NEAR(slots_after / slots_before, 1, 2e-3);
                                         EXPECT_LT(after->pipeline_end, before->pipeline_end);
                                         return execute(input);
                                       }});
  EXPECT_TRUE(done.has_value());
  EXPECT_EQ(calls, 1);
}

// The work of every GPU where experts or documents make micro-batches differ.

std::unique_ptr<UnevenWork> work_of(const std::vector<std::string>& overrides, std::uint64_t seed = 1) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800", overrides);
  return uneven_work(inputs.plan, inputs.architecture, seed).value();
}

// 128 replicas of a pipeline rank, two expert groups of 64 ranks one after the other; layers 0 to 2 are dense.
TEST(UnevenWork, RowsOfAGroupAddUpToItsTokens) {
  const std::vector<std::vector<std::string>> plans = {
      {"routing.imbalance=0", "routing.skew=0.3", "routing.correlation=0.9", "routing.balancing=bias"},
      {"routing.imbalance=0.075"}};
  for (const auto& overrides : plans) {
    const auto work = work_of(overrides), again = work_of(overrides), other = work_of(overrides, 2);
    ASSERT_NE(work, nullptr);
    double squares = 0;
    for (const std::int32_t layer : {3, 60, 61})
      for (const std::int32_t batch : {0, 119})
        for (const std::int64_t first : {0, 64}) {
          double sum = 0;
          for (std::int64_t replica = first; replica < first + 64; ++replica) {
            const double rows = work->expert_rows(replica, layer, batch);
            EXPECT_EQ(rows, again->expert_rows(replica, layer, batch));
            sum += rows;
            squares += std::abs(rows - other->expert_rows(replica, layer, batch));
          }
          EXPECT_NEAR(sum, 64, 1e-5);
        }
    EXPECT_GT(squares, 1);
    EXPECT_EQ(work->expert_rows(5, 2, 0), 1);
    EXPECT_EQ(work->attention(5, 0), 1);
  }
}

// Expert groups with expert_tensor: ranks that share experts have the same rows, and the group's other ranks the rest.
TEST(UnevenWork, FollowsTheGroupsOfTheLayout) {
  const auto work = work_of({"routing.imbalance=0.2", "parallelism.expert=16", "parallelism.expert_tensor=2"});
  double sum = 0;
  for (std::int64_t replica = 0; replica < 32; replica += 2) {
    sum += work->expert_rows(replica, 10, 7);
    EXPECT_EQ(work->expert_rows(replica, 10, 7), work->expert_rows(replica + 1, 10, 7));
  }
  EXPECT_NEAR(sum, 16, 1e-5);
}

TEST(UnevenWork, EvenPlansHaveNone) {
  EXPECT_EQ(work_of({"routing.imbalance=0"}), nullptr);
  EXPECT_EQ(work_of({"parallelism.expert=1"}), nullptr);
}

TEST(UnevenWork, DocumentsVaryAttention) {
  const auto work = work_of({"routing.imbalance=0", "batch.document_length=1000"});
  ASSERT_NE(work, nullptr);
  double sum = 0, squares = 0;
  for (std::int64_t replica = 0; replica < 128; ++replica)
    for (std::int32_t batch = 0; batch < 120; ++batch) {
      const double attention = work->attention(replica, batch);
      sum += attention;
      squares += (attention - 1) * (attention - 1);
    }
  EXPECT_NEAR(sum / (128 * 120), 1, 0.05);
  EXPECT_GT(squares / (128 * 120), 0.01);
  EXPECT_EQ(work->expert_rows(5, 10, 0), 1);
}

// Packed documents make attention of the plan's step shorter, and more experts on a rank its memory larger.
TEST(UnevenWork, TheStepFollowsTheSameKeys) {
  const auto step = [](const std::vector<std::string>& overrides) {
    return simulate(tests::step_inputs(tests::deepseek_plan, "h800", overrides), Fidelity::step, false).value().result;
  };
  const auto even = step({"routing.imbalance=0"});
  const auto packed = step({"routing.imbalance=0", "batch.document_length=1000"});
  EXPECT_LT(packed.step.time_s, even.step.time_s);
  EXPECT_LT(packed.step.model_tflops_per_gpu_causal * packed.step.time_s,
            even.step.model_tflops_per_gpu_causal * even.step.time_s);
  EXPECT_GE(packed.step.time_s, *packed.bound_s);
  EXPECT_GT(step({"routing.imbalance=0", "routing.skew=0.3"}).step.time_s, even.step.time_s);
  EXPECT_GT(step({"routing.imbalance=0", "routing.redundant_experts=64"}).memory.peak_bytes, even.memory.peak_bytes);
}

}  // namespace
}  // namespace plumbline::sim
