#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "model/base/provenance.h"
#include "model/profile/constant_rules.h"
#include "model/profile/profile.h"
#include "model/profile/stack.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using testing::HasSubstr;

Profile gemm_profile() {
  return Profile("h", "",
                 {{"gemm.bf16.k_time", 6, "ns", Evidence::measured, "a table", 0.1},
                  {"gemm.fp8.k_time", 3, "ns", Evidence::fitted, "a fit", std::nullopt},
                  {"gemm.ramp", 4, "us", Evidence::fitted, "a fit", std::nullopt}});
}

double value(const Profile& profile, std::string_view name) { return profile.parameters()[*profile.find(name)].value; }

TEST(NameFits, AStarStandsForAnything) {
  EXPECT_TRUE(name_fits("gemm.fp8.k_time", "gemm.fp8.k_time"));
  EXPECT_TRUE(name_fits("gemm.fp8.k_time", "gemm.*.k_time"));
  EXPECT_TRUE(name_fits("exchange.dispatch.nic_rate_beside_compute", "exchange.*.nic_rate*"));
  EXPECT_TRUE(name_fits("a.b", "*"));
  EXPECT_FALSE(name_fits("gemm.ramp", "gemm.*.k_time"));
  EXPECT_FALSE(name_fits("gemm.fp8.k_time", "gemm.fp8"));
}

// Each * once took the time of trying all its lengths, so that patterns of many never ended.
TEST(NameFits, ManyStarsTakeNoLongerThanOne) {
  const std::string stars(60, '*');
  EXPECT_TRUE(name_fits("gemm.fp8_weight_gradient.wave_overhead", stars));
  EXPECT_FALSE(name_fits("gemm.fp8_weight_gradient.wave_overhead", stars + "x"));
  EXPECT_TRUE(name_fits("aab", "*ab"));
  EXPECT_TRUE(name_fits("", "*"));
  EXPECT_FALSE(name_fits("", "a"));
}

TEST(ProfileWithChanges, AValueReplacesOneConstant) {
  const Profile changed = gemm_profile().with_changes({{"gemm.ramp", 5}}).value();
  EXPECT_DOUBLE_EQ(value(changed, "gemm.ramp"), 5);
  EXPECT_DOUBLE_EQ(value(changed, "gemm.fp8.k_time"), 3);
  EXPECT_EQ(changed.name(), "h (changed)");
}

TEST(ProfileWithChanges, AStarMakesItAFactor) {
  const Profile changed = gemm_profile().with_changes({{"gemm.*.k_time", 1.5}}).value();
  EXPECT_DOUBLE_EQ(value(changed, "gemm.bf16.k_time"), 9);
  EXPECT_DOUBLE_EQ(value(changed, "gemm.fp8.k_time"), 4.5);
  EXPECT_DOUBLE_EQ(value(changed, "gemm.ramp"), 4);
}

// A measured constant that is changed is no longer of kind measured.
TEST(ProfileWithChanges, ProvenanceNamesTheChange) {
  const Profile changed = gemm_profile().with_changes({{"gemm.bf16.k_time", 7}}).value();
  const Parameter& constant = changed.parameters()[*changed.find("gemm.bf16.k_time")];
  EXPECT_EQ(constant.kind, Evidence::assumed);
  EXPECT_EQ(constant.relative_uncertainty, std::nullopt);
  EXPECT_EQ(constant.source, "given for this prediction; was 6 ns: a table");
}

TEST(ProfileWithChanges, WhatComesOutMustBeAllowed) {
  EXPECT_THAT(to_string(gemm_profile().with_changes({{"gemm.bf16.k_time", -1}}).error()),
              testing::HasSubstr("gemm.bf16.k_time: -1 ns is out of range"));
  EXPECT_THAT(to_string(gemm_profile().with_changes({{"gemm.*.k_time", 0}}).error()),
              testing::HasSubstr("gemm.bf16.k_time: 0 ns is out of range"));
  EXPECT_THAT(to_string(gemm_profile().with_changes({{"gemm.ramp", std::nan("")}}).error()),
              testing::HasSubstr("gemm.ramp: nan us is out of range"));
  EXPECT_TRUE(gemm_profile().with_changes({{"gemm.ramp", 0}}));
}

// k_time is the time of one tile, so that another tile with the same k_time is another GPU.
TEST(ProfileWithChanges, ATileDoesNotChangeWithoutItsTimes) {
  const Profile tiled("h", "",
                      {{"gemm.tile", 128, "1", Evidence::fitted, "a fit", std::nullopt},
                       {"gemm.fp8.tile_m", 64, "1", Evidence::fitted, "a fit", std::nullopt},
                       {"gemm.fp8.k_time", 3, "ns", Evidence::fitted, "a fit", std::nullopt}});
  for (const ConstantChange& change : {ConstantChange{"gemm.tile", 256}, {"gemm.fp8.tile_m", 128}, {"gemm.*", 2}})
    EXPECT_THAT(to_string(tiled.with_changes({change}).error()), testing::HasSubstr("cannot change alone"))
        << change.name;
  EXPECT_TRUE(tiled.with_changes({{"gemm.tile", 128}}));
}

TEST(ProfileWithChanges, WithoutChangesItIsTheSame) { EXPECT_EQ(gemm_profile().with_changes({}).value().name(), "h"); }

TEST(ProfileWithChanges, AnUnknownNameHasANearest) {
  EXPECT_THAT(to_string(gemm_profile().with_changes({{"gemm.rampe", 1}}).error()),
              testing::HasSubstr("did you mean 'gemm.ramp'?"));
}

double correlation(const std::vector<std::vector<double>>& factor, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t k = 0; k <= std::min(i, j); ++k) sum += factor[i][k] * factor[j][k];
  return sum;
}

const ConstantFit three{{{"a"}, {"b", "c"}, {"d"}}, {{-0.6}, {0.3, 0.5}}};

TEST(ConstantFit, TheFactorGivesTheCorrelations) {
  const auto factor = factor_of(three);
  ASSERT_EQ(factor.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(correlation(factor, i, i), 1, 1e-12);
  EXPECT_NEAR(correlation(factor, 1, 0), -0.6, 1e-12);
  EXPECT_NEAR(correlation(factor, 2, 0), 0.3, 1e-12);
  EXPECT_NEAR(correlation(factor, 2, 1), 0.5, 1e-12);
}

// a = b, and c at 0.7 to a and 0.8 to b: no numbers have these correlations.
TEST(ConstantFit, ErrorsKeepVarianceOneWhereCorrelationsWereRounded) {
  const auto factor = factor_of({{{"a"}, {"b"}, {"c"}}, {{1.0}, {0.7, 0.8}}});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(correlation(factor, i, i), 1, 1e-12);
  EXPECT_NEAR(correlation(factor, 2, 0), 0.7, 1e-12);
}

TEST(ConstantFit, KeepsTheCorrelationsOfWhatStays) {
  const auto without = [](const std::string& gone) {
    return kept({three}, [&](const std::string& name) { return name != gone; });
  };
  EXPECT_EQ(without("c"), (std::vector<ConstantFit>{{{{"a"}, {"b"}, {"d"}}, {{-0.6}, {0.3, 0.5}}}}));
  EXPECT_EQ(without("a"), (std::vector<ConstantFit>{{{{"b", "c"}, {"d"}}, {{0.5}}}}));
  EXPECT_TRUE(kept({three}, [](const std::string& name) { return name == "d"; }).empty());
}

class FitsOfProfiles : public testing::Test {
 protected:
  static std::string constants(const std::string& values) { return "[network]\n" + values; }
  static std::string entry(const std::string& name, const std::string& value = "1") {
    return name + " = { value = " + value + ", unit = \"GB/s\", kind = \"fitted\", source = \"a table\" }\n";
  }
  std::string error_of(const std::string& fit) {
    const auto loaded = load_profile(
        folder_.write("wrong.toml", constants(entry("nic_rate") + entry("nvlink_rate")) + "[[fit]]\n" + fit).string());
    return loaded ? "" : to_string(loaded.error());
  }

  tests::TemporaryDirectory folder_;
  const std::string base_ =
      folder_
          .write("base.toml", constants(entry("nic_rate") + entry("nvlink_rate") + entry("nic_line_rate")) +
                                  "[[fit]]\nconstants = [\"network.nic_rate\", [\"network.nvlink_rate\", "
                                  "\"network.nic_line_rate\"]]\ncorrelation = [[0.5]]\n")
          .string();
  const std::vector<ConstantFit> fits_ = {
      {{{"network.nic_rate"}, {"network.nvlink_rate", "network.nic_line_rate"}}, {{0.5}}}};
};

TEST_F(FitsOfProfiles, AreReadAndInherited) {
  EXPECT_EQ(load_profile(base_).value().fits(), fits_);
  const auto path = folder_.write("more.toml", "extends = \"base\"\n" + constants(entry("nvlink_rate", "2")));
  EXPECT_EQ(load_profile(path.string()).value().fits(),
            (std::vector<ConstantFit>{{{{"network.nic_rate"}, {"network.nic_line_rate"}}, {{0.5}}}}));
}

TEST_F(FitsOfProfiles, LoseWhatIsReplaced) {
  const Profile profile = load_profile(base_).value();
  EXPECT_EQ(profile.with_changes({{"network.nic_rate", 2}}).value().fits(),
            (std::vector<ConstantFit>{{{{"network.nvlink_rate", "network.nic_line_rate"}}, {}}}));
  Stack stack;
  stack.name = "other";
  stack.parameters = {{"network.nic_rate", 3, "GB/s", Evidence::measured, "a trace"}};
  EXPECT_EQ(with_stack(profile, stack).fits().front().constants.size(), 1U);
}

TEST_F(FitsOfProfiles, MistakesAreNamed) {
  EXPECT_THAT(error_of("constants = [\"network.nic_rate\", \"network.nvlnk_rate\"]\ncorrelation = [[0.1]]\n"),
              HasSubstr("did you mean 'network.nvlink_rate'?"));
  EXPECT_THAT(error_of("constants = [\"network.nic_rate\", \"network.nvlink_rate\"]\ncorrelation = [[0.1, 1]]\n"),
              HasSubstr("correlation"));
  EXPECT_THAT(error_of("constants = [\"network.nic_rate\", \"network.nvlink_rate\"]\ncorrelation = [[1.1]]\n"),
              HasSubstr("between -1 and 1"));
  EXPECT_THAT(error_of("constants = [\"network.nic_rate\", \"network.nic_rate\"]\ncorrelation = [[0.1]]\n"),
              HasSubstr("twice"));
  EXPECT_THAT(error_of("constant = [\"network.nic_rate\"]\n"), HasSubstr("unknown key"));
}

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
