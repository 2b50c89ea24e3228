#include "topologies/fabric.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "tests/support/inputs.h"
#include "tests/support/routes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::topologies {
namespace {

// Vec8 GPUs per node, eight rails on one network of 64-port switches in two layers.
FabricShape multi_rail() {
  FabricShape shape;
  shape.gpus_per_node = 8;
  shape.gpu_bandwidth = 200e9;
  shape.nics = 8;
  shape.nic_bandwidth = 50e9;
  shape.layers = 2;
  shape.rails = 8;
  shape.switch_ports = 64;
  shape.node_latency = 3e-6;
  shape.nic_latency = 1e-6;
  shape.switch_latency = 0.5e-6;
  return shape;
}

FabricShape multi_plane() {
  FabricShape shape = multi_rail();
  shape.planes = 8;
  return shape;
}

std::vector<std::string> link_names(const Fabric& fabric, std::int64_t a, std::int64_t b) {
  std::vector<LinkId> links;
  fabric.route(a, b, links);
  std::vector<std::string> names;
  for (const LinkId id : links) names.push_back(fabric.link(id).name);
  return names;
}

using Names = std::vector<std::string>;

TEST(Fabric, InsideANodeOverTheSwitch) {
  const Fabric fabric = Fabric::make(multi_rail(), 16).value();
  EXPECT_EQ(link_names(fabric, 9, 14), (Names{"node1.gpu1.up", "node1.gpu6.down"}));
  EXPECT_TRUE(link_names(fabric, 9, 9).empty());
  EXPECT_DOUBLE_EQ(tests::route_latency(fabric, 9, 14), 3e-6);
  EXPECT_DOUBLE_EQ(tests::route_bandwidth(fabric, 9, 14), 200e9);
}

TEST(Fabric, InsideANodeOverTheMesh) {
  FabricShape shape = multi_rail();
  shape.interconnect = Interconnect::mesh;
  shape.gpu_bandwidth = 7 * 64e9;
  const Fabric fabric = Fabric::make(shape, 11).value();  // 8 + 3
  EXPECT_EQ(link_names(fabric, 2, 7), (Names{"node0.gpu2.to7"}));
  EXPECT_EQ(link_names(fabric, 7, 2), (Names{"node0.gpu7.to2"}));
  EXPECT_EQ(link_names(fabric, 10, 8), (Names{"node1.gpu2.to0"}));
  EXPECT_DOUBLE_EQ(tests::route_bandwidth(fabric, 2, 7), 64e9);
  EXPECT_DOUBLE_EQ(tests::route_latency(fabric, 2, 7), 3e-6);
  EXPECT_EQ(fabric.leaves(), 8);
}

TEST(Fabric, OneRailOneLeaf) {
  const Fabric fabric = Fabric::make(multi_rail(), 256).value();  // 32 nodes fill the 32 down ports of each leaf
  EXPECT_EQ(link_names(fabric, 3, 8 * 31 + 3), (Names{"node0.nic3.up", "node31.nic3.down"}));
  EXPECT_DOUBLE_EQ(tests::route_latency(fabric, 3, 8 * 31 + 3), 2 * 1e-6 + 0.5e-6);
  EXPECT_DOUBLE_EQ(tests::route_bandwidth(fabric, 3, 8 * 31 + 3), 50e9);
  EXPECT_EQ(fabric.leaves(), 8);
}

TEST(Fabric, AnotherRailGoesOverASpineOfTheSharedNetwork) {
  const Fabric fabric = Fabric::make(multi_rail(), 256).value();
  // GPU 0 of node 1 to GPU 2 of node 5: leaf 0 to leaf 2. The destination's NIC is number 2 * 32 + 5 of the plane;
  // 69 mod 32 spines = 5.
  EXPECT_EQ(link_names(fabric, 8, 42),
            (Names{"node1.nic0.up", "plane0.leaf0.spine5.up", "plane0.leaf2.spine5.down", "node5.nic2.down"}));
  EXPECT_DOUBLE_EQ(tests::route_latency(fabric, 8, 42), 2 * 1e-6 + 3 * 0.5e-6);
}

TEST(Fabric, AnotherPlaneGoesOverTheNodeFirst) {
  const Fabric fabric = Fabric::make(multi_plane(), 256).value();
  EXPECT_EQ(link_names(fabric, 8, 42), (Names{"node1.gpu0.up", "node1.gpu2.down", "node1.nic2.up", "node5.nic2.down"}));
  EXPECT_EQ(link_names(fabric, 10, 42), (Names{"node1.nic2.up", "node5.nic2.down"}));
  EXPECT_EQ(fabric.leaves(), 8);
  EXPECT_EQ(fabric.spines(), 0);  // one leaf per plane
}

TEST(Fabric, OutOfAPartlyFilledNodeOverTheNodeOfTheDestination) {
  const Fabric fabric = Fabric::make(multi_plane(), 18).value();  // node 2 has GPUs 0 and 1
  EXPECT_EQ(link_names(fabric, 16, 5), (Names{"node2.nic0.up", "node0.nic0.down", "node0.gpu0.up", "node0.gpu5.down"}));
  EXPECT_EQ(link_names(fabric, 5, 16), (Names{"node0.gpu5.up", "node0.gpu0.down", "node0.nic0.up", "node2.nic0.down"}));
}

TEST(Fabric, RailsOfALonelyLayerAreNotConnected) {
  FabricShape shape = multi_rail();
  shape.layers = 1;
  EXPECT_EQ(capacity(shape).gpus, 64 * 8);  // a port for each node
  const Fabric fabric = Fabric::make(shape, 256).value();
  EXPECT_EQ(link_names(fabric, 8, 42), (Names{"node1.gpu0.up", "node1.gpu2.down", "node1.nic2.up", "node5.nic2.down"}));
}

TEST(Fabric, ThreeLayersReachOtherPodsOverACore) {
  FabricShape shape = multi_rail();
  shape.layers = 3;
  shape.switch_ports = 32;
  // Leaves have 16 + 16 ports, and a pod has 16 of them: two groups of eight rails, so 32 nodes or 256 GPUs per pod.
  const Fabric fabric = Fabric::make(shape, 1024).value();
  EXPECT_EQ(capacity(shape).gpus, 8192);  // 32^3 / 4
  EXPECT_EQ(fabric.leaves(), 64);
  EXPECT_EQ(fabric.spines(), 64);
  EXPECT_EQ(fabric.cores(), 256);
  // Node 0 to node 40, GPU 0: group 40 / 16 = 2, leaf 16, pod 1. NIC 16 * 16 + 8 = 264: spine 264 mod 16 = 8, core
  // 264 / 16 mod 16 = 0.
  EXPECT_EQ(link_names(fabric, 0, 320),
            (Names{"node0.nic0.up", "plane0.leaf0.spine8.up", "plane0.pod0.spine8.core0.up",
                   "plane0.pod1.spine8.core0.down", "plane0.leaf16.spine8.down", "node40.nic0.down"}));
  EXPECT_DOUBLE_EQ(tests::route_latency(fabric, 0, 320), 2 * 1e-6 + 5 * 0.5e-6);
  EXPECT_EQ(link_names(fabric, 0, 160).size(), 4u);  // node 20: the same pod
}

TEST(Fabric, OversubscriptionTakesSpinesAway) {
  FabricShape shape = multi_rail();
  shape.oversubscription = 3;
  const FabricCapacity most = capacity(shape);
  EXPECT_EQ(most.leaf_up, 16);
  EXPECT_EQ(most.leaf_down, 48);
  EXPECT_EQ(most.gpus, 8 * 48 * 8);  // 64 leaves are 8 of each rail
  const Fabric fabric = Fabric::make(shape, most.gpus).value();
  EXPECT_EQ(fabric.spines(), 16);
}

TEST(Fabric, ALostNicIsAvoidedAtBothEnds) {
  FabricShape shape = multi_plane();
  shape.factors = {{"node0.nic2", 0}};
  const Fabric fabric = Fabric::make(shape, 64).value();
  // Nodes 0 and 1 have color 1 and the GPU is number 2: place 3 of the working indices 0, 1, 3, 4, ... is GPU 4.
  EXPECT_EQ(link_names(fabric, 2, 10), (Names{"node0.gpu2.up", "node0.gpu4.down", "node0.nic4.up", "node1.nic4.down",
                                              "node1.gpu4.up", "node1.gpu2.down"}));
  EXPECT_EQ(link_names(fabric, 10, 18), (Names{"node1.nic2.up", "node2.nic2.down"}));
}

TEST(Fabric, OthersTakeTheirShareOfATier) {
  FabricShape shape = multi_rail();
  shape.background = {.nic = 0.2, .leaf = 0.5};
  const Fabric fabric = Fabric::make(shape, 64 * 8).value();
  for (const Link& link : fabric.links()) {
    const bool nic = link.kind == LinkKind::nic_up || link.kind == LinkKind::nic_down;
    const bool node = link.kind == LinkKind::gpu_up || link.kind == LinkKind::gpu_down;
    EXPECT_DOUBLE_EQ(link.bandwidth, node ? 200e9 : nic ? 40e9 : 25e9) << link.name;
  }
  shape.background.spine = 1;
  EXPECT_EQ(Fabric::make(shape, 64).error().key, "cluster.background");
}

TEST(Fabric, NicsSharedByGpusAndSeveralNicsOfOne) {
  FabricShape shape = multi_rail();
  shape.nics = shape.rails = 4;
  const Fabric shared = Fabric::make(shape, 16).value();
  EXPECT_EQ(link_names(shared, 0, 9), (Names{"node0.nic0.up", "node1.nic0.down"}));  // GPUs 0 and 1 of a node use NIC 0
  EXPECT_DOUBLE_EQ(tests::route_bandwidth(shared, 0, 9), 50e9);
  shape.nics = 16;
  shape.rails = 8;
  const Fabric bundled = Fabric::make(shape, 16).value();
  EXPECT_DOUBLE_EQ(tests::route_bandwidth(bundled, 0, 8), 100e9);
  EXPECT_EQ(capacity(shape).nodes_per_leaf, 16);  // 32 ports, two for each node
}

struct BadShape {
  const char* what;
  void (*spoil)(FabricShape&);
  const char* key;
  const char* says;
};

class ImpossibleWiring : public testing::TestWithParam<BadShape> {};

TEST_P(ImpossibleWiring, IsAnInputError) {
  FabricShape shape = multi_rail();
  GetParam().spoil(shape);
  tests::expect_error(Fabric::make(shape, 8), model::ErrorKind::input, "", 0, GetParam().key, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ImpossibleWiring,
    testing::Values(
        BadShape{"no_gpu", [](FabricShape& s) { s.gpus_per_node = 0; }, "node.gpus", "at least one GPU"},
        BadShape{"mesh_of_one",
                 [](FabricShape& s) {
                   s.interconnect = Interconnect::mesh;
                   s.gpus_per_node = 1;
                 },
                 "node.gpus", "at least two"},
        BadShape{"no_link", [](FabricShape& s) { s.gpu_bandwidth = 0; }, "node.gpu_bandwidth", "no bandwidth"},
        BadShape{"no_nic", [](FabricShape& s) { s.nics = 0; }, "node.nics", "needs NICs"},
        BadShape{"no_nic_rate", [](FabricShape& s) { s.nic_bandwidth = 0; }, "node.nic_bandwidth", "no bandwidth"},
        BadShape{"layers", [](FabricShape& s) { s.layers = 4; }, "fabric.layers", "0, 1, 2 or 3"},
        BadShape{"rails", [](FabricShape& s) { s.rails = 3; }, "fabric.rails", "8 NICs of a node"},
        BadShape{"planes", [](FabricShape& s) { s.planes = 3; }, "fabric.planes", "8 rails"},
        BadShape{"uneven_nics", [](FabricShape& s) { s.nics = 12; }, "node.nics", "dealt evenly to 8 GPUs"},
        BadShape{"oversubscription", [](FabricShape& s) { s.oversubscription = 0.5; }, "fabric.oversubscription",
                 "below 1"},
        BadShape{"no_uplink", [](FabricShape& s) { s.oversubscription = 100; }, "fabric.oversubscription",
                 "no port of 64"},
        BadShape{"few_ports",
                 [](FabricShape& s) {
                   s.switch_ports = 8;
                   s.rails = 1;
                 },
                 "fabric.switch_ports", "a node brings 8"},
        BadShape{"few_leaves", [](FabricShape& s) { s.switch_ports = 4; }, "fabric.switch_ports", "fewer leaves"}),
    [](const auto& parameter) { return std::string(parameter.param.what); });

std::vector<std::int64_t> gpus(const Placement& placement) {
  std::vector<std::int64_t> list;
  for (std::int64_t rank = 0; rank < placement.ranks(); ++rank) {
    list.push_back(placement.gpu(rank));
    EXPECT_EQ(placement.rank(placement.gpu(rank)), rank);
  }
  return list;
}

using List = std::vector<std::int64_t>;

TEST(Placement, ContiguousAndStriped) {
  EXPECT_EQ(gpus(Placement::make("contiguous", 5, 2).value()), (List{0, 1, 2, 3, 4}));
  EXPECT_EQ(gpus(Placement::make("striped", 5, 2).value()), (List{0, 2, 4, 1, 3}));
}

TEST(Placement, RandomKeepsNodesWhole) {
  const List order = gpus(Placement::make("random:7", 64, 8).value());
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 64u);
  for (std::size_t rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(order[rank] % 8, static_cast<std::int64_t>(rank % 8));
    EXPECT_EQ(order[rank] / 8, order[rank - rank % 8] / 8);
  }
  EXPECT_EQ(order, gpus(Placement::make("random:7", 64, 8).value()));
  EXPECT_NE(order, gpus(Placement::make("random:8", 64, 8).value()));
}

TEST(Placement, FromAFileNextToThePlan) {
  const tests::TemporaryDirectory folder;
  folder.write("ranks.txt", "# GPU of each rank\n3\n\n1\r\n 0 \n2");
  model::Plan plan;
  plan.file = (folder.path() / "plan.toml").string();
  plan.cluster.gpus = 4;
  plan.cluster.placement = "file:ranks.txt";
  const auto placement = placement_of(plan, 2);
  ASSERT_TRUE(placement) << to_string(placement.error());
  EXPECT_EQ(gpus(*placement), (List{3, 1, 0, 2}));
  plan.cluster.placement.reset();
  EXPECT_EQ(gpus(placement_of(plan, 2).value()), (List{0, 1, 2, 3}));
}

// A rack of 72 GPUs with a NIC each.
FabricShape rack() {
  FabricShape shape;
  shape.gpus_per_node = shape.nics = 72;
  shape.gpu_bandwidth = 900e9;
  shape.nic_bandwidth = 50e9;
  shape.layers = 1;
  shape.switch_ports = 288;
  return shape;
}

model::Plan plan_on(std::int64_t gpus, std::int64_t tensor, std::int64_t expert) {
  model::Plan plan;
  plan.cluster.gpus = gpus;
  plan.parallelism.tensor = tensor;
  plan.parallelism.expert = expert;
  return plan;
}

TEST(UsedNodes, HoldWholeTensorAndExpertGroups) {
  const auto used = [](std::int64_t gpus, std::int64_t tensor, std::int64_t expert) {
    return used_nodes(rack(), plan_on(gpus, tensor, expert)).gpus_per_node;
  };
  EXPECT_EQ(used(256, 1, 64), 64);
  EXPECT_EQ(used(256, 1, 32), 64);
  EXPECT_EQ(used(256, 1, 16), 64);
  EXPECT_EQ(used(256, 16, 1), 64);
  EXPECT_EQ(used(256, 1, 8), 72);    // nine groups
  EXPECT_EQ(used(256, 16, 8), 64);   // of tensor parallelism
  EXPECT_EQ(used(256, 1, 128), 64);  // in halves; 64 of 72 leave an eighth of those used idle
  EXPECT_EQ(used(256, 1, 100), 72);  // in parts of 50 a third of a rack would be idle
  EXPECT_EQ(used(64, 1, 64), 72);    // one rack holds the plan
  EXPECT_EQ(used_nodes(rack(), plan_on(256, 1, 64)).nics, 64);
}

TEST(UsedNodes, AreWholeWhereThePlanStatesAPlacement) {
  model::Plan plan = plan_on(256, 1, 64);
  plan.cluster.placement = "contiguous";
  EXPECT_EQ(used_nodes(rack(), plan).gpus_per_node, 72);
  // Ranks 64 to 127 have 8 GPUs of the first rack, 192 to 255 have 24 of the third and 40 of the fourth.
  EXPECT_EQ(expert_node_gpus(rack(), plan), 32);
  ASSERT_EQ(placement_warnings(rack(), plan).size(), 1);
  EXPECT_NE(placement_warnings(rack(), plan)[0].find("expert groups of 64 GPUs"), std::string::npos);
  plan.cluster.placement.reset();
  EXPECT_EQ(expert_node_gpus(rack(), plan), 64);
  ASSERT_EQ(placement_warnings(rack(), plan).size(), 1);
  EXPECT_NE(placement_warnings(rack(), plan)[0].find("4 nodes have 32 more GPUs, 12.5 %"), std::string::npos);
  EXPECT_TRUE(placement_warnings(rack(), plan_on(256, 1, 8)).empty());
}

TEST(UsedNodes, AreAsManyAsThePlanStates) {
  model::Plan plan = plan_on(256, 1, 8);
  plan.cluster.domain_gpus = 48;
  EXPECT_EQ(used_nodes(rack(), plan).gpus_per_node, 48);
  EXPECT_TRUE(check_domain(rack(), plan));
  ASSERT_EQ(placement_warnings(rack(), plan).size(), 1);
  EXPECT_NE(placement_warnings(rack(), plan)[0].find("cluster.domain_gpus"), std::string::npos);
  plan.cluster.gpus = 40;  // of one rack
  EXPECT_EQ(used_nodes(rack(), plan).gpus_per_node, 72);
}

// A rack as that of a GB200: NICs are dealt to four rails.
FabricShape rack_of_rails() {
  FabricShape shape = rack();
  shape.rails = 4;
  return shape;
}

TEST(UsedNodes, AreWiredWithoutFault) {
  const auto used = [](std::int64_t expert) {
    return used_nodes(rack_of_rails(), plan_on(256, 1, expert)).gpus_per_node;
  };
  EXPECT_EQ(used(64), 64);
  EXPECT_EQ(used(10), 60);  // 70 do not fill four rails
  EXPECT_EQ(used(71), 72);  // nor do 71, and there is no other number
  FabricShape mesh = rack();
  mesh.interconnect = Interconnect::mesh;
  EXPECT_DOUBLE_EQ(used_nodes(mesh, plan_on(256, 1, 64)).peer_bandwidth(), mesh.peer_bandwidth());
}

TEST(CheckDomain, NamesTheNumbersThatWork) {
  model::Plan plan = plan_on(256, 1, 8);
  const auto expect = [&](const FabricShape& shape, std::int64_t stated, const char* message, const char* hint) {
    plan.cluster.domain_gpus = stated;
    const auto checked = check_domain(shape, plan);
    tests::expect_error(checked, model::ErrorKind::input, "", 0, "cluster.domain_gpus", message);
    EXPECT_EQ(checked.error().hint, hint);
  };
  expect(rack_of_rails(), 9, "9 of the 72 GPUs of a domain cannot be used: 9 NICs", "use 8 or 12");
  expect(rack_of_rails(), 3, "3 NICs", "use 4");
  expect(rack_of_rails(), 0, "at least one GPU", "use 4");
  expect(rack_of_rails(), 1000000000, "it has no more", "use 72");
  FabricShape shape = rack();
  shape.nics = 36;
  expect(shape, 9, "whole NICs of its 36", "use 8 or 10");
  // Links are named for whole racks.
  shape.factors = {{"node0.nic3", 0.5}};
  expect(shape, 8, "links that are changed", "use 72, or change no links");
  plan.cluster.domain_gpus = 72;
  EXPECT_TRUE(check_domain(shape, plan));
}

// Searches change the number of GPUs of a plan after it was checked.
TEST(CheckDomain, HoldsForAnyNumberOfGpus) {
  model::Plan plan = plan_on(8, 1, 8);
  plan.cluster.domain_gpus = 9;
  EXPECT_FALSE(check_domain(rack_of_rails(), plan));
  FabricShape alone = rack();
  alone.layers = alone.nics = 0;
  EXPECT_TRUE(check_domain(alone, plan));
}

TEST(Placement, WrongFiles) {
  const tests::TemporaryDirectory folder;
  const auto expect = [&](const char* text, int line, const char* says) {
    const std::string path = folder.write("ranks.txt", text).string();
    tests::expect_error(Placement::make("file:" + path, 3, 2), model::ErrorKind::input, path, line, "", says);
  };
  expect("0\n1\n1\n", 3, "first on line 2");
  expect("0\n1\n3\n", 3, "the cluster has 0 to 2");
  expect("0\n-1\n2\n", 2, "there is no GPU -1");
  expect("0\n2\n", 0, "rank 2 has no GPU");
  expect("0\none\n2\n", 2, "'one' is not the number of a GPU");
}

TEST(Placement, WrongRules) {
  const auto expect = [](const char* rule, const char* says) {
    const auto placement = Placement::make(rule, 4, 2);
    tests::expect_error(placement, model::ErrorKind::input, "", 0, "cluster.placement", says);
  };
  expect("contigous", "did you mean 'contiguous'?");
  expect("random", "has no seed");
  expect("random:x", "has no seed");
  expect("file:", "random:SEED or file:PATH");
}

}  // namespace
}  // namespace plumbline::topologies
