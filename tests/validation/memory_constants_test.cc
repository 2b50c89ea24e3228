// The constants of memory-bound kernels in the H800 profile, derived again from the published measurements.
#include "model/cost/sm_partition.h"
#include "tests/support/profile_constants.h"

namespace plumbline::tests {
namespace {

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

}  // namespace
}  // namespace plumbline::tests
