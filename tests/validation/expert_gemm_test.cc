// GEMMs of experts as Transformer Engine runs them, an expert's GEMM of cuBLAS each, against public timings of its
// general_grouped_gemm in BF16, forward and for the gradient of the input.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "calibrate/validate/validation_case.h"
#include "model/base/units.h"
#include "model/profile/stack.h"
#include "tests/support/profiles.h"
#include "topologies/topology.h"

namespace plumbline::tests {
namespace {

struct Timed {
  std::int64_t groups, m, n, k;
  double flops_per_second;
};

// NVIDIA/TransformerEngine pull request 2045 (Transformer Engine 2.7, CUDA 12.9), and a run of 2.17 with CUDA 13.1 on
// 20 experts of 3,328 rows (notes of its pull request 3069).
const std::vector<Timed> h100 = {{8, 4096, 768, 2048, 627.9e12},
                                 {16, 2048, 768, 2048, 553.9e12},
                                 {20, 3328, 512, 2048, 439.6e12},
                                 {20, 3328, 2048, 512, 521.1e12}};
// MooreThreads/SimuMax configs/system/a100_pcie.json @3005b17c, group_matmul, stages fwd and bwd_grad_act: of 312
// TFLOP/s.
const std::vector<Timed> a100 = {{40, 616, 3072, 5120, 0.6313 * 312e12},  {40, 616, 5120, 3072, 0.6791 * 312e12},
                                 {40, 616, 5120, 1536, 0.6293 * 312e12},  {40, 616, 1536, 5120, 0.6582 * 312e12},
                                 {20, 1232, 3072, 5120, 0.7074 * 312e12}, {20, 1232, 5120, 3072, 0.7039 * 312e12},
                                 {20, 1232, 5120, 1536, 0.6755 * 312e12}, {20, 1232, 1536, 5120, 0.6572 * 312e12}};

// Returns the mean absolute error of the profile's times; `one_by_one`: each expert is a launch and ends with a gap.
double mean_error(const model::Profile& profile, const std::string& device, const std::vector<Timed>& rows,
                  bool one_by_one) {
  std::vector<model::Parameter> ignored;
  const auto known = topologies::load_device(shipped("topologies/devices"), device, ignored).value();
  const auto kernels = calibrate::SingleKernels::make(profile, known.device).value();
  const model::Parameter& launch_gap = profile.parameters()[profile.find("kernel.launch_gap").value()];
  const double gap = launch_gap.value * model::si_unit(launch_gap.unit)->factor;
  double sum = 0;
  for (const Timed& row : rows) {
    const calibrate::GemmQuestion question{row.groups, row.m, row.n, row.k, model::Precision::bf16};
    const double launches = one_by_one ? static_cast<double>(row.groups) : 1;
    const double predicted = kernels.answer(question) + launches * gap;
    const double error = predicted / (question.flops() / row.flops_per_second) - 1;
    fmt::print("{} {} x {}x{}x{} {:+.1f} %\n", device, row.groups, row.m, row.n, row.k, error * 100);
    sum += std::abs(error);
  }
  return sum / static_cast<double>(rows.size());
}

TEST(ExpertGemms, AreThoseOfTransformerEngineOneAfterAnother) {
  const auto stack = model::load_stack(shipped("calibrate/stacks/megatron-core-2025.toml")).value();
  const auto errors = [&](const std::string& name, const std::string& device, const std::vector<Timed>& rows) {
    const auto profile = model::load_profile(shipped_profile(name)).value();
    const double together = mean_error(profile, device, rows, false);
    const double apart = mean_error(model::with_stack(profile, stack), device, rows, true);
    EXPECT_GT(together, 1.5 * apart) << name;
    return apart;
  };
  EXPECT_LE(errors("h100", "h100-sxm", h100), 0.11);
  EXPECT_LE(errors("a100", "a100-sxm", a100), 0.07);
}

}  // namespace
}  // namespace plumbline::tests
