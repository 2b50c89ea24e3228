#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/cost/forms/kernel_forms.h"

namespace plumbline::model {
namespace {

// DeepSeek-V3's decode on one rank: 128 heads over a latent of 512 columns and a rope key of 64, in BF16.
constexpr CachedAttentionWork latent{.requests = 64,
                                     .queries = 2,
                                     .query_heads = 128,
                                     .kv_heads = 1,
                                     .pairs_per_query = 4096,
                                     .keys = 4096,
                                     .qk_dim = 576,
                                     .v_dim = 512,
                                     .key_value_bytes = 1152};
// Llama-3-70B's: 64 heads over 8 key-value heads of 128 columns.
constexpr CachedAttentionWork grouped{.requests = 64,
                                      .query_heads = 64,
                                      .kv_heads = 8,
                                      .pairs_per_query = 4096,
                                      .keys = 4096,
                                      .qk_dim = 128,
                                      .v_dim = 128,
                                      .key_value_bytes = 4096};
constexpr CachedAttentionConstants usual{.start = 15e-6,
                                         .request_time = 5e-9,
                                         .bandwidth = 3e12,
                                         .rate = 600e12,
                                         .ramp = 5e-6,
                                         .ramp_time = 20e-6,
                                         .merge_time = 20e-9};

// The law 20 us + max(bytes / 2.8 TB/s, FLOPs / 550 TFLOP/s) of two tokens for each of 64 requests: 2 B q H L (576 +
// 512) = 146.03 GFLOP take 265.507 us, B L 1152 = 302 MB less than half of that.
TEST(CachedAttentionForm, IsTheLongerOfReadingAndComputingAtInfiniteSharpness) {
  const CachedAttentionConstants law{
      .start = 20e-6, .bandwidth = 2.8e12, .rate = 550e12, .sharpness = std::numeric_limits<double>::infinity()};
  EXPECT_NEAR(cached_attention_flops(latent), 1.46029e11, 1e6);
  const double rows = 64.0 * 2 * 128 * (576 + 512) * 2;
  EXPECT_NEAR(cached_attention_bytes(latent) - rows, 3.0199e8, 1e4);
  EXPECT_NEAR(cached_attention_parts(law, latent).total() * 1e6, 285.507, 1e-3);
}

TEST(CachedAttentionForm, AddsWhatItsCommentStates) {
  const double reading = 64 * (4096.0 * 4096 + 64 * 256 * 2) / 3e12, computing = 2.0 * 64 * 64 * 4096 * 256 / 600e12;
  const double core = std::pow(std::pow(reading, 4) + std::pow(computing, 4), 0.25);
  const double passed = 1 - std::exp(-core / 20e-6);
  const CachedAttentionSeconds parts = cached_attention_parts(usual, grouped);
  EXPECT_NEAR(parts.core(), core, 1e-15);
  EXPECT_NEAR(parts.total(), 15e-6 + 5e-9 * 64 * 8 + core + (5e-6 + 20e-9 * 64) * passed, 1e-15);
  EXPECT_GT(parts.reading, parts.computing);
  // A block computes 64 rows where a key-value head has 8 queries.
  CachedAttentionConstants padded = usual;
  padded.least_rows = 64;
  padded.bandwidth = 1e15;
  EXPECT_NEAR(cached_attention_parts(padded, grouped).core() / (8 * computing), 1, 1e-6);
}

TEST(CachedAttentionForm, NothingIsFasterThanItsMemoryAndWorkNeverShortens) {
  for (const CachedAttentionWork& work : {latent, grouped}) {
    double before = 0;
    for (const double keys : {1.0, 128.0, 1024.0, 8192.0, 131072.0})
      for (const double requests : {1.0, 8.0, 64.0, 512.0}) {
        CachedAttentionWork sized = work;
        sized.keys = sized.pairs_per_query = keys;
        sized.requests = requests;
        const double seconds = cached_attention_parts(usual, sized).total();
        EXPECT_GE(seconds, usual.start + cached_attention_bytes(sized) / usual.bandwidth);
        EXPECT_GE(seconds, usual.start + cached_attention_flops(sized) / usual.rate);
        CachedAttentionWork more = sized;
        more.requests += 1;
        EXPECT_GT(cached_attention_parts(usual, more).total(), seconds);
        more = sized;
        more.keys = more.pairs_per_query = keys + 1;
        EXPECT_GT(cached_attention_parts(usual, more).total(), seconds);
        more = sized;
        more.queries += 1;
        EXPECT_GT(cached_attention_parts(usual, more).total(), seconds);
        CachedAttentionWork narrow = sized;
        narrow.key_value_bytes /= 2;
        EXPECT_LT(cached_attention_parts(usual, narrow).total(), seconds);
        if (requests == 1) {
          EXPECT_GT(seconds, before);
          before = seconds;
        }
      }
  }
  EXPECT_EQ(cached_attention_parts(usual, {}).total(), usual.start);
}

}  // namespace
}  // namespace plumbline::model
