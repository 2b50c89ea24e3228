// Traffic of all-to-alls: the bytes between each pair of GPUs, and the table of their times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/flow_time.h"
#include "tests/support/network.h"

namespace plumbline::sim {
namespace {

using topologies::Fabric;

Fabric two_nodes() { return *Fabric::make(tests::planes_of_nodes(), 16); }

std::map<std::pair<std::int64_t, std::int64_t>, double> sum_by_ends(const std::vector<Transfer>& transfers) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> bytes_between;
  for (const Transfer& transfer : transfers) bytes_between[{transfer.from, transfer.to}] += transfer.bytes;
  return bytes_between;
}

// Ranks on GPUs 0 and 1 of one node and 8 and 9 of the other; 10 tokens of 100 B, 1.5 nodes and 2 ranks each.
TrafficPattern small_dispatch() {
  TrafficPattern all_to_all = tests::expert_dispatch({0, 1, 8, 9}, 2);
  all_to_all.token_bytes = 100;
  all_to_all.tokens = {10};
  all_to_all.nodes_per_token = 1.5;
  return all_to_all;
}

TEST(Dispatch, CrossesTheNetworkOncePerNodeAndFansOutThere) {
  const Fabric fabric = two_nodes();
  const auto transfers = transfers_of(fabric, small_dispatch());
  ASSERT_TRUE(transfers);
  const auto bytes_between = sum_by_ends(*transfers);
  // A token goes to the other node with probability 1.5 / 2: 750 B. It goes to each rank with 2 / 4: 500 B, for the
  // tokens of both nodes that arrive on this index: 1000 B over the node.
  const std::map<std::pair<std::int64_t, std::int64_t>, double> expected = {
      {{0, 8}, 750},  {{8, 0}, 750},  {{1, 9}, 750},  {{9, 1}, 750},
      {{0, 1}, 1000}, {{1, 0}, 1000}, {{8, 9}, 1000}, {{9, 8}, 1000}};
  EXPECT_EQ(bytes_between, expected);
  EXPECT_EQ(footprint_flows(fabric, *transfers).size(), 2u);  // each leg is one footprint
}

TEST(Combine, IsDispatchBackwards) {
  const Fabric fabric = two_nodes();
  TrafficPattern all_to_all = small_dispatch();
  all_to_all.tokens = {10, 20, 30, 40};
  const auto there = transfers_of(fabric, all_to_all);
  all_to_all.kind = TrafficKind::combine;
  const auto back = transfers_of(fabric, all_to_all);
  ASSERT_EQ(there->size(), back->size());
  const auto bytes_between = sum_by_ends(*there);
  for (const auto& [ends, bytes] : sum_by_ends(*back)) EXPECT_EQ(bytes_between.at({ends.second, ends.first}), bytes);
  // GPU 0 sends the rows of 10 tokens, GPU 9 those of 40.
  EXPECT_DOUBLE_EQ(bytes_between.at({0, 8}), 10 * 75);
  EXPECT_DOUBLE_EQ(bytes_between.at({9, 1}), 40 * 75);
  // Inside the node rows start where they arrive: GPU 0 has tokens of ranks on GPUs 0 and 8, GPU 9 of 1 and 9.
  EXPECT_DOUBLE_EQ(bytes_between.at({0, 1}), (10 + 30) * 50);
  EXPECT_DOUBLE_EQ(bytes_between.at({9, 8}), (20 + 40) * 50);
}

TEST(Dispatch, PopularRanksReceiveMoreButNoTokenTwice) {
  const Fabric fabric = two_nodes();
  TrafficPattern all_to_all = small_dispatch();
  all_to_all.popularity = {1, 1, 1, 5};
  const auto bytes_between = sum_by_ends(*transfers_of(fabric, all_to_all));
  EXPECT_DOUBLE_EQ(bytes_between.at({8, 0}), 1000 * 1.5 * 2 / 8);    // node 0 has 2 of 8
  EXPECT_DOUBLE_EQ(bytes_between.at({0, 8}), 1000);                  // 1.5 * 6 / 8 of a token is at most the token
  EXPECT_DOUBLE_EQ(bytes_between.at({8, 9}), 2 * 1000);              // 2 * 5 / 8 is at most the token too
  EXPECT_DOUBLE_EQ(bytes_between.at({9, 8}), 2 * 1000 * 2 * 1 / 8);  // rank 2
}

TEST(Dispatch, LandsInTurnWhereTheGroupHasNoGpuOfThatIndex) {
  const Fabric fabric = two_nodes();
  TrafficPattern all_to_all = small_dispatch();
  all_to_all.gpus = {0, 1, 10, 11};
  const auto bytes_between = sum_by_ends(*transfers_of(fabric, all_to_all));
  EXPECT_EQ(bytes_between.count({0, 10}), 1u);
  EXPECT_EQ(bytes_between.count({1, 11}), 1u);
  EXPECT_EQ(bytes_between.count({11, 1}), 1u);
}

TEST(Messages, GoFromTheFirstToTheSecond) {
  const Fabric fabric = two_nodes();
  TrafficPattern all_to_all;
  all_to_all.kind = TrafficKind::message;
  all_to_all.gpus = {3, 11};
  all_to_all.token_bytes = 50e6;
  const auto transfers = transfers_of(fabric, all_to_all);
  ASSERT_TRUE(transfers);
  ASSERT_EQ(transfers->size(), 1u);
  EXPECT_EQ((*transfers)[0].to, 11);
  EXPECT_NEAR(bottleneck_seconds(fabric, *transfers), 1e-3, 1e-12);
}

TEST(AllToAlls, AreCheckedBeforeTheyRun) {
  const Fabric fabric = two_nodes();
  const auto message = [&](auto change) {
    TrafficPattern all_to_all = small_dispatch();
    change(all_to_all);
    const auto transfers = transfers_of(fabric, all_to_all);
    return transfers ? std::string() : transfers.error().message;
  };
  EXPECT_EQ(message([](TrafficPattern& e) { e.gpus[0] = 16; }), "GPU 16 is not one of 16");
  EXPECT_EQ(message([](TrafficPattern& e) { e.gpus[0] = 1; }), "GPU 1 is twice in the group");
  EXPECT_EQ(message([](TrafficPattern& e) { e.token_bytes = -1; }), "-1 bytes per token");
  EXPECT_EQ(message([](TrafficPattern& e) { e.tokens = {1, 2}; }), "tokens of 2 ranks for a group of 4");
  EXPECT_EQ(message([](TrafficPattern& e) { e.tokens = {std::nan("")}; }), "tokens and popularity are finite amounts");
  EXPECT_EQ(message([](TrafficPattern& e) { e.popularity = {1}; }), "popularity of 1 ranks for a group of 4");
  EXPECT_EQ(message([](TrafficPattern& e) { e.popularity = {0, 0, 0, 0}; }), "some rank must be popular");
  EXPECT_EQ(message([](TrafficPattern& e) { e.nodes_per_token = INFINITY; }), "inf nodes and 2 ranks per token");
  EXPECT_EQ(message([](TrafficPattern& e) { e.kind = TrafficKind::message; }), "a message is between 2 ranks, not 4");
}

TEST(Simulation, NamesTheLinkThatFailed) {
  const Fabric fabric = two_nodes();
  auto network = SimGridNetwork::make(fabric.links());
  ASSERT_TRUE(network);
  std::vector<LinkId> route;
  fabric.route(3, 11, route);
  const auto flows = tests::flow_by_flow(fabric, std::vector<Transfer>{{3, 11, 50e6, 0}});
  const auto seconds = tests::simulate_seconds(*network, flows, {}, std::vector<LinkChange>{{0.5e-3, route[0], 0}});
  ASSERT_FALSE(seconds);
  EXPECT_EQ(seconds.error().kind, model::ErrorKind::infeasible);
  EXPECT_EQ(seconds.error().message, "link " + fabric.link(route[0]).name + " failed at 0.0005 s");
}

}  // namespace
}  // namespace plumbline::sim
