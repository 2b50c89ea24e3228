// Derives the constants of the H800 profiles again from the published measurements. A changed constant of a profile
// must agree with this test, or have another source.
#include "tests/support/profile_constants.h"

namespace plumbline::tests {
namespace {

class GemmConstants : public ProfileConstants {
 protected:
  // Returns the bytes per us at which results are written.
  static double output_rate(const model::Profile& from) { return value(from, "memory.default.bandwidth") * 1e6; }
  // Returns the slowdown of a kernel by the overlapped transfer.
  double interference(const Kernel& kernel) const {
    return 1 + (value(h800_, "gemm.slowdown_beside_transfer") - 1) * kernel.overlapped_transfer;
  }
  // Returns the kernel's point as if it ran alone and did not write its results.
  WavePoint wave_point(const Kernel& kernel, double bytes_per_element) const {
    const Shape shape = kernel.shape();
    const double written = writing(shape, bytes_per_element, output_rate(h800_));
    return {waves(shape, compute_sms), padded(shape.k), kernel.duration / interference(kernel) - written,
            kernel.duration};
  }
};

TEST_F(GemmConstants, Fp8GemmsOfTheForwardPhases) {
  std::vector<WavePoint> points;
  for (const char* kind : {"gemm_fp8", "grouped_gemm_fp8"})
    for (const Kernel& kernel : select(kernels_, kind, 'F')) points.push_back(wave_point(kernel, 2));
  // Four slots of q_a, kv_a, q_b, kv_b, o and two GEMMs each of the shared and the routed expert.
  ASSERT_EQ(points.size(), 36u);
  const WaveFit fit = fit_waves(points, true);
  expect(h800_, "gemm.ramp", fit.ramp);
  expect(h800_, "gemm.fp8.wave_overhead", fit.overhead);
  expect(h800_, "gemm.fp8.k_time", fit.per_k * 1e3);
}

TEST_F(GemmConstants, WeightGradientsOfTheAttention) {
  // Ramp and overhead are those of other GEMMs, so the tensor rate remains. Relative least squares of one parameter b:
  // y = x b has b = sum of x y over sum of x^2. FP32 is read and written.
  EXPECT_EQ(value(h800_, "gemm.fp8_weight_gradient.wave_overhead"), value(h800_, "gemm.fp8.wave_overhead"));
  double xy = 0;
  double xx = 0;
  int count = 0;
  for (const Kernel& kernel : select(kernels_, "gemm_fp8_wgrad", 'W')) {
    if (kernel.name().starts_with("sh")) continue;  // those of the shared expert belong to mlp(W)
    const WavePoint point = wave_point(kernel, 8);
    const double x = point.waves * point.k / point.measured;
    const double rest = point.explained - value(h800_, "gemm.ramp") -
                        point.waves * value(h800_, "gemm.fp8_weight_gradient.wave_overhead");
    xy += x * rest / point.measured;
    xx += x * x;
    ++count;
  }
  ASSERT_EQ(count, 20);  // o, kv_b, q_b, kv_a and q_a of four slots
  expect(h800_, "gemm.fp8_weight_gradient.k_time", xy / xx * 1e3);
}

TEST_F(GemmConstants, Bf16RateOfTheRouter) {
  // One wave over K 7168 in 44 and 45 us, forward: mean of slots 0 and 1, without ramp and output; no overhead.
  double sum = 0;
  int count = 0;
  for (const Kernel& kernel : select(kernels_, "gemm_bf16", 'F', 2)) {
    const WavePoint point = wave_point(kernel, 2);
    EXPECT_EQ(point.waves, 1);
    EXPECT_EQ(point.k, 7168);
    sum += (point.explained - value(h800_, "gemm.ramp")) / point.k;
    ++count;
  }
  ASSERT_EQ(count, 2);
  // wave_point counts tiles of 128 x 128; those of the profile are half as large, as the H100's table has them.
  EXPECT_EQ(value(h800_, "gemm.bf16.tile_m") * value(h800_, "gemm.bf16.tile_n"), 64 * 128);
  expect(h800_, "gemm.bf16.k_time", sum / count * 1e3 / 2);
}

TEST_F(GemmConstants, Fp8WaveOfDeepGemm) {
  std::vector<WavePoint> points;
  for (const Row& row : published("gemm")) {
    const bool commit = row.at("source").find("@a6d97a1") != std::string::npos;
    const Shape shape{number(row, "groups"), number(row, "m"), number(row, "n"), number(row, "k")};
    if (!commit || shape.m < 4096) continue;
    const double time = number(row, "time_us");
    points.push_back({waves(shape, all_sms), padded(shape.k), time - writing(shape, 2, output_rate(public_)), time});
  }
  ASSERT_EQ(points.size(), 10u);
  const WaveFit fit = fit_waves(points, false);
  EXPECT_EQ(value(public_, "gemm.ramp"), 0);
  expect(public_, "gemm.fp8.wave_overhead", fit.overhead);
  expect(public_, "gemm.fp8.k_time", fit.per_k * 1e3);
  for (const std::string name : {"wave_overhead", "k_time"})
    EXPECT_EQ(value(public_, "gemm.fp8_weight_gradient." + name), value(public_, "gemm.fp8." + name));
}

TEST_F(GemmConstants, Bf16RateOfPublicBenchmarks) {
  // 700 TFLOP/s on 132 SMs at K 8192: a wave of tiles takes 2 * 128 * 128 * 132 * 8192 FLOPs over that rate, in us,
  // less the writing of its tiles.
  const double wave = 2.0 * 128 * 128 * 132 * 8192 / 700e12 * 1e6;
  const double written = 132.0 * 128 * 128 * 2 / output_rate(public_);
  expect(public_, "gemm.bf16.k_time", (wave - written) / 8192 * 1e3);
}

TEST_F(ProfileConstants, AttentionRates) {
  // Half of 4096^2 pairs, 128 heads; forward 2 (192 + 128) FLOPs per pair, backward 2 (3 * 192 + 2 * 128).
  const double pairs = tokens * tokens / 2 * 128;
  expect(h800_, "attention.forward_rate", pairs * 2 * 320 / mean_duration("attn_fwd", 'F') / 1e6);
  expect(h800_, "attention.backward_rate",
         pairs * 2 * 832 / (mean_duration("attn_bwd", 'B') + mean_duration("attn_bwd_aux", 'B')) / 1e6);
}

TEST_F(ProfileConstants, AllToAllRatesWithCompute) {
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

TEST_F(ProfileConstants, AllToAllRatesAlone) {
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

}  // namespace
}  // namespace plumbline::tests
