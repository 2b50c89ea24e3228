// The work of every GPU where experts or documents make micro-batches differ.
#include <gtest/gtest.h>

#include <cmath>

#include "sim/cluster/detail/fleet_draw.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

std::unique_ptr<UnevenWork> work_of(const std::vector<std::string>& overrides, std::uint64_t seed = 1) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800", overrides);
  return uneven_work(inputs.plan, inputs.architecture, seed).value();
}

// 128 replicas of a pipeline rank, two expert groups of 64 ranks one after the other; layers 0 to 2 are dense.
TEST(UnevenWork, RowsOfAGroupAddUpToItsTokens) {
  const std::vector<std::vector<std::string>> plans = {
      {"routing.imbalance=0", "routing.skew=0.3", "routing.correlation=0.9", "routing.balancing=bias"},
      {"routing.imbalance=0.075"}};
  for (const auto& overrides : plans) {
    const auto work = work_of(overrides), again = work_of(overrides), other = work_of(overrides, 2);
    ASSERT_NE(work, nullptr);
    double squares = 0;
    for (const std::int32_t layer : {3, 60, 61})
      for (const std::int32_t batch : {0, 119})
        for (const std::int64_t first : {0, 64}) {
          double sum = 0;
          for (std::int64_t replica = first; replica < first + 64; ++replica) {
            const double rows = work->expert_rows(replica, layer, batch);
            EXPECT_EQ(rows, again->expert_rows(replica, layer, batch));
            sum += rows;
            squares += std::abs(rows - other->expert_rows(replica, layer, batch));
          }
          EXPECT_NEAR(sum, 64, 1e-5);
        }
    EXPECT_GT(squares, 1);
    EXPECT_EQ(work->expert_rows(5, 2, 0), 1);
    EXPECT_EQ(work->attention(5, 0), 1);
  }
}

// Expert groups with expert_tensor: ranks that share experts have the same rows, and the group's other ranks the rest.
TEST(UnevenWork, FollowsTheGroupsOfTheLayout) {
  const auto work = work_of({"routing.imbalance=0.2", "parallelism.expert=16", "parallelism.expert_tensor=2"});
  double sum = 0;
  for (std::int64_t replica = 0; replica < 32; replica += 2) {
    sum += work->expert_rows(replica, 10, 7);
    EXPECT_EQ(work->expert_rows(replica, 10, 7), work->expert_rows(replica + 1, 10, 7));
  }
  EXPECT_NEAR(sum, 16, 1e-5);
}

TEST(UnevenWork, EvenPlansHaveNone) {
  EXPECT_EQ(work_of({"routing.imbalance=0"}), nullptr);
  EXPECT_EQ(work_of({"parallelism.expert=1"}), nullptr);
}

TEST(UnevenWork, DocumentsVaryAttention) {
  const auto work = work_of({"routing.imbalance=0", "batch.document_length=1000"});
  ASSERT_NE(work, nullptr);
  double sum = 0, squares = 0;
  for (std::int64_t replica = 0; replica < 128; ++replica)
    for (std::int32_t batch = 0; batch < 120; ++batch) {
      const double attention = work->attention(replica, batch);
      sum += attention;
      squares += (attention - 1) * (attention - 1);
    }
  EXPECT_NEAR(sum / (128 * 120), 1, 0.05);
  EXPECT_GT(squares / (128 * 120), 0.01);
  EXPECT_EQ(work->expert_rows(5, 10, 0), 1);
}

// Packed documents make attention of the plan's step shorter, and more experts on a rank its memory larger.
TEST(UnevenWork, TheStepFollowsTheSameKeys) {
  const auto step = [](const std::vector<std::string>& overrides) {
    return simulate(tests::step_inputs(tests::deepseek_plan, "h800", overrides), Fidelity::step, false).value().result;
  };
  const auto even = step({"routing.imbalance=0"});
  const auto packed = step({"routing.imbalance=0", "batch.document_length=1000"});
  EXPECT_LT(packed.step.time_s, even.step.time_s);
  EXPECT_LT(packed.step.model_tflops_per_gpu_causal * packed.step.time_s,
            even.step.model_tflops_per_gpu_causal * even.step.time_s);
  EXPECT_GE(packed.step.time_s, *packed.bound_s);
  EXPECT_GT(step({"routing.imbalance=0", "routing.skew=0.3"}).step.time_s, even.step.time_s);
  EXPECT_GT(step({"routing.imbalance=0", "routing.redundant_experts=64"}).memory.peak_bytes, even.memory.peak_bytes);
}

}  // namespace
}  // namespace plumbline::sim
