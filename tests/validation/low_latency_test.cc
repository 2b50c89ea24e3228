// Low-latency dispatch and combine of the shipped profiles against what DeepEP printed of its versions, and against the
// component tables of several nodes. Those rows are among the ones that the constants were fitted to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/components/load.h"
#include "model/cost/communication_cost.h"
#include "tests/support/costs.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {
namespace {

model::ClusterShape nodes_of_eight(double nvlink) {
  model::ClusterShape shape;
  shape.gpus = 256;
  shape.gpus_per_node = shape.nics_per_node = 8;
  shape.intra_node_bandwidth = model::BytesPerSecond(nvlink);
  shape.nic_bandwidth = model::BytesPerSecond(50e9);
  return shape;
}

double predicted(const model::Profile& by, const model::ClusterShape& cluster, const std::string& version,
                 const calibrate::ExchangeRow& row) {
  const auto cost = model::CommunicationCost::make(by, cluster, {{8, 1}, row.gpus}, {.low_latency = version}).value();
  const bool dispatch = row.direction == "dispatch";
  model::Graph graph;
  graph.tensors = {{.name = "x", .shape = {{row.tokens}, {row.hidden}}, .type = model::DataType::bf16},
                   {.name = "y", .shape = {{row.tokens}, {row.hidden}}, .type = model::DataType::bf16}};
  const model::DispatchAttributes attributes{
      .experts = row.experts,
      .experts_per_token = row.top_k,
      .token_bytes = dispatch ? row.hidden + 4 * row.hidden / 128 + 16 : 2 * row.hidden,
      .dispatcher = model::Dispatcher::low_latency};
  const model::Operator op{.kind = dispatch ? model::OperatorKind::dispatch : model::OperatorKind::combine,
                           .name = "d",
                           .reads = {0},
                           .writes = {1},
                           .attributes = attributes};
  return cost.all_to_all(graph, op).alone;
}

struct LatencyErrors {
  double median = 0, largest = 0;
};

// Returns the errors on the rows of a software on several nodes.
LatencyErrors errors(const std::string& name, double nvlink, const std::string& version,
                     const std::vector<calibrate::ExchangeRow>& rows, const std::string& software) {
  std::vector<double> found;
  const model::Profile by = profile(shipped_profile(name));
  for (const calibrate::ExchangeRow& row : rows)
    if (row.software.starts_with(software) && row.mode == "low_latency" && row.nodes > 1)
      found.push_back(std::abs(predicted(by, nodes_of_eight(nvlink), version, row) / row.seconds - 1));
  EXPECT_FALSE(found.empty()) << software;
  if (found.empty()) return {};
  std::ranges::sort(found);
  return {found[found.size() / 2], found.back()};
}

TEST(LowLatency, WhatDeepepPrintedOfItsVersions) {
  const auto rows = calibrate::load_printed_exchange_rows(shipped("calibrate/published/deepep.csv")).value();
  const LatencyErrors first = errors("h800", 200e9, "deepep-2025-02", rows, "DeepEP 2025-02-25 H800");
  EXPECT_LT(first.median, 0.02);
  EXPECT_LT(first.largest, 0.06);
  const LatencyErrors second = errors("h800", 200e9, "deepep-2025-06", rows, "DeepEP 2025-06-05 H800");
  EXPECT_LT(second.median, 0.03);
  EXPECT_LT(second.largest, 0.10);
  // NVSHMEM and NCCL, 64 ranks 20 % apart from 32.
  const LatencyErrors backends = errors("h100", 450e9, "deepep-2025-02", rows, "DeepEP N");
  EXPECT_LT(backends.median, 0.05);
  EXPECT_LT(backends.largest, 0.20);
}

TEST(LowLatency, TheTableOfSeveralNodes) {
  const auto rows = calibrate::load_exchange_rows(shipped("calibrate/published/components/h100/exchange.csv")).value();
  const LatencyErrors table = errors("h100", 450e9, "deepep-2025-06", rows, "DeepEP LL");
  EXPECT_LT(table.median, 0.03);
  EXPECT_LT(table.largest, 0.20);
}

// Rows of ROCm/mori README.md @05bb5f40 (MORI-EP V1, the low-latency kernel on 32 GPUs): 128 tokens of DeepSeek-V3.
// Those of one node are what mi300x states; the network's constants are the H100's.
TEST(LowLatency, MoriOnSeveralNodesOfMi300x) {
  const model::Profile by = profile(shipped_profile("mi300x"));
  const auto error = [&](std::int64_t gpus, const std::string& direction, double seconds) {
    calibrate::ExchangeRow row;
    row.direction = direction;
    row.nodes = gpus / 8;
    row.gpus = gpus;
    row.tokens = 128;
    row.hidden = 7168;
    row.top_k = 8;
    row.experts = 256;
    return std::abs(predicted(by, nodes_of_eight(448e9), "deepep-2025-06", row) / seconds - 1);
  };
  EXPECT_LT(error(8, "dispatch", 35e-6), 0.02);
  EXPECT_LT(error(8, "combine", 47e-6), 0.02);
  std::vector<double> others = {error(16, "dispatch", 115e-6), error(16, "combine", 141e-6),
                                error(32, "dispatch", 157e-6), error(32, "combine", 280e-6)};
  std::ranges::sort(others);
  EXPECT_LT((others[1] + others[2]) / 2, 0.12);
  EXPECT_LT(others.back(), 0.30);
}

}  // namespace
}  // namespace plumbline::tests
