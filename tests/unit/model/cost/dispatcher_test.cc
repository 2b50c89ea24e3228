// How tokens reach experts: what each dispatcher sends, and the kernels before and after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "model/cost/communication_cost.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/costs.h"
#include "tests/support/load_cluster.h"

namespace plumbline::model {
namespace {

using tests::deepseek_rank;
using tests::find;
using tests::profile;
using tests::shipped;

LayerContext rank(Dispatcher dispatcher, Precision precision = Precision::bf16) {
  LayerContext context = deepseek_rank(precision);
  context.dispatcher = dispatcher;
  return context;
}

Graph layer(const LayerContext& context) { return make_block(BlockKind::moe_layer, context); }

bool has(const Graph& graph, const std::string& name) {
  return std::ranges::any_of(graph.operators, [&](const Operator& op) { return op.name == name; });
}

std::size_t position(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.operators, name, &Operator::name);
  return static_cast<std::size_t>(found - graph.operators.begin());
}

std::int64_t rows(const Graph& graph, TensorId id) { return graph.tensor(id).shape[0].size; }

CommunicationCost cost(Dispatcher dispatcher, const std::string& name = "h800") {
  const ClusterShape cluster =
      tests::load_cluster(shipped("topologies/h800-rail-fat-tree.toml"), shipped("topologies/devices"), {.gpus = 2048})
          .value();
  return CommunicationCost::make(profile(name), cluster, {{7.5, 4}, 64}, {.dispatcher = dispatcher}).value();
}

TEST(Dispatcher, AllToAllSendsATokenOncePerExpert) {
  const Graph graph = layer(rank(Dispatcher::alltoall));
  const Operator& dispatch = find(graph, "dispatch");
  EXPECT_EQ(rows(graph, dispatch.reads[0]), 4096 * 8);
  EXPECT_EQ(rows(graph, dispatch.writes[0]), 4096 * 8);  // as many as the other ranks send to this one
  // 7168 values of 2 bytes and the weight of a copy.
  EXPECT_EQ(std::get<DispatchAttributes>(dispatch.attributes).token_bytes, 7168 * 2 + 4);
  EXPECT_EQ(rows(graph, find(graph, "combine").writes[0]), 4096 * 8);
  EXPECT_EQ(rows(graph, find(graph, "sum_copies").writes[0]), 4096);
  EXPECT_EQ(rows(layer(rank(Dispatcher::deepep)), find(layer(rank(Dispatcher::deepep)), "dispatch").reads[0]), 4096);
}

// Of experts that work in a latent its columns are sent and come back; each rank projects its own tokens, and adds what
// it has back to the stream itself.
TEST(Dispatcher, TokensOfALatentAreSent) {
  for (const Dispatcher dispatcher : {Dispatcher::deepep, Dispatcher::alltoall}) {
    LayerContext context = rank(dispatcher);
    context.architecture.experts.latent_size = 1024;
    const Graph graph = layer(context);
    EXPECT_EQ(check(graph), "");
    const Graph whole = layer(rank(dispatcher));
    const auto token_bytes = [](const Graph& of, const char* name) {
      const Phase phase = std::string_view(name).ends_with("_grad") ? Phase::I : Phase::F;
      return std::get<DispatchAttributes>(find(of, name, phase).attributes).token_bytes;
    };
    for (const char* name : {"dispatch", "combine", "dispatch_grad", "combine_grad"})
      EXPECT_EQ(token_bytes(whole, name) - token_bytes(graph, name), (7168 - 1024) * 2) << name;
    EXPECT_EQ(graph.tensor(find(graph, "experts_gate_up").reads[1]).shape[2].size, 1024);
    EXPECT_EQ(graph.tensor(find(graph, "latent_down").writes[0]).shape[1].size, 1024);
    EXPECT_EQ(rows(graph, find(graph, "latent_up").reads[0]), 4096);
    EXPECT_LT(position(graph, "router"), position(graph, "latent_down"));
    EXPECT_LT(position(graph, "combine"), position(graph, "latent_up"));
    EXPECT_EQ(find(graph, "add_moe").reads.size(), 3U);  // the stream, shared experts and routed ones
    // Of a captured router the gradient of the tokens is copied, not that of latents.
    context.captured_parts = context.captured_router = true;
    const Graph captured = layer(context);
    EXPECT_EQ(check(captured), "");
    EXPECT_TRUE(has(captured, "graph_gradient_latent_down"));
    EXPECT_FALSE(has(captured, "graph_gradient_dispatch") || has(captured, "graph_gradient_copy_tokens"));
  }
}

// In inference the kernel that combines adds to the stream, whatever moves the tokens, unless latents come back.
TEST(Dispatcher, PassesOfInferenceAddAsTheyCombine) {
  for (const Dispatcher dispatcher : {Dispatcher::deepep, Dispatcher::alltoall}) {
    LayerContext context = rank(dispatcher);
    context.inference = {.kind = InferencePass::Kind::prefill, .requests = 1, .new_tokens = context.tokens};
    const Graph graph = layer(context);
    EXPECT_EQ(find(graph, "combine").reads.size(), 4U);  // sums, indices, the stream and shared experts
    EXPECT_FALSE(has(graph, "add_moe"));
    context.architecture.experts.latent_size = 1024;
    EXPECT_EQ(find(layer(context), "add_moe").reads.size(), 3U);
  }
}

// Copies arrive by source; with one expert on a rank that is their order, else they are sorted.
TEST(Dispatcher, RowsAreSortedWhereARankHasSeveralExperts) {
  EXPECT_TRUE(has(layer(rank(Dispatcher::alltoall)), "permute"));
  LayerContext alone = rank(Dispatcher::alltoall);
  alone.expert_parallel = 256;
  for (const Precision precision : {Precision::bf16, Precision::fp8}) {
    alone.gemm = alone.dispatch = precision;
    const Graph graph = layer(alone);
    EXPECT_FALSE(has(graph, "permute"));
    EXPECT_TRUE(has(graph, "copy_tokens"));
    EXPECT_EQ(check(graph), "");
  }
}

TEST(Dispatcher, MegatronKeepsTheRowsOfItsExperts) {
  EXPECT_TRUE(has(layer(rank(Dispatcher::deepep)), "gather_expert_rows"));
  for (const Dispatcher dispatcher : {Dispatcher::hybridep, Dispatcher::alltoall, Dispatcher::allgather})
    EXPECT_FALSE(has(layer(rank(dispatcher)), "gather_expert_rows"));
}

// Rows are copied as they arrive. One kernel casts them to MXFP8 in both layouts, so that nothing is gathered again; to
// NVFP4 it is one for each.
TEST(Dispatcher, RowsThatArriveInSixteenBitsAreCast) {
  LayerContext context = rank(Dispatcher::hybridep, Precision::mxfp8);
  context.dispatch = Precision::bf16;
  context.recompute = {};
  const Graph graph = layer(context);
  EXPECT_EQ(check(graph), "");
  EXPECT_EQ(graph.tensor(find(graph, "permute").writes[0]).type, DataType::bf16);
  EXPECT_DOUBLE_EQ(bytes_moved(graph, find(graph, "cast_experts_gate_up"), 1).value(),
                   4096 * 8 * 7168 * (2 + 2 * 1.03125));
  for (const char* apart : {"gather_expert_rows", "cast_transpose_experts_swiglu", "cast_transpose_d_experts_down",
                            "cast_transpose_d_shared_down"})
    EXPECT_FALSE(has(graph, apart)) << apart;
  context.recompute = {RecomputeGroup::swiglu};  // which keeps neither layout
  EXPECT_EQ(check(layer(context)), "");
  EXPECT_TRUE(has(layer(context), "cast_transpose_experts_swiglu"));
  context = rank(Dispatcher::hybridep, Precision::nvfp4);
  context.dispatch = Precision::bf16;
  EXPECT_TRUE(has(layer(context), "gather_expert_rows"));
  EXPECT_TRUE(has(layer(context), "cast_transpose_d_experts_down"));
}

TEST(Dispatcher, SharedExpertsOverlapWithDeepEpOnly) {
  const Graph deepep = layer(rank(Dispatcher::deepep)), alltoall = layer(rank(Dispatcher::alltoall));
  EXPECT_GT(position(deepep, "shared_gate_up"), position(deepep, "dispatch"));
  EXPECT_LT(position(alltoall, "shared_gate_up"), position(alltoall, "router"));
  LayerContext in_order = rank(Dispatcher::deepep), overlapped = rank(Dispatcher::alltoall);
  in_order.dispatch_overlap = false;
  overlapped.dispatch_overlap = true;
  EXPECT_LT(position(layer(in_order), "shared_gate_up"), position(layer(in_order), "router"));
  EXPECT_GT(position(layer(overlapped), "shared_gate_up"), position(layer(overlapped), "dispatch"));
}

// CUDA graphs read buffers of their own: of a layer's input, and of the gradients of what they computed.
TEST(Dispatcher, GraphsOfALayersPartsCopyWhatTheyRead) {
  const auto copies = [](const LayerContext& context) {
    const Graph graph = layer(context);
    EXPECT_EQ(check(graph), "");
    std::pair<int, int> forward_backward;
    for (const Operator& op : graph.operators)
      if (op.name.starts_with("graph_")) {
        ++(op.phase == Phase::F ? forward_backward.first : forward_backward.second);
        // 4096 tokens of 7168 numbers in BF16.
        EXPECT_EQ(graph.tensor(op.reads.at(0)).bytes().value(), 4096.0 * 7168 * 2);
        EXPECT_EQ(graph.tensor(op.writes.at(0)).bytes().value(), 4096.0 * 7168 * 2);
      }
    return forward_backward;
  };
  LayerContext context = rank(Dispatcher::alltoall);
  EXPECT_EQ(copies(context), std::pair(0, 0));
  context.captured_parts = true;
  EXPECT_EQ(copies(context), std::pair(1, 1));
  // The tokens, the stream and the shared experts, which do not overlap.
  context.captured_router = true;
  EXPECT_EQ(copies(context), std::pair(1, 3));
  context.dispatcher = Dispatcher::deepep;
  EXPECT_EQ(copies(context), std::pair(1, 2));
  context.recompute.insert(RecomputeGroup::moe);
  EXPECT_EQ(copies(context), std::pair(1, 2));
}

TEST(Dispatcher, GraphsAreSoundInEveryFormat) {
  for (const Dispatcher dispatcher : {Dispatcher::hybridep, Dispatcher::alltoall, Dispatcher::allgather})
    for (const Precision precision : {Precision::bf16, Precision::fp8, Precision::mxfp8, Precision::fp8_tensor})
      for (const std::int64_t expert_tensor : {1, 2}) {
        LayerContext context = rank(dispatcher, precision);
        context.expert_tensor = expert_tensor;
        EXPECT_EQ(check(layer(context)), "");
        context.dispatch = Precision::bf16;
        context.recompute.insert(RecomputeGroup::moe);
        EXPECT_EQ(check(layer(context)), "");
      }
}

// Each rank that shares an expert brings another number of rows, unless experts are padded.
TEST(Dispatcher, RowsOfRanksThatShareExpertsAreUneven) {
  const auto uneven = [](Dispatcher dispatcher, bool padded) {
    LayerContext context = rank(dispatcher);
    context.expert_tensor = 2;
    context.even_rows = padded;
    std::set<bool> found;
    for (const Operator& op : layer(context).operators)
      if (const auto* group = std::get_if<CollectiveAttributes>(&op.attributes)) found.insert(group->uneven);
    return found;
  };
  EXPECT_EQ(uneven(Dispatcher::alltoall, false), std::set{true});
  EXPECT_EQ(uneven(Dispatcher::alltoall, true), std::set{false});
  EXPECT_EQ(uneven(Dispatcher::deepep, false), std::set{false});
}

// A dispatch of HybridEP brings a probability for each of the 32 experts of a node, and the backward pass their
// gradients; a token goes to 7.5 ranks, of which one in eight is where it arrives on a node.
TEST(Dispatcher, HybridEpSendsProbabilitiesOfAllExpertsOfANode) {
  const Graph graph = layer(rank(Dispatcher::hybridep));
  const CommunicationCost by = cost(Dispatcher::hybridep);
  const auto bytes = [&](const char* name, Phase phase = Phase::F) {
    return by.all_to_all(graph, find(graph, name, phase)).node_bytes;
  };
  const double tokens = 4096 * 7.5 * 7 / 8, payload = 7168 * 2;
  EXPECT_DOUBLE_EQ(bytes("dispatch"), tokens * (payload + 4 * 32));
  EXPECT_DOUBLE_EQ(bytes("combine"), tokens * payload);
  EXPECT_DOUBLE_EQ(bytes("combine_grad", Phase::I), tokens * payload);
  EXPECT_DOUBLE_EQ(bytes("dispatch_grad", Phase::I), tokens * (payload + 4 * 32));
}

// Before a dispatch of HybridEP each of 64 ranks looks through the 4096 tokens of all for those of its 4 experts.
TEST(Dispatcher, HybridEpMapsTheTokensOfItsGroup) {
  const ClusterShape cluster =
      tests::load_cluster(shipped("topologies/h800-rail-fat-tree.toml"), shipped("topologies/devices"), {.gpus = 2048})
          .value();
  const auto prepares = [&](Dispatcher dispatcher, double token_ns, double expert_ns) {
    std::vector<Parameter> constants = profile("h800").parameters();
    constants.push_back({.name = "exchange.hybridep.map_time", .value = token_ns, .unit = "ns"});
    constants.push_back({.name = "exchange.hybridep.map_expert_time", .value = expert_ns, .unit = "ns"});
    const Graph graph = layer(rank(dispatcher));
    return CommunicationCost::make(Profile("mapping", "", constants), cluster, {{7.5, 4}, 64},
                                   {.dispatcher = dispatcher})
        .value()
        .all_to_all(graph, find(graph, "dispatch"))
        .prepare;
  };
  const double some = prepares(Dispatcher::hybridep, 0.5, 0.1), tokens = 4096.0 * 64;
  const double gather =
      cost(Dispatcher::hybridep).collectives().time(Collective::all_gather, {64, 8}, Bytes(tokens * 256));
  EXPECT_GT(some, gather);
  EXPECT_NEAR(prepares(Dispatcher::hybridep, 1.5, 0.1) - some, tokens * 1e-9, 1e-12);
  EXPECT_NEAR(prepares(Dispatcher::hybridep, 0.5, 0.3) - some, tokens * 4 * 0.2e-9, 1e-12);
  EXPECT_EQ(prepares(Dispatcher::deepep, 1.5, 0.1), prepares(Dispatcher::deepep, 0.5, 0.1));
}

// 64 ranks on 8 nodes of an H800: an all-to-all of 4096 * 8 rows, a second one for the weights, and counts before it.
TEST(Dispatcher, AllToAllCostsWhatNcclTakes) {
  const Graph graph = layer(rank(Dispatcher::alltoall));
  const CommunicationCost by = cost(Dispatcher::alltoall);
  const CollectiveGroup group{64, 8};
  const Bytes sent(4096.0 * 8 * (7168 * 2 + 4)), back(4096.0 * 8 * 7168 * 2);
  const AllToAllTime dispatch = by.all_to_all(graph, find(graph, "dispatch"));
  const auto time = [&](Collective kind, Bytes bytes) { return by.collectives().time(kind, group, bytes); };
  EXPECT_DOUBLE_EQ(dispatch.alone, time(Collective::all_to_all, sent) + time(Collective::all_to_all, Bytes(0)));
  EXPECT_DOUBLE_EQ(dispatch.network, dispatch.alone);
  EXPECT_DOUBLE_EQ(dispatch.network_bytes, sent.value() * 56 / 64);
  EXPECT_DOUBLE_EQ(dispatch.prepare, time(Collective::all_gather, Bytes(4.0 * 256 * 64)));
  const AllToAllTime combine = by.all_to_all(graph, find(graph, "combine"));
  EXPECT_DOUBLE_EQ(combine.alone, time(Collective::all_to_all, back));
  EXPECT_EQ(combine.prepare, 0);
  EXPECT_LE(by.all_to_all_at_best(graph, find(graph, "combine")).network, combine.alone);
  // Twice the nodes of the deduplicated transfer, in less than three times its time: 8 copies instead of 4.
  const Graph other = layer(rank(Dispatcher::deepep));
  EXPECT_GT(combine.alone, cost(Dispatcher::deepep).all_to_all(other, find(other, "combine")).alone);
}

TEST(Dispatcher, AGatherBringsTheTokensOfAllRanks) {
  const Graph graph = layer(rank(Dispatcher::allgather));
  const Operator& dispatch = find(graph, "dispatch");
  EXPECT_EQ(rows(graph, dispatch.writes[0]), 4096 * 64);
  const CommunicationCost by = cost(Dispatcher::allgather);
  const Bytes all(4096.0 * 64 * 7168 * 2);
  EXPECT_DOUBLE_EQ(by.all_to_all(graph, find(graph, "combine")).alone,
                   by.collectives().time(Collective::reduce_scatter, {64, 8}, all));
}

TEST(Dispatcher, CollectivesHoldTheSmsOfTheirChannels) {
  const CommunicationCost by = cost(Dispatcher::alltoall);
  EXPECT_EQ(by.communication_sms(), std::min<std::int64_t>(by.collective_sms(), 66));
}

// Half of a factor of 0.5 is dropped; a factor of 1.25 pads every expert where the plan pads.
TEST(Dispatcher, CapacityLimitsRows) {
  Plan plan = load_plan(shipped("examples/deepseek-v3-2048xh800.toml"), {}).value();
  const Architecture model = deepseek_rank(Precision::bf16).architecture;
  const auto rows_of = [&] {
    return plan_context(plan, model, make_layout(plan, model).value(), {7.5, 4}).expert_rows();
  };
  EXPECT_EQ(rows_of(), 4096 * 8);
  plan.routing.capacity_factor = 0.5;
  EXPECT_EQ(rows_of(), 4096 * 4);
  plan.routing.capacity_factor = 1.25;
  EXPECT_EQ(rows_of(), 4096 * 8);
  plan.routing.pad_to_capacity = true;
  EXPECT_EQ(rows_of(), 4096 * 10);
}

}  // namespace
}  // namespace plumbline::model
