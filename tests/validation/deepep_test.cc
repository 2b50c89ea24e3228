// Dispatch and combine alone, as DeepEP and arXiv 2505.09343 printed them, against the exchange cost with
// public constants. Its NIC rates come from the README's 64 ranks (commit 3b1045d) and its NVLink rate from
// 8 ranks; 16, 32 and 128 ranks are held out, and so is the whole of the paper's figure.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/cost/exchange_cost.h"
#include "model/routing.h"
#include "tests/support/costs.h"
#include "tests/support/published.h"
#include "topologies/topology.h"

namespace plumbline::tests {
namespace {

constexpr std::int64_t tokens = 4096;
constexpr std::int64_t gpus_per_node = 8;

// DeepEP's own test (tests/test_internode.py): 256 experts, 8 per token, one group of experts per node, a
// token reaches up to four; a group's score is its best expert.
model::RoutingSpread spread_of_test(std::int64_t ranks) {
  model::MixtureOfExperts experts;
  experts.routed_experts = 256;
  experts.experts_per_token = 8;
  experts.groups = ranks / gpus_per_node;
  experts.groups_per_token = std::min<std::int64_t>(experts.groups, 4);
  return model::routing_spread(experts, experts.groups_per_token, ranks, gpus_per_node);
}

// GB/s as DeepEP prints them: bytes of every (token, node) pair, the sender's own node included, over time.
double printed_rate(std::int64_t ranks, model::OperatorKind kind) {
  const model::ClusterShape cluster =
      topologies::load_cluster(shipped("topologies/h800-rail-fat-tree.toml"), shipped("topologies/devices"), {ranks})
          .value();
  const model::RoutingSpread spread = spread_of_test(ranks);
  const model::ExchangeCost cost =
      model::ExchangeCost::make(profile("h800-public"), cluster, {spread, ranks}, {}).value();
  const bool sends = kind == model::OperatorKind::dispatch;
  // FP8 with a scale per 128 values out, BF16 back.
  const std::int64_t token_bytes = sends ? 7168 + 7168 / 128 * 4 : 7168 * 2;
  model::Graph graph;
  graph.tensors = {model::Tensor{"x", {{tokens, model::Extent::tokens}, {7168, model::Extent::fixed}}}};
  model::Operator op;
  op.kind = kind;
  op.reads = op.writes = {0};
  op.attributes = model::DispatchAttributes{256, 256 / ranks, 8, token_bytes};
  const double bytes = static_cast<double>(tokens * token_bytes) * spread.nodes_per_token;
  return bytes / cost.exchange(graph, op).alone / 1e9;
}

class Exchanges : public testing::TestWithParam<std::string> {};

TEST_P(Exchanges, PublicConstantsGiveThePrintedRate) {
  for (const Row& row : published("deepep")) {
    if (row.at("id") != GetParam()) continue;
    const auto ranks = static_cast<std::int64_t>(number(row, "ep"));
    const double dispatch = printed_rate(ranks, model::OperatorKind::dispatch);
    const double combine = printed_rate(ranks, model::OperatorKind::combine);
    const double dispatch_error = dispatch / number(row, "dispatch_gbps") - 1;
    const double combine_error = combine / number(row, "combine_gbps") - 1;
    fmt::print("{:3} ranks ({}): dispatch {:.1f} GB/s, printed {}, {:+.1f} %; combine {:.1f}, printed {}, {:+.1f} %\n",
               ranks, row.at("version"), dispatch, row.at("dispatch_gbps"), dispatch_error * 100, combine,
               row.at("combine_gbps"), combine_error * 100);
    EXPECT_NEAR(dispatch_error, 0, 0.15);
    EXPECT_NEAR(combine_error, 0, 0.15);
    return;
  }
  FAIL() << "no row " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(DeepEp20250422, Exchanges, testing::Values("ep009", "ep010", "ep011"));
INSTANTIATE_TEST_SUITE_P(Isca2025Figure7, Exchanges, testing::Values("ep012", "ep013", "ep014", "ep015"));

}  // namespace
}  // namespace plumbline::tests
