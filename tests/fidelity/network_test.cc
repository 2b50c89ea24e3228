#include "tests/support/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "sim/engine/heap_loop.h"
#include "sim/network/simgrid_loop.h"
#include "sim/predict/simulate.h"
#include "tests/support/flow_time.h"
#include "tests/support/inputs.h"
#include "tests/support/routes.h"
#include "tests/support/step_inputs.h"
#include "tests/support/temporary_directory.h"
#include "topologies/formats.h"

namespace plumbline::sim {
namespace {

using tests::deepseek_plan;
using tests::wired_inputs;
using topologies::Fabric;

// Times of all-to-alls compared with closed forms: two-leg dispatch by footprint, flow by flow and as the heaviest
// link, on free and oversubscribed fat trees, with placements, and concurrent with other traffic.

constexpr double per_node = 15'138'816;               // bytes from each GPU to each other node
constexpr double free_seconds = 7 * per_node / 50e9;  // 2.119434 ms: seven other nodes on a NIC of 50 GB/s

Fabric fabric_of(const topologies::FabricShape& shape, std::int64_t gpus) {
  auto fabric = Fabric::make(shape, gpus);
  EXPECT_TRUE(fabric) << to_string(fabric.error());
  return std::move(*fabric);
}

std::vector<Transfer> transfers(const Fabric& fabric, const TrafficPattern& all_to_all) {
  auto result = transfers_of(fabric, all_to_all);
  EXPECT_TRUE(result) << to_string(result.error());
  return std::move(*result);
}

SimGridNetwork network_of(const Fabric& fabric) {
  auto network = SimGridNetwork::make(fabric.links());
  EXPECT_TRUE(network) << to_string(network.error());
  return std::move(*network);
}

double simulated(SimGridNetwork& network, const std::vector<TrafficFlow>& flows) {
  const auto seconds = tests::simulate_seconds(network, flows, {});
  EXPECT_TRUE(seconds) << to_string(seconds.error());
  return *seconds;
}

TEST(TwoLegAllToAll, IsTheSameByFootprintFlowByFlowAndInClosedForm) {
  const Fabric fabric = fabric_of(tests::planes_of_nodes(), 64);
  SimGridNetwork network = network_of(fabric);
  EXPECT_NEAR(free_seconds, 2.119434e-3, 1e-9);
  for (const TrafficKind kind : {TrafficKind::dispatch, TrafficKind::combine}) {
    TrafficPattern all_to_all = tests::expert_dispatch(tests::gpus_from(0, 64));
    all_to_all.kind = kind;
    const auto all = transfers(fabric, all_to_all);
    EXPECT_EQ(all.size(), 896u);  // 64 GPUs to 7 nodes and to 7 neighbours
    EXPECT_NEAR(bottleneck_seconds(fabric, all), free_seconds, 1e-12);
    EXPECT_NEAR(simulated(network, footprint_flows(fabric, all)), free_seconds, 2e-12);
    EXPECT_NEAR(simulated(network, tests::flow_by_flow(fabric, all)), free_seconds, 2e-12);
    EXPECT_EQ(footprint_flows(fabric, all).size(), 2u);
  }
}

TEST(TwoLegAllToAll, TheNodeBindsWhenTokensReachManyRanks) {
  const Fabric fabric = fabric_of(tests::planes_of_nodes(), 64);
  SimGridNetwork network = network_of(fabric);
  // With 32 ranks per token each GPU forwards half of all 64 ranks' rows on its index, 8 * 4096 * 7392 * 32 / 64 B, to
  // each of 7 others: 7 * 121,110,528 / 160 GB/s = 5.298586 ms, more than the network's 2.119434.
  const auto all = transfers(fabric, tests::expert_dispatch(tests::gpus_from(0, 64), 32));
  const double expected = 7 * 8 * 4096 * 7392 * 32.0 / 64 / 160e9;
  EXPECT_NEAR(bottleneck_seconds(fabric, all), expected, 1e-12);
  EXPECT_NEAR(simulated(network, footprint_flows(fabric, all)), expected, 2e-12);
  EXPECT_NEAR(simulated(network, tests::flow_by_flow(fabric, all)), expected, 2e-12);
}

// Of an all-to-all in single transfers of 1 MB between 64 GPUs, 56 of 63 transfers leave the node.
TEST(AllToAll, LoadsNicsAndSwitchesByItsMessages) {
  const Fabric fabric = fabric_of(tests::planes_of_nodes(), 64);
  TrafficPattern all_to_all;
  all_to_all.kind = TrafficKind::all_to_all;
  all_to_all.gpus = tests::gpus_from(0, 64);
  all_to_all.token_bytes = 1e6;
  const auto all = transfers(fabric, all_to_all);
  EXPECT_EQ(all.size(), 4032u);
  SimGridNetwork network = network_of(fabric);
  // On planes a transfer goes over the GPU of the receiver's plane: a NIC carries 8 * 7 of them; 56 MB / 50 GB/s.
  EXPECT_NEAR(bottleneck_seconds(fabric, all), 56e6 / 50e9, 1e-12);
  EXPECT_NEAR(simulated(network, footprint_flows(fabric, all)), 56e6 / 50e9, 2e-12);
  // Flow by flow each of the 56 is shortened by an eighth of a picosecond at 50 GB/s, 7 ps together.
  EXPECT_NEAR(simulated(network, tests::flow_by_flow(fabric, all)), 56e6 / 50e9, 8e-12);
}

// 32 groups of 64 ranks on 256 nodes.
class ManyGroups : public testing::Test {
 protected:
  static std::vector<std::vector<std::int64_t>> contiguous() {
    std::vector<std::vector<std::int64_t>> groups;
    for (std::int64_t group = 0; group < 32; ++group) groups.push_back(tests::gpus_from(64 * group, 64));
    return groups;
  }
  // Group g on nodes g, g + 32, g + 64, ...: each of its nodes on another leaf.
  static std::vector<std::vector<std::int64_t>> striped() {
    std::vector<std::vector<std::int64_t>> groups(32);
    for (std::int64_t gpu = 0; gpu < 2048; ++gpu) groups[static_cast<std::size_t>(gpu / 8 % 32)].push_back(gpu);
    return groups;
  }
  static std::vector<std::vector<std::int64_t>> random(int seed) {
    const auto placement = topologies::Placement::make("random:" + std::to_string(seed), 2048, 8);
    std::vector<std::vector<std::int64_t>> groups(32);
    for (std::int64_t rank = 0; rank < 2048; ++rank)
      groups[static_cast<std::size_t>(rank / 64)].push_back(placement->gpu(rank));
    return groups;
  }

  struct Times {
    double closed_form = 0, simulated = 0, heaviest = 0;  // transfers on the most loaded link
  };
  static Times times(const topologies::FabricShape& shape, const std::vector<std::vector<std::int64_t>>& groups) {
    const Fabric fabric = fabric_of(shape, 2048);
    std::vector<Transfer> all;
    std::vector<TrafficFlow> flows;
    for (const auto& gpus : groups) {
      const auto of_group = transfers(fabric, tests::expert_dispatch(gpus));
      all.insert(all.end(), of_group.begin(), of_group.end());
      const auto of_flows = footprint_flows(fabric, of_group);
      flows.insert(flows.end(), of_flows.begin(), of_flows.end());
    }
    const std::vector<double> loads = link_loads(fabric, all);
    double heaviest = 0;
    for (LinkId link = 0; link < loads.size(); ++link)
      if (fabric.link(link).bandwidth == 50e9) heaviest = std::max(heaviest, loads[link] / per_node);
    SimGridNetwork network = network_of(fabric);
    return {bottleneck_seconds(fabric, all), simulated(network, flows), heaviest};
  }
};

TEST_F(ManyGroups, ShareNoLinkOfANonBlockingFabricWhenPlacedInOrder) {
  for (const auto& groups : {contiguous(), striped()}) {
    const Times seconds = times(tests::planes_of_nodes(), groups);
    EXPECT_NEAR(seconds.closed_form, free_seconds, 1e-12);
    EXPECT_NEAR(seconds.simulated, free_seconds, 5e-12);
  }
}

TEST_F(ManyGroups, ShareLinksOfOversubscribedLeaves) {
  // Leaves of 32 nodes with 16 spines: two nodes share an uplink that carries 14 transfers, twice a NIC's 7.
  const Times seconds = times(tests::planes_of_nodes(2), striped());
  EXPECT_NEAR(seconds.closed_form, 2 * free_seconds, 1e-12);
  EXPECT_NEAR(seconds.simulated, 2 * free_seconds, 5e-12);
  EXPECT_NEAR(seconds.closed_form, 4.239e-3, 1e-6);
}

TEST_F(ManyGroups, ShareLinksOfStaticRoutesWhenPlacedAtRandom) {
  for (const int seed : {1, 5, 23}) {
    const Times seconds = times(tests::planes_of_nodes(), random(seed));
    // Destinations choose spines, so some links between leaf and spine carry more than a NIC's seven transfers.
    EXPECT_GT(seconds.heaviest, 7);
    EXPECT_NEAR(seconds.closed_form, seconds.heaviest / 7 * free_seconds, 1e-12);
    EXPECT_NEAR(seconds.simulated, seconds.closed_form, 1e-6 * seconds.closed_form);
    if (seed == 23) {
      EXPECT_EQ(seconds.heaviest, 11);
      EXPECT_NEAR(seconds.closed_form, 3.330540e-3, 1e-9);
    }
  }
}

TEST(TrafficWithAnAllToAll, SharesByConnections) {
  const Fabric fabric = fabric_of(tests::planes_of_nodes(), 64);
  SimGridNetwork network = network_of(fabric);
  const auto all_to_all = footprint_flows(fabric, transfers(fabric, tests::expert_dispatch(tests::gpus_from(0, 64))));
  // A ring over the nodes on every plane: 100 MB from each GPU to the same GPU of the next node, one connection.
  std::vector<Transfer> ring;
  for (std::int64_t gpu = 0; gpu < 64; ++gpu) ring.push_back({gpu, (gpu + 8) % 64, 100e6, 0});
  const auto reduction = footprint_flows(fabric, ring);
  ASSERT_EQ(reduction.size(), 1u);
  // The all-to-all has 7 of 8 connections on each NIC: 105,971,712 B at 7/8 of 50 GB/s. The ring ends when both sums of
  // bytes have been transferred.
  EXPECT_NEAR(*tests::simulate_seconds(network, all_to_all, reduction), free_seconds * 8 / 7, 5e-12);
  EXPECT_NEAR(*tests::simulate_seconds(network, all_to_all, reduction), 2.4222e-3, 1e-7);
  EXPECT_NEAR(*tests::simulate_seconds(network, reduction, all_to_all), free_seconds + 100e6 / 50e9, 5e-12);
  EXPECT_NEAR(*tests::simulate_seconds(network, reduction, all_to_all), 4.1194e-3, 1e-7);
}

TEST(SkewedAllToAll, TakesAsLongAsItsHeaviestLink) {
  const Fabric fabric = fabric_of(tests::planes_of_nodes(), 64);
  SimGridNetwork network = network_of(fabric);
  // 4 ranks per token keep the node's switch faster than the network.
  TrafficPattern all_to_all = tests::expert_dispatch(tests::gpus_from(0, 64), 4);
  all_to_all.popularity.assign(64, 1.0);
  all_to_all.popularity[20] = 3;  // on node 2
  const auto all = transfers(fabric, all_to_all);
  // Node 2 has popularity 10 of 66: 4096 * 4 * 10 / 66 * 7392 B come to each of its GPUs from each of 7 nodes.
  const double expected = 7 * 4096 * 7392 * 4 * 10.0 / 66 / 50e9;
  EXPECT_NEAR(bottleneck_seconds(fabric, all), expected, 1e-12);
  EXPECT_NEAR(simulated(network, tests::flow_by_flow(fabric, all)), expected, 1e-6 * expected);
  EXPECT_GT(footprint_flows(fabric, all).size(), 2u);
}

TEST(BothLoops, GiveTheSameTimeForAnAllToAllAlone) {
  const Fabric fabric = fabric_of(tests::planes_of_nodes(), 64);
  const auto flows = footprint_flows(fabric, transfers(fabric, tests::expert_dispatch(tests::gpus_from(0, 64))));
  HeapLoop heap(fabric.links());
  tests::Script script(heap);
  for (const TrafficFlow& flow : flows) heap.flow({&flow.footprint, flow.bytes}, script.task("end"));
  heap.run();
  SimGridNetwork network = network_of(fabric);
  EXPECT_EQ(to_seconds(heap.now()), simulated(network, flows));
}

// Whole steps on the two event loops: equal where no link is shared, slower where links are shared, loaded or broken.

double on_heap(const Inputs& inputs) { return simulate(inputs, Fidelity::step, false).value().result.step.time_s; }
double on_network(const Inputs& inputs, const std::vector<NamedLinkChange>& changes = {}) {
  return simulate_on_network(inputs, false, changes).value().result.step.time_s;
}
const std::vector<std::string> apart = {"overlap.gradient_reduce=false", "overlap.parameter_gather=false"};
double deepseek(const std::vector<std::string>& overrides) {
  return on_network(wired_inputs(deepseek_plan, "h800", overrides));
}

// DualPipe's transfers run between its slots and its all-to-alls inside them, and reductions and gathers after all
// slots: no two share a link.
TEST(NetworkStep, BothLoopsAgreeWhereNothingIsShared) {
  const Inputs inputs = wired_inputs(deepseek_plan, "h800", apart);
  const double expected = on_heap(inputs);
  EXPECT_NEAR(on_network(inputs), expected, 1e-9 * expected);
  EXPECT_NEAR(on_network(inputs), expected, 1e-9 * expected);  // again in this process: no drift
}

// Only the links of the rank's own GPU and the most loaded one matter; those of the other ranks carry no more.
TEST(NetworkStep, OneGpuStandsForItsGroup) {
  Inputs inputs = wired_inputs(deepseek_plan, "h800", {"batch.global_batch_size=4096"});
  const double one = on_network(inputs);
  inputs.every_link = true;
  EXPECT_NEAR(on_network(inputs), one, 1e-9 * one);
}

// Without the wiring the cost functions alone give the times: a non-blocking network is faster than any kernel on it,
// where nothing else is on it.
TEST(NetworkStep, ANetworkThatNeverBlocksChangesNothing) {
  const Inputs wired = wired_inputs(deepseek_plan, "h800", apart);
  Inputs plain = wired;
  plain.fabric.reset();
  EXPECT_NEAR(on_heap(wired), on_heap(plain), 1e-6 * on_heap(plain));
}

// Eager schedules send concurrently with all-to-alls, so both share the NIC.
TEST(NetworkStep, SharingNeverHelps) {
  const Inputs inputs = wired_inputs(deepseek_plan, "h800", {"schedule.kind=1f1b", "batch.global_batch_size=4096"});
  EXPECT_GE(on_network(inputs), on_heap(inputs) * (1 - 1e-9));
}

// Planes and rails differ in the switches that they share, but not for DeepSeek-V3's traffic: 19.926 and 19.946 s are
// published (arXiv 2505.09343 Table 4), 0.1 % apart.
TEST(NetworkStep, PlanesAndRailsAreEqual) {
  const double planes = deepseek({});
  EXPECT_NEAR(deepseek({"cluster.topology=h800-multi-rail"}) / planes, 1, 0.01);
}

TEST(NetworkStep, ASlowNetworkShows) {
  const double whole = deepseek({});
  EXPECT_GT(deepseek({"cluster.nic_gbps=200"}), 1.1 * whole);
  EXPECT_GT(deepseek({"cluster.placement=random:1", "cluster.oversubscription=4"}), 1.1 * whole);
  // An expert group of eight nodes stays under one leaf when ranks are contiguous: the spines carry point-to-point
  // transfers only.
  EXPECT_NEAR(deepseek({"cluster.oversubscription=4"}) / whole, 1, 0.05);
}

TEST(NetworkStep, DegradedLinksSlowTheStepAndFailedOnesEndIt) {
  const Inputs inputs = wired_inputs(deepseek_plan, "h800", {"batch.global_batch_size=4096"});
  const double whole = on_network(inputs);
  const std::string nic = "node0.nic0.up";
  const double early = on_network(inputs, {{nic, 0, 0.25}});
  const double late = on_network(inputs, {{nic, whole / 2, 0.25}});
  EXPECT_GT(late, whole);
  EXPECT_GT(early, late);
  const auto failed = simulate_on_network(inputs, false, {{nic, 1, 0}});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, model::ErrorKind::infeasible);
  EXPECT_NE(failed.error().message.find(nic), std::string::npos) << failed.error().message;
  EXPECT_FALSE(simulate_on_network(inputs, false, {{"no such link", 1, 0}}));
}

}  // namespace
}  // namespace plumbline::sim

namespace plumbline::topologies {
namespace {

using tests::shipped;

// SimGrid loads the exported platforms; the routes that it finds between GPUs are compared with the builder's.

struct Case {
  const char* topology;
  std::int64_t gpus;
};

class Platform : public testing::TestWithParam<Case> {};

TEST_P(Platform, HasTheBandwidthsAndLatenciesOfTheBuilder) {
  const std::string path = shipped("topologies/" + std::string(GetParam().topology) + ".toml");
  Variation variation;
  variation.gpus = GetParam().gpus;
  const Topology topology = load_topology(path, shipped("topologies/devices"), variation).value();
  const Fabric fabric = Fabric::make(topology.fabric, GetParam().gpus).value();
  const tests::TemporaryDirectory folder;
  const std::string file = folder.write("platform.xml", simgrid_platform(topology, fabric)).string();

  int argc = 1;
  std::string program = "test";
  char* argv[] = {program.data(), nullptr};
  simgrid::s4u::Engine engine(&argc, argv);
  engine.load_platform(file);
  engine.get_netzone_root()->seal();  // only the first engine of a process does so when it runs
  ASSERT_EQ(engine.get_host_count(), static_cast<std::size_t>(GetParam().gpus));
  const std::int64_t step = std::max<std::int64_t>(1, fabric.gpus() / 23);
  for (std::int64_t a = 0; a < fabric.gpus(); a += step) {
    const auto* from = engine.host_by_name("gpu" + std::to_string(a));
    for (std::int64_t b = 0; b < fabric.gpus(); ++b) {
      if (a == b || (b / 16 != a / 16 && b % 7 != 0)) continue;
      std::vector<simgrid::s4u::Link*> links;
      double latency = 0;
      from->route_to(engine.host_by_name("gpu" + std::to_string(b)), links, &latency);
      double bandwidth = links.front()->get_bandwidth();
      for (const auto* link : links) bandwidth = std::min(bandwidth, link->get_bandwidth());
      ASSERT_NEAR(latency, tests::route_latency(fabric, a, b), 1e-12) << a << " " << b;
      ASSERT_NEAR(bandwidth / tests::route_bandwidth(fabric, a, b), 1, 1e-12) << a << " " << b;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, Platform,
                         testing::Values(Case{"h800-rail-fat-tree", 512}, Case{"h800-multi-rail", 512},
                                         Case{"mi300x", 44}, Case{"ethernet-leaf-spine", 100},
                                         Case{"three-layer-fat-tree", 512}, Case{"gb200-nvl72", 150}, Case{"host", 8}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.topology;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plumbline::topologies
