// Matrix products that no constant was fitted to, predicted by the cost function and compared with what
// was measured. The tolerances are what holds today; the messages print every figure.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/cost/kernel_cost.h"
#include "tests/support/costs.h"
#include "tests/support/published.h"

namespace plumbline::tests {
namespace {

constexpr std::int64_t device_sms = 132;
constexpr std::int64_t compute_sms = 112;
constexpr double local_experts = 4;

struct Comparison {
  std::string what;
  double predicted = 0, measured = 0;  // us
};

struct Errors {
  double rms = 0, largest = 0, sum = 0;  // relative; sum: of the total time
  std::string text;
};

Errors errors(const std::vector<Comparison>& comparisons) {
  Errors e;
  double squares = 0;
  double predicted = 0;
  double measured = 0;
  for (const Comparison& c : comparisons) {
    const double error = c.predicted / c.measured - 1;
    squares += error * error;
    if (std::abs(error) > std::abs(e.largest)) e.largest = error;
    predicted += c.predicted;
    measured += c.measured;
    e.text +=
        fmt::format("{:40} {:7.0f} us, measured {:7.0f}, {:+.1f} %\n", c.what, c.predicted, c.measured, error * 100);
  }
  e.rms = std::sqrt(squares / static_cast<double>(comparisons.size()));
  e.sum = predicted / measured - 1;
  e.text += fmt::format("{} products: rms {:.1f} %, largest {:+.1f} %, sum {:+.1f} %\n", comparisons.size(),
                        e.rms * 100, e.largest * 100, e.sum * 100);
  return e;
}

class Products : public testing::Test {
 protected:
  const std::vector<Kernel> kernels_ = chunk_kernels();

  // Beside transfers as long as the measured kernel was.
  static Comparison compare(const std::string& profile_name, const Kernel& kernel, bool weight_gradient) {
    const model::Profile constants = profile(profile_name);
    const model::KernelCost cost = model::KernelCost::make(constants, device_sms).value();
    const double slowdown = constants.parameters()[constants.find("gemm.slowdown_beside_transfer").value()].value;
    Shape shape = kernel.shape();
    if (kernel.kind.find("grouped") != std::string::npos) {
      shape.groups = local_experts;
      if (!weight_gradient) shape.m /= local_experts;  // the note has the rows of all experts
    }
    const double alone = product_time(cost, shape, weight_gradient, compute_sms);
    return {kernel.note, alone * (1 + (slowdown - 1) * kernel.beside_transfer), kernel.duration};
  }

  std::vector<Comparison> forward_and_input_gradients(const std::string& profile_name, char phase,
                                                      int first_slot) const {
    std::vector<Comparison> result;
    for (const char* kind : {"gemm_fp8", "grouped_gemm_fp8"})
      for (const Kernel& kernel : select(kernels_, kind, phase))
        if (kernel.slot >= first_slot) result.push_back(compare(profile_name, kernel, false));
    return result;
  }

  std::vector<Comparison> weight_gradients(const std::string& profile_name, int first_slot) const {
    std::vector<Comparison> result;
    constexpr double launch_gap = 2;
    std::vector<Kernel> measured = select(kernels_, "gemm_fp8_wgrad", 'W');
    for (const Kernel& whole : grouped_weight_gradients(kernels_, launch_gap)) measured.push_back(whole);
    for (const Kernel& kernel : measured)
      if (kernel.slot >= first_slot) result.push_back(compare(profile_name, kernel, true));
    return result;
  }

  static std::vector<Comparison> deepgemm(const std::string& profile_name, const std::string& commit, double least_m,
                                          double most_m = 1e9) {
    const model::KernelCost cost = model::KernelCost::make(profile(profile_name), device_sms).value();
    std::vector<Comparison> result;
    for (const Row& row : published("gemm")) {
      const Shape shape{number(row, "groups"), number(row, "m"), number(row, "n"), number(row, "k")};
      if (row.at("source").find(commit) == std::string::npos || shape.m < least_m || shape.m > most_m) continue;
      result.push_back({fmt::format("{} x {}x{}x{}", shape.groups, shape.m, shape.n, shape.k),
                        product_time(cost, shape, false, device_sms), number(row, "time_us")});
    }
    return result;
  }
};

TEST_F(Products, BackwardPhasesOfSlotsTwoAndThree) {
  // h800 was fitted to forward phases: nothing of mlp(B) and attn(B) is in it. All but the gradient of kv_a (K 576,
  // which kernels may pad to 640; -15 %) are within 8 %.
  const Errors e = errors(forward_and_input_gradients("h800", 'B', 2));
  fmt::print("{}", e.text);
  EXPECT_LE(e.rms, 0.06);
  EXPECT_NEAR(e.sum, 0, 0.04);
}

TEST_F(Products, WeightGradientsOfSlotsTwoAndThree) {
  // h800 was fitted to slots 0 and 1.
  const Errors e = errors(weight_gradients("h800", 2));
  fmt::print("{}", e.text);
  EXPECT_LE(e.rms, 0.06);
  EXPECT_NEAR(e.sum, 0, 0.04);
}

TEST_F(Products, WholeGpuFromConstantsOfThePartition) {
  // Fitted on 112 SMs of the profile, compared with DeepGEMM alone on 132: another kernel, another machine. All
  // but kv_b (K 512, -14 %) are within 10 %.
  const Errors e = errors(deepgemm("h800", "@a6d97a1", 4096));
  fmt::print("{}", e.text);
  EXPECT_LE(e.rms, 0.08);
  EXPECT_LE(std::abs(e.largest), 0.15);
}

TEST_F(Products, ChunkFromPublicConstants) {
  // DeepGEMM on 132 SMs alone, compared with 112 SMs beside transfers, whose interference h800-public does not know.
  std::vector<Comparison> all = forward_and_input_gradients("h800-public", 'F', 0);
  for (const Comparison& c : forward_and_input_gradients("h800-public", 'B', 0)) all.push_back(c);
  const Errors e = errors(all);
  fmt::print("{}", e.text);
  EXPECT_LE(e.rms, 0.10);
  EXPECT_NEAR(e.sum, 0, 0.06);
}

TEST_F(Products, DeepGemmTable) {
  const Errors fitted = errors(deepgemm("h800-public", "@a6d97a1", 4096));
  fmt::print("{}", fitted.text);
  EXPECT_LE(std::abs(fitted.largest), 0.025);  // the fit itself
  // Grouped products of one to four experts with 1024 rows in all, of the same commit: not in the fit.
  // Their waves are partial and each expert's rows are few, which a count of waves does not see.
  const Errors e = errors(deepgemm("h800-public", "@a6d97a1", 256, 1024));
  fmt::print("{}", e.text);
  EXPECT_LE(e.rms, 0.16);
}

}  // namespace
}  // namespace plumbline::tests
