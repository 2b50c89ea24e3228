#include "cli/import/gpu_kernels.h"

#include <gtest/gtest.h>

namespace plumbline::cli {
namespace {

using model::Precision;

model::Device gpu(std::vector<std::string> lacks) {
  model::Device device;
  device.name = "gpu";
  device.fp8_peak = model::FlopsPerSecond(1e15);
  device.lacks = std::move(lacks);
  return device;
}

TEST(GpuKernels, ScalesOfBlocksAreThoseOfMxfp8OnBlackwell) {
  const auto format_on = [](const model::Device& device, Precision asked, std::vector<std::string> overrides = {}) {
    model::Plan plan;
    plan.precision.gemm = asked;
    const auto changes = take_gpu_kernels(device, overrides, plan);
    EXPECT_EQ(changes.empty(), plan.precision.gemm == asked);
    if (!changes.empty()) {
      EXPECT_EQ(changes[0].setting, "precision.gemm=\"mxfp8\"");
    }
    return plan.precision.gemm;
  };
  const model::Device blackwell = gpu({"flash3"}), hopper = gpu({"mxfp8"}), instinct = gpu({"cudnn", "flash3"});
  EXPECT_EQ(format_on(blackwell, Precision::fp8), Precision::mxfp8);
  EXPECT_EQ(format_on(blackwell, Precision::fp8_tensor), Precision::fp8_tensor);
  EXPECT_EQ(format_on(blackwell, Precision::bf16), Precision::bf16);
  EXPECT_EQ(format_on(hopper, Precision::fp8), Precision::fp8);
  EXPECT_EQ(format_on(instinct, Precision::fp8), Precision::fp8);
  EXPECT_EQ(format_on(blackwell, Precision::fp8, {"precision.gemm=\"fp8\""}), Precision::fp8);
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
