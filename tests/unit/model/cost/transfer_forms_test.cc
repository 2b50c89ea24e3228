// The expert all-to-all from plain numbers.
#include "model/cost/forms/transfer_forms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline::model {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// 1,000 tokens of 1,000 bytes to 6 ranks.
constexpr ExchangeWork work_in_one_node{1000, 1000, 6, 1, 8, 1};
constexpr ExchangeWork work_of_four_nodes{1000, 1000, 6, 3, 32, 4};

ExchangeConstants by_sms() {
  ExchangeConstants c;
  c.rank_rate = 20e9;
  c.nvlink_rate = c.nic_rate = never;
  return c;
}

// 128 tokens of DeepSeek-V3 to 8 experts each: FP8 with scales and 16 bytes of header, back in BF16.
constexpr double dispatched = 128 * 8 * (7168 + 4 * 7168 / 128 + 16), combined = 128 * 8 * 2 * 7168;

double on_nodes(double bytes, double nic_rate, double nodes) {
  const LowLatencyConstants c{.start = 26e-6, .nic_rate = nic_rate, .node_rate = never};
  return 1e6 * low_latency_seconds(c, {bytes, 8 * nodes, nodes}).seconds();
}

TEST(LowLatencyForm, TheLawOfPublishedRows) {
  EXPECT_DOUBLE_EQ(dispatched, 7585792);
  EXPECT_DOUBLE_EQ(combined, 14680064);
  const double expected[5][2] = {
      {103.406, 185.566}, {142.109, 265.349}, {161.461, 305.24}, {171.136, 325.186}, {175.974, 335.159}};
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(on_nodes(dispatched, 49e9, 2 << i), expected[i][0], 1e-3) << i;
    EXPECT_NEAR(on_nodes(combined, 46e9, 2 << i), expected[i][1], 1e-3) << i;
  }
}

// arXiv 2505.09343: 32 tokens to 9 experts, 1 byte out and 2 back for each of 7,000 values, on a link without latency
// to very many ranks; two micro-batches in each of 61 layers.
TEST(LowLatencyForm, TheLimitOfThePublishedSpeed) {
  const auto layer = [](double rate) {
    const LowLatencyConstants c{.nic_rate = rate};
    const auto way = [&](double bytes) {
      return low_latency_seconds(c, {32 * 9 * 7000 * bytes, 1e16, 1e15}).seconds();
    };
    return way(1) + way(2);
  };
  const double by_nic = layer(50e9), by_nvlink = layer(900e9);
  EXPECT_NEAR(by_nic * 1e6, 120.96, 1e-9);
  EXPECT_NEAR(by_nvlink * 1e6, 6.72, 1e-9);
  EXPECT_NEAR(2 * 61 * by_nic * 1e3, 14.7571, 5e-5);
  EXPECT_NEAR(1 / (2 * 61 * by_nic), 67.7639, 5e-5);
  EXPECT_NEAR(2 * 61 * by_nvlink * 1e3, 0.81984, 5e-6);
  EXPECT_NEAR(1 / (2 * 61 * by_nvlink), 1219.75, 5e-3);
  const LowLatencyConstants c{.nic_rate = 50e9};
  EXPECT_NEAR(low_latency_seconds(c, {32 * 9 * 7000, 1e16, 1e15}).seconds() * 1e6, 40.32, 1e-9);  // the dispatch alone
}

TEST(LowLatencyForm, AVersionWithoutNvlinkUsesNicsWithinANode) {
  LowLatencyConstants c{.start = 20e-6, .step = 1e-6, .nic_rate = 40e9};
  // 7 of 8 MB leave a rank, on 8 ranks of one node as on 8 nodes.
  EXPECT_DOUBLE_EQ(low_latency_seconds(c, {8e6, 8, 1}).network, 198e-6);
  EXPECT_EQ(low_latency_seconds(c, {8e6, 8, 1}).node, 0);
  EXPECT_DOUBLE_EQ(low_latency_seconds(c, {8e6, 8, 8}).network, 198e-6);
  c.node_start = 10e-6;
  c.node_rate = 200e9;
  EXPECT_EQ(low_latency_seconds(c, {8e6, 8, 1}).network, 0);
  EXPECT_DOUBLE_EQ(low_latency_seconds(c, {8e6, 8, 1}).node, 45e-6);
  // On two nodes half leaves the node, and three of four copies of the other half leave the rank.
  EXPECT_DOUBLE_EQ(low_latency_seconds(c, {8e6, 8, 2}).network, 121e-6);
  EXPECT_DOUBLE_EQ(low_latency_seconds(c, {8e6, 8, 2}).node, 25e-6);
  EXPECT_EQ(low_latency_seconds(c, {8e6, 1, 1}).seconds(), 0);
}

TEST(ExchangeForm, OnSeveralNodesHalfOfTheSmsForward) {
  ExchangeConstants c = by_sms();
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_of_four_nodes, 10).network, 60e-6);
  c.node_rate = 30e9;  // 3 MB more
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_of_four_nodes, 10).network, 70e-6);
  c.forward_rate = 15e9;
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_of_four_nodes, 10).network, 50e-6);
}

TEST(ExchangeForm, WorkAndLinkOverlap) {
  ExchangeConstants c = by_sms();
  c.nvlink_rate = 5.25e6 / 30e-6;  // as long as ten SMs
  EXPECT_NEAR(exchange_seconds(c, work_in_one_node, 10).node, 30e-6 * std::pow(2, 0.125), 1e-15);
  EXPECT_NEAR(exchange_seconds(c, work_in_one_node, 40).node, 30e-6, 1e-9);
  EXPECT_NEAR(exchange_seconds(c, work_in_one_node, 1).node, 300e-6, 1e-12);
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_in_one_node, 0).node, 30e-6);  // what no SMs move
}

TEST(ExchangeForm, AStartByRanks) {
  ExchangeConstants c = by_sms();
  c.start = 10e-6;
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_in_one_node, 10).node, 40e-6);
  c.start_exponent = 0.5;
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_of_four_nodes, 10).network, 10e-6 * std::sqrt(32.0) + 60e-6);
}

TEST(ExchangeForm, NothingIsShorterThanItsLinks) {
  ExchangeConstants c = by_sms();
  c.start = 5e-6;
  c.row_time = 20e-9;
  c.nvlink_rate = 300e9;
  c.nic_rate = 45e9;
  c.local_rate = 400e9;
  for (const ExchangeWork& work : {work_in_one_node, work_of_four_nodes}) {
    const ExchangeSeconds least = exchange_link_seconds(c, work);
    double before = never;
    for (int sms = 1; sms <= 128; ++sms) {
      const ExchangeSeconds time = exchange_seconds(c, work, sms);
      EXPECT_GE(time.network, least.network) << sms;
      EXPECT_GE(time.node, least.node) << sms;
      EXPECT_LE(time.seconds(), before) << sms;
      before = time.seconds();
    }
  }
}

}  // namespace
}  // namespace plumbline::model
