#include "model/profile/constant_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/profile/profile.h"

namespace plumbline::model {
namespace {

Profile profile() {
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

TEST(ProfileWithChanges, AValueReplacesOneConstant) {
  const Profile changed = profile().with_changes({{"gemm.ramp", 5}}).value();
  EXPECT_DOUBLE_EQ(value(changed, "gemm.ramp"), 5);
  EXPECT_DOUBLE_EQ(value(changed, "gemm.fp8.k_time"), 3);
  EXPECT_EQ(changed.name(), "h (changed)");
}

TEST(ProfileWithChanges, AStarMakesItAFactor) {
  const Profile changed = profile().with_changes({{"gemm.*.k_time", 1.5}}).value();
  EXPECT_DOUBLE_EQ(value(changed, "gemm.bf16.k_time"), 9);
  EXPECT_DOUBLE_EQ(value(changed, "gemm.fp8.k_time"), 4.5);
  EXPECT_DOUBLE_EQ(value(changed, "gemm.ramp"), 4);
}

// A measured constant that is changed is no longer of kind measured.
TEST(ProfileWithChanges, ProvenanceNamesTheChange) {
  const Profile changed = profile().with_changes({{"gemm.bf16.k_time", 7}}).value();
  const Parameter& constant = changed.parameters()[*changed.find("gemm.bf16.k_time")];
  EXPECT_EQ(constant.kind, Evidence::assumed);
  EXPECT_EQ(constant.relative_uncertainty, std::nullopt);
  EXPECT_EQ(constant.source, "given for this prediction; was 6 ns: a table");
}

TEST(ProfileWithChanges, WithoutChangesItIsTheSame) { EXPECT_EQ(profile().with_changes({}).value().name(), "h"); }

TEST(ProfileWithChanges, AnUnknownNameHasANearest) {
  EXPECT_THAT(to_string(profile().with_changes({{"gemm.rampe", 1}}).error()),
              testing::HasSubstr("did you mean 'gemm.ramp'?"));
}

}  // namespace
}  // namespace plumbline::model
