// Rules for the links and routes of every shipped topology.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "model/base/text_file.h"
#include "tests/support/inputs.h"
#include "tests/support/routes.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::topologies {
namespace {

using tests::shipped;

Topology shipped_topology(const std::string& name) {
  return load_topology(shipped("topologies/" + name + ".toml"), shipped("topologies/devices"), {}).value();
}

// Returns a size that fills the leaves of every rail in two pods of a three-layer fabric, or in two groups of a
// two-layer one.
std::int64_t telling_size(const FabricShape& shape) {
  const FabricCapacity most = capacity(shape);
  if (shape.layers < 2) return most.gpus;
  const std::int64_t group = most.nodes_per_leaf * shape.gpus_per_node;
  const std::int64_t groups_per_pod = most.leaves_per_pod / (shape.rails / shape.planes);
  return std::min(most.gpus, group * (shape.layers == 3 ? 2 * groups_per_pod : 2));
}

class EveryTopology : public testing::TestWithParam<std::string> {
 protected:
  EveryTopology()
      : shape_(shipped_topology(GetParam()).fabric), fabric_(Fabric::make(shape_, telling_size(shape_)).value()) {}

  std::vector<LinkId> links_between(std::int64_t a, std::int64_t b) const {
    std::vector<LinkId> out;
    fabric_.route(a, b, out);
    return out;
  }

  // Calls visit(a, b) for pairs of GPUs that are close and far apart.
  template <class Visitor>
  void visit_pairs(Visitor&& visit) const {
    const std::int64_t step = std::max<std::int64_t>(1, fabric_.gpus() / 97);
    for (std::int64_t a = 0; a < fabric_.gpus(); a += step)
      for (std::int64_t b = 0; b < fabric_.gpus(); b += b / 16 == a / 16 ? 1 : step)
        if (a != b) visit(a, b);
  }

  FabricShape shape_;
  Fabric fabric_;
};

TEST_P(EveryTopology, LinksHaveBandwidthAndNames) {
  std::vector<std::string> names;
  for (const Link& link : fabric_.links()) {
    ASSERT_GT(link.bandwidth, 0) << link.name;
    ASSERT_GE(link.latency, 0) << link.name;
    names.push_back(link.name);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST_P(EveryTopology, ThereAndBackAreAsLongAndShareNoLink) {
  visit_pairs([&](std::int64_t a, std::int64_t b) {
    std::vector<LinkId> there = links_between(a, b);
    std::vector<LinkId> back = links_between(b, a);
    ASSERT_FALSE(there.empty());
    ASSERT_EQ(there.size(), back.size()) << a << " " << b;
    ASSERT_DOUBLE_EQ(tests::route_latency(fabric_, a, b), tests::route_latency(fabric_, b, a));
    std::ranges::sort(there);
    std::ranges::sort(back);
    ASSERT_LT(there.back(), fabric_.links().size());
    ASSERT_EQ(std::ranges::adjacent_find(there), there.end()) << "a link twice on the way " << a << " " << b;
    std::vector<LinkId> both;
    std::ranges::set_intersection(there, back, std::back_inserter(both));
    ASSERT_TRUE(both.empty()) << fabric_.link(both.front()).name;
  });
}

// Reads the two ends of a link from its name, so that a route can be checked for gaps.
TEST_P(EveryTopology, EveryRouteStartsAndEndsAtItsGpus) {
  visit_pairs([&](std::int64_t a, std::int64_t b) {
    const std::vector<LinkId> links = links_between(a, b);
    const auto of_node = [&](std::int64_t gpu) { return "node" + std::to_string(fabric_.node(gpu)) + "."; };
    ASSERT_TRUE(fabric_.link(links.front()).name.starts_with(of_node(a)));
    ASSERT_TRUE(fabric_.link(links.back()).name.starts_with(of_node(b)));
  });
}

TEST_P(EveryTopology, EveryLinkIsOnSomeRoute) {
  std::vector<bool> used(fabric_.links().size(), false);
  std::vector<LinkId> links;
  const std::int64_t per_node = fabric_.gpus_per_node();
  const bool few = fabric_.gpus() <= 4096;
  for (std::int64_t a = 0; a < fabric_.gpus(); ++a) {
    // In large clusters, all GPUs of the first node send to all, and all GPUs to the first and last group of nodes.
    const std::int64_t step = few || fabric_.node(a) == 0 || fabric_.node(a) + 1 == fabric_.nodes() ? 1 : per_node + 1;
    const std::int64_t own = fabric_.node(a) * per_node;  // the first GPU of its node, whose GPUs all are sent to
    const auto next = [&](std::int64_t b) {
      if (fabric_.node(b) == fabric_.node(a)) return b + 1;
      return b < own && own < b + step ? own : b + step;
    };
    for (std::int64_t b = 0; b < fabric_.gpus(); b = next(b)) {
      links.clear();
      fabric_.route(a, b, links);
      for (const LinkId id : links) used[id] = true;
    }
  }
  for (std::size_t id = 0; id < used.size(); ++id) ASSERT_TRUE(used[id]) << fabric_.link(static_cast<LinkId>(id)).name;
}

TEST_P(EveryTopology, ASlowerNicSlowsWhatLeavesTheNodeAndNothingElse) {
  FabricShape slower = shape_;
  slower.nic_bandwidth /= 4;  // stays 0 where there is no NIC: then nothing leaves the node
  const Fabric other = Fabric::make(slower, fabric_.gpus()).value();
  visit_pairs([&](std::int64_t a, std::int64_t b) {
    const double now = tests::route_bandwidth(other, a, b);
    const bool leaves_the_node = fabric_.node(a) != fabric_.node(b);
    ASSERT_DOUBLE_EQ(now, tests::route_bandwidth(fabric_, a, b) / (leaves_the_node ? 4 : 1));
  });
}

TEST_P(EveryTopology, CapacityIsTheLargestThatCanBeBuilt) {
  const std::int64_t most = capacity(shape_).gpus;
  EXPECT_TRUE(Fabric::make(shape_, most));
  EXPECT_FALSE(Fabric::make(shape_, most + 1));
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryTopology,
                         testing::ValuesIn(model::names_in_folder(shipped("topologies"), ".toml")),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plumbline::topologies
