// The load of experts as models are served, against published loads of DeepSeek-R1 and closed forms.
#include "model/routing/served_load.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/architectures.h"

namespace plumbline::model {
namespace {

MixtureOfExperts deepseek_experts() { return tests::architecture("deepseek-v3").experts; }

// NVIDIA/TensorRT-LLM examples/wide_ep/ep_load_balancer/README.md: rows of 32 ranks vary by 491.65 of 1,024 over a data
// set, the fullest has 2.564 times the mean; with 32 copies on 36 ranks 1.115 times.
TEST(ServedLoad, TheFullestRankIsAsFullAsPublished) {
  const double skew = 491.651199 / 1024 * std::sqrt(8.0);
  EXPECT_NEAR(served_skew(deepseek_experts()).high, skew, 0.01);
  const double alone = ServedRanks(deepseek_experts(), 32, 0, skew).fullest(32 * 1024 / 8);
  const double copied = ServedRanks(deepseek_experts(), 36, 32, skew).fullest(36 * 1024 / 8);
  EXPECT_NEAR(alone / 2.564, 1, 0.15);
  EXPECT_NEAR(copied / 1.115, 1, 0.08);
}

TEST(ServedLoad, BiasesLeaveWhatRequestsHaveInCommon) {
  const ServedSkew biased = served_skew(deepseek_experts());
  EXPECT_NEAR(biased.middle * biased.middle, biased.low * biased.high, 1e-12);
  // An auxiliary loss leaves 0.3 of 64 experts and in proportion less of fewer.
  EXPECT_NEAR(served_skew(tests::architecture("mixtral-8x7b").experts).middle, 0.3 * 8 / 64, 1e-12);
}

// The mean over experts of (1 - k s)^T falls with a skew, as it is convex in s: fewer experts have rows. Without one it
// is the closed form. One token hits its own number whatever the skew.
TEST(ServedLoad, FewTokensHitFewerExpertsWithASkew) {
  const MixtureOfExperts experts = deepseek_experts();
  EXPECT_NEAR(experts_with_rows(experts, 0, 0, 16), 256 * (1 - std::pow(1 - 8 / 256.0, 16)), 1e-9);
  for (const double tokens : {8.0, 16.0, 64.0}) {
    double before = 256;
    for (const double skew : {0.0, 0.24, 0.57, 1.36}) {
      const double hit = experts_with_rows(experts, 0, skew, tokens);
      EXPECT_LT(hit, before) << tokens << " tokens, skew " << skew;
      before = hit;
    }
  }
  EXPECT_NEAR(experts_with_rows(experts, 0, 0.57, 1), 8, 1e-9);
  EXPECT_NEAR(experts_with_rows(experts, 0, 0.57, 1e6), 256, 1e-6);
  EXPECT_NEAR(experts_with_rows(experts, 32, 0.57, 1e6), 288, 1e-6);  // copies are slots of their own
}

TEST(ServedLoad, RanksFillByTheirExperts) {
  const MixtureOfExperts experts = deepseek_experts();
  EXPECT_EQ(ServedRanks(experts, 1, 0, 0.57).fullest(100), 1);
  // More ranks have fewer experts each, more tokens less noise, copies less load on the fullest.
  EXPECT_LT(ServedRanks(experts, 8, 0, 0.57).fullest(4096), ServedRanks(experts, 32, 0, 0.57).fullest(4096));
  EXPECT_LT(ServedRanks(experts, 8, 0, 0.57).fullest(65536), ServedRanks(experts, 8, 0, 0.57).fullest(64));
  EXPECT_LT(ServedRanks(experts, 144, 32, 0.57).fullest(18432), ServedRanks(experts, 64, 0, 0.57).fullest(18432));
  EXPECT_NEAR(ServedRanks(experts, 8, 0, 0).fullest(1e9), 1, 1e-3);
}

}  // namespace
}  // namespace plumbline::model
