#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/memory/memory.h"
#include "tests/support/cost_models.h"
#include "tests/support/step_inputs.h"

namespace plumbline::model {
namespace {

Device of_gpus(std::int64_t gpus) {
  Device device;
  device.host_gpus = gpus;
  return device;
}

TEST(HostMemory, SumsTheGpusOfAHost) {
  Plan plan;
  plan.cluster.gpus = 16;
  EXPECT_EQ(fullest_host(plan, of_gpus(8), {1, 2}), 16);        // eight GPUs of the second rank
  EXPECT_EQ(fullest_host(plan, of_gpus(8), {1, 2, 3, 4}), 28);  // four of the third, four of the fourth
  EXPECT_EQ(fullest_host(plan, of_gpus(16), {1, 2, 3, 4}), 40);
  EXPECT_EQ(fullest_host(plan, of_gpus(8), {0, 0}), 0);
}

Memory memory_of(const std::vector<std::string>& overrides) {
  const sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", overrides);
  const Layout layout = make_layout(inputs.plan, inputs.architecture).value();
  return memory(inputs.plan, layout, tests::program_of(inputs), inputs.cluster.device);
}

TEST(HostMemory, HoldsTheStatesOfAnOffloadedOptimizer) {
  EXPECT_EQ(memory_of({}).host_bytes, 0);
  const Memory there = memory_of({"offload.optimizer=true"}), here = memory_of({});
  for (std::size_t rank = 0; rank < here.ranks.size(); ++rank) {
    // Master weights and two moments in FP32, which are 12 of 16 bytes with the gradients of the update.
    EXPECT_NEAR(there.ranks[rank].host_bytes, here.ranks[rank].optimizer_bytes * 16 / 12, 1);
    EXPECT_EQ(there.ranks[rank].optimizer_bytes, 0);
  }
  EXPECT_EQ(there.host_capacity_bytes, 2048.0 * (1 << 30));
  EXPECT_TRUE(there.fits);
}

TEST(HostMemory, HoldsTheActivationsOfMicroBatchesInFlight) {
  const sim::Inputs inputs =
      tests::step_inputs(tests::llama_plan, "h800", {"parallelism.pipeline=4", "offload.activations=1"});
  const std::vector<double> waiting = waiting_on_host(inputs.plan, tests::program_of(inputs));
  ASSERT_EQ(waiting.size(), 4u);
  // Under 1F1B the second rank has three micro-batches in flight and the third two, with as many layers.
  EXPECT_GT(waiting[2], 0);
  EXPECT_NEAR(waiting[1] / waiting[2], 1.5, 1e-9);
}

TEST(HostMemory, DecidesWhetherThePlanFits) {
  sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", {"offload.optimizer=true"});
  inputs.cluster.device.host_memory = Bytes(1e9);
  const Layout layout = make_layout(inputs.plan, inputs.architecture).value();
  const Memory small = memory(inputs.plan, layout, tests::program_of(inputs), inputs.cluster.device);
  EXPECT_FALSE(small.fits);
  EXPECT_EQ(fit_of(small), Fit::does_not_fit);
  EXPECT_NE(infeasible_reason(small).find("a host needs"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::model
