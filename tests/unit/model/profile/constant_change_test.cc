#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "model/profile/constant_rules.h"
#include "model/profile/profile.h"

namespace plumbline::model {
namespace {

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

}  // namespace
}  // namespace plumbline::model
