#include "tests/support/profile_constants.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "model/base/units.h"
#include "model/cost/forms/kernel_forms.h"
#include "model/cost/sm_partition.h"
#include "tests/support/nccl_fit.h"

namespace plumbline::tests {
namespace {

// Derives the constants of the H800 profiles again from the published measurements. A changed constant of a profile
// must agree with this test, or have another source.

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

// The constants of memory-bound kernels in the H800 profile, derived again from the published measurements.

class NormConstants : public ProfileConstants {
 protected:
  // Returns the mean duration of kernels of slots 0 and 1 between two bounds. The norm before the MLP (recomputed) runs
  // alone, the one after attention with a barrier, one before attn(B) with a transfer.
  static double mean_between(const std::vector<Kernel>& from, double low, double high) {
    double sum = 0;
    double count = 0;
    for (const Kernel& kernel : from) {
      if (kernel.duration < low || kernel.duration > high) continue;
      sum += kernel.duration;
      ++count;
    }
    EXPECT_GT(count, 0);
    return sum / count;
  }
  const std::vector<Kernel> forward_ = select(kernels_, "rmsnorm_fwd", '*', 2);
  const std::vector<Kernel> backward_ = select(kernels_, "rmsnorm_bwd", 'B', 2);
  const double norm_ = mean_between(forward_, 70, 80);
  const double norm_gradient_ = mean_between(backward_, 90, 105);
};

TEST_F(NormConstants, OfTheWidthOfTheModel) {
  // 4096 x 7168 BF16: the forward norm reads and writes it, the gradient reads two and writes one.
  const double tensor = tokens * 7168 * 2 / 1e6;
  expect(h800_, "memory.norm.bandwidth", 2 * tensor / norm_);
  expect(h800_, "memory.norm_gradient.bandwidth", 3 * tensor / norm_gradient_);
}

TEST_F(NormConstants, GridsAreSizedForTheWholeGpu) {
  const auto blocks_per_sm = [](const std::vector<Kernel>& kernels, double low) {
    for (const Kernel& kernel : kernels)
      if (kernel.duration > low) return kernel.grid / all_sms;
    return 0.0;
  };
  EXPECT_EQ(value(h800_, "memory.norm.blocks_per_sm"), blocks_per_sm(forward_, 70));
  EXPECT_EQ(value(h800_, "memory.norm_gradient.blocks_per_sm"), blocks_per_sm(backward_, 90));
}

TEST_F(NormConstants, AndTakeAnotherRoundWithATransfer) {
  // No constant is fitted to these times. Rounds on 112 of 132 SMs predict them: 396 blocks of three on an SM take one
  // and two thirds, by the assumed share of latency, and 132 blocks of one on an SM two.
  const model::SmOccupancy overlapped{112, 20, 0.121};
  const double latency_share = value(h800_, "kernel.latency_share");
  EXPECT_NEAR(model::rounds(396, 3, overlapped, latency_share) / (mean_between(forward_, 120, 140) / norm_), 1, 0.06);
  EXPECT_NEAR(model::rounds(132, 1, overlapped, latency_share) / (mean_between(backward_, 170, 190) / norm_gradient_),
              1, 0.1);
}

// SMs that saturate the memory: the SMs that a transfer leaves times its slowdown, at most all SMs.
class Saturation : public ProfileConstants {
 protected:
  void expect_saturation(const std::string& name, double slowdown) const {
    constexpr double resolution = 0.025;  // a microsecond of kernels of 40
    const double derived = std::min(all_sms, compute_sms * slowdown);
    EXPECT_NEAR(value(h800_, "memory." + name + ".saturation_sms") / derived, 1, resolution)
        << name << ": " << derived << " derived";
  }
};

TEST_F(Saturation, OfKernelsSeenWithAndWithoutATransfer) {
  const auto slowdown = [&](const char* kind, const std::vector<int>& grids, bool per_block) {
    const std::vector<Kernel> all = select(kernels_, kind, '*', 2);
    return mean(all, grids, true, per_block) / mean(all, grids, false, per_block);
  };
  expect_saturation("cast_transpose", slowdown("quant_cast", {1792}, false));
  expect_saturation("transpose", slowdown("weight_transpose", {3584, 7168}, false));
  // One block per row, or per 16 of them: rows differ between ranks and layers.
  expect_saturation("swiglu", slowdown("swiglu", {30976, 31104}, true));
  expect_saturation("permute", slowdown("permute", {1936, 1944, 2032, 2168}, true));
  expect_saturation("reduce", slowdown("permute", {28856, 28984, 30048, 32120}, true));
}

TEST_F(Saturation, OfCastsAndCopies) {
  // The casts before q_a and kv_a, the first of a slot: 43 and 42 us in slot 0 without a transfer, 53 and 51 in slot 1
  // with one.
  std::vector<Kernel> casts;
  for (const Kernel& kernel : select(kernels_, "quant_cast", 'F', 2)) {
    const bool first = std::ranges::count(casts, kernel.slot, &Kernel::slot) < 2;
    if (kernel.grid == 4096 && first) casts.push_back(kernel);
  }
  ASSERT_EQ(casts.size(), 4u);
  expect_saturation("cast", mean(casts, {4096}, true) / mean(casts, {4096}, false));
  // The gradients of assembled keys and values: 89 and 92 us in slot 0, 93 and 96 with a transfer in slot 1.
  std::vector<Kernel> copies;
  for (const Kernel& kernel : select(kernels_, "copy", 'B', 2))
    if (kernel.duration < 100) copies.push_back(kernel);
  ASSERT_EQ(copies.size(), 4u);
  expect_saturation("copy", mean(copies, {4096}, true) / mean(copies, {4096}, false));
}

TEST_F(ProfileConstants, BandwidthsOfMemoryBoundKernels) {
  // Bytes over us are TB/s times 10^6. FP8 has 4 bytes of scale for 128 values.
  const auto alone = [&](const char* kind, int grid) { return mean(select(kernels_, kind, '*', 2), {grid}, false); };
  constexpr double fp8 = 33.0 / 32;
  // FP8 expert weights are transposed: 4 x 2048 x 7168, a scale per 128 x 128.
  expect(h800_, "memory.transpose.bandwidth", 2.0 * 4 * 2048 * 7168 / alone("weight_transpose", 3584) / 1e6);
  // 31104 rows: gate and up in BF16 and a weight in, FP8 out.
  expect(h800_, "memory.swiglu.bandwidth", 31104 * (4096 * 2.0 + 4 + 2048 * fp8) / alone("swiglu", 31104) / 1e6);
  // 32120 received tokens into 34688 rows, 16 in a block, in FP8.
  expect(h800_, "memory.permute.bandwidth", (32120.0 + 34688) * 7168 * fp8 / alone("permute", 2168) / 1e6);
  // 31104 rows summed into 28984 tokens, a block each, in BF16.
  expect(h800_, "memory.reduce.bandwidth", (31104.0 + 28984) * 7168 * 2 / alone("permute", 28984) / 1e6);
  // 4096 x 7168 from BF16 to FP8, in its layout (43 and 42 us before q_a and kv_a) and transposed.
  const double cast = 4096.0 * 7168 * (2 + fp8);
  expect_within_uncertainty("memory.cast.bandwidth", cast / 42.5 / 1e6);
  expect_within_uncertainty("memory.cast_transpose.bandwidth", cast / alone("quant_cast", 1792) / 1e6);
}

// Derives the constants of the public profiles of A100 and H100 again from the published measurements of single kernels
// and links that they name.

class PublicProfiles : public testing::Test {
 protected:
  static double value(const model::Profile& from, const std::string& name) {
    return from.parameters()[from.find(name).value()].value;
  }
  static void expect(const model::Profile& from, const std::string& name, double derived) {
    EXPECT_NEAR(value(from, name) / derived, 1, rounding)
        << name << " of " << from.name() << ": " << value(from, name) << " shipped, " << derived << " derived";
  }
};

// Returns cuBLAS GEMMs with m = 4096 on one GPU.
std::vector<WavePoint> cublas(const std::string& hardware, double sms, double bytes_per_us) {
  std::vector<WavePoint> points;
  for (const Row& row : published("gemm_16bit")) {
    if (row.at("hardware") != hardware || number(row, "m") != 4096) continue;
    const Shape shape{1, number(row, "m"), number(row, "n"), number(row, "k")};
    const double time = number(row, "time_us");
    points.push_back({waves(shape, sms), padded(shape.k), time - writing(shape, 2, bytes_per_us), time});
  }
  return points;
}

// Returns one constant b in ns by relative least squares, y = x b: the sum of x y over the sum of x^2.
double time_per_k(const std::vector<WavePoint>& points) {
  double xy = 0;
  double xx = 0;
  for (const WavePoint& point : points) {
    const double x = point.waves * point.k / point.measured;
    xy += x * point.explained / point.measured;
    xx += x * x;
  }
  return xy / xx * 1e3;
}

void expect_gemms(const model::Profile& from, const std::string& hardware, double sms, std::size_t count) {
  const auto find = [&](const std::string& name) { return from.parameters()[from.find(name).value()].value; };
  const auto points = cublas(hardware, sms, find("memory.default.bandwidth") * 1e6);
  ASSERT_EQ(points.size(), count);
  EXPECT_NEAR(find("gemm.bf16.k_time") / time_per_k(points), 1, rounding) << time_per_k(points);
  EXPECT_EQ(find("gemm.bf16.wave_overhead"), 0);
  EXPECT_EQ(find("gemm.bf16_weight_gradient.k_time"), find("gemm.bf16.k_time"));
  // A further time per wave would be below zero, or less than 2 % of a wave over 1024.
  EXPECT_LT(fit_waves(points, false).overhead, 0.02 * find("gemm.bf16.k_time") * 1e-3 * 1024);
}

TEST_F(PublicProfiles, GemmsOfTheA100) { expect_gemms(profile(shipped_profile("a100-public")), "A100", 108, 16); }

TEST_F(PublicProfiles, GemmsOfTheH100) { expect_gemms(profile(shipped_profile("h100-public")), "H100", 132, 48); }

double attention_rate(const std::string& kernel, const std::string& pass, const std::string& causal, int tokens,
                      int head_dim = 128) {
  for (const Row& row : published("attention"))
    if (row.at("kernel") == kernel && row.at("pass") == pass && row.at("causal") == causal &&
        number(row, "seqlen") == tokens && number(row, "head_dim") == head_dim)
      return number(row, "tflops");
  return 0;
}

// The backward is that without a mask, times the effect of a mask in the forward: no causal backward pass was
// published.
TEST_F(PublicProfiles, AttentionOfTheH100) {
  const model::Profile from = profile(shipped_profile("h100-public"));
  const double masked = attention_rate("cuDNN", "fwd", "yes", 4096);
  expect(from, "attention.forward_rate", masked);
  expect(from, "attention.backward_rate",
         attention_rate("cuDNN", "bwd", "no", 4096) * masked / attention_rate("cuDNN", "fwd", "no", 4096));
}

// The figures hold 16,384 tokens and 2,048 columns in all. A mask costs the others what it costs the forward pass at
// head dimension 128.
TEST_F(PublicProfiles, AttentionByKernelOfTheH100) {
  const model::Profile from = profile(shipped_profile("h100"));
  const auto si = [&](const std::string& name) {
    const model::Parameter& constant = from.parameters()[from.find(name).value()];
    return constant.value * model::si_unit(constant.unit)->factor;
  };
  for (const auto& [kernel, prefix] : {std::pair("cuDNN", "attention.cudnn."), std::pair("FA2", "attention.flash2."),
                                       std::pair("FA3", "attention.flash3.")})
    for (const bool backward : {false, true}) {
      const std::string direction = backward ? "backward" : "forward", pass = backward ? "bwd" : "fwd";
      const model::AttentionConstants constants{.rate = si(prefix + direction + "_rate"),
                                                .pair_time = si(prefix + direction + ".pair_time"),
                                                .row_time = si(prefix + direction + ".row_time")};
      std::vector<double> errors;
      for (const int dim : {64, 128})
        for (int tokens = 512; tokens <= 16384; tokens *= 2) {
          const double masked =
              attention_rate(kernel, "fwd", "yes", tokens) / attention_rate(kernel, "fwd", "no", tokens);
          const double rate = dim == 128 && !backward ? attention_rate(kernel, pass, "yes", tokens)
                                                      : masked * attention_rate(kernel, pass, "no", tokens, dim);
          const model::AttentionWork work{.batch_heads = 2048.0 / dim * 16384 / tokens,
                                          .queries = static_cast<double>(tokens),
                                          .pairs_per_query = tokens / 2.0,
                                          .qk_dim = static_cast<double>(dim),
                                          .v_dim = static_cast<double>(dim),
                                          .backward = backward};
          const double flops = work.batch_heads * work.queries * work.pairs_per_query * 2 * (backward ? 5 : 2) * dim;
          errors.push_back(std::abs(model::attention_seconds(constants, work, 132, 132) * rate * 1e12 / flops - 1));
        }
      std::ranges::sort(errors);
      EXPECT_LT(errors[errors.size() / 2], 0.04) << prefix << direction;
    }
}

// The other memory reaches the same share of the datasheet's rate as that of the A100 of 80 GB.
TEST_F(PublicProfiles, BandwidthOfAnotherMemory) {
  const double ampere = value(profile(shipped_profile("a100-public")), "memory.default.bandwidth") / 2.04;
  expect(profile(shipped_profile("a100-40gb-public")), "memory.default.bandwidth", 1.555 * ampere);
}

// Three constants of collectives are fitted to every second size of a curve, starting at the datasheet profile.
void expect_collectives(const std::string& name, const std::string& start, const std::string& curve_name,
                        double nvlink_gbps, double nic_gbps) {
  const auto curves = read_collective_curves(shipped("calibrate/published/nccl_curves.csv")).value();
  const auto curve = std::ranges::find(curves, curve_name, &CollectiveCurve::name);
  ASSERT_NE(curve, curves.end());
  const model::Profile from = profile(shipped_profile(name));
  const auto find = [](const model::Profile& p, const std::string& constant) {
    return p.parameters()[p.find(constant).value()].value;
  };
  const bool nvls = find(from, "collective.nvls.available") > 0;
  model::ClusterShape cluster;
  cluster.gpus = curve->group.ranks;
  cluster.gpus_per_node = cluster.nics_per_node = 8;
  cluster.intra_node_bandwidth = model::BytesPerSecond(nvlink_gbps * 1e9);
  cluster.nic_bandwidth = model::BytesPerSecond(nic_gbps * 1e9);
  const auto fit = fit_curve(*curve, profile(shipped_profile(start)), cluster, constants_to_fit(*curve, nvls)).value();
  for (const model::Parameter& fitted : fit.fitted) {
    // Rates inside a node depend on the line rate of the profile that contains them.
    const bool rate = fitted.name == "network.nvlink_rate";
    const double line = rate ? nvlink_gbps / find(profile(shipped_profile(start)), "network.nvlink_line_rate") : 1;
    const double shipped_value = find(from, fitted.name);
    if (fitted.value < 0.001) {
      EXPECT_EQ(shipped_value, 0) << fitted.name;
    } else {
      EXPECT_NEAR(shipped_value / (fitted.value * line), 1, rounding) << fitted.name << " " << fitted.value * line;
    }
  }
}

TEST_F(PublicProfiles, CollectivesOfTheA100) {
  expect_collectives("a100-public", "a100-datasheet", "mleng_a100x8", 300, 25);
}

TEST_F(PublicProfiles, CollectivesOfTheH100) {
  expect_collectives("h100-public", "generic-datasheet", "mleng_h200x8", 450, 50);
}

}  // namespace
}  // namespace plumbline::tests
