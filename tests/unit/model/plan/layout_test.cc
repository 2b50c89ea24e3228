#include "model/plan/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "model/plan/alternative.h"
#include "model/plan/plan.h"
#include "model/plan/stage_split.h"
#include "tests/support/architectures.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using Counts = std::vector<std::int64_t>;
using tests::architecture;
using tests::expect_error;
using tests::shipped;

const std::string plan_path = shipped("examples/deepseek-v3-2048xh800.toml");

Plan expert_plan() { return load_plan(plan_path, {}).value_or(Plan{}); }

// Returns a dense plan without pipeline parallelism on 8 GPUs.
Plan dense_plan() {
  Plan plan;
  plan.cluster.gpus = 8;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 2, .global_batch_size = 32};
  return plan;
}

TEST(Layout, DeepSeekV3) {
  const auto layout = make_layout(expert_plan(), architecture("deepseek-v3"));
  ASSERT_TRUE(layout) << to_string(layout.error());
  EXPECT_EQ(layout->data, 128);           // 2048 / 16
  EXPECT_EQ(layout->micro_batches, 120);  // 15360 / (128 * 1)
  EXPECT_EQ(layout->tokens_per_micro_batch, 4096);
  EXPECT_EQ(layout->stages, 16);
  EXPECT_EQ(layout->experts_per_rank, 4);  // 256 / 64
  EXPECT_EQ(layout->expert_replicas, 2);   // 128 / 64
  EXPECT_TRUE(layout->two_directions);
  EXPECT_EQ(layout->dense_group, 256);  // 128, over both ranks that hold a stage
  EXPECT_EQ(layout->expert_group, 4);   // 2, over both ranks that hold a stage
  ASSERT_EQ(layout->stage_layers.size(), 16u);
  EXPECT_EQ(layout->stage_layers[0], (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(layout->stage_layers[15], (std::vector<std::int64_t>{59, 60}));
}

// Two tensor ranks hold different tokens under sequence parallelism, so 64 experts fold over 2 * 32 ranks of a stage.
TEST(Layout, ExpertsFoldOverTensorRanks) {
  Plan plan = expert_plan();
  plan.schedule = {.kind = "1f1b"};
  plan.cluster.gpus = 1024;
  plan.parallelism = {.tensor = 2, .sequence = true, .pipeline = 16, .expert = 64, .zero_stage = 1};
  const auto layout = make_layout(plan, architecture("deepseek-v3"));
  ASSERT_TRUE(layout) << to_string(layout.error());
  EXPECT_EQ(layout->data, 32);
  EXPECT_EQ(layout->experts_per_rank, 4);
  EXPECT_EQ(layout->expert_replicas, 1);  // 2 * 32 / 64
  EXPECT_EQ(layout->dense_group, 32);
  EXPECT_EQ(layout->dense_stride, 2);
  EXPECT_EQ(layout->expert_group, 1);
  EXPECT_EQ(expert_group(plan.parallelism).ranks, 64);
  EXPECT_EQ(expert_group(plan.parallelism).stride, 1);
  plan.parallelism.expert = 32;  // of 32 ranks each, two replicas that are 32 ranks apart
  EXPECT_EQ(make_layout(plan, architecture("deepseek-v3"))->expert_stride, 32);
  plan.parallelism.sequence = false;  // then both ranks hold all tokens
  EXPECT_FALSE(make_layout(plan, architecture("deepseek-v3")));
}

TEST(Layout, DenseModelOnEightGpus) {
  const auto layout = make_layout(dense_plan(), architecture("llama-3-8b"));
  ASSERT_TRUE(layout) << to_string(layout.error());
  EXPECT_EQ(layout->data, 8);
  EXPECT_EQ(layout->micro_batches, 2);              // 32 / (8 * 2)
  EXPECT_EQ(layout->tokens_per_micro_batch, 8192);  // 2 sequences of 4096
  EXPECT_EQ(layout->stages, 1);
  EXPECT_EQ(layout->experts_per_rank, 0);
  EXPECT_EQ(layout->dense_group, 8);
  EXPECT_EQ(layout->stage_layers.at(0).size(), 32u);
}

TEST(Layout, ASequenceNeedsALearnedPositionForEveryToken) {
  Plan plan = dense_plan();
  plan.batch.sequence_length = 2048;
  EXPECT_TRUE(make_layout(plan, architecture("gpt3-175b")));
  plan.batch.sequence_length = 4096;
  const auto layout = make_layout(plan, architecture("gpt3-175b"));
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().kind, ErrorKind::infeasible);
  EXPECT_EQ(layout.error().key, "batch.sequence_length");
  EXPECT_NE(layout.error().message.find("2048 learned positions"), std::string::npos);
}

TEST(Layout, SpreadsLayersEvenlyAndInOrder) {
  for (const std::int64_t pipeline : {1, 2, 3, 4, 7, 16, 61}) {
    Plan plan = expert_plan();
    plan.cluster.gpus = 64 * pipeline;
    plan.parallelism.pipeline = pipeline;
    plan.batch.global_batch_size = 64 * 122;
    plan.schedule.kind = "1f1b";
    plan.schedule.layers_per_stage = {};
    const auto layout = make_layout(plan, architecture("deepseek-v3"));
    ASSERT_TRUE(layout) << to_string(layout.error());
    std::int64_t next = 0;
    std::size_t fewest = 61, most = 0;
    for (const auto& layers : layout->stage_layers) {
      for (const std::int64_t layer : layers) EXPECT_EQ(layer, next++);
      fewest = std::min(fewest, layers.size());
      most = std::max(most, layers.size());
    }
    EXPECT_EQ(next, 61);
    EXPECT_LE(most - fewest, 1u);
    EXPECT_EQ(layout->stage_layers.back().size(), fewest);  // the head is added to them
  }
}

struct Refused {
  const char* what;
  std::function<void(Plan&)> change;
  const char* key;
  const char* says;
};

// Returns the line where the plan's file gives the key; 0 for a key with its default.
int line_of(const Plan& plan, const std::string& key) {
  const auto place = plan.places.find(key);
  return place == plan.places.end() ? 0 : place->second.line;
}

class RefusedLayout : public testing::TestWithParam<Refused> {};

TEST_P(RefusedLayout, IsInfeasibleWithReasonAndHint) {
  Plan plan = expert_plan();
  GetParam().change(plan);
  const auto layout = make_layout(plan, architecture("deepseek-v3"));
  ASSERT_FALSE(layout);
  expect_error(layout.error(), ErrorKind::infeasible, plan_path, line_of(plan, GetParam().key), GetParam().key,
               GetParam().says);
  EXPECT_FALSE(layout.error().hint.empty()) << to_string(layout.error());
}

INSTANTIATE_TEST_SUITE_P(
    Plans, RefusedLayout,
    testing::Values(
        Refused{"gpus", [](Plan& p) { p.cluster.gpus = 2040; }, "cluster.gpus", "use 2032 or 2048"},
        Refused{"few_gpus", [](Plan& p) { p.cluster.gpus = 8; }, "cluster.gpus", "use 16 GPUs"},
        Refused{"batch", [](Plan& p) { p.batch.global_batch_size = 127; }, "batch.global_batch_size",
                "use 128 or more"},
        Refused{"micro_batch", [](Plan& p) { p.batch.micro_batch_size = 121; }, "batch.global_batch_size", "128 * 121"},
        Refused{"empty_stage",
                [](Plan& p) {
                  p.schedule.layers_per_stage.counts[5] = 0;
                  p.schedule.layers_per_stage.counts[6] = 8;
                },
                "schedule.layers_per_stage", "stage 5 holds nothing"},
        Refused{"empty_stage_of_two_directions",  // where the first stage lies on the rank of the last one
                [](Plan& p) {
                  p.schedule.layers_per_stage.counts[14] = 0;
                  p.schedule.layers_per_stage.counts[6] = 8;
                },
                "schedule.layers_per_stage", "stage 14 holds nothing"},
        Refused{"stage_count", [](Plan& p) { p.schedule.layers_per_stage.counts.pop_back(); },
                "schedule.layers_per_stage", "15 entries"},
        Refused{"layer_sum", [](Plan& p) { p.schedule.layers_per_stage.counts[0] = 4; }, "schedule.layers_per_stage",
                "hold 62 layers"},
        Refused{"experts_do_not_divide", [](Plan& p) { p.parallelism.expert = 24; }, "parallelism.expert",
                "does not divide"},
        Refused{"experts_over_data", [](Plan& p) { p.parallelism.expert = 256; }, "parallelism.expert",
                "larger than the 128"},
        Refused{"odd_dualpipe",
                [](Plan& p) {
                  p.parallelism.pipeline = 1;
                  p.schedule.layers_per_stage = {};
                  p.batch.global_batch_size = 2048 * 8;
                },
                "parallelism.pipeline", "even"},
        Refused{"few_micro_batches", [](Plan& p) { p.batch.global_batch_size = 128 * 30; }, "batch.global_batch_size",
                "32"},
        Refused{"tensor_without_sequence", [](Plan& p) { p.parallelism.tensor = 2; }, "parallelism.tensor",
                "needs sequence parallelism"},
        Refused{"heads",  // of 128
                [](Plan& p) {
                  p.parallelism.tensor = 3;
                  p.parallelism.sequence = true;
                },
                "parallelism.tensor", "use 2 or 4"},
        Refused{"context", [](Plan& p) { p.parallelism.context = 3; }, "parallelism.context", "use 2 or 4"},
        Refused{"expert_columns",  // 2,048 of them
                [](Plan& p) { p.parallelism.expert_tensor = 6; }, "parallelism.expert_tensor", "use 4 or 8"},
        Refused{"virtual_stages", [](Plan& p) { p.schedule.virtual_stages = 2; }, "schedule.virtual_stages",
                "no virtual stages"},
        Refused{"padding_without_capacity", [](Plan& p) { p.routing.pad_to_capacity = true; },
                "routing.pad_to_capacity", "give routing.capacity_factor"},
        Refused{"rows_of_too_few_ranks",
                [](Plan& p) {
                  p.routing.rows_per_rank = {1, 2};
                },
                "routing.rows_per_rank", "2 row counts for 64 expert ranks"},
        Refused{"rows_and_imbalance",  // the shipped plan has an imbalance
                [](Plan& p) { p.routing.rows_per_rank.assign(64, 512); }, "routing.rows_per_rank", "give one of them"},
        Refused{"zero_2_in_two_directions", [](Plan& p) { p.parallelism.zero_stage = 2; }, "parallelism.zero_stage",
                "use 0 or 1, or a schedule of one direction"},
        Refused{"local_steps_of_shards", [](Plan& p) { p.parallelism.synchronization_interval = 4; },
                "parallelism.synchronisation_interval", "parallelism.shard_group to the ranks of a replica"},
        Refused{"shard_group_in_two_directions", [](Plan& p) { p.parallelism.shard_group = 8; },
                "parallelism.shard_group", "set it to 0"}),
    [](const auto& parameter) { return std::string(parameter.param.what); });

TEST(Layout, ExpertsThatDoNotDivideOverTheRanksAreRefused) {
  Plan plan = expert_plan();
  plan.cluster.gpus = 16 * 96;
  plan.parallelism.expert = 96;
  plan.batch.global_batch_size = 96 * 120;
  expect_error(make_layout(plan, architecture("deepseek-v3")), ErrorKind::infeasible, plan_path,
               line_of(plan, "parallelism.expert"), "parallelism.expert", "256 routed experts");
}

TEST(Layout, ATokenMustReachEnoughExperts) {
  // One of 64 groups holds four of 256 experts.
  Plan plan = expert_plan();
  plan.routing.max_nodes_per_token = 1;
  Architecture model = architecture("deepseek-v3");
  model.experts.groups = 64;
  expect_error(make_layout(plan, model), ErrorKind::infeasible, plan_path, line_of(plan, "routing.max_nodes_per_token"),
               "routing.max_nodes_per_token", "8 of 4 reachable experts");
}

TEST(Layout, DenseModelHasNoExpertParallelism) {
  Plan plan = dense_plan();
  plan.parallelism.expert = 2;
  expect_error(make_layout(plan, architecture("llama-3-8b")), ErrorKind::infeasible, "", 0, "parallelism.expert",
               "no experts");
}

TEST(Layout, MoreStagesThanLayersAreRefused) {
  Plan plan = dense_plan();
  plan.cluster.gpus = 64;
  plan.parallelism.pipeline = 64;
  expect_error(make_layout(plan, architecture("llama-3-8b")), ErrorKind::infeasible, "", 0, "parallelism.pipeline",
               "at most 34 stages");
}

TEST(Layout, FirstAndLastStageMayHoldNoLayers) {
  Plan plan = dense_plan();
  plan.cluster.gpus = plan.parallelism.pipeline = 34;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 34};
  const auto layout = make_layout(plan, architecture("llama-3-8b"));
  ASSERT_TRUE(layout) << to_string(layout.error());
  EXPECT_TRUE(layout->stage_layers.front().empty());
  EXPECT_TRUE(layout->stage_layers.back().empty());
  EXPECT_EQ(layout->stage_layers[1], std::vector<std::int64_t>{0});
  EXPECT_EQ(layout->stage_layers[32], std::vector<std::int64_t>{31});
}

TEST(Layout, PredictionModulesLieOnAStageOfTheirOwnWhereItHoldsNoLayers) {
  Plan plan = expert_plan();
  plan.schedule.kind = "1f1b";
  const Architecture model = architecture("deepseek-v3");
  EXPECT_EQ(prediction_stage(make_layout(plan, model).value()), 15);
  plan.schedule.layers_per_stage.counts = {3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 10, 0, 0};
  const auto layout = make_layout(plan, model);
  ASSERT_TRUE(layout) << to_string(layout.error());
  EXPECT_EQ(prediction_stage(*layout), 14);
}

TEST(Layout, ABatchThatDoesNotDivideIsThatOfTheFullestRank) {
  Plan plan = dense_plan();
  EXPECT_TRUE(layout_warnings(plan, make_layout(plan, architecture("llama-3-8b")).value()).empty());
  plan.batch.global_batch_size = 33;  // over 8 ranks in pairs: 16 a round
  const auto layout = make_layout(plan, architecture("llama-3-8b"));
  ASSERT_TRUE(layout) << to_string(layout.error());
  EXPECT_EQ(layout->micro_batches, 3);
  const auto warnings = layout_warnings(plan, *layout);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("as if there were 48 (45.5 % more)"), std::string::npos) << warnings[0];
}

TEST(Layout, RoutingOfADenseModelIsNoted) {
  Plan plan = dense_plan();
  const Architecture dense = architecture("llama-3-8b");
  EXPECT_TRUE(unread_key_warnings(plan, dense).empty());
  ASSERT_TRUE(change_plan({"routing.rows_per_rank=[]"}, plan));
  EXPECT_TRUE(unread_key_warnings(plan, dense).empty()) << "as a printed plan has it";
  ASSERT_TRUE(change_plan({"routing.imbalance=0.5"}, plan));
  EXPECT_EQ(unread_key_warnings(plan, dense),
            std::vector<std::string>{"routing.imbalance has no effect: llama-3-8b has no experts"});
  ASSERT_TRUE(change_plan({"routing.max_nodes_per_token=4"}, plan));
  EXPECT_EQ(unread_key_warnings(plan, dense),
            std::vector<std::string>{
                "routing.imbalance, routing.max_nodes_per_token have no effect: llama-3-8b has no experts"});
  EXPECT_TRUE(unread_key_warnings(plan, architecture("deepseek-v3")).empty());
}

SplitCosts equal_layers(std::int64_t layers, double last) {
  return {std::vector<double>(static_cast<std::size_t>(layers), 1.0), 0, last};
}

double dearest(const SplitCosts& costs, const Counts& counts) {
  double most = 0;
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    double sum = (stage == 0 ? costs.first : 0) + (stage + 1 == counts.size() ? costs.last : 0);
    for (std::int64_t i = 0; i < counts[stage]; ++i) sum += costs.layers[layer++];
    most = std::max(most, sum);
  }
  return most;
}

std::int64_t squares(const Counts& counts) {
  return std::inner_product(counts.begin(), counts.end(), counts.begin(), std::int64_t{0});
}

// Calls visit() with every division that stages can hold.
void every_division(std::int64_t layers, std::int64_t stages, const std::function<void(const Counts&)>& visit,
                    Counts counts = {}) {
  const auto stage = static_cast<std::int64_t>(counts.size());
  if (stage == stages) {
    if (layers == 0) visit(counts);
    return;
  }
  for (std::int64_t count = fewest_layers(stage, stages); count <= layers; ++count) {
    counts.push_back(count);
    every_division(layers - count, stages, visit, counts);
    counts.pop_back();
  }
}

SplitCosts drawn_costs(Random& random) {
  SplitCosts costs;
  const auto layers = static_cast<std::size_t>(1 + random.next() % 8);
  const double second_kind = 0.25 + 2 * random.uniform();
  for (std::size_t layer = 0; layer < layers; ++layer) costs.layers.push_back(layer < layers / 3 ? second_kind : 1);
  costs.first = random.uniform();
  costs.last = 4 * random.uniform();
  return costs;
}

TEST(StageSplit, EvenCountsLeaveTheEndsToEmbeddingAndHead) {
  EXPECT_EQ(even_layer_counts(61, 16).front(), 3);
  Counts alone(96, 1);  // 94 layers on 96 stages
  alone.front() = alone.back() = 0;
  EXPECT_EQ(even_layer_counts(94, 96), alone);
}

TEST(StageSplit, BalancedCountsGiveTheStageOfTheHeadLess) {
  // A head of 1.3 layers: 10 + 1.3 would be more than the 11 that a stage without it needs for 80 layers.
  EXPECT_EQ(balanced_layer_counts(equal_layers(80, 1.3), 8), (Counts{10, 10, 10, 10, 10, 10, 11, 9}));
  // With a head of 0.975 layers 10.975 is less than 11.
  EXPECT_EQ(balanced_layer_counts(equal_layers(80, 0.975), 8), (Counts{10, 10, 10, 10, 10, 10, 10, 10}));
  EXPECT_EQ(balanced_layer_counts(equal_layers(4, 5), 2), (Counts{4, 0})) << "a stage of the head alone";
  EXPECT_EQ(balanced_layer_counts(equal_layers(3, 0.5), 1), (Counts{3}));
}

// Of all divisions none has a smaller maximum, and of those with it none is more even.
TEST(StageSplit, BalancedCountsAreTheBestOfAllDivisions) {
  Random random(7);
  for (int draw = 0; draw < 300; ++draw) {
    const SplitCosts costs = drawn_costs(random);
    const auto layers = static_cast<std::int64_t>(costs.layers.size());
    const std::int64_t stages = 1 + static_cast<std::int64_t>(random.next() % 5) % (layers + 2);
    std::pair<double, std::int64_t> best = {1e9, 0};
    every_division(layers, stages, [&](const Counts& counts) {
      const std::pair<double, std::int64_t> found = {dearest(costs, counts), squares(counts)};
      if (found.first < best.first - 1e-9 || (found.first < best.first + 1e-9 && found.second < best.second))
        best = found;
    });
    const Counts counts = balanced_layer_counts(costs, stages);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), layers);
    EXPECT_NEAR(dearest(costs, counts), best.first, 1e-9);
    EXPECT_EQ(squares(counts), best.second);
  }
}

}  // namespace
}  // namespace plumbline::model
