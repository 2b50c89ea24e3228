#include "model/cost/forms/kernel_forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace plumbline::model {
namespace {

// 128 x 256 tiles, 3 ns a k, 2 us a wave.
constexpr GemmConstants waves{.tile_m = 128, .tile_n = 256, .k_block = 64, .wave_overhead = 2e-6, .k_time = 3e-9};

TEST(GemmForm, TheShareOfWavesInterpolatesTheLastOne) {
  const GemmWork work{.groups = 2, .m = 1000, .n = 2100, .k = 1024};
  const double wave = 2e-6 + 1024 * 3e-9;
  GemmConstants soft = waves;
  soft.wave_share = 0;  // a stream of tiles
  EXPECT_NEAR(gemm_core_seconds(soft, work, 100), 1.44 * wave, 1e-15);
  soft.wave_share = 0.5;
  EXPECT_NEAR(gemm_core_seconds(soft, work, 100), 1.72 * wave, 1e-15);
  // No tile takes less than its own time, on however many SMs.
  EXPECT_NEAR(gemm_core_seconds(soft, work, 1000), wave, 1e-15);
  EXPECT_EQ(gemm_core_seconds(soft, {.m = 0, .n = 256, .k = 64}, 100), 0);
}

// A tile of 3 us whose 96 KiB take 4 us: 7 us one after the other, 5 us by squares, the fourth root of 3^4 + 4^4 where
// nothing is stated, and the longer of both in the limit.
TEST(GemmForm, TilesHideTheirMemoryByTheExponent) {
  const GemmWork work{.m = 128, .n = 128, .k = 128};
  EXPECT_EQ(work.bytes(), 98304);
  GemmConstants c{.wave_overhead = 3e-6, .memory_bandwidth = 98304 / 4e-6};
  EXPECT_NEAR(gemm_core_seconds(c, work, 100), std::pow(337, 0.25) * 1e-6, 1e-15);
  for (const auto& [exponent, us] : std::vector<std::pair<double, double>>{
           {1, 7}, {1.5, std::pow(3 * std::sqrt(3) + 8, 2.0 / 3)}, {2, 5}, {100, 4}}) {
    c.memory_exponent = exponent;
    EXPECT_NEAR(gemm_core_seconds(c, work, 100), us * 1e-6, 1e-15) << exponent;
    EXPECT_NEAR(gemm_core(c, work, 100).memory, (us - 3) * 1e-6, 1e-15) << exponent;
  }
  c.memory_bandwidth = 1e30;
  EXPECT_NEAR(gemm_core_seconds(c, work, 100), 3e-6, 1e-18);
}

TEST(SmallGemmForm, RowsFillTilesOf64) {
  EXPECT_EQ(padded_rows(1, 0, 64), 64);
  EXPECT_EQ(padded_rows(64, 0, 64), 64);
  EXPECT_EQ(padded_rows(65, 0, 64), 128);
  // Of 45 to 83 rows half the groups have a tile, half of them two.
  EXPECT_NEAR(padded_rows(64, 0.3, 64), 96, 1e-9);
  EXPECT_NEAR(padded_rows(32, 0.3, 64), 64, 1e-9);
  EXPECT_EQ(padded_rows(3, 0, 1), 3);  // of a CPU
  double before = 0;
  for (double m = 1; m < 1000; m *= 1.07) {
    const double padded = padded_rows(m, std::min(1.0, std::sqrt(3 / m)), 64);
    EXPECT_GE(padded, std::max(before, m));
    before = padded;
  }
}

// Products of an inner dimension of 1,024 take twice as long where the start and end of a tile take as long as 1,024
// elements more; 3 groups of 64 rows of 1,024 elements in and 512 out take 1 ps each, however many SMs there are.
TEST(SmallGemmForm, TilesStartAndRowsEnter) {
  const GemmWork work{.groups = 3, .m = 64, .n = 512, .k = 1024};
  SmallGemmConstants c{.bandwidth = 1e21, .rate = 100e12};
  const double products = 2.0 * 3 * 64 * 512 * 1024 / 100e12, rows = 3.0 * 64 * 1536 * 1e-12;
  EXPECT_NEAR(small_gemm_core(c, work, 1).total(), products, 1e-15);
  c.tile_depth = 1024;
  EXPECT_NEAR(small_gemm_core(c, work, 1).total(), 2 * products, 1e-15);
  c.row_time = 1e-12;
  EXPECT_NEAR(small_gemm_core(c, work, 1).rows, rows, 1e-18);
  EXPECT_NEAR(small_gemm_core(c, work, 0.5).total(), 4 * products + rows, 1e-15);
}

// Experts of DeepSeek-V3 on a rank of eight MI300X: 33 of 7168 x 2048 in FP8, 9 choices a token, by aiter's tuned
// kernels (ROCm/aiter a8w8_blockscale_tuned_fmoe_ds_v3.csv @0b1924d9, 304 CUs). Two of the rows give the profile's
// constants; the others test them.
TEST(SmallGemmForm, HoldsForExpertsOfAnMi300x) {
  const SmallGemmConstants c{.bandwidth = 4.1e12, .rate = 941e12};
  std::vector<double> errors;
  for (const auto& [tokens, us] : std::vector<std::pair<double, double>>{{32, 355.3431},
                                                                         {64, 363.4635},
                                                                         {128, 407.8101},
                                                                         {256, 470.7513},
                                                                         {512, 671.5514},
                                                                         {1024, 1091.0448},
                                                                         {2048, 1857.1914},
                                                                         {4096, 3549.0971},
                                                                         {8192, 6928.7099}}) {
    const double m = tokens * 9 / 33;
    const GemmWork up{.groups = 33, .m = m, .n = 4096, .k = 7168, .operand_bytes = 1},
        down{.groups = 33, .m = m, .n = 7168, .k = 2048, .operand_bytes = 1};
    errors.push_back(
        std::abs((small_gemm_core(c, up, 1).total() + small_gemm_core(c, down, 1).total()) * 1e6 / us - 1));
  }
  std::ranges::sort(errors);
  EXPECT_LT(errors[errors.size() / 2], 0.05);
  EXPECT_LT(errors.back(), 0.08);
}

TEST(SmallGemmForm, NeverFallsWithASize) {
  const SmallGemmConstants c{
      .bandwidth = 2.8e12, .k_time = 0.7e-9, .rate = 900e12, .tile_depth = 500, .row_time = 1e-12};
  const GemmWork work{.groups = 2, .m = 60, .n = 4096, .k = 4096};
  const double before = small_gemm_core(c, work, 1).total();
  for (double GemmWork::*size : {&GemmWork::groups, &GemmWork::m, &GemmWork::n, &GemmWork::k}) {
    GemmWork larger = work;
    larger.*size *= 1.5;
    EXPECT_GT(small_gemm_core(c, larger, 1).total(), before);
  }
}

// Nothing but the rounding of a wave makes a larger GEMM faster, and more SMs never slow one down.
TEST(GemmForm, IsMonotone) {
  for (const double share : {0.0, 0.4, 1.0}) {
    GemmConstants all = waves;
    all.wave_share = share;
    all.memory_exponent = share == 0.4 ? 1.3 : 4;
    all.memory_bandwidth = 2e12;
    all.droop = 0.3;
    all.droop_time = 1e-3;
    for (const double n : {96.0, 1536.0, 16384.0}) {
      for (double m = 1, before = 0; m < 40000; m *= 1.13) {
        const GemmWork work{.groups = 3, .m = m, .n = n, .k = 2048};
        const double now = gemm_core_seconds(all, work, 132);
        EXPECT_GE(now, before) << m << " x " << n;
        EXPECT_GE(now * 132, 3 * m * n / (128 * 256) * 2048 * 3e-9) << m << " x " << n;
        double fewer = now;
        for (double sms = 133; sms < 400; sms += 7) {
          const double more = gemm_core_seconds(all, work, sms);
          EXPECT_LE(more, fewer * (1 + 1e-15)) << m << " x " << n << " on " << sms;
          fewer = more;
        }
        before = now;
      }
    }
  }
}

constexpr AttentionConstants plain{.rate = 500e12};
constexpr AttentionWork causal{
    .batch_heads = 64, .kv_heads_batch = 8, .queries = 4096, .pairs_per_query = 2048, .qk_dim = 128, .v_dim = 128};

TEST(AttentionForm, AWindowShortensTheLongestBlock) {
  AttentionConstants all = plain;
  all.tail = 1;
  AttentionWork window = causal;
  window.longest = 1024;
  EXPECT_NEAR(attention_parts(all, window, 132, 132).tail, attention_parts(all, causal, 132, 132).tail / 4, 1e-15);
  window.longest = 0;
  window.keys = 8192;  // queries of this rank against the keys of two
  EXPECT_NEAR(attention_parts(all, window, 132, 132).tail, attention_parts(all, causal, 132, 132).tail * 2, 1e-15);
}

}  // namespace
}  // namespace plumbline::model
