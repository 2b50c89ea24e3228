#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"
#include "topologies/fabric.h"

namespace plumbline::topologies {
namespace {

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
