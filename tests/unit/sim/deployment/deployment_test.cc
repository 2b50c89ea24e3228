#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "sim/deployment/deployment_answer.h"
#include "sim/deployment/detail/pool_space.h"
#include "tests/support/serving_inputs.h"

namespace plumbline::sim {
namespace {

using model::Instance;
using testing::ElementsAre;
using tests::deepseek_plan;
using tests::llama_plan;
using tests::step_inputs;

std::vector<std::string> words_of(const std::vector<Instance>& instances) {
  std::vector<std::string> words;
  for (const Instance& instance : instances) words.push_back(degree_words(instance));
  return words;
}

// A made-up engine: a GPU holds 200 requests, a step takes 10 ms, 1 ms more each time that the GPUs of an instance
// double, 0.1 ms a request on a GPU, and a tenth less with tensor parallelism. A GPU computes 5,000 tokens/s of
// prompts, less with pipeline parallelism, and prompts of other requests take time from the steps of a pool for both
// phases.
constexpr double room = 200, prompt_rate = 8000;

double step_of(const Instance& instance, double batch) {
  const double gpus = static_cast<double>(instance.gpus());
  return (10e-3 + 1e-3 * std::log2(gpus) + 0.1e-3 * batch) * (instance.tensor > 1 ? 0.9 : 1);
}

double prefill_rate(const Instance& instance) { return prompt_rate / static_cast<double>(instance.pipeline); }

double tpot_of(const model::Plan& plan, double batch) {
  const auto& keys = plan.inference;
  const Instance instance = instance_of(plan, keys.disaggregated ? model::PoolKind::decode : model::PoolKind::both);
  const double share =
      batch * static_cast<double>(keys.input_tokens) / static_cast<double>(keys.output_tokens) / prefill_rate(instance);
  const double chunks = 2 + 100.0 / static_cast<double>(keys.chunked_prefill_tokens + 1);
  return step_of(instance, batch) + (keys.disaggregated ? 0 : share * chunks);
}

model::Result<model::ServingResult> made_up(const model::Plan& plan) {
  const auto& keys = plan.inference;
  const auto gpus = static_cast<double>(keys.disaggregated ? *keys.decode.gpus : plan.cluster.gpus);
  double batch = keys.concurrency > 0 ? static_cast<double>(keys.concurrency) / gpus : room;
  if (keys.concurrency == 0)
    while (batch > 1 && tpot_of(plan, batch) > keys.max_tpot_s.value_or(1)) --batch;
  if (tpot_of(plan, batch) > keys.max_tpot_s.value_or(1)) return model::infeasible("inference.max_tpot_s", "too long");
  model::ServingResult result;
  result.tpot_s = tpot_of(plan, batch);
  result.ttft_unloaded_s = result.ttft_s = 0.5;
  result.batch_per_gpu = batch;
  result.concurrency = batch * gpus;
  result.output_tokens_per_s = result.concurrency / result.tpot_s;
  const Instance prefill = instance_of(plan, keys.disaggregated ? model::PoolKind::prefill : model::PoolKind::both);
  result.prefill_tokens_per_s_per_gpu = prefill_rate(prefill);
  if (keys.disaggregated)
    result.output_tokens_per_s =
        std::min(result.output_tokens_per_s, static_cast<double>(*keys.prefill.gpus) * prefill_rate(prefill) *
                                                 static_cast<double>(keys.output_tokens) /
                                                 static_cast<double>(keys.input_tokens));
  result.output_tokens_per_s_per_gpu = result.output_tokens_per_s / static_cast<double>(plan.cluster.gpus);
  return result;
}

model::Result<std::vector<model::ServingPoint>> made_up_frontier(const model::Plan& plan) {
  std::vector<model::ServingPoint> points;
  for (double batch = 1; batch <= room; batch *= 2) {
    const double tpot = tpot_of(plan, batch);
    points.push_back({batch * 32, batch, tpot, 0.5, batch / tpot, {}, true});
  }
  return points;
}

const DeploymentPredictor engine{made_up, made_up_frontier};

Inputs small_inputs(std::vector<std::string> overrides = {}) {
  overrides.emplace_back("cluster.gpus=32");
  return step_inputs(deepseek_plan, "h800", overrides);
}

DeploymentSearchResult searched(const Inputs& inputs, const DeploymentGoal& goal, unsigned threads = 0) {
  SearchOptions options;
  options.threads = threads;
  return search_deployments(inputs, engine, goal, options).value();
}

TEST(DeploymentSpace, HasThePublishedUnitsOfDeepSeek) {
  const auto words = words_of(pool_instances(step_inputs(deepseek_plan, "h800"), 512));
  EXPECT_THAT(words, testing::Contains("TP1 DP144 EP144+32 TBO"));  // decode, with one copy of 32 experts
  EXPECT_THAT(words, testing::Contains("TP1 DP128 EP128"));
  EXPECT_THAT(words, testing::Contains("TP8 PP2"));
  EXPECT_THAT(words, testing::Contains("TP4 DP8 EP32 TBO"));
  EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), words.size()) << "each instance is there once";
}

TEST(DeploymentSpace, HoldsOnlyWhatTheModelDividesInto) {
  const Inputs inputs = step_inputs(deepseek_plan, "h800");
  for (const Instance& instance : pool_instances(inputs, 512)) {
    model::Plan plan = inputs.plan;
    use_one_pool(plan, instance);
    EXPECT_TRUE(model::make_instance(plan, inputs.architecture, model::PoolKind::both)) << degree_words(instance);
    EXPECT_LE(instance.gpus(), 512);
    EXPECT_TRUE(8 % instance.stage_gpus() == 0 || instance.stage_gpus() % 8 == 0) << degree_words(instance);
  }
}

// 72 GPUs of 18 hosts: 48 that decode leave 24 for prompts. 9 and 18 ranks would share hosts with other instances.
TEST(DeploymentSpace, StagesAreWholeHostsOfADomainThatIsTheCluster) {
  const auto stages = [](std::int64_t gpus) {
    Inputs inputs = step_inputs(deepseek_plan, "h800");
    inputs.cluster.gpus_per_node = 72;
    std::set<std::int64_t> found;
    for (const Instance& instance : pool_instances(inputs, gpus)) found.insert(instance.stage_gpus());
    return found;
  };
  EXPECT_THAT(stages(72), ElementsAre(1, 2, 4, 8, 12, 16, 20, 24, 32, 36, 40, 48, 64, 72));
  EXPECT_THAT(stages(144), ElementsAre(1, 2, 4, 8, 12, 24, 36, 72, 144));  // three of 48 would lie across domains
}

TEST(DeploymentSpace, ExpertsOfMoreRanksThanAStageHasNameItsDegrees) {
  const Inputs inputs = step_inputs(deepseek_plan, "h800");
  model::Plan plan = inputs.plan;
  use_one_pool(plan, {.tensor = 2, .expert = 64});
  const auto refused = model::make_instance(plan, inputs.architecture, model::PoolKind::both);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().key, "parallelism.expert");
  EXPECT_THAT(refused.error().message, testing::HasSubstr("2 tensor ranks times 1 groups of attention_data"));
}

TEST(DeploymentSpace, DenseModelsHaveReplicasInPlaceOfAttentionDataParallelism) {
  EXPECT_THAT(words_of(pool_instances(step_inputs(llama_plan, "h800"), 4)),
              ElementsAre("TP1", "TP1 PP2", "TP2", "TP1 PP4", "TP2 PP2", "TP4"));
}

TEST(DeploymentSpace, ListsAndOptionsRestrictIt) {
  const auto words = [](std::vector<std::string> overrides) {
    return words_of(pool_instances(step_inputs(deepseek_plan, "h800", overrides), 16));
  };
  EXPECT_THAT(words({"search.tensor=8", "search.pipeline=2", "inference.attention_data=1", "search.expert=[1, 8]"}),
              ElementsAre("TP8 PP2 EP8", "TP8 PP2 EP8 TBO", "TP8 PP2"));
  EXPECT_THAT(words({"search.tensor=1", "search.pipeline=1", "search.expert=16", "inference.redundant_experts=16",
                     "inference.two_micro_batches=true"}),
              ElementsAre("TP1 DP16 EP16+16 TBO"));
}

TEST(DeploymentSpace, PoolsTakeAllInstancesThatFit) {
  model::Plan plan = step_inputs(deepseek_plan, "h800").plan;
  plan.cluster.gpus = 100;
  const auto splits = pool_splits(plan, {.tensor = 8}, {.tensor = 8, .pipeline = 4});
  ASSERT_EQ(splits.size(), 2u);
  EXPECT_EQ(splits[0].decode_instances, 1);
  EXPECT_EQ(splits[0].prefill_instances, 8);  // 68 GPUs are left, of which 4 stay idle
  EXPECT_EQ(splits[1].prefill_instances, 4);
}

TEST(DeploymentSearch, FindsTheBestOfASpaceThatIsSmallEnoughToTryOut) {
  const Inputs inputs = small_inputs({"inference.disaggregated=false"});
  double most = 0;
  for (const Instance& instance : pool_instances(inputs, 32))
    for (const std::int64_t chunk : chunk_sizes(inputs.plan)) {
      model::Plan plan = inputs.plan;
      use_one_pool(plan, instance);
      plan.inference.chunked_prefill_tokens = chunk;
      plan.inference.concurrency = 0;
      if (32 % instance.gpus() != 0 || instance.gpus() < 16) continue;  // below 16 GPUs the weights do not fit
      most = std::max(most, made_up(plan)->output_tokens_per_s_per_gpu);
    }
  const auto found = searched(inputs, {});
  ASSERT_FALSE(found.best.empty());
  EXPECT_DOUBLE_EQ(found.best.front().value, most);
  EXPECT_EQ(found.best.front().plan.inference.chunked_prefill_tokens, 16384);
  EXPECT_EQ(found.best.front().plan.parallelism.pipeline, 1);
  std::uint64_t removed = 0;
  for (const Removed& one : found.removed) removed += one.plans;
  EXPECT_EQ(removed + found.evaluated, found.space);
}

TEST(DeploymentSearch, TakesPromptsFromTheStepsWhereThatServesMore) {
  const auto found = searched(small_inputs(), {});
  ASSERT_FALSE(found.best.empty());
  const RankedDeployment& best = found.best.front();
  EXPECT_TRUE(best.plan.inference.disaggregated);
  EXPECT_LE(*best.plan.inference.prefill.gpus + *best.plan.inference.decode.gpus, 32);
  for (const RankedDeployment& other : found.best) EXPECT_LE(other.value, best.value);
}

TEST(DeploymentSearch, DoesNotDependOnTheNumberOfThreads) {
  const Inputs inputs = small_inputs();
  const auto one = searched(inputs, {}, 1), many = searched(inputs, {}, 4);
  ASSERT_EQ(one.best.size(), many.best.size());
  for (std::size_t i = 0; i < one.best.size(); ++i)
    EXPECT_EQ(model::to_toml(one.best[i].plan), model::to_toml(many.best[i].plan));
  EXPECT_EQ(one.evaluated, many.evaluated);
  ASSERT_EQ(one.frontier.size(), many.frontier.size());
}

TEST(DeploymentSearch, LimitsDecideTheBatch) {
  const auto free = searched(small_inputs(), {});
  const auto limited = searched(small_inputs({"inference.max_tpot_s=0.02"}), {});
  ASSERT_FALSE(limited.best.empty());
  EXPECT_GT(free.best.front().result.tpot_s, 0.02);
  EXPECT_LE(limited.best.front().result.tpot_s, 0.02);
  EXPECT_LT(limited.best.front().value, free.best.front().value);
}

TEST(DeploymentSearch, LatencyIsThatOfTheRequestsInFlight) {
  DeploymentGoal goal;
  goal.objective = Objective::latency;
  const auto found = searched(small_inputs({"inference.concurrency=320"}), goal);
  ASSERT_FALSE(found.best.empty());
  EXPECT_DOUBLE_EQ(found.best.front().result.concurrency, 320);
  EXPECT_DOUBLE_EQ(found.best.front().value, found.best.front().result.tpot_s);
  for (const RankedDeployment& other : found.best) EXPECT_GE(other.value, found.best.front().value);
}

TEST(DeploymentSearch, TokensThatNobodyAskedForCountForNothing) {
  const auto found = searched(small_inputs({"inference.demand_output_tokens_per_day=1e6"}), {});
  ASSERT_FALSE(found.best.empty());
  EXPECT_DOUBLE_EQ(found.best.front().value, 1e6 / 86400 / 32);
  for (const RankedDeployment& other : found.best)
    EXPECT_GE(other.result.tpot_s, found.best.front().result.tpot_s) << "of equal ones the shortest TPOT is first";
}

TEST(DeploymentSearch, MoneyIsThatOfAllGpus) {
  const DeploymentGoal goal{Objective::tokens_per_dollar, 2.0, 63.0};
  const auto found = searched(small_inputs(), goal);
  ASSERT_FALSE(found.best.empty());
  const RankedDeployment& best = found.best.front();
  EXPECT_DOUBLE_EQ(best.value, best.result.output_tokens_per_s * 3600 / (32 * 2.0));
  EXPECT_FALSE(best.within);
  EXPECT_THAT(broken_limits(best.plan, best.result, goal), ElementsAre("64 USD an hour, over --budget 63"));
  EXPECT_EQ(value_of(best.plan, best.result, {Objective::tokens_per_dollar, {}, {}}), std::nullopt);
}

TEST(DeploymentSearch, TheFrontierHasNoPointThatAnotherBeats) {
  const auto frontier = searched(small_inputs(), {}).frontier;
  ASSERT_GT(frontier.size(), 2u);
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GT(frontier[i].point.tpot_s, frontier[i - 1].point.tpot_s);
    EXPECT_GT(frontier[i].point.output_tokens_per_s_per_gpu, frontier[i - 1].point.output_tokens_per_s_per_gpu);
  }
}

TEST(DeploymentSearch, WhereNothingKeepsALimitTheShortestIsStated) {
  DeploymentAnswer answer;
  answer.options.push_back({});
  answer.options[0].on.cluster = "h800";
  answer.options[0].on.gpus = 32;
  answer.options[0].on.inputs = small_inputs({"inference.max_tpot_s=0.001"});
  answer.options[0].search = searched(answer.options[0].on.inputs, {});
  const DeploymentSearchResult& found = answer.options[0].search;
  EXPECT_THAT(found.best, testing::IsEmpty());
  ASSERT_TRUE(found.shortest_tpot);
  EXPECT_GT(found.shortest_tpot->result.tpot_s, 0.001);
  rank(answer);
  const auto sentences = what_would_do(answer);
  ASSERT_EQ(sentences.size(), 1u);
  EXPECT_THAT(sentences[0], testing::HasSubstr("the shortest TPOT is "));
  EXPECT_THAT(sentences[0], testing::HasSubstr("inference.max_tpot_s = 0.001"));
}

// A latent is one for all heads: tensor ranks each hold all of it, and groups with requests of their own divide it
// (DeepSeek-V2, arXiv 2405.04434, section 2.1).
TEST(DeploymentAnswer, DataParallelAttentionServesALatentCacheTwiceAsWellAsTensorParallelism) {
  const std::string text = R"(
[model]
config = "models/deepseek-v2.json"
[cluster]
topology = "h800-rail-fat-tree"
gpus = 8
[inference]
kv_cache = "int6"
)";
  const auto best = [&](std::vector<std::string> overrides) {
    overrides.emplace_back("search.pipeline=1");
    DeploymentAnswer answer;
    answer.options.resize(1);
    answer.options[0].on.inputs = tests::serving_inputs(text, "h800", overrides);
    EXPECT_TRUE(search_option(answer, answer.options[0], {}));
    return answer.options[0].search.best.at(0);
  };
  const RankedDeployment chosen = best({}), replicated = best({"inference.attention_data=1"});
  EXPECT_GE(chosen.plan.inference.attention_data, 4);
  EXPECT_GE(chosen.value, 2 * replicated.value);
  ASSERT_TRUE(chosen.result.interval && chosen.result.interval->tpot_s);
  EXPECT_GT(chosen.result.interval->tpot_s->p90, chosen.result.interval->tpot_s->p10);
}

// The margin of the deployment that is found is its own, not that of the one that was searched around.
TEST(DeploymentAnswer, WhatKeepsALimitInNineOfTenCasesBreaksNone) {
  const std::string text = R"(
[model]
config = "models/llama-3-8b.json"
[cluster]
topology = "h100-dgx"
gpus = 4
[inference]
)";
  for (const std::string limit : {"0.006", "0.012"}) {
    DeploymentAnswer answer;
    answer.confidence = 0.9;
    answer.options.resize(1);
    answer.options[0].on.inputs =
        tests::serving_inputs(text, "h100", {"search.pipeline=1", "inference.max_tpot_s=" + limit});
    ASSERT_TRUE(search_option(answer, answer.options[0], {}));
    rank(answer);
    ASSERT_FALSE(answer.order.empty());
    EXPECT_TRUE(answer.best(0).within);
    EXPECT_THAT(what_would_do(answer), testing::IsEmpty());
  }
}

TEST(DeploymentAnswer, OptionsWithinTheLimitsComeFirst) {
  DeploymentAnswer answer;
  for (const auto& [value, within] : {std::pair(100.0, false), std::pair(50.0, true), std::pair(70.0, true)}) {
    answer.options.push_back({});
    answer.options.back().search.best.push_back({{}, {}, value, within});
  }
  answer.options.push_back({});  // has none
  rank(answer);
  EXPECT_THAT(answer.order, ElementsAre(2, 1, 0));
}

DeploymentOption serving_option(double value, std::vector<double> draws, bool within = true) {
  DeploymentOption option;
  option.search.best.push_back({.plan = {}, .result = {}, .value = value, .within = within});
  option.value_draws = std::move(draws);
  return option;
}

DeploymentAnswer ranked_answer(Objective objective, std::vector<DeploymentOption> options) {
  DeploymentAnswer answer;
  answer.objective = objective;
  answer.options = std::move(options);
  rank(answer);
  return answer;
}

TEST(DeploymentAnswer, TheBestIsCountedDrawByDraw) {
  // The first is better in two draws and as good in one.
  const auto throughput =
      ranked_answer(Objective::throughput, {serving_option(10, {10, 10, 8, 9}), serving_option(9, {9, 11, 8, 7})});
  EXPECT_THAT(throughput.order, ElementsAre(0, 1));
  EXPECT_THAT(throughput.best_with, ElementsAre(2.5 / 4, 1.5 / 4));
  // The shorter time is the better one, so the second is first.
  const auto latency =
      ranked_answer(Objective::latency, {serving_option(10, {10, 10, 8, 9}), serving_option(9, {9, 11, 8, 7})});
  EXPECT_THAT(latency.order, ElementsAre(1, 0));
  EXPECT_THAT(latency.best_with, ElementsAre(2.5 / 4, 1.5 / 4));
}

TEST(DeploymentAnswer, WhatBreaksALimitIsBestOnlyWhereNothingKeepsThem) {
  const auto one =
      ranked_answer(Objective::throughput, {serving_option(10, {10, 10}, false), serving_option(9, {9, 9})});
  EXPECT_THAT(one.order, ElementsAre(1, 0));
  EXPECT_THAT(one.best_with, ElementsAre(1, 0));
  const auto none =
      ranked_answer(Objective::throughput, {serving_option(10, {10, 8}, false), serving_option(9, {9, 9}, false)});
  EXPECT_THAT(none.best_with, ElementsAre(0.5, 0.5));
}

TEST(DeploymentAnswer, WithoutDrawsNothingIsKnownOfTheBest) {
  EXPECT_THAT(ranked_answer(Objective::throughput, {serving_option(10, {10}), serving_option(9, {})}).best_with,
              testing::IsEmpty());
  EXPECT_THAT(ranked_answer(Objective::throughput, {}).best_with, testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::sim
