#include <gtest/gtest.h>

#include "cli/import/detail/import.h"

namespace plumbline::cli {
namespace {

model::Device gpu(std::vector<std::string> lacks) {
  model::Device device;
  device.name = "gpu";
  device.lacks = std::move(lacks);
  return device;
}

TEST(GpuKernels, AttentionIsUnfusedWhereNoFusedOneRuns) {
  model::Plan plan;
  plan.attention.kernel = "fused";
  EXPECT_TRUE(take_gpu_kernels(gpu({"cudnn", "flash3"}), {}, plan).empty());
  EXPECT_TRUE(take_gpu_kernels(gpu({"cudnn", "flash2"}), {"attention.kernel=\"fused\""}, plan).empty());
  EXPECT_EQ(plan.attention.kernel, "fused");
  EXPECT_EQ(take_gpu_kernels(gpu({"cudnn", "flash2"}), {}, plan).size(), 1U);
  EXPECT_EQ(plan.attention.kernel, "unfused");
}

}  // namespace
}  // namespace plumbline::cli
