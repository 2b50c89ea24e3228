#include "model/cost/host_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <string>
#include <tuple>
#include <vector>

#include "model/layers/blocks.h"
#include "model/plan/plan.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

ClusterShape two_nodes(double host_bandwidth) {
  ClusterShape cluster;
  cluster.device = tests::h800_device();
  cluster.device.host_bandwidth = BytesPerSecond(host_bandwidth);
  cluster.gpus = 16;
  cluster.gpus_per_node = 8;
  return cluster;
}

// Half of the link's 100 B/s is reached; the host's memory moves 1 GB/s.
Profile round_profile() { return tests::profile_with({{"host.link_efficiency", 0.5}, {"host.memory_bandwidth", 1}}); }

TEST(HostCost, CopiesWhatIsWritten) {
  const HostCost cost = HostCost::make(round_profile(), two_nodes(100), {}).value();
  Graph graph;
  graph.tensors.push_back({.name = "from", .shape = {{400}}, .type = DataType::bf16});
  graph.tensors.push_back({.name = "to", .shape = {{100}}, .type = DataType::bf16});
  // 200 B at 50 B/s.
  EXPECT_DOUBLE_EQ(cost.copy(graph, {.kind = OperatorKind::copy_to_host, .reads = {0}, .writes = {1}}), 4);
}

TEST(HostCost, BringsBackWhatIsOnTheHost) {
  const HostCost cost = HostCost::make(round_profile(), two_nodes(100), {}).value();
  Graph graph;
  graph.tensors.push_back({.name = "whole", .shape = {{400}}, .type = DataType::bf16});
  graph.tensors.push_back({.name = "part", .shape = {{100}}, .type = DataType::bf16, .role = Role::host});
  // 200 B at 50 B/s, though the tensor that it restores has 800; the link's efficiency is its only constant.
  const Operator op{.kind = OperatorKind::copy_to_device, .reads = {1}, .writes = {0}};
  EXPECT_DOUBLE_EQ(cost.copy(graph, op), 4);
  EXPECT_DOUBLE_EQ(cost.copy_share(graph, op).seconds, 4);
  EXPECT_GE(cost.copy_share(graph, op).index, 0);
}

TEST(HostCost, UpdatesAsFastAsTheHostsMemory) {
  const HostCost cost = HostCost::make(round_profile(), two_nodes(100), {}).value();
  Graph graph;
  graph.tensors.push_back({.name = "gradient", .shape = {{1000}}, .type = DataType::fp32});
  graph.tensors.push_back({.name = "updated", .shape = {{1000}}, .type = DataType::bf16});
  for (const char* name : {"master", "m", "v"})
    graph.tensors.push_back({.name = name, .shape = {{1000}}, .type = DataType::fp32, .role = Role::gradient});
  // Read 4 B, write 2 B, and three states of 4 B read and written: 30 kB at 1 GB/s.
  EXPECT_DOUBLE_EQ(cost.update(graph, {.kind = OperatorKind::adamw, .reads = {0}, .writes = {1, 2, 3, 4}}), 30e-6);
}

TEST(HostCost, WhatAGraphLaunchesCanBeLaunchedOneByOne) {
  std::vector<Parameter> parameters = round_profile().parameters();
  const std::map<std::string, double> us = {
      {"host.launch", 10}, {"host.operator.forward", 20}, {"host.graph_launch", 5}};
  for (const auto& [name, value] : us) parameters.push_back({.name = name, .value = value, .unit = "us"});
  const HostCalls calls{.launches = 3, .forward = 2};
  const auto cost = [&] { return HostCost::make({"own", "", parameters}, two_nodes(100), {}).value(); };
  EXPECT_DOUBLE_EQ(cost().issue(calls), 70e-6);
  parameters.push_back({.name = "host.graphs", .value = 1, .unit = "1"});
  EXPECT_DOUBLE_EQ(cost().issue(calls), 5e-6);
  EXPECT_DOUBLE_EQ(cost().one_by_one(calls), 70e-6);
}

TEST(HostCost, AnEngineWaitsBetweenSteps) {
  std::vector<Parameter> parameters = round_profile().parameters();
  const std::map<std::string, double> us = {{"step", 100}, {"request", 1}, {"host_step", 1000}, {"host_request", 10}};
  for (const auto& [name, value] : us) parameters.push_back({.name = "serving." + name, .value = value, .unit = "us"});
  const auto step = [&](double device) {
    return HostCost::make({"own", "", parameters}, two_nodes(100), {}).value().serving_step(device, 20e-6, 8);
  };
  EXPECT_DOUBLE_EQ(step(5e-3), 5.108e-3);    // the host is done long before the GPU
  EXPECT_DOUBLE_EQ(step(0.5e-3), 1.208e-3);  // 1,000 + 8 x 10 + 20 us of the host
  parameters.push_back({.name = "serving.engine_factor", .value = 1.2, .unit = "1"});
  EXPECT_DOUBLE_EQ(step(5e-3), 6.108e-3);
  parameters.push_back({.name = "serving.stream", .value = 1, .unit = "ms"});
  EXPECT_DOUBLE_EQ(step(5e-3), 6.108e-3) << "it does not wait for what is sent";
  const HostCost training = HostCost::make(round_profile(), two_nodes(100), {}).value();
  EXPECT_EQ(training.serving_step(5e-3, 0, 8), 5e-3);
}

// The eighth of eight tokens of 1 ms is with its client after 8 ms, the first after 1.
TEST(HostCost, TokensAreSentOneAfterAnother) {
  std::vector<Parameter> parameters = round_profile().parameters();
  parameters.push_back({.name = "serving.stream", .value = 1, .unit = "ms"});
  Plan plan;
  const auto sending = [&](double requests) {
    return HostCost::make({"own", "", parameters}, two_nodes(100), plan).value().sending(requests);
  };
  const auto streaming = [&](double requests) {
    return HostCost::make({"own", "", parameters}, two_nodes(100), plan).value().streaming(requests);
  };
  EXPECT_DOUBLE_EQ(streaming(8), 8e-3);
  EXPECT_DOUBLE_EQ(sending(8), 4.5e-3);
  EXPECT_DOUBLE_EQ(sending(1), 1e-3);
  EXPECT_DOUBLE_EQ(sending(0.2), 1e-3);
  plan.inference.stream_interval = 2;
  EXPECT_DOUBLE_EQ(streaming(8), 4e-3);
  EXPECT_DOUBLE_EQ(sending(8), 2.25e-3);
  plan.inference.stream_interval = 0;
  EXPECT_EQ(streaming(8), 0);
  EXPECT_EQ(sending(8), 0);
}

TEST(HostCost, TokensWaitForTheSlowerOfLinkAndLoaders) {
  Plan plan;
  plan.input.bytes_per_token = 2;
  // 100 tokens of the rank at 50 B/s.
  EXPECT_DOUBLE_EQ(HostCost::make(round_profile(), two_nodes(100), plan)->input(100, 1600), 4);
  plan.input.loader_gbps = 8e-8;  // 10 B/s of each of two nodes: 3200 B
  EXPECT_DOUBLE_EQ(HostCost::make(round_profile(), two_nodes(100), plan)->input(100, 1600), 160);
  plan.input.bytes_per_token = 0;
  EXPECT_EQ(HostCost::make(round_profile(), two_nodes(100), plan)->input(100, 1600), 0);
}

// Launches take 4 us, operators 10 and 5 us besides, layers 100 and 50 us.
Profile host_profile(const std::map<std::string, double>& more = {}) {
  std::map<std::string, double> values = {{"launch", 4},          {"operator.forward", 10}, {"operator.backward", 5},
                                          {"layer.forward", 100}, {"layer.backward", 50},   {"synchronization", 20}};
  values.insert(more.begin(), more.end());
  return tests::with_host(tests::profile("h800"), values);
}

TEST(HostCost, ALaunchCostsTheHostWhatTheProfileStates) {
  EXPECT_FALSE(HostCost::make(round_profile(), two_nodes(100), {})->launches());
  const HostCost cost = HostCost::make(host_profile(), two_nodes(100), {}).value();
  EXPECT_TRUE(cost.launches());
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  HostCalls calls = cost.calls(block, tests::find(block, "q_a"), 1, 1);
  EXPECT_DOUBLE_EQ(cost.issue(calls), 14e-6);
  // The weight gradients of four experts are four kernels of one operator. Half of them run on another stream.
  calls = cost.calls(block, tests::find(block, "experts_down_wgrad", Phase::W), 4, 0.5);
  EXPECT_DOUBLE_EQ(calls.launches, 2);
  EXPECT_DOUBLE_EQ(cost.issue(calls), 2 * 4e-6 + 0.5 * 5e-6);
  EXPECT_EQ(cost.issue(cost.calls(block, tests::find(block, "q_a"), 0, 1)), 0);
  // Recomputed operators are those of the forward pass.
  const auto recomputed = std::ranges::find_if(block.operators, &Operator::recomputed);
  ASSERT_NE(recomputed, block.operators.end());
  EXPECT_EQ(cost.calls(block, *recomputed, 1, 1).forward, 1);
  EXPECT_DOUBLE_EQ(cost.issue({.forward_layers = 2, .backward_layers = 1}), 250e-6);
  double shares = 0;
  for (const Share& share : cost.issue_shares(calls)) shares += share.seconds;
  EXPECT_DOUBLE_EQ(shares, cost.issue(calls));
}

TEST(HostCost, TakesLongerOnASlowerProcessor) {
  constexpr double half = 0.5e6;  // host_profile() takes all numbers as microseconds
  const HostCost cost = HostCost::make(host_profile({{"speed", half}}), two_nodes(100), {}).value();
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  EXPECT_DOUBLE_EQ(cost.issue(cost.calls(block, tests::find(block, "q_a"), 1, 1)), 2 * 14e-6);
}

// Two nodes are 1 / sqrt(pi) deviations from their mean, one is the mean.
TEST(HostCost, AStepWaitsForTheSlowestHost) {
  constexpr double tenth = 0.1e6;  // as above
  const Profile profile = host_profile({{"spread", tenth}});
  const auto issue = [&](std::int64_t gpus) {
    ClusterShape cluster = two_nodes(100);
    cluster.gpus = gpus;
    return HostCost::make(profile, cluster, {})->issue({.launches = 1});
  };
  EXPECT_DOUBLE_EQ(issue(8), HostCost::make(host_profile(), two_nodes(100), {})->issue({.launches = 1}));
  EXPECT_NEAR(issue(16), issue(8) * (1 + 0.1 / std::sqrt(std::numbers::pi)), 1e-12);
  EXPECT_GT(issue(64), issue(16));
  ClusterShape rack = two_nodes(100);
  rack.gpus_per_node = 72;
  rack.gpus = 8;
  EXPECT_DOUBLE_EQ(HostCost::make(profile, rack, {})->issue({.launches = 1}), issue(16)) << "of two hosts of four";
}

TEST(HostCost, TheHostWaitsForTheCountsOfExperts) {
  const Profile profile = host_profile({{"synchronizations.moe", 2},
                                        {"synchronizations.fused.at_dispatch", 1},
                                        {"synchronizations.hybridep.at_dispatch", 1}});
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  Plan plan;
  const auto waits_at = [&] {
    const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
    std::vector<std::string> names;
    for (const Operator& op : block.operators) {
      const HostCalls calls = cost.calls(block, op, 1, 1);
      if (calls.synchronizations == 0) continue;
      EXPECT_EQ(calls.synchronizations, 2);
      EXPECT_DOUBLE_EQ(cost.idle(calls), 40e-6);
      names.push_back(op.name);
    }
    return names;
  };
  plan.parallelism.expert = 8;
  plan.stack.dispatcher = "alltoall";
  EXPECT_THAT(waits_at(), testing::ElementsAre("router_choice"));
  plan.stack.dispatcher = "deepep";  // of which this software states nothing
  EXPECT_THAT(waits_at(), testing::ElementsAre("router_choice"));
  plan.stack.fused = {"permute"};
  EXPECT_THAT(waits_at(), testing::ElementsAre("dispatch"));
  plan.stack.fused.clear();
  plan.stack.dispatcher = "hybridep";
  EXPECT_THAT(waits_at(), testing::ElementsAre("dispatch"));
  plan.parallelism.expert = 1;  // nothing is sent
  EXPECT_THAT(waits_at(), testing::ElementsAre("router_choice"));
  plan.routing.pad_to_capacity = true;
  EXPECT_THAT(waits_at(), testing::IsEmpty());
}

// What has arrived is counted before it is permuted, in addition to the wait for the router's choice.
TEST(HostCost, TheHostMayWaitForWhatADispatchBrings) {
  const Profile profile = host_profile({{"synchronizations.moe", 1},
                                        {"synchronizations.hybridep.at_permute", 2},
                                        {"synchronizations.deepep.at_permute", 3},
                                        {"synchronizations.deepep.fused.at_permute", 0}});
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  Plan plan;
  const auto waits = [&](const std::string& name) {
    return HostCost::make(profile, two_nodes(100), plan).value().calls(block, tests::find(block, name), 1, 1).drains;
  };
  plan.parallelism.expert = 8;
  plan.stack.dispatcher = "alltoall";
  EXPECT_EQ(waits("permute"), 0);
  plan.stack.dispatcher = "deepep";
  EXPECT_EQ(waits("permute"), 3);
  plan.stack.fused = {"permute"};
  EXPECT_EQ(waits("permute"), 0);
  plan.stack.dispatcher = "hybridep";  // whether the permutation is fused or not
  EXPECT_EQ(waits("permute"), 2);
  EXPECT_EQ(waits("dispatch"), 0);
  plan.parallelism.expert = 1;
  EXPECT_EQ(waits("permute"), 0);
  plan.parallelism.expert = 8;
  plan.stack.graphs = {"full_iteration"};
  EXPECT_EQ(waits("permute"), 0);
}

TEST(HostCost, ADispatchOfAnySoftwareMayWait) {
  const Profile profile = host_profile({{"synchronizations.moe", 1}, {"synchronizations.at_dispatch", 1}});
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  Plan plan;
  plan.parallelism.expert = 8;
  plan.stack.dispatcher = "alltoall";
  const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
  EXPECT_EQ(cost.calls(block, tests::find(block, "dispatch"), 1, 1).synchronizations, 1);
  EXPECT_EQ(cost.calls(block, tests::find(block, "router_choice"), 1, 1).synchronizations, 0);
}

// Counts, tokens and probabilities are sent by a collective each, and gradients of the last two come back.
TEST(HostCost, EachCollectiveOfADispatchIsAnOperator) {
  const Profile profile = tests::with_constants(
      host_profile({{"graph_launch", 7}}),
      {{"host.collectives.dispatch.alltoall", 3}, {"host.collectives.dispatch_grad.alltoall", 2}});
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  Plan plan;
  const auto calls = [&](const std::string& name, Phase phase = Phase::F, double share = 1) {
    return HostCost::make(profile, two_nodes(100), plan)
        .value()
        .calls(block, tests::find(block, name, phase), 1, share);
  };
  plan.stack.dispatcher = "alltoall";
  EXPECT_EQ(calls("dispatch").forward, 3);
  EXPECT_EQ(calls("dispatch", Phase::F, 0.5).forward, 1.5);
  EXPECT_EQ(calls("dispatch_grad", Phase::I).backward, 2);
  EXPECT_EQ(calls("combine").forward, 1);
  plan.stack.graphs = {"moe_preprocess"};  // which sends the counts
  EXPECT_EQ(calls("dispatch").forward, 1);
  plan.stack.graphs.clear();
  plan.stack.dispatcher = "deepep";  // one kernel sends all of it
  EXPECT_EQ(calls("dispatch").forward, 1);
}

// 14 launches of 4 us and three operators of 10: two collectives send what one of them and twelve kernels have counted.
TEST(HostCost, ADispatchCountsBeforeItWaits) {
  const Profile profile =
      tests::with_constants(host_profile({{"synchronizations.moe", 1}, {"synchronizations.at_dispatch", 1}}),
                            {{"host.collectives.dispatch.alltoall", 3}});
  ConstantReader reader(profile);
  const double kernel = reader.value("kernel.shortest") + reader.value("kernel.launch_gap");
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  Plan plan;
  plan.parallelism.expert = 8;
  const auto around = [&](double launches, double share) {
    const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
    return cost.dispatching(cost.calls(block, tests::find(block, "dispatch"), launches, share));
  };
  constexpr double rounding = 1e-12;
  plan.stack.dispatcher = "alltoall";
  for (const double share : {1.0, 0.5}) {
    EXPECT_NEAR(around(14, share).before, share * 58e-6, rounding);
    EXPECT_NEAR(around(14, share).first, share * 14e-6, rounding);
    EXPECT_NEAR(around(14, share).others, share * 14e-6, rounding);
    EXPECT_NEAR(around(14, share).counted, share * 12 * kernel, rounding);
  }
  plan.stack.dispatcher = "deepep";  // an operator of three kernels, of which the last one sends
  EXPECT_NEAR(around(3, 1).before, 18e-6, rounding);
  EXPECT_NEAR(around(3, 1).first, 4e-6, rounding);
  EXPECT_NEAR(around(3, 1).others, 0, rounding);
  EXPECT_NEAR(around(3, 1).counted, 2 * kernel, rounding);
}

TEST(HostCost, RowsOfAnAllToAllAreSortedPieceByPiece) {
  const Profile profile = host_profile({{"view", 2}});
  LayerContext rank = tests::deepseek_rank(Precision::bf16);
  rank.dispatcher = Dispatcher::alltoall;
  Plan plan;
  plan.stack.dispatcher = "alltoall";
  const auto views = [&](const std::string& name, Phase phase = Phase::F) {
    const Graph block = make_block(BlockKind::moe_layer, rank);
    const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
    return cost.calls(block, tests::find(block, name, phase), 1, 1).views;
  };
  // 256 experts, four on each rank: tokens, probabilities and results.
  EXPECT_EQ(views("permute"), 3 * 256);
  EXPECT_EQ(views("permute_grad", Phase::I), 3 * 256);
  EXPECT_EQ(views("copy_tokens"), 0);
  const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
  EXPECT_DOUBLE_EQ(cost.issue({.launches = 1, .forward = 1, .views = 3 * 256}), 14e-6 + 3 * 256 * 2e-6);
  plan.parallelism.expert_tensor = 2;
  EXPECT_EQ(views("permute"), 2 * 3 * 256);
  plan.stack.fused = {"permute"};
  EXPECT_EQ(views("permute"), 0);
  plan.stack.fused.clear();
  plan.routing.pad_to_capacity = true;
  EXPECT_EQ(views("permute"), 0);
  rank.dispatcher = Dispatcher::deepep;
  plan.routing.pad_to_capacity = false;
  EXPECT_EQ(views("permute"), 0);
}

// Four experts on each rank, whose attributes, splits and gradients are Python's and autograd's one by one.
TEST(HostCost, GroupedGemmsAskForEachExpert) {
  const Profile profile =
      host_profile({{"expert", 3}, {"quantized_expert", 5}, {"nvfp4_expert", 7}, {"fused_expert", 2}});
  const auto seconds = [&](const std::string& name, Phase phase, Precision experts,
                           const std::vector<std::string>& fused = {}) {
    Plan plan;
    plan.precision.experts = experts;
    plan.stack.fused = fused;
    const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
    const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(experts));
    const HostCalls calls = cost.calls(block, tests::find(block, name, phase), 0.5, 1);
    return cost.one_by_one({.experts = calls.experts});
  };
  EXPECT_DOUBLE_EQ(seconds("experts_down", Phase::F, Precision::bf16), 4 * 3e-6);
  EXPECT_DOUBLE_EQ(seconds("experts_down_dgrad", Phase::I, Precision::bf16), 4 * 3e-6);
  EXPECT_DOUBLE_EQ(seconds("experts_down_wgrad", Phase::W, Precision::bf16), 4 * 3e-6);
  EXPECT_DOUBLE_EQ(seconds("experts_gate_up", Phase::F, Precision::fp8), 4 * 5e-6);
  EXPECT_DOUBLE_EQ(seconds("experts_gate_up", Phase::F, Precision::nvfp4), 4 * 7e-6);
  for (const Precision experts : {Precision::mxfp8, Precision::nvfp4})
    EXPECT_DOUBLE_EQ(seconds("experts_gate_up", Phase::F, experts, {"permute", "experts"}), 4 * 2e-6);
  EXPECT_DOUBLE_EQ(seconds("experts_gate_up", Phase::F, Precision::mxfp8, {"permute"}), 4 * 5e-6);
  EXPECT_EQ(seconds("q_a", Phase::F, Precision::bf16), 0);
}

TEST(HostCost, WhatIsAllocatedMayBeFilled) {
  const HostCost cost = HostCost::make(host_profile({{"fills", 1.5}}), two_nodes(100), {}).value();
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  EXPECT_EQ(cost.calls(block, tests::find(block, "q_a"), 1, 1).launches, 2.5);
  EXPECT_EQ(cost.calls(block, tests::find(block, "q_a"), 1, 0.5).launches, 1.25);
  EXPECT_EQ(cost.calls(block, tests::find(block, "q_a"), 0, 1).launches, 0);  // computed by another's kernel
}

TEST(HostCost, StagesOfSeveralChunksDoNotWaitForMessages) {
  const Profile profile = host_profile({{"synchronizations.slot", 1}});
  Plan plan;
  const auto waits = [&] { return HostCost::make(profile, two_nodes(100), plan)->slot_calls().synchronizations; };
  EXPECT_EQ(waits(), 0);
  plan.parallelism.pipeline = 4;
  EXPECT_EQ(waits(), 1);
  plan.schedule.virtual_stages = 2;
  EXPECT_EQ(waits(), 0);
}

TEST(HostCost, MessagesBetweenStagesAreIssued) {
  const Profile profile = host_profile({{"messages", 2}});
  Plan plan;
  const auto calls = [&] { return HostCost::make(profile, two_nodes(100), plan)->slot_calls(); };
  EXPECT_EQ(calls().launches, 0);
  EXPECT_EQ(calls().forward, 0);
  plan.parallelism.pipeline = 4;
  plan.schedule.virtual_stages = 2;
  EXPECT_EQ(calls().launches, 2);
  EXPECT_EQ(calls().forward, 2);
}

TEST(HostCost, APlanMayStateTheSpeedOfTheHost) {
  Plan plan;
  const Profile profile = host_profile({{"graphs", 1}, {"graph_launch", 7}});
  plan.cluster.host_speed = 0.5;
  EXPECT_DOUBLE_EQ(HostCost::make(profile, two_nodes(100), plan)->issue({.launches = 100}), 14e-6);
}

TEST(HostCost, AGraphIsOneLaunch) {
  const HostCost cost = HostCost::make(host_profile({{"graphs", 1}, {"graph_launch", 7}}), two_nodes(100), {}).value();
  EXPECT_DOUBLE_EQ(cost.issue({.launches = 100, .forward = 80, .forward_layers = 4}), 7e-6);
}

TEST(HostCost, WhatIsCapturedIsOneLaunchOfALayer) {
  Plan plan;
  const Profile profile = host_profile({{"graph_launch", 7}, {"synchronizations.moe", 2}});
  const Graph block = make_block(BlockKind::moe_layer, tests::deepseek_rank(Precision::bf16));
  const auto launches = [&](const std::string& name) {
    const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
    return cost.calls(block, tests::find(block, name), 5, 1).launches;
  };
  EXPECT_EQ(launches("router_choice"), 5);
  plan.stack.dispatcher = "alltoall";
  plan.stack.graphs = {"attn", "moe_router", "moe_preprocess"};
  for (const char* name : {"q_a", "attention", "router", "router_choice", "shared_down"}) EXPECT_EQ(launches(name), 0);
  EXPECT_EQ(launches("dispatch"), 1);
  EXPECT_EQ(launches("experts_down"), 5);
  const HostCost cost = HostCost::make(profile, two_nodes(100), plan).value();
  EXPECT_EQ(cost.calls(block, tests::find(block, "router_choice"), 5, 1).synchronizations, 2);
  // An operator of 10 us, a graph, and the layer's own 100 us.
  EXPECT_DOUBLE_EQ(cost.issue(cost.layer_calls(true)), 117e-6);
  // What a graph reads is copied by the operator that launches it.
  Graph copies = block;
  copies.operators.front().name = "graph_input";
  const HostCalls copy = cost.calls(copies, copies.operators.front(), 1, 1);
  EXPECT_EQ(std::tuple(copy.launches, copy.forward), std::tuple(1, 0));
  plan.stack.graphs = {"mlp"};
  EXPECT_EQ(launches("experts_down"), 5);
  plan.stack.graphs = {"full_iteration"};
  const HostCost whole = HostCost::make(profile, two_nodes(100), plan).value();
  EXPECT_DOUBLE_EQ(whole.issue({.launches = 100, .forward_layers = 3}), 7e-6);
  EXPECT_EQ(whole.calls(block, tests::find(block, "router_choice"), 5, 1).synchronizations, 0);
}

TEST(HostCost, AnUnknownLinkCarriesNoStates) {
  Plan plan;
  EXPECT_EQ(HostCost::make(round_profile(), two_nodes(0), plan)->input(100, 1600), 0);
  plan.offload.optimizer = true;
  const auto refused = HostCost::make(round_profile(), two_nodes(0), plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::infeasible);
  EXPECT_EQ(refused.error().key, "offload.optimizer");
  plan.offload.optimizer = false;
  plan.offload.activations = 0.25;
  EXPECT_EQ(HostCost::make(round_profile(), two_nodes(0), plan).error().key, "offload.activations");
  plan.offload.activations = 0;
  plan.optimizer.ema = "host";
  EXPECT_EQ(HostCost::make(round_profile(), two_nodes(0), plan).error().key, "optimizer.ema");
}

}  // namespace
}  // namespace plumbline::model
