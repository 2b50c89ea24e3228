#include "model/cost/collective_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

using tests::profile;

constexpr std::array every_collective = {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather,
                                         Collective::broadcast,  Collective::all_to_all,     Collective::send_recv};

// Nodes have eight GPUs with NVLink of 200 GB/s and one NIC of `nic` GB/s each, the line rates of the H800 profiles.
ClusterShape nvlink_cluster(double nic = 50) {
  ClusterShape shape;
  shape.gpus = 2048;
  shape.gpus_per_node = shape.nics_per_node = 8;
  shape.intra_node_bandwidth = BytesPerSecond(200e9);
  shape.nic_bandwidth = BytesPerSecond(nic * 1e9);
  return shape;
}

CollectiveCost collectives(const std::string& name = "h800-datasheet", double nic = 50) {
  return CollectiveCost::make(profile(name), nvlink_cluster(nic)).value();
}

CollectivePath path(const std::vector<CollectivePath>& paths, CollectiveAlgorithm algorithm,
                    CollectiveProtocol protocol) {
  for (const CollectivePath& p : paths)
    if (p.algorithm == algorithm && p.protocol == protocol) return p;
  ADD_FAILURE() << "no path of algorithm " << static_cast<int>(algorithm) << ' ' << to_string(protocol);
  return {};
}

constexpr CollectiveGroup one_node{8, 8}, four_nodes{32, 8}, spread{4, 1};

std::vector<Bytes> sizes() {
  std::vector<Bytes> found;
  for (int power = 3; power <= 34; ++power) found.emplace_back(std::ldexp(1.0, power));
  return found;
}

Profile with_custom(double available) {
  std::vector<Parameter> parameters = profile("h800-datasheet").parameters();
  const auto add = [&](const std::string& name, double value, const std::string& unit) {
    parameters.push_back({.name = "collective.custom.own." + name, .value = value, .unit = unit});
  };
  add("available", available, "1");
  add("most_ranks", 8, "1");
  add("most_bytes", 8e6, "B");
  add("one_shot.base", 4, "us");
  add("one_shot.rank_time", 0, "us");
  add("one_shot.rate", 250, "GB/s");
  add("two_shot.base", 12, "us");
  add("two_shot.rank_time", 0, "us");
  add("two_shot.rate", 300, "GB/s");
  return {"own", "", parameters};
}

// The line rate of the link is that of the constants.
TEST(Collectives, AnEnginesOwnAllReduce) {
  const CollectiveCost own = CollectiveCost::make(with_custom(1), nvlink_cluster()).value();
  const auto us = [&](double bytes) { return own.time(Collective::all_reduce, one_node, Bytes(bytes)) * 1e6; };
  EXPECT_NEAR(us(16384), 4.45875, 1e-5);   // 4 us + 7 x 16 KiB at 250 GB/s
  EXPECT_NEAR(us(524288), 15.0583, 1e-4);  // 12 us + 2 x 7/8 x 512 KiB at 300 GB/s
  const CollectiveCost nccl = CollectiveCost::make(with_custom(0), nvlink_cluster()).value();
  const auto same = [&](const CollectiveGroup& group, Collective what, double bytes) {
    return own.time(what, group, Bytes(bytes)) == nccl.time(what, group, Bytes(bytes));
  };
  EXPECT_FALSE(same(one_node, Collective::all_reduce, 16384));
  EXPECT_TRUE(same(one_node, Collective::all_reduce, 9e6));
  EXPECT_TRUE(same({16, 16}, Collective::all_reduce, 16384));
  EXPECT_TRUE(same(four_nodes, Collective::all_reduce, 16384));
  EXPECT_TRUE(same(one_node, Collective::all_gather, 16384));
  EXPECT_LE(own.best(Collective::all_reduce, one_node, Bytes(1e6)), us(1e6) * 1e-6);
}

TEST(Collectives, RingOfANode) {
  // 14 steps of 3.4 us after 8.4 us; 2 * 7/8 of the buffer at 80 % of NVLink's 200 GB/s.
  const CollectivePath simple = path(collectives().paths(Collective::all_reduce, one_node), CollectiveAlgorithm::ring,
                                     CollectiveProtocol::simple);
  EXPECT_NEAR(simple.latency, 56e-6, 1e-12);
  EXPECT_NEAR(simple.seconds_per_byte, 1.75 / 160e9, 1e-20);
  // LL: 6.6 + 14 * 0.6 us, half of the rate.
  const CollectivePath ll =
      path(collectives().paths(Collective::all_reduce, one_node), CollectiveAlgorithm::ring, CollectiveProtocol::ll);
  EXPECT_NEAR(ll.latency, 15e-6, 1e-12);
  EXPECT_NEAR(ll.seconds_per_byte, 1.75 / 80e9, 1e-20);
}

TEST(Collectives, BetweenNodes) {
  // Four ranks on four nodes have one NIC each, at 80 % of 50 GB/s; three network steps of 14 us after 8.4 us.
  const CollectivePath simple =
      path(collectives().paths(Collective::all_gather, spread), CollectiveAlgorithm::ring, CollectiveProtocol::simple);
  EXPECT_NEAR(simple.latency, 50.4e-6, 1e-12);
  EXPECT_NEAR(simple.seconds_per_byte, 0.75 / 40e9, 1e-20);
  // 32 ranks on four nodes: eight NICs carry 320 GB/s, NVLink's 160 limit.
  const CollectivePath node_peers = path(collectives().paths(Collective::all_gather, four_nodes),
                                         CollectiveAlgorithm::ring, CollectiveProtocol::simple);
  EXPECT_NEAR(node_peers.seconds_per_byte, 31.0 / 32 / 160e9, 1e-20);
  // Tree: 8.4 + 2 * (7 * 4 + 2 * 14) us; inner GPUs send the buffer twice over NVLink at 92 %.
  const CollectivePath tree = path(collectives().paths(Collective::all_reduce, four_nodes), CollectiveAlgorithm::tree,
                                   CollectiveProtocol::simple);
  EXPECT_NEAR(tree.latency, 120.4e-6, 1e-12);
  EXPECT_NEAR(tree.seconds_per_byte, 2 / (160e9 * 0.92), 1e-20);
  // In an all-to-all 24 of 32 parts leave through the GPU's NIC. A transfer between nodes has one NIC.
  const Bytes large(1e9);
  EXPECT_NEAR(collectives().time(Collective::all_to_all, four_nodes, large), 22.4e-6 + 0.75e9 / 40e9, 1e-12);
  EXPECT_NEAR(collectives().time(Collective::send_recv, spread, large), 22.4e-6 + 1e9 / 40e9, 1e-12);
}

// 8 + 128 * 2.8 + 7 * 4 us over 128 nodes, where a ring takes 8.4 + 127 * 14 us; three quarters of the NIC's 40 GB/s.
TEST(Collectives, ANetworkSlowsWhatCrossesIt) {
  ClusterShape rented = nvlink_cluster();
  rented.network = {.collective_rate = 0.5, .collective_latency = 3};
  const CollectiveCost fast = collectives(), slow = CollectiveCost::make(profile("h800-datasheet"), rented).value();
  const auto seconds = [](const CollectiveCost& c, const CollectiveGroup& group, double bytes) {
    return c.time(Collective::all_gather, group, Bytes(bytes));
  };
  EXPECT_EQ(seconds(slow, one_node, 1e9), seconds(fast, one_node, 1e9));
  EXPECT_NEAR(seconds(slow, spread, 1e10) / seconds(fast, spread, 1e10), 2, 0.05);
  EXPECT_GT(seconds(slow, four_nodes, 8), 1.3 * seconds(fast, four_nodes, 8));
}

TEST(Collectives, AggregatedTreesTakeFewStepsOverTheNetwork) {
  std::vector<Parameter> constants = profile("h800-datasheet").parameters();
  for (const auto& [name, value, unit] :
       {std::tuple("base", 8.0, "us"), {"rank_time", 2.8, "us"}, {"network_hop", 4.0, "us"}, {"efficiency", 0.75, "1"}})
    constants.push_back({std::string("collective.pat.simple.") + name, value, unit, Evidence::published, "NCCL", {}});
  const CollectiveCost with = CollectiveCost::make(Profile("with", "", std::move(constants)), nvlink_cluster()).value();
  constexpr CollectiveGroup nodes{128, 1};
  const CollectivePath pat =
      path(with.paths(Collective::reduce_scatter, nodes), CollectiveAlgorithm::pat, CollectiveProtocol::simple);
  EXPECT_NEAR(pat.latency, 394.4e-6, 1e-12);
  EXPECT_NEAR(pat.seconds_per_byte, 127.0 / 128 / 30e9, 1e-20);
  EXPECT_EQ(with.fastest(Collective::all_gather, nodes, Bytes(1e7)).algorithm, CollectiveAlgorithm::pat);
  EXPECT_EQ(with.fastest(Collective::all_gather, nodes, Bytes(1e10)).algorithm, CollectiveAlgorithm::ring);
  for (const CollectivePath& p : with.paths(Collective::all_gather, four_nodes))
    EXPECT_NE(p.algorithm, CollectiveAlgorithm::pat);  // NCCL has it for one GPU a node only
  for (const CollectivePath& p : with.paths(Collective::all_reduce, nodes))
    EXPECT_NE(p.algorithm, CollectiveAlgorithm::pat);
}

TEST(Collectives, SumsInTheSwitch) {
  // 25 us, and 0.708 of 160 GB/s: faster than the ring's 160 / 1.75 for large buffers.
  const CollectiveCost with = collectives("generic-datasheet");
  const CollectivePath nvls =
      path(with.paths(Collective::all_reduce, one_node), CollectiveAlgorithm::nvls, CollectiveProtocol::simple);
  EXPECT_NEAR(nvls.latency, 25e-6, 1e-12);
  EXPECT_NEAR(nvls.seconds_per_byte, 1 / (160e9 * 0.708), 1e-20);
  EXPECT_EQ(with.fastest(Collective::all_reduce, one_node, Bytes(1e9)).algorithm, CollectiveAlgorithm::nvls);
  EXPECT_EQ(collectives("a100-datasheet").fastest(Collective::all_reduce, one_node, Bytes(1e9)).algorithm,
            CollectiveAlgorithm::ring);
}

// nccl-tests of 8 GiB: NCCL chooses a ring on four H200 and sums from five on, a ring on four and five B200.
TEST(Collectives, SumsInTheSwitchPayForManyGpus) {
  const auto summed = [](const char* name, std::int64_t ranks) {
    return collectives(name).fastest(Collective::all_reduce, {ranks, ranks}, Bytes(std::ldexp(1.0, 33))).algorithm ==
           CollectiveAlgorithm::nvls;
  };
  for (const std::int64_t ranks : {2, 3, 4, 5, 7, 8}) {
    EXPECT_EQ(summed("generic-datasheet", ranks), ranks >= 5) << ranks;
    EXPECT_EQ(summed("b200-datasheet", ranks), ranks >= 6) << ranks;
  }
}

// 414.2, 435.6 and 460.0 GB/s on the bus of five to seven H200 from the 473.1 of eight, in the same table.
TEST(Collectives, SumsInTheSwitchByRanks) {
  const CollectiveCost hopper = collectives("generic-datasheet");
  const auto bus = [&](std::int64_t ranks) {
    const CollectivePath nvls = path(hopper.paths(Collective::all_reduce, {ranks, ranks}), CollectiveAlgorithm::nvls,
                                     CollectiveProtocol::simple);
    EXPECT_NEAR(nvls.node_load, 1 + 1 / static_cast<double>(ranks), 1e-12);
    return bus_factor(Collective::all_reduce, ranks) / nvls.seconds_per_byte;
  };
  for (const auto& [ranks, measured] : {std::pair(5, 414.2), {6, 435.6}, {7, 460.0}})
    EXPECT_NEAR(bus(ranks) / bus(8), measured / 473.1, 0.022) << ranks;
}

TEST(Collectives, TheSwitchSumsForAllReduceOnly) {
  for (const Collective collective : every_collective) {
    bool summed = false;
    for (const CollectivePath& p : collectives("generic-datasheet").paths(collective, one_node))
      summed = summed || p.algorithm == CollectiveAlgorithm::nvls;
    EXPECT_EQ(summed, collective == Collective::all_reduce) << to_string(collective);
  }
}

// Lines measured on a node, as plain numbers: us, us per transfer, GB/s.
struct Measured {
  double base, hop, rate;
  double seconds(double hops, double bytes) const { return base * 1e-6 + hops * hop * 1e-6 + bytes / (rate * 1e9); }
};

constexpr Measured ring_ll{5.0, 0.84, 110}, ring_ll128{7.6, 0.59, 173}, ring_simple{23.7, 0.22, 356};
constexpr Measured direct_ll{6.2, 0.2, 10}, direct_ll128{12.4, 0, 249}, direct_simple{24.8, 2.4, 353};
constexpr Measured switch_sums{64, 0, 252};
constexpr double copy_rate = 828;

// Returns a profile with these lines: efficiencies over the highest rate, latencies as they are, and trees as rings,
// whose latency they have on a node.
Profile measured_profile() {
  std::map<std::string, std::pair<double, const char*>> values = {
      {"network.nvlink_rate", {ring_simple.rate, "GB/s"}},
      {"collective.copy_bandwidth", {copy_rate, "GB/s"}},
      {"collective.nvls.available", {1, "1"}},
  };
  const auto add = [&](const std::string& prefix, const Measured& line) {
    values[prefix + ".base"] = {line.base, "us"};
    values[prefix + ".nvlink_hop"] = {line.hop, "us"};
    values[prefix + ".efficiency"] = {line.rate / ring_simple.rate, "1"};
  };
  for (const std::string algorithm : {"ring", "tree"}) {
    add("collective." + algorithm + ".ll", ring_ll);
    add("collective." + algorithm + ".ll128", ring_ll128);
    add("collective." + algorithm + ".simple", ring_simple);
  }
  add("collective.direct.ll", direct_ll);
  add("collective.direct.ll128", direct_ll128);
  add("collective.direct.simple", direct_simple);
  add("collective.nvls.simple", switch_sums);
  std::vector<Parameter> parameters = profile("h800-datasheet").parameters();
  for (const auto& [name, value] : values) {
    std::erase_if(parameters, [&](const Parameter& p) { return p.name == name; });
    parameters.push_back({name, value.first, value.second, Evidence::fitted, "a test"});
  }
  return {"measured", "", parameters};
}

TEST(Collectives, MeasuredLinesAreExpressedExactly) {
  const CollectiveCost c = CollectiveCost::make(measured_profile(), nvlink_cluster()).value();
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all})
    for (const std::int64_t n : {2, 4, 8})
      for (const Bytes size : sizes()) {
        const double ranks = static_cast<double>(n), bytes = size.value();
        const double bus = bytes * bus_factor(collective, n), copied = bytes / (ranks * copy_rate * 1e9);
        const double passes = collective == Collective::all_reduce ? 2 : 1;
        const bool direct = collective == Collective::all_to_all;
        const double hops = passes * (ranks - 1);
        double expected = std::min({(direct ? direct_ll : ring_ll).seconds(hops, bus),
                                    (direct ? direct_ll128 : ring_ll128).seconds(hops, bus),
                                    (direct ? direct_simple : ring_simple).seconds(hops, bus) + copied});
        if (collective == Collective::all_reduce && n > 2)  // the switch's rate is that of eight GPUs
          expected = std::min(expected, switch_sums.seconds(1, bytes * (1 + 1 / ranks) / 1.125));
        EXPECT_NEAR(c.time(collective, {n, n}, size) / expected, 1, 1e-12)
            << to_string(collective) << ' ' << n << ' ' << bytes;
        EXPECT_LE(c.best(collective, {n, n}, size), c.time(collective, {n, n}, size));
      }
  // One message is one transfer and moves nothing of its own.
  EXPECT_NEAR(c.time(Collective::send_recv, {2, 2}, Bytes(1e9)), direct_simple.seconds(1, 1e9), 1e-12);
}

TEST(Collectives, OnlyWhereTheSwitchCan) {
  // NVSwitch sums from Hopper on; Ampere's NVSwitch and meshes do not.
  for (const char* name : {"a100-datasheet", "mi300x-datasheet", "mi325x-datasheet", "mi355x-datasheet"})
    for (const CollectivePath& p : collectives(tests::shipped_profile(name)).paths(Collective::all_reduce, one_node))
      EXPECT_NE(p.algorithm, CollectiveAlgorithm::nvls) << name;
  // LL of four A100 nodes stops at 19 GB/s.
  const CollectivePath ampere = path(collectives("a100-datasheet").paths(Collective::all_gather, four_nodes),
                                     CollectiveAlgorithm::ring, CollectiveProtocol::ll);
  EXPECT_NEAR(ampere.seconds_per_byte, 31.0 / 32 / 19e9, 1e-18);
}

TEST(Collectives, ProtocolFollowsTheSize) {
  EXPECT_EQ(collectives().fastest(Collective::all_gather, one_node, Bytes(1024)).protocol, CollectiveProtocol::ll);
  EXPECT_EQ(collectives().fastest(Collective::all_gather, one_node, Bytes(1e9)).protocol, CollectiveProtocol::simple);
}

TEST(Collectives, OneRankTakesNoTime) {
  for (const Collective collective : every_collective) EXPECT_EQ(collectives().time(collective, {1, 1}, Bytes(1e9)), 0);
}

TEST(Collectives, GroupsByStride) {
  // Every 64th GPU is one per node, every second four per node. Fewer ranks than a node has GPUs are all on one.
  EXPECT_EQ(CollectiveGroup::strided(32, 64, 8).ranks_per_node, 1);
  EXPECT_EQ(CollectiveGroup::strided(32, 2, 8).ranks_per_node, 4);
  EXPECT_EQ(CollectiveGroup::strided(32, 2, 8).nodes(), 8);
  EXPECT_EQ(CollectiveGroup::strided(4, 1, 8).nodes(), 1);
}

TEST(Collectives, NamesAreKnown) {
  for (const Collective collective : every_collective)
    EXPECT_EQ(parse_collective(to_string(collective)).value(), collective);
  const auto wrong = parse_collective("all_reduse");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().hint.find("did you mean 'all_reduce'?"), std::string::npos);
}

// The laws hold for every profile, collective and group.
class CollectiveLaws : public testing::TestWithParam<std::string> {};

// Returns the bytes that a GPU must at least send per byte of the buffer: for an all-reduce in the switch the buffer
// and the sums of its share, 2 (n-1)/n without one.
double least_sent(Collective collective, const CollectiveGroup& group, CollectiveAlgorithm algorithm) {
  if (algorithm != CollectiveAlgorithm::nvls) return bus_factor(collective, group.ranks);
  return 1 + 1 / static_cast<double>(group.ranks_per_node);
}

TEST_P(CollectiveLaws, NothingIsFasterThanTheLinks) {
  const CollectiveCost c = collectives(GetParam());
  for (const Collective collective : every_collective)
    for (const CollectiveGroup& group : {CollectiveGroup{2, 2}, one_node, four_nodes, spread})
      for (const CollectivePath& p : c.paths(collective, group)) {
        const double line = group.ranks_per_node > 1 ? 200e9 : 50e9;
        EXPECT_GT(p.seconds(Bytes(0)), 0);
        // Bus bandwidth: bytes on a link over time.
        EXPECT_LE(least_sent(collective, group, p.algorithm) / p.seconds_per_byte, line)
            << to_string(collective) << ' ' << static_cast<int>(p.algorithm) << ' ' << to_string(p.protocol);
      }
}

TEST_P(CollectiveLaws, MoreBytesAndMoreRanksTakeLonger) {
  const CollectiveCost c = collectives(GetParam());
  for (const Collective collective : every_collective)
    for (const std::int64_t on_node : {1, 2, 4, 8})
      for (const Bytes bytes : sizes()) {
        double before = 0;
        for (std::int64_t nodes = 1; nodes <= 256; nodes *= 2) {
          const CollectiveGroup group{nodes * on_node, on_node};
          const double now = c.time(collective, group, bytes);
          EXPECT_GE(now, before) << to_string(collective) << ' ' << bytes.value() << " B, " << group.ranks;
          if (group.ranks > 1) {
            EXPECT_GT(c.time(collective, group, bytes + Bytes(1)), now);
          }
          before = now;
        }
        // Where the switch sums, more GPUs have smaller shares to hand out: eight may be faster than four.
        if (on_node > 1 && c.fastest(collective, {on_node, on_node}, bytes).algorithm != CollectiveAlgorithm::nvls) {
          EXPECT_GE(c.time(collective, {on_node, on_node}, bytes),
                    c.time(collective, {on_node / 2, on_node / 2}, bytes));
        }
      }
}

TEST_P(CollectiveLaws, ASlowerNicNeverHelpsAndShowsWhereItBinds) {
  const CollectiveCost fast = collectives(GetParam(), 50), slow = collectives(GetParam(), 25);
  for (const Collective collective : every_collective)
    for (const Bytes bytes : sizes()) {
      EXPECT_EQ(slow.time(collective, one_node, bytes), fast.time(collective, one_node, bytes));
      EXPECT_GE(slow.time(collective, four_nodes, bytes), fast.time(collective, four_nodes, bytes));
      // One NIC per member binds unless the protocol or the latency does: half the rate, twice the time of the bytes.
      EXPECT_GE(slow.time(collective, spread, bytes), fast.time(collective, spread, bytes));
    }
  for (const Collective collective : every_collective) {
    const double latency = fast.fastest(collective, spread, Bytes(1e10)).latency;
    EXPECT_NEAR(
        (slow.time(collective, spread, Bytes(1e10)) - latency) / (fast.time(collective, spread, Bytes(1e10)) - latency),
        2, 1e-9)
        << to_string(collective);
  }
}

TEST_P(CollectiveLaws, RingAllReduceIsReduceScatterAndAllGather) {
  const CollectiveCost c = collectives(GetParam());
  for (const CollectiveGroup& group : {one_node, four_nodes, spread})
    for (const CollectiveProtocol protocol :
         {CollectiveProtocol::ll, CollectiveProtocol::ll128, CollectiveProtocol::simple}) {
      const auto ring = [&](Collective collective) {
        return path(c.paths(collective, group), CollectiveAlgorithm::ring, protocol);
      };
      const CollectivePath both = ring(Collective::all_reduce), scatter = ring(Collective::reduce_scatter),
                           gather = ring(Collective::all_gather);
      EXPECT_NEAR(both.seconds_per_byte / (scatter.seconds_per_byte + gather.seconds_per_byte), 1, 1e-12);
      // The halves start twice.
      EXPECT_LE(both.latency, scatter.latency + gather.latency);
      EXPECT_GT(2 * both.latency, scatter.latency + gather.latency);
    }
}

INSTANTIATE_TEST_SUITE_P(Profiles, CollectiveLaws,
                         testing::Values("h800-datasheet", "h800", "generic-datasheet", "a100-datasheet",
                                         "b200-datasheet"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plumbline::model
