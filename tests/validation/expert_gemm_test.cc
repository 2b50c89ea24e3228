// GEMMs of experts as Transformer Engine runs them, an expert's GEMM of cuBLAS each, against public timings of its
// general_grouped_gemm in BF16, forward and for the gradient of the input.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "calibrate/validate/validation_case.h"
#include "model/base/units.h"
#include "model/cost/forms/kernel_forms.h"
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

// Weight gradients of experts, [n, k] over the rows of an expert, m, which Transformer Engine adds to sums of FP32 (8
// bytes an element, read and written) or BF16 (4).
struct Gradient {
  double groups, m, n, k, flops_per_second, sum_bytes = 8;
};

// The same files, stage bwd_grad_w: of 2,250 and 312 TFLOP/s; of the B200 at commit e691807a, b200_bf16_ceperm.json.
std::vector<Gradient> b200_gradients() {
  struct Row {
    double groups, m, n, k, fp32, bf16;
  };
  std::vector<Gradient> rows;
  for (const Row& r : std::vector<Row>{{160, 154, 3072, 5120, .09365, .14858}, {160, 154, 5120, 1536, .08282, .12284},
                                       {256, 128, 4096, 7168, .07749, .14157}, {256, 128, 7168, 2048, .08007, .14137},
                                       {80, 308, 3072, 5120, .16158, .24333},  {80, 308, 5120, 1536, .17803, .24468},
                                       {128, 256, 4096, 7168, .14733, .21897}, {128, 256, 7168, 2048, .14094, .21822},
                                       {40, 616, 3072, 5120, .25789, .34296},  {40, 616, 5120, 1536, .27233, .36121},
                                       {64, 512, 4096, 7168, .21917, .28907},  {64, 512, 7168, 2048, .21450, .28439},
                                       {20, 1232, 3072, 5120, .32760, .38486}, {20, 1232, 5120, 1536, .31978, .36033},
                                       {32, 1024, 4096, 7168, .28881, .34694}, {32, 1024, 7168, 2048, .27436, .29476},
                                       {40, 2460, 3072, 5120, .41665, 0},      {40, 2460, 5120, 1536, .40259, 0},
                                       {40, 9832, 3072, 5120, .41858, 0},      {40, 9832, 5120, 1536, .41342, 0}}) {
    rows.push_back({r.groups, r.m, r.n, r.k, r.fp32 * 2250e12});
    if (r.bf16 > 0) rows.push_back({r.groups, r.m, r.n, r.k, r.bf16 * 2250e12, 4});
  }
  return rows;
}

const std::vector<Gradient> a100_gradients = {{40, 616, 3072, 5120, 0.5197 * 312e12},
                                              {40, 616, 5120, 1536, 0.5198 * 312e12},
                                              {20, 1232, 3072, 5120, 0.6036 * 312e12},
                                              {20, 1232, 5120, 1536, 0.6372 * 312e12}};

// Returns the mean absolute error of the profile's weight gradients, an expert's after another's, with the SMs at a
// share of the profile's rate.
double gradient_error(const std::string& name, double sms, double share, const std::vector<Gradient>& rows) {
  const auto profile = model::load_profile(shipped_profile(name)).value();
  const auto constant = [&](const std::string& of) {
    const model::Parameter& found = profile.parameters()[profile.find(of).value()];
    return found.value * model::si_unit(found.unit)->factor;
  };
  const auto own = [&](const std::string& what) { return constant("gemm.bf16_weight_gradient." + what); };
  const model::GemmConstants form{.tile_m = own("tile_m"),
                                  .tile_n = own("tile_n"),
                                  .k_block = constant("gemm.k_block"),
                                  .wave_overhead = own("wave_overhead"),
                                  .wave_share = own("wave_share"),
                                  .k_time = own("k_time") / share,
                                  .memory_bandwidth = own("memory_bandwidth"),
                                  .memory_exponent = own("memory_exponent"),
                                  .droop = own("droop"),
                                  .droop_time = own("droop_time")};
  const double start = constant("gemm.ramp") + constant("kernel.launch_gap");
  double sum = 0;
  for (const Gradient& row : rows) {
    const model::GemmWork work{.m = row.n, .n = row.k, .k = row.m, .output_bytes = row.sum_bytes};
    const double predicted = row.groups * (start + gemm_core_seconds(form, work, sms));
    const double error = predicted / (2 * row.groups * row.m * row.n * row.k / row.flops_per_second) - 1;
    fmt::print("{} {} x {}x{} over {}: {:+.1f} %\n", name, row.groups, row.n, row.k, row.m, error * 100);
    sum += std::abs(error);
  }
  return sum / static_cast<double>(rows.size());
}

// With the exponent and rate of other GEMMs 20 and 43 %.
TEST(ExpertGemms, WeightGradientsHideLittleOfTheirSums) {
  EXPECT_LE(gradient_error("b200", 148, 0.75, b200_gradients()), 0.11);
  EXPECT_LE(gradient_error("a100", 108, 1, a100_gradients), 0.14);
}

}  // namespace
}  // namespace plumbline::tests
