// Rules for the prices of every shipped topology.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "model/base/text_file.h"
#include "model/economics/ownership.h"
#include "model/plan/plan.h"
#include "tests/support/inputs.h"
#include "tests/support/load_cluster.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::topologies {
namespace {

using tests::load_cluster;
using tests::shipped;

model::ClusterShape priced_cluster(const std::string& name, std::int64_t gpus = 0) {
  Variation variation;
  variation.gpus = gpus;
  return tests::load_cluster(shipped("topologies/" + name + ".toml"), shipped("topologies/devices"), variation).value();
}

class EveryPrice : public testing::TestWithParam<std::string> {};

TEST_P(EveryPrice, HasASourceAndEnclosesItsValue) {
  for (const model::Parameter& price : priced_cluster(GetParam()).prices.stated()) {
    EXPECT_FALSE(price.source.empty()) << price.name;
    EXPECT_LE(price.low.value_or(price.value), price.value) << price.name;
    EXPECT_GE(price.high.value_or(price.value), price.value) << price.name;
    if (price.low || price.high) {
      EXPECT_NE(price.source.find_first_of(":;,"), std::string::npos) << price.name << " says where its range is from";
    }
  }
}

// Low, value and high are in that order and the parts add up. Each price is there, or is null with a reason.
TEST_P(EveryPrice, HourlyPricesAreOrdered) {
  const model::ClusterShape cluster = priced_cluster(GetParam());
  for (const auto& price : {model::rent_price({}, cluster), model::purchase_price({}, cluster)}) {
    EXPECT_EQ(price.value.has_value(), price.missing.empty());
    if (!price.value) continue;
    EXPECT_GT(price.value->low, 0);
    EXPECT_LE(price.value->low, price.value->value);
    EXPECT_GE(price.value->high, price.value->value);
    if (price.value->capital) {
      EXPECT_DOUBLE_EQ(*price.value->capital + *price.value->electricity, price.value->value);
    }
  }
}

// The count from the wiring's numbers equals the count link by link.
TEST_P(EveryPrice, CablesAreTheLinksOfTheFabric) {
  const Topology topology =
      load_topology(shipped("topologies/" + GetParam() + ".toml"), shipped("topologies/devices"), {}).value();
  const FabricShape& shape = topology.fabric;
  if (shape.layers == 0) return;
  const std::int64_t bundle = std::max<std::int64_t>(1, shape.nics / shape.gpus_per_node);
  for (const std::int64_t nodes : {2, 5, 33, 260}) {
    const std::int64_t gpus = std::min(capacity(shape).gpus, nodes * shape.gpus_per_node);
    const Fabric fabric = Fabric::make(shape, gpus).value();
    std::int64_t nics = 0, cables = 0;
    for (const LinkGroup& group : inventory(fabric)) {
      if (group.kind == LinkKind::nic_up) nics = group.count * bundle;
      if (group.kind == LinkKind::leaf_up || group.kind == LinkKind::spine_up) cables += group.count * bundle;
    }
    const model::FabricParts parts = count_parts(fabric);
    EXPECT_EQ(parts.nics, nics) << gpus;
    EXPECT_EQ(parts.links, cables) << gpus;
    EXPECT_LE(parts.switches, fabric.leaves() + fabric.spines() + fabric.cores()) << gpus;
    // Every cable has a port at each of its ends.
    EXPECT_GE(parts.switches * shape.switch_ports, parts.nics + 2 * parts.links) << gpus;
    EXPECT_EQ(parts.switches, priced_cluster(GetParam(), gpus).fabric.switches);
  }
}

TEST_P(EveryPrice, MoreGpusNeverMakeACheaperFabric) {
  const model::ClusterShape one = priced_cluster(GetParam());
  if (!one.prices.link) return;
  double before = 0;
  for (const std::int64_t nodes : {1, 2, 4, 32, 33, 64, 256}) {
    const auto usd = model::fabric_price(priced_cluster(GetParam(), nodes * one.gpus_per_node)).value();
    EXPECT_GE(usd, before) << nodes;
    before = usd;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryPrice, testing::ValuesIn(model::names_in_folder(shipped("topologies"), ".toml")),
                         [](const auto& file) {
                           std::string name = file.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace plumbline::topologies
