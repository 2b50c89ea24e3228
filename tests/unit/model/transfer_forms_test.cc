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

TEST(ExchangeForm, LinksCarryWhatLeaves) {
  // 7/8 of 6 MB stay on NVLink; of three nodes one is the sender's in four times: 2.25 MB over the NIC.
  EXPECT_DOUBLE_EQ(work_in_one_node.node_bytes(), 5.25e6);
  EXPECT_EQ(work_in_one_node.network_bytes(), 0);
  EXPECT_DOUBLE_EQ(work_of_four_nodes.network_bytes(), 2.25e6);
  ExchangeConstants c;
  c.nvlink_rate = 200e9;
  c.nic_rate = 50e9;
  const ExchangeSeconds time = exchange_seconds(c, work_of_four_nodes, 20);
  EXPECT_DOUBLE_EQ(time.network, 45e-6);
  EXPECT_DOUBLE_EQ(time.node, 26.25e-6);
  EXPECT_DOUBLE_EQ(time.seconds(), 45e-6);
  EXPECT_EQ(exchange_seconds(c, work_in_one_node, 20).network, 0);
}

TEST(ExchangeForm, TheWorkOfTheSmsOnANode) {
  // 6 MB at 20 GB/s per SM are 300 us of one SM, 6,000 rows of 10 ns 60 us, 1,000 tokens of 40 ns another 40 us.
  ExchangeConstants c = by_sms();
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_in_one_node, 10).node, 30e-6);
  c.row_time = 10e-9;
  c.token_time = 40e-9;
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_in_one_node, 10).node, 40e-6);
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_in_one_node, 20).node, 20e-6);
  c.node_rate = 1e9;  // counts on several nodes only
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_in_one_node, 20).node, 20e-6);
  EXPECT_TRUE(exchange_seconds(c, work_in_one_node, 20).sms_limit_node);
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

TEST(ExchangeForm, EveryTokenOnceInItsDomain) {
  ExchangeConstants c;
  c.nvlink_rate = 200e9;
  c.local_rate = 50e9;
  EXPECT_DOUBLE_EQ(exchange_seconds(c, work_in_one_node, 20).node, 26.25e-6 + 20e-6);
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

TEST(ExchangeForm, SaturationCostsOnePercent) {
  ExchangeConstants c = by_sms();
  c.nvlink_rate = 300e9;
  c.nic_rate = 45e9;
  for (const ExchangeWork& work : {work_in_one_node, work_of_four_nodes}) {
    const auto sms = static_cast<double>(exchange_saturation(c, work));
    const double least = exchange_link_seconds(c, work).seconds();
    EXPECT_LE(exchange_seconds(c, work, sms).seconds(), 1.0101 * least);
    EXPECT_GT(exchange_seconds(c, work, sms - 2).seconds(), 1.0099 * least);
  }
  EXPECT_EQ(exchange_saturation(c, {1000, 1000, 1, 1, 1, 1}), 0);  // one rank sends nothing
  c.rank_rate = 0;
  EXPECT_EQ(exchange_saturation(c, work_in_one_node), 0);  // no SMs limit
}

}  // namespace
}  // namespace plumbline::model
