// The constants of the H800 profiles, derived again from the published measurements. Whoever changes a
// profile changes what this test can find in the data, or says that the constant is no longer from there.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/profile.h"
#include "tests/support/costs.h"
#include "tests/support/published.h"

namespace plumbline::tests {
namespace {

constexpr double compute_sms = 112;  // 132 less 20 of the transfers
constexpr double all_sms = 132;
constexpr double tokens = 4096;
constexpr double rounding = 0.01;  // shipped values carry three to four digits

class ProfileConstants : public testing::Test {
 protected:
  const model::Profile h800_ = profile("h800");
  const model::Profile public_ = profile("h800-public");
  const std::vector<Kernel> kernels_ = chunk_kernels();

  static double value(const model::Profile& from, const std::string& name) {
    return from.parameters()[from.find(name).value()].value;
  }
  void expect(const model::Profile& from, const std::string& name, double derived) const {
    EXPECT_NEAR(value(from, name) / derived, 1, rounding)
        << name << " of " << from.name() << ": " << value(from, name) << " shipped, " << derived << " derived";
  }

  // Without what the transfer beside it costs.
  double alone(const Kernel& kernel) const {
    return kernel.duration / (1 + (value(h800_, "gemm.slowdown_beside_transfer") - 1) * kernel.beside_transfer);
  }
  WavePoint wave_point(const Kernel& kernel) const {
    return {waves(kernel.shape(), compute_sms), kernel.shape().k, alone(kernel)};
  }
  // Mean duration over slots 0 and 1 of one kernel per slot.
  double mean_duration(const std::string& kind, char phase) const {
    const std::vector<Kernel> found = select(kernels_, kind, phase, 2);
    const double sum = std::accumulate(found.begin(), found.end(), 0.0,
                                       [](double total, const Kernel& k) { return total + k.duration; });
    return sum / 2;
  }
};

TEST_F(ProfileConstants, Fp8WaveOfTheForwardPhases) {
  std::vector<WavePoint> points;
  for (const char* kind : {"gemm_fp8", "grouped_gemm_fp8"})
    for (const Kernel& kernel : select(kernels_, kind, 'F')) points.push_back(wave_point(kernel));
  // Four slots of q_a, kv_a, q_b, kv_b, o and the shared and routed expert's two products each.
  ASSERT_EQ(points.size(), 36u);
  const WaveFit fit = fit_waves(points);
  expect(h800_, "gemm.fp8.wave_overhead", fit.overhead);
  expect(h800_, "gemm.fp8.k_time", fit.per_k * 1e3);
}

TEST_F(ProfileConstants, WeightGradientWaveOfSlotsZeroAndOne) {
  std::vector<WavePoint> points;
  for (const Kernel& kernel : select(kernels_, "gemm_fp8_wgrad", 'W', 2)) points.push_back(wave_point(kernel));
  for (const Kernel& whole : grouped_weight_gradients(kernels_, value(h800_, "kernel.launch_gap"))) {
    if (whole.slot >= 2) continue;
    constexpr double experts = 4;  // each expert is a kernel of its own and ends with its own wave
    points.push_back({experts * waves(whole.shape(), compute_sms), whole.shape().k, alone(whole)});
  }
  ASSERT_EQ(points.size(), 18u);  // two slots of seven dense and two grouped products
  const WaveFit fit = fit_waves(points);
  expect(h800_, "gemm.fp8_weight_gradient.wave_overhead", fit.overhead);
  expect(h800_, "gemm.fp8_weight_gradient.k_time", fit.per_k * 1e3);
}

TEST_F(ProfileConstants, Bf16WaveOfTheRouter) {
  std::vector<WavePoint> points;
  for (const Kernel& kernel : select(kernels_, "gemm_bf16", '*', 2)) {
    if (kernel.note.find("wgrad") == std::string::npos) points.push_back(wave_point(kernel));
  }
  ASSERT_EQ(points.size(), 4u);
  const WaveFit fit = fit_waves(points);
  expect(h800_, "gemm.bf16.wave_overhead", fit.overhead);
  expect(h800_, "gemm.bf16.k_time", fit.per_k * 1e3);
}

TEST_F(ProfileConstants, Fp8WaveOfDeepGemm) {
  std::vector<WavePoint> points;
  for (const Row& row : published("gemm")) {
    const bool commit = row.at("source").find("@a6d97a1") != std::string::npos;
    const Shape shape{number(row, "groups"), number(row, "m"), number(row, "n"), number(row, "k")};
    if (!commit || shape.m < 4096) continue;
    points.push_back({waves(shape, all_sms), shape.k, number(row, "time_us")});
  }
  ASSERT_EQ(points.size(), 10u);
  const WaveFit fit = fit_waves(points);
  expect(public_, "gemm.fp8.wave_overhead", fit.overhead);
  expect(public_, "gemm.fp8.k_time", fit.per_k * 1e3);
  // Weight gradients also read and write a wave of FP32 tiles: 132 * 128 * 128 * 8 B at 3 TB/s, in us.
  expect(public_, "gemm.fp8_weight_gradient.wave_overhead", fit.overhead + 132.0 * 128 * 128 * 8 / 3e6);
  EXPECT_EQ(value(public_, "gemm.fp8_weight_gradient.k_time"), value(public_, "gemm.fp8.k_time"));
}

TEST_F(ProfileConstants, AttentionRates) {
  // Half of 4096^2 pairs, 128 heads; forward 2 (192 + 128) FLOPs per pair, backward 2 (3 * 192 + 2 * 128).
  const double pairs = tokens * tokens / 2 * 128;
  expect(h800_, "attention.forward_rate", pairs * 2 * 320 / mean_duration("attn_fwd", 'F') / 1e6);
  expect(h800_, "attention.backward_rate",
         pairs * 2 * 832 / (mean_duration("attn_bwd", 'B') + mean_duration("attn_bwd_aux", 'B')) / 1e6);
}

TEST_F(ProfileConstants, ExchangeRatesBesideCompute) {
  // Bytes over the NIC: 4096 tokens reach 3.966 nodes each, the own one in one of eight cases. A token is 7168 FP8
  // with 224 B of scales and 8 B of metadata (dispatch: and 64 B of top-k), or 7168 BF16 with 8 B (gradients: 40 B).
  const double sends = tokens * 3.966 * 7 / 8;
  const auto rate = [&](const char* kind, char phase, double token_bytes) {
    return sends * token_bytes / mean_duration(kind, phase) / 1e3;
  };
  expect(h800_, "exchange.dispatch.nic_rate_beside_compute", rate("dispatch_kernel", 'F', 7464));
  expect(h800_, "exchange.cached_dispatch.nic_rate_beside_compute", rate("dispatch_kernel", 'B', 7400));
  expect(h800_, "exchange.combine.nic_rate_beside_compute", rate("combine_kernel", 'F', 14344));
  expect(h800_, "exchange.weighted_combine.nic_rate_beside_compute", rate("combine_kernel", 'B', 14376));
}

TEST_F(ProfileConstants, ExchangeRatesAlone) {
  const auto physical = [](const std::string& id, const std::string& column, double leaving) {
    for (const Row& row : published("deepep"))
      if (row.at("id") == id) return number(row, column) * leaving;
    return 0.0;
  };
  // Of 8 nodes one is the sender's own; of 8 GPUs on a node one is the sender itself.
  expect(h800_, "exchange.dispatch.nic_rate", physical("ep004", "dispatch_gbps", 7.0 / 8));
  expect(h800_, "exchange.combine.nic_rate", physical("ep004", "combine_gbps", 7.0 / 8));
  expect(public_, "exchange.dispatch.nic_rate", physical("ep011", "dispatch_gbps", 7.0 / 8));
  expect(public_, "exchange.combine.nic_rate", physical("ep011", "combine_gbps", 7.0 / 8));
  expect(public_, "exchange.nvlink_rate", physical("ep008", "dispatch_gbps", 7.0 / 8));
}

TEST_F(ProfileConstants, LaunchGapIsTheMedian) {
  std::vector<Kernel> compute;
  for (const Kernel& kernel : kernels_)
    if (kernel.stream == 7) compute.push_back(kernel);
  std::ranges::stable_sort(compute, {}, &Kernel::start);
  std::vector<double> gaps;
  for (std::size_t i = 1; i < compute.size(); ++i) {
    const double gap = compute[i].start - compute[i - 1].end();
    if (gap >= 0) gaps.push_back(gap);
  }
  ASSERT_GT(gaps.size(), 800u);
  std::ranges::nth_element(gaps, gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2));
  EXPECT_EQ(gaps[gaps.size() / 2], value(h800_, "kernel.launch_gap"));
}

TEST_F(ProfileConstants, NormsOfTheWidthOfTheModel) {
  // 4096 x 7168 BF16: the forward norm reads and writes it, the gradient reads two and writes one. The norm before
  // the MLP (recomputed) runs while no transfer holds SMs, the one that leaves the attention beside a barrier.
  const double tensor = tokens * 7168 * 2 / 1e6;
  const std::vector<Kernel> forward = select(kernels_, "rmsnorm_fwd", '*', 2);
  const std::vector<Kernel> backward = select(kernels_, "rmsnorm_bwd", 'B', 2);
  const auto mean_of = [](const std::vector<Kernel>& from, double low, double high) {
    double sum = 0;
    double count = 0;
    for (const Kernel& kernel : from) {
      if (kernel.duration < low || kernel.duration > high || kernel.beside_transfer > 0) continue;
      sum += kernel.duration;
      ++count;
    }
    return sum / count;
  };
  const double norm = mean_of(forward, 70, 80);
  const double norm_gradient = mean_of(backward, 90, 105);
  expect(h800_, "memory.norm.bandwidth", 2 * tensor / norm);
  expect(h800_, "memory.norm_gradient.bandwidth", 3 * tensor / norm_gradient);
  expect(h800_, "memory.norm.slowdown_on_partition", mean_of(forward, 100, 110) / norm);
  expect(h800_, "memory.norm_gradient.slowdown_on_partition", mean_of(backward, 170, 190) / norm_gradient);
}

}  // namespace
}  // namespace plumbline::tests
