#include "model/profile/constant_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace plumbline::model {
namespace {

std::string error_of(const std::string& name, double value, const std::string& unit) {
  const auto checked = check_constant({name, value, unit, Evidence::measured, "a test"});
  return checked ? "" : to_string(checked.error());
}

TEST(ConstantRules, TellConstantsOfServingApart) {
  for (const char* name : {"serving.step", "cached_attention.latent_bf16.start", "gemm.fp8.grouped_small_m_rate",
                           "collective.custom.vllm.most_bytes", "exchange.low_latency.deepep-2025-06.combine.start",
                           "residual.small_gemm", "residual.cached_attention"})
    EXPECT_TRUE(is_of_serving(name)) << name;
  for (const char* name : {"exchange.combine.start", "gemm.fp8.k_time", "collective.launch", "residual.attention"})
    EXPECT_FALSE(is_of_serving(name)) << name;
}

TEST(ConstantRules, AllowWhatIsInRange) {
  EXPECT_EQ(error_of("gemm.fp8_tensor_weight_gradient.k_time", 3.2, "ns"), "");
  EXPECT_EQ(error_of("attention.forward.pair_time", 3, "fs"), "");
  EXPECT_EQ(error_of("power.gemm.nvfp4.energy_per_flop", 0.2, "pJ/FLOP"), "");
  EXPECT_EQ(error_of("power.energy_per_byte", 60, "pJ/B"), "");
  EXPECT_EQ(error_of("power.gemm.energy_per_byte", 100, "pJ/B"), "");
  EXPECT_EQ(error_of("collective.launch", 0, "us"), "");
  EXPECT_EQ(error_of("memory.swiglu_gradient.blocks_per_sm", 0, "1"), "");
  EXPECT_EQ(error_of("kernel.sustained_clock", 1, "1"), "");
}

TEST(ConstantRules, ARangeHoldsInEveryUnit) {
  EXPECT_EQ(error_of("memory.default.bandwidth", 3000, "GB/s"), "");
  EXPECT_THAT(error_of("memory.default.bandwidth", 0, "TB/s"),
              testing::AllOf(testing::HasSubstr("memory.default.bandwidth: 0 TB/s is out of range"),
                             testing::HasSubstr("from 1e-09 to 1e+06 TB/s")));
  EXPECT_THAT(error_of("gemm.ramp", -1, "us"), testing::HasSubstr("-1 us is out of range"));
  EXPECT_THAT(error_of("kernel.sustained_clock", 1.01, "1"), testing::HasSubstr("1.01 is out of range"));
  EXPECT_THAT(error_of("gemm.slowdown_beside_transfer", 0.9, "1"), testing::HasSubstr("from 1 to 1000"));
}

TEST(ConstantRules, CountsAreWhole) {
  EXPECT_THAT(error_of("gemm.tile", 128.5, "1"), testing::HasSubstr("a whole number from 1 to"));
  EXPECT_THAT(error_of("collective.nvls.available", 2, "1"), testing::HasSubstr("0 or 1"));
}

TEST(ConstantRules, OnlyNumbers) {
  EXPECT_THAT(error_of("gemm.ramp", std::numeric_limits<double>::quiet_NaN(), "us"), testing::HasSubstr("nan us"));
  EXPECT_THAT(error_of("gemm.ramp", std::numeric_limits<double>::infinity(), "us"), testing::HasSubstr("inf us"));
}

TEST(ConstantRules, AUnitHasTheDimension) {
  EXPECT_THAT(error_of("gemm.bf16.k_time", 5.5, "USD"),
              testing::HasSubstr("unit 'USD' gives a price where a time is wanted"));
  EXPECT_THAT(error_of("gemm.bf16.k_time", 5.5, "nz"), testing::HasSubstr("unknown unit 'nz'"));
}

TEST(ConstantRules, UnknownNamesHaveANearestOne) {
  EXPECT_THAT(error_of("gem.bf16.k_tme", 1, "ns"), testing::HasSubstr("did you mean 'gemm.bf16.k_time'?"));
  EXPECT_THAT(error_of("gemm.bf16.k_time.x", 1, "ns"), testing::HasSubstr("unknown constant"));
  EXPECT_THAT(error_of("memory.router.bandwidth", 1, "TB/s"), testing::HasSubstr("unknown constant"));
}

TEST(ConstantRules, PatternsTakeNumbersAndNames) {
  EXPECT_EQ(error_of("exchange.hybrid-ep.dispatch.node_rate", 46, "GB/s"), "");
  EXPECT_EQ(error_of("measured.sms112_beside.matmul-F-bf16-8x8-to-8x8", 12, "us"), "");
  EXPECT_THAT(error_of("exchange..dispatch.node_rate", 1, "GB/s"), testing::HasSubstr("unknown constant"));
  EXPECT_THAT(error_of("measured.sms0.matmul-F-bf16-8x8-to-8x8", 1, "us"), testing::HasSubstr("unknown constant"));
  EXPECT_THAT(error_of("measured.sms112.", 1, "us"), testing::HasSubstr("unknown constant"));
  EXPECT_THAT(error_of("measured.cores1.a.b", 1, "us"), testing::HasSubstr("unknown constant"));
}

}  // namespace
}  // namespace plumbline::model
