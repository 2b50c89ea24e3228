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

TEST(GemmForm, RoundsTilesWavesAndTheInnerDimension) {
  // 1000 x 2100 is 8 x 9 tiles in each of two groups, 144 on 100 SMs: two waves of 1024 x 3 ns (1000 rounded to 64).
  const GemmWork work{.groups = 2, .m = 1000, .n = 2100, .k = 1000};
  const GemmSeconds seconds = gemm_core(waves, work, 100);
  EXPECT_NEAR(seconds.waves, 4e-6, 1e-18);
  EXPECT_NEAR(seconds.tiles, 2 * 1024 * 3e-9, 1e-18);
  EXPECT_EQ(seconds.memory, 0);
  EXPECT_EQ(seconds.droop, 0);
  EXPECT_EQ(gemm_core_seconds(waves, work, 100), seconds.total());
}

// Of 1,920 to 2,176 rows half the groups have 16 tiles of 128, half of them 17; of 896 to 1,152 columns of the inner
// dimension the blocks of 64 are half a block more than their mean.
TEST(GemmForm, GroupsOfDifferentRowsFillHalfATileMore) {
  EXPECT_NEAR(gemm_tiles(waves, {.groups = 2, .m = 2048, .n = 256, .row_spread = 0.0625}), 2 * 16.5, 1e-9);
  EXPECT_EQ(gemm_tiles(waves, {.groups = 2, .m = 2048, .n = 256}), 2 * 16);
  const GemmWork work{.m = 128, .n = 256, .k = 1024, .inner_spread = 0.125};
  EXPECT_NEAR(gemm_core(waves, work, 1).tiles, (1024 + 32) * 3e-9, 1e-15);
  EXPECT_EQ(gemm_tiles(waves, {.m = 0, .n = 256, .row_spread = 1}), 0);
}

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

TEST(GemmForm, OperandsAndResultsStreamWithTheTiles) {
  // One wave of 100 us, and 2 x (256 x 4096 x 2 + 4096 x 4096 x 4) B at 1 TB/s.
  GemmConstants both{.tile_m = 2048, .tile_n = 4096, .k_block = 1, .k_time = 100e-6 / 4096, .memory_bandwidth = 1e12};
  const GemmWork work{.groups = 2, .m = 100, .n = 156, .k = 4096, .operand_bytes = 2, .output_bytes = 4};
  const double compute = 100e-6, memory = 2 * (256.0 * 4096 * 2 + 100 * 156 * 4.0) / 1e12;
  EXPECT_NEAR(gemm_core_seconds(both, work, 2), std::pow(std::pow(compute, 4) + std::pow(memory, 4), 0.25), 1e-15);
  both.memory_bandwidth = 1e9;  // a thousand times as long: only the bytes count
  EXPECT_NEAR(gemm_core_seconds(both, work, 2), 1000 * memory, 1e-9);
}

TEST(GemmForm, LongKernelsDroop) {
  // Two waves of 3 us + 2 us: 10 us. A kernel as long as droop_time has half of the droop.
  GemmConstants slow = waves;
  slow.droop = 0.2;
  slow.droop_time = 10e-6;
  const GemmWork work{.m = 128, .n = 512, .k = 960};
  const double core = gemm_core_seconds(waves, work, 1);
  ASSERT_NEAR(core, 2 * (2e-6 + 960 * 3e-9), 1e-15);
  EXPECT_NEAR(gemm_core(slow, work, 1).droop, core * 0.2 * core / (core + 10e-6), 1e-18);
  slow.droop_time = 0;
  EXPECT_NEAR(gemm_core_seconds(slow, work, 1), 1.2 * core, 1e-15);
}

// 128 x 7168 by 7168 x 4096 in FP8 at 2.8 TB/s and 800 TFLOP/s, after 2.5 us: (128 x 7168 + 4096 x 7168) + 2 x 128 x
// 4096 bytes take 11.19 us and the FLOPs 9.40 us, of which the longer one alone gives 13.69 us.
TEST(SmallGemmForm, IsBoundByBytesOrProducts) {
  const GemmWork work{.m = 128, .n = 4096, .k = 7168, .operand_bytes = 1};
  SmallGemmConstants c{.start = 2.5e-6, .bandwidth = 2.8e12, .rate = 1e21};
  EXPECT_NEAR(c.start + small_gemm_core(c, work, 1).total(), 13.6879e-6, 1e-10);
  c.rate = 800e12;
  const SmallGemmSeconds both = small_gemm_core(c, work, 1);
  EXPECT_NEAR(both.tiles, 2.0 * 128 * 4096 * 7168 / 800e12, 1e-15);
  EXPECT_NEAR(both.total(), std::cbrt(std::pow(9.3953e-6, 3) + std::pow(11.1879e-6, 3)), 1e-9);
  EXPECT_NEAR(small_gemm_core(c, work, 0.5).tiles, 2 * both.tiles, 1e-15);  // half of the SMs
  c.k_time = 1e-9;
  EXPECT_NEAR(small_gemm_core(c, work, 1).inner, 7.168e-6, 1e-15);
}

// The rows at which FLOPs take as long as the weights: rate x bytes of a weight / (2 x bandwidth).
TEST(SmallGemmForm, HasARidge) {
  const auto ridge = [](double rate, double bandwidth, double weight_bytes) {
    const SmallGemmConstants bytes{.bandwidth = bandwidth, .rate = 1e30}, products{.bandwidth = 1e30, .rate = rate};
    const GemmWork weights{.m = 0, .n = 8192, .k = 8192, .operand_bytes = weight_bytes};
    const GemmWork rows{.m = 64, .n = 8192, .k = 8192};
    return 64 * small_gemm_core(bytes, weights, 1).total() / small_gemm_core(products, rows, 1).total();
  };
  EXPECT_NEAR(ridge(1100e12, 2.8e12, 1), 196.429, 1e-3);
  EXPECT_NEAR(ridge(620e12, 2.8e12, 2), 221.429, 1e-3);
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

TEST(AttentionForm, WithARateAloneIsTheFlopsAtThatRate) {
  const double forward = 64 * 4096.0 * 2048 * 2 * 256 / 500e12;
  EXPECT_NEAR(attention_seconds(plain, causal, 132, 132), forward, 1e-15);
  EXPECT_NEAR(attention_seconds(plain, causal, 132, 66), 2 * forward, 1e-15);
  AttentionWork backward = causal;
  backward.backward = true;
  EXPECT_NEAR(attention_seconds(plain, backward, 132, 132), 2.5 * forward, 1e-15);
}

TEST(AttentionForm, HasPartsByPairRowTailAndKeys) {
  AttentionConstants all = plain;
  all.pair_time = 100e-15;
  all.row_time = 200e-12;
  all.tail = 0.5;
  all.kv_bandwidth = 2e12;
  const AttentionSeconds seconds = attention_parts(all, causal, 132, 66);
  const double rows = 64 * 4096.0, pair = 100e-15 + 2 * 256 / 500e12;
  EXPECT_NEAR(seconds.gemms, 2 * rows * 2048 * 2 * 256 / 500e12, 1e-15);
  EXPECT_NEAR(seconds.pairs, 2 * rows * 2048 * 100e-15, 1e-15);
  EXPECT_NEAR(seconds.rows, 2 * rows * 200e-12, 1e-15);
  // Half of a block of 128 rows by 4096 keys on one of 132 SMs, whether all of them are free or not.
  EXPECT_NEAR(seconds.tail, 0.5 * 128 * 4096 * pair * 132, 1e-15);
  EXPECT_NEAR(seconds.keys_values, 8 * 4096.0 * 256 * 2 / 2e12, 1e-15);
  EXPECT_EQ(attention_seconds(all, causal, 132, 66), seconds.total());
  AttentionWork backward = causal;
  backward.backward = true;
  EXPECT_NEAR(attention_parts(all, backward, 132, 66).keys_values, 2 * seconds.keys_values, 1e-15);
}

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

TEST(AttentionForm, PadsHeadDimensions) {
  AttentionConstants padded = plain;
  padded.dim_block = 64;
  AttentionWork odd = causal;
  odd.qk_dim = 72;  // computed as 128
  odd.v_dim = 128;
  EXPECT_NEAR(attention_seconds(padded, odd, 132, 132), attention_seconds(plain, causal, 132, 132), 1e-15);
  odd.v_dim = 64;
  EXPECT_NEAR(attention_seconds(padded, odd, 132, 132), 0.75 * attention_seconds(plain, causal, 132, 132), 1e-15);
}

}  // namespace
}  // namespace plumbline::model
