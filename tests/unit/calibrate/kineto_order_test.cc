// Traces of predicted steps without annotations: phases and layers by order alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "tests/support/step_inputs.h"
#include "tests/support/stripped_trace.h"

namespace plumbline::calibrate {
namespace {

// Shares of the time of kernels that belong to a layer: with its phase, with another phase, with its layer in its
// chunk, with another layer.
struct OrderShares {
  double phase = 0, other_phase = 0, layer = 0, other_layer = 0;
};

// Returns whether two phases are of one direction: order does not divide a backward into its halves.
bool one_direction(const std::string& a, const std::string& b) { return (a == "F") == (b == "F"); }

OrderShares order_shares(const std::string& plan, const std::string& profile, const std::vector<std::string>& overrides,
                         int rank, int layers) {
  const sim::Inputs inputs = tests::step_inputs(plan, profile, overrides);
  const model::Timeline predicted = tests::all_kernels(inputs, {rank});
  const auto kernels = tests::stripped_kernels(predicted, rank);
  const model::Timeline imported = tests::imported_trace(kernels);
  const auto spans = kernel_spans(imported);
  EXPECT_EQ(spans.size(), kernels.size());
  OrderShares shares;
  double all = 0;
  for (std::size_t i = 0; i < std::min(spans.size(), kernels.size()); ++i) {
    const model::Kernel& truth = predicted.kernels[static_cast<std::size_t>(kernels[i].span->kernel)];
    const model::Kernel& found = imported.kernels[i];
    if (kernels[i].span->layer < 0 || truth.phase.empty()) continue;
    const auto time = static_cast<double>(kernels[i].duration_ns);
    all += time;
    if (!found.phase.empty()) (one_direction(found.phase, truth.phase) ? shares.phase : shares.other_phase) += time;
    if (spans[i]->layer >= 0)
      (spans[i]->layer == kernels[i].span->layer % layers ? shares.layer : shares.other_layer) += time;
  }
  for (double* share : {&shares.phase, &shares.other_phase, &shares.layer, &shares.other_layer}) *share /= all;
  return shares;
}

const std::vector<std::string> four_stages = {"cluster.gpus=16", "parallelism.pipeline=4",
                                              "batch.global_batch_size=32"};

std::vector<std::string> and_also(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

void expect_order(const OrderShares& shares) {
  EXPECT_GE(shares.phase, 0.95);
  EXPECT_LE(shares.other_phase, 0.01);
  EXPECT_GE(shares.layer, 0.95);
  EXPECT_LE(shares.other_layer, 0.02);
}

TEST(KinetoOrder, OneForwardOneBackward) {
  expect_order(order_shares(tests::llama_plan, "h800-public", and_also(four_stages, {"schedule.kind=1f1b"}), 1, 8));
}

TEST(KinetoOrder, Interleaved) {
  expect_order(order_shares(tests::llama_plan, "h800-public",
                            and_also(four_stages, {"schedule.kind=interleaved", "schedule.virtual_stages=2"}), 2, 4));
}

TEST(KinetoOrder, ZbV) {
  expect_order(order_shares(tests::llama_plan, "h800-public", and_also(four_stages, {"schedule.kind=zb-v"}), 0, 4));
}

TEST(KinetoOrder, Fsdp) {
  expect_order(order_shares("llama-3-8b-fsdp-64xh100", "h100", {"batch.global_batch_size=256"}, 0, 32));
}

TEST(KinetoOrder, TensorParallelism) {
  expect_order(order_shares(tests::llama_plan, "h800-public",
                            and_also(four_stages, {"parallelism.tensor=4", "parallelism.pipeline=2"}), 1, 16));
}

// Overlapped passes alternate layer by layer, which order does not resolve.
TEST(KinetoOrder, DualPipeIsLeftOpen) {
  const OrderShares shares = order_shares(tests::deepseek_plan, "h800-public", {"batch.global_batch_size=4096"}, 3, 4);
  EXPECT_EQ(shares.other_phase, 0);
  EXPECT_EQ(shares.other_layer, 0);
}

}  // namespace
}  // namespace plumbline::calibrate
