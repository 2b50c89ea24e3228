#include "model/cost/communication_cost.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/cost/measured_operators.h"
#include "model/cost/operator_class.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"
#include "tests/support/load_cluster.h"

namespace plumbline::model {
namespace {

using tests::deepseek_rank;
using tests::find;
using tests::profile;
using tests::profile_names;
using tests::profile_with;
using tests::shipped;

ClusterShape h800_cluster(std::optional<double> nic_gbps = std::nullopt) {
  return tests::load_cluster(shipped("topologies/h800-rail-fat-tree.toml"), shipped("topologies/devices"),
                             {.gpus = 2048, .nic_gbps = nic_gbps})
      .value();
}

constexpr RoutingSpread round_spread{.ranks_per_token = 7.5, .nodes_per_token = 4};

class AllToAlls : public testing::Test {
 protected:
  const Graph layer_ = make_block(BlockKind::moe_layer, deepseek_rank(Precision::fp8));
  // SMs limit only in tests that set their constants.
  const Profile round_ = profile_with({{"exchange.dispatch.rank_rate", 1e9},
                                       {"exchange.dispatch.row_time", 0},
                                       {"exchange.dispatch.token_time", 0},
                                       {"exchange.combine.node_rate", 1e9},
                                       {"exchange.combine.rank_rate", 1e9},
                                       {"exchange.combine.token_time", 0},
                                       {"exchange.dispatch.nic_rate", 40},
                                       {"exchange.dispatch.nic_rate_beside_compute", 25},
                                       {"exchange.combine.nic_rate", 40},
                                       {"exchange.nvlink_rate", 160},
                                       {"exchange.notify", 100},
                                       {"exchange.layout", 80},
                                       {"exchange.host_round_trip", 30},
                                       {"network.nic_rate", 44},
                                       {"network.nvlink_rate", 150},
                                       {"network.latency", 4}});
  CommunicationCost cost(std::int64_t expert_parallel = 64, const CommunicationCost::Kernels& kernels = {},
                         std::optional<double> nic_gbps = std::nullopt) const {
    return CommunicationCost::make(round_, h800_cluster(nic_gbps), {round_spread, expert_parallel}, kernels).value();
  }
  AllToAllTime time(const CommunicationCost& by, const std::string& name, Phase phase = Phase::F) const {
    return by.all_to_all(layer_, find(layer_, name, phase));
  }
};

TEST_F(AllToAlls, Dispatch) {
  // A token has 7168 FP8 values with scales, 8 B of source and 8 experts * 8 B = 7464 B, and goes to 4 nodes of which
  // 7/8 are others: 107.0 MB over the NIC. NVLink: 7.5 ranks, 7/8 of them other than where it arrives: 200.6 MB.
  const double token = 7168 * 33 / 32.0 + 8 + 64;
  const double network = 4096 * token * 4 * 7 / 8;
  const AllToAllTime dispatch = time(cost(), "dispatch");
  EXPECT_DOUBLE_EQ(dispatch.alone, network / 40e9);
  EXPECT_DOUBLE_EQ(dispatch.overlapped, network / 25e9);
  EXPECT_DOUBLE_EQ(dispatch.notify, 100e-6);
  EXPECT_DOUBLE_EQ(dispatch.prepare, 110e-6);
  EXPECT_GT(dispatch.alone, 4096 * token * 7.5 * 7 / 8 / 160e9);
}

TEST_F(AllToAlls, CombineInBf16WithoutPreparation) {
  const AllToAllTime combine = time(cost(), "combine");
  EXPECT_DOUBLE_EQ(combine.alone, 4096 * (7168 * 2.0 + 8) * 4 * 7 / 8 / 40e9);
  EXPECT_EQ(combine.prepare, 0);
}

TEST_F(AllToAlls, WithinANodeNvlinkCarriesAll) {
  // All 8 ranks are in one node, so nothing crosses the NIC.
  const double token = 7168 * 33 / 32.0 + 8 + 64;
  EXPECT_DOUBLE_EQ(time(cost(8), "dispatch").alone, 4096 * token * 7.5 * 7 / 8 / 160e9);
}

// Four ranks of one computer have no NIC: 1.75 ranks a token, 3/4 of them others, at 4 GB/s, and no core for
// communication.
TEST_F(AllToAlls, WithoutNicsMemoryCarriesAllAndNothingIsUndefined) {
  const ClusterShape host =
      tests::load_cluster(shipped("topologies/host.toml"), shipped("topologies/devices"), {}).value();
  const Profile by_datasheet = profile("host-datasheet");
  const auto all_to_alls = [&](std::int64_t sms) {
    return CommunicationCost::make(by_datasheet, host, {{1.75, 1}, 4}, {.sms = sms}).value();
  };
  const AllToAllTime dispatch = time(all_to_alls(0), "dispatch");
  const double token = 7168 * 33 / 32.0 + 8 + 64;
  EXPECT_DOUBLE_EQ(dispatch.alone, 4096 * token * 1.75 * 3 / 4 / 4e9);
  EXPECT_EQ(dispatch.overlapped, dispatch.alone);
  EXPECT_EQ(dispatch.network, 0);
  EXPECT_EQ(dispatch.network_overlapped, 0);
  EXPECT_EQ(all_to_alls(0).all_to_all_at_best(layer_, find(layer_, "dispatch")).network, 0);
  EXPECT_EQ(all_to_alls(0).communication_sms(), 0);
  EXPECT_EQ(all_to_alls(0).collective_sms(), 0);
  EXPECT_EQ(all_to_alls(1).communication_sms(), 1);  // a plan may reserve some
  EXPECT_EQ(time(all_to_alls(1), "dispatch").alone, dispatch.alone);
}

TEST_F(AllToAlls, OneRankExchangesNothingMoreThanOneAlwaysDo) {
  EXPECT_EQ(time(cost(1), "dispatch").alone, 0);
  EXPECT_EQ(time(cost(1), "dispatch").notify, 0);
  for (const std::int64_t ranks : {2, 8, 16, 64}) EXPECT_GT(time(cost(ranks), "dispatch").alone, 0) << ranks;
}

// DeepEP on the H800 profile: with two SMs their work is all that counts, with 24 it is next to nothing.
TEST_F(AllToAlls, FewerSmsThanTheFamilyNeedsSlowItDown) {
  const Profile h800 = profile("h800");
  const auto with = [&](std::int64_t sms, std::int64_t ranks = 64) {
    return CommunicationCost::make(h800, h800_cluster(), {round_spread, ranks}, {.sms = sms}).value();
  };
  for (const std::int64_t ranks : {8, 64})
    EXPECT_NEAR(time(with(2, ranks), "dispatch").alone, 2 * time(with(4, ranks), "dispatch").alone,
                5e-3 * time(with(2, ranks), "dispatch").alone);
  EXPECT_NEAR(time(with(24), "dispatch").alone, time(with(64), "dispatch").alone,
              1e-3 * time(with(64), "dispatch").alone);
  EXPECT_EQ(with(24).communication_sms(), 24);
  // One SM: 4,096 tokens of 7,464 B to 7.5 ranks, of which an SM forwards 15.4 GB/s, 57.2 ns a row, 398 ns a token.
  const double work = 4096 * (7464 * 7.5 / 15.4e9 + 7.5 * 57.2e-9 + 398e-9);
  EXPECT_NEAR(time(with(1), "dispatch").alone, work, 1e-6 * work);
}

TEST_F(AllToAlls, WithoutANumberOfSmsTheFamilyTakesWhatItNeeds) {
  const Profile h800 = profile("h800");
  const auto with = [&](const CommunicationCost::Kernels& kernels) {
    return CommunicationCost::make(h800, h800_cluster(), {round_spread, 64}, kernels).value();
  };
  // An even number with which no transfer alone is more than 1 % slower than with all SMs.
  const std::int64_t chosen = with({}).communication_sms();
  EXPECT_EQ(chosen % 2, 0);
  for (const char* name : {"dispatch", "combine"})
    EXPECT_LE(time(with({}), name).alone, 1.0101 * time(with({.sms = 128}), name).alone) << name;
  EXPECT_GT(time(with({.sms = chosen - 2}), "combine").alone, 1.0099 * time(with({.sms = 128}), "combine").alone);
  EXPECT_EQ(time(with({}), "dispatch").alone, time(with({.sms = chosen}), "dispatch").alone);
  EXPECT_LT(with({.family = "hybrid-ep"}).communication_sms(), chosen);
}

TEST_F(AllToAlls, AnotherFamilyHasConstantsOfItsOwn) {
  // Hybrid-EP with one SM: 11.2 GB/s for each of 4 nodes and 118 for each of 7.5 ranks; back 13.3 and 10,000.
  // Gradients likewise.
  const CommunicationCost one = cost(64, {"hybrid-ep", 1});
  const double out = 4096 * 7464.0 * (4 / 11.2e9 + 7.5 / 118e9), back = 4096 * 14344.0 * (4 / 13.3e9 + 7.5 / 1e13);
  EXPECT_NEAR(time(one, "dispatch").alone, out, 1e-3 * out);  // the links add next to nothing
  EXPECT_NEAR(time(one, "combine").alone, back, 1e-3 * back);
  EXPECT_GT(time(one, "combine_grad", Phase::I).alone, 0.95 * out);
  EXPECT_GT(time(one, "dispatch_grad", Phase::I).alone, 0.95 * back);
}

// Overlapped with compute the SMs' work slows down as the transfer does.
TEST_F(AllToAlls, OverlappedWithComputeTheSmsSlowDownToo) {
  const CommunicationCost one = cost(64, {"hybrid-ep", 1});
  EXPECT_NEAR(time(one, "dispatch").overlapped, time(one, "dispatch").alone * 40 / 25, 1e-9);
}

// Within a rack every token is also moved once in place; in a tray the rates are others.
TEST_F(AllToAlls, ATrayOfARackHasRatesOfItsOwn) {
  std::vector<Parameter> parameters = round_.parameters();
  const auto add = [&](const char* name, double value, const char* unit) {
    parameters.push_back({name, value, unit, Evidence::assumed, "a test"});
  };
  add("exchange.local_rate", 100, "GB/s");
  add("exchange.tray.gpus", 4, "1");
  add("exchange.tray.nvlink_rate", 80, "GB/s");
  add("exchange.tray.local_rate", 400, "GB/s");
  const Profile rack("rack", "", parameters);
  const double bytes = 4096 * (7168 * 33 / 32.0 + 8 + 64);
  const auto alone = [&](std::int64_t ranks) {
    return time(CommunicationCost::make(rack, h800_cluster(), {{2, 1}, ranks}, {}).value(), "dispatch").alone;
  };
  EXPECT_DOUBLE_EQ(alone(8), bytes * (2 * 7.0 / 8 / 160e9 + 1 / 100e9));
  EXPECT_DOUBLE_EQ(alone(4), bytes * (2 * 3.0 / 4 / 80e9 + 1 / 400e9));
}

TEST_F(AllToAlls, AnUnknownFamilyIsAnError) {
  const auto cost = CommunicationCost::make(round_, h800_cluster(), {round_spread, 64}, {.family = "deepep-v9"});
  ASSERT_FALSE(cost);
  EXPECT_EQ(cost.error().kind, ErrorKind::input);
  EXPECT_EQ(cost.error().key, "overlap.communication_kernels");
}

// 128 tokens of 7,000 bytes to eight experts each, on ranks of one stage next to each other.
struct LowLatencyCall {
  Graph graph;
  explicit LowLatencyCall(OperatorKind kind) {
    graph.tensors = {{.name = "x", .shape = {{128}, {7000}}, .type = DataType::fp8},
                     {.name = "y", .shape = {{128}, {7000}}, .type = DataType::bf16}};
    const DispatchAttributes attributes{
        .experts = 256, .experts_per_token = 8, .token_bytes = 7000, .dispatcher = Dispatcher::low_latency};
    graph.operators.push_back({.kind = kind, .name = "d", .reads = {0}, .writes = {1}, .attributes = attributes});
  }
  AllToAllTime on(const CommunicationCost& by) const { return by.all_to_all(graph, graph.operators.front()); }
};

Profile with_low_latency(std::vector<Parameter> parameters) {
  const auto add = [&](const std::string& name, double value, const std::string& unit) {
    parameters.push_back({.name = "exchange.low_latency." + name, .value = value, .unit = unit});
  };
  add("v2.dispatch.start", 20, "us");
  add("v2.dispatch.step", 2, "us");
  add("v2.dispatch.nic_rate", 40, "GB/s");
  add("v2.dispatch.node_start", 10, "us");
  add("v2.dispatch.node_rate", 100, "GB/s");
  add("v1.dispatch.start", 20, "us");
  add("v1.dispatch.nic_rate", 40, "GB/s");
  add("rack.dispatch.start", 0, "us");
  add("rack.dispatch.node_start", 5, "us");
  add("rack.dispatch.node_step", 1, "us");
  add("rack.dispatch.node_rate", 100, "GB/s");
  add("rack.once_per_rank", 1, "1");
  return {"own", "", std::move(parameters)};
}

TEST_F(AllToAlls, LowLatencyKernelsSendACopyToEachExpert) {
  const Profile own = with_low_latency(round_.parameters());
  const auto time = [&](const std::string& version, std::int64_t ranks) {
    const auto by =
        CommunicationCost::make(own, h800_cluster(), {round_spread, ranks}, {.low_latency = version}).value();
    return LowLatencyCall(OperatorKind::dispatch).on(by);
  };
  // 7.168 MB in all. On four nodes of eight three quarters use NICs, 7/32 NVLink.
  EXPECT_DOUBLE_EQ(time("v2", 32).network, 20e-6 + 2 * 2e-6 + 0.75 * 7.168e6 / 40e9);
  EXPECT_DOUBLE_EQ(time("v2", 32).node, 10e-6 + 7.0 / 32 * 7.168e6 / 100e9);
  EXPECT_EQ(time("v2", 32).overlapped, time("v2", 32).network);
  EXPECT_DOUBLE_EQ(time("v2", 32).network_bytes, 0.75 * 7.168e6);
  EXPECT_EQ(time("v2", 32).notify + time("v2", 32).prepare, 0);
  EXPECT_EQ(time("v2", 8).network, 0);
  EXPECT_DOUBLE_EQ(time("v1", 8).network, 20e-6 + 7.0 / 8 * 7.168e6 / 40e9);
  EXPECT_EQ(time("v1", 1).alone, 0);
  // A token reaches 7.5 ranks once each.
  EXPECT_DOUBLE_EQ(time("rack", 8).alone, 8e-6 + 7.0 / 8 * 7.5 * 128 * 7000 / 100e9);
}

TEST_F(AllToAlls, LowLatencyKernelsAreChosenByName) {
  const Profile own = with_low_latency(round_.parameters());
  const auto make = [&](const std::string& version, std::int64_t ranks) {
    return CommunicationCost::make(own, h800_cluster(), {round_spread, ranks}, {.low_latency = version});
  };
  ASSERT_FALSE(make("v3", 8));
  EXPECT_EQ(make("v3", 8).error().key, "inference.dispatch");
  EXPECT_EQ(make("v3", 8).error().hint, "known: all-reduce, deepep-2025-02, deepep-2025-06, rack, v1, v2");
  ASSERT_FALSE(make("rack", 16));  // two NVLink domains
  EXPECT_EQ(make("rack", 16).error().kind, ErrorKind::infeasible);
  const LowLatencyCall call(OperatorKind::dispatch);
  const CommunicationCost by = make("v2", 32).value();
  const auto best = by.all_to_all_at_best(call.graph, call.graph.operators.front());
  EXPECT_LT(best.network, call.on(by).network);
  EXPECT_LT(best.node, call.on(by).node);
}

TEST_F(AllToAlls, NoShippedProfileBeatsTheLineRates) {
  for (const std::string& name : profile_names) {
    const ClusterShape shape = h800_cluster();
    const CommunicationCost shipped_cost =
        CommunicationCost::make(profile(name), shape, {round_spread, 64}, {}).value();
    for (const Operator& op : layer_.operators) {
      if (operator_class(layer_, op) != OperatorClass::exchange) continue;
      const auto token = static_cast<double>(std::get<DispatchAttributes>(op.attributes).token_bytes);
      const AllToAllTime t = shipped_cost.all_to_all(layer_, op);
      EXPECT_GE(t.alone, 4096 * token * 3.5 / shape.inter_node_bandwidth().value()) << name << " " << op.name;
      EXPECT_GE(t.alone, 4096 * token * 7.5 * 7 / 8 / shape.intra_node_bandwidth.value()) << name << " " << op.name;
      EXPECT_GE(t.overlapped, t.alone) << name << " " << op.name;
    }
    EXPECT_GE(shipped_cost.p2p(Bytes(1e9), 1), 1e9 / 50e9) << name;
  }
}

TEST_F(AllToAlls, PointToPoint) {
  // 58.72 MB at 44 GB/s after 4 us; two messages share the link.
  EXPECT_DOUBLE_EQ(cost().p2p(Bytes(58.72e6), 1), 4e-6 + 58.72e6 / 44e9);
  EXPECT_DOUBLE_EQ(cost().p2p(Bytes(58.72e6), 2), 4e-6 + 2 * 58.72e6 / 44e9);
}

TEST_F(AllToAlls, TensorRanksSendPartsOfAMessageAndGatherThem) {
  CommunicationCost divided = cost();
  divided.divide_messages(8);
  const Bytes message(58.72e6);
  EXPECT_DOUBLE_EQ(divided.message_part(message).value(), 7.34e6);
  const double gather = divided.collectives().time(Collective::all_gather, {8, 8}, message);
  EXPECT_GT(gather, 0);
  EXPECT_DOUBLE_EQ(divided.p2p(message, 1), 4e-6 + 7.34e6 / 44e9 + gather);
  EXPECT_DOUBLE_EQ(divided.p2p(message, 2) - divided.p2p(message, 1), 7.34e6 / 44e9);
}

TEST_F(AllToAlls, Collectives) {
  Graph graph;
  graph.tensors = {{.name = "whole", .shape = {{1 << 20}}, .type = DataType::fp32, .role = Role::gradient},
                   {.name = "shard", .shape = {{1 << 18}}, .type = DataType::fp32}};
  const auto seconds = [&](OperatorKind kind, std::int64_t ranks, std::int64_t stride) {
    Operator op{
        .kind = kind, .name = "c", .reads = {0}, .writes = {1}, .attributes = CollectiveAttributes{ranks, stride}};
    if (kind == OperatorKind::all_gather) std::swap(op.reads, op.writes);
    return cost().collective(graph, op);
  };
  // The formula of model/cost/collective_cost.h for the whole tensor: 4 MiB, one rank per node or eight.
  const CollectiveCost by = CollectiveCost::make(round_, h800_cluster()).value();
  const Bytes bytes(4.0 * (1 << 20));
  EXPECT_EQ(seconds(OperatorKind::reduce_scatter, 4, 64), by.time(Collective::reduce_scatter, {4, 1}, bytes));
  EXPECT_EQ(seconds(OperatorKind::all_gather, 4, 64), by.time(Collective::all_gather, {4, 1}, bytes));
  EXPECT_EQ(seconds(OperatorKind::all_reduce, 4, 64), by.time(Collective::all_reduce, {4, 1}, bytes));
  EXPECT_EQ(seconds(OperatorKind::all_gather, 128, 1), by.time(Collective::all_gather, {128, 8}, bytes));
  EXPECT_EQ(seconds(OperatorKind::all_reduce, 1, 1), 0);
}

// Two pieces of a whole, each broadcast on half of the channels, take as long as the whole on all of them.
TEST_F(AllToAlls, UnevenPiecesAreBroadcastOneByOneWhereTheSoftwareDoesSo) {
  Graph graph;
  graph.tensors = {{.name = "rows", .shape = {{1 << 28}}, .type = DataType::bf16},
                   {.name = "own", .shape = {{1 << 27}}, .type = DataType::bf16}};
  const auto seconds = [&](OperatorKind kind, bool uneven, double apart) {
    std::vector<Parameter> parameters = round_.parameters();
    parameters.push_back({.name = "collective.uneven_apart", .value = apart, .unit = "1"});
    Operator op{.kind = kind,
                .name = "c",
                .reads = {0},
                .writes = {1},
                .attributes = CollectiveAttributes{.ranks = 2, .uneven = uneven}};
    if (kind == OperatorKind::all_gather) std::swap(op.reads, op.writes);
    return CommunicationCost::make(Profile("p", "", parameters), h800_cluster(), {round_spread, 64}, {})
        ->collective(graph, op);
  };
  const CollectiveCost by = CollectiveCost::make(round_, h800_cluster()).value();
  const double apart = by.time(Collective::broadcast, {2, 2}, Bytes(2.0 * (1 << 28)));
  for (const OperatorKind kind : {OperatorKind::all_gather, OperatorKind::reduce_scatter}) {
    EXPECT_EQ(seconds(kind, true, 1), apart);
    EXPECT_EQ(seconds(kind, true, 0), seconds(kind, false, 1));
    EXPECT_GT(apart, 1.4 * seconds(kind, false, 1));
  }
}

// Four ranks, one a node, whose queries have four times as many heads as keys and values.
TEST_F(AllToAlls, ARingIsWhatItsSoftwareSends) {
  Graph graph;
  for (const char* name : {"do", "q", "k", "v", "dq", "dk", "dv"})
    graph.tensors.push_back({.name = name, .shape = {{8192}, {1024}}, .type = DataType::bf16});
  const AttentionAttributes ring{.query_heads = 32, .key_value_heads = 8, .ring_ranks = 4, .ring_stride = 8};
  const Operator forward{
      .kind = OperatorKind::attention, .name = "f", .reads = {1, 2, 3}, .writes = {0}, .attributes = ring};
  const Operator backward{.kind = OperatorKind::attention_grad,
                          .name = "b",
                          .reads = {0, 1, 2, 3},
                          .writes = {4, 5, 6},
                          .attributes = ring};
  const auto seconds = [&](const Operator& op, double kernels, const std::vector<Parameter>& constants) {
    std::vector<Parameter> parameters = round_.parameters();
    parameters.insert(parameters.end(), constants.begin(), constants.end());
    return CommunicationCost::make(Profile("ring", "", parameters), h800_cluster(), {round_spread, 64}, {})
        ->ring_attention(graph, op, kernels);
  };
  const Parameter repeated{.name = "ring_attention.repeated_heads", .value = 1, .unit = "1"},
      wide{.name = "ring_attention.gradient_element", .value = 4, .unit = "B"},
      returns{.name = "ring_attention.returns", .value = 1, .unit = "1"},
      waits{.name = "ring_attention.waits", .value = 1, .unit = "1"};
  const double keys = 2 * 2 * 8192.0 * 1024;  // bytes of keys and values, and of their gradients in 16 bits
  const CollectiveCost by = CollectiveCost::make(round_, h800_cluster()).value();
  const auto sent = [&](double bytes) { return by.time(Collective::send_recv, {4, 1}, Bytes(bytes)); };
  // Long kernels hide their transfers, short ones wait for three.
  EXPECT_DOUBLE_EQ(seconds(forward, 1, {}), 1);
  EXPECT_DOUBLE_EQ(seconds(forward, 0, {}), 3 * sent(keys));
  EXPECT_DOUBLE_EQ(seconds(backward, 0, {}), 3 * sent(2 * keys));
  EXPECT_DOUBLE_EQ(seconds(forward, 0, {repeated}), 3 * sent(4 * keys));
  EXPECT_DOUBLE_EQ(seconds(backward, 0, {wide}), 3 * sent(3 * keys));
  EXPECT_DOUBLE_EQ(seconds(backward, 1, {wide, returns}), 1 + sent(2 * keys));
  EXPECT_DOUBLE_EQ(seconds(forward, 1, {returns, waits}), 1 + 3 * sent(keys));
  EXPECT_DOUBLE_EQ(seconds(backward, 1, {repeated, wide, returns, waits}), 1 + 3 * sent(12 * keys) + sent(8 * keys));
}

// The measured curve gives the SMs that hold the all-to-all, and the measured overlapped time applies with compute
// kernels.
TEST_F(AllToAlls, MeasuredOnesAreThoseOfTheirSms) {
  std::vector<Parameter> parameters = round_.parameters();
  const Operator& op = find(layer_, "dispatch");
  const auto add = [&](const MeasuredOperators::Place& place, double us) {
    const std::string name = MeasuredOperators::name(operator_key(layer_, op), place, MeasuredOperators::Unit::sms);
    parameters.push_back({name, us, "us", Evidence::measured, "a test"});
  };
  add({20, false}, 1500);
  add({20, true}, 1800);
  const Profile measured("measured", "", parameters);
  const auto time = [&](std::int64_t sms) {
    return CommunicationCost::make(measured, h800_cluster(), {round_spread, 64}, {.sms = sms})->all_to_all(layer_, op);
  };
  EXPECT_DOUBLE_EQ(time(20).alone, 1500e-6);
  EXPECT_DOUBLE_EQ(time(20).overlapped, 1800e-6);
  EXPECT_EQ(time(20).notify, 0);
  EXPECT_TRUE(time(20).measured);
  EXPECT_DOUBLE_EQ(time(16).notify, 100e-6);  // the profile has no measured times of those
  EXPECT_DOUBLE_EQ(time(0).alone, 1500e-6);   // a plan without a number takes those that were measured
}

}  // namespace
}  // namespace plumbline::model
