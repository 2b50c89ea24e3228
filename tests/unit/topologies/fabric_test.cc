#include "topologies/fabric.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/inputs.h"
#include "tests/support/routes.h"

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

}  // namespace
}  // namespace plumbline::topologies
