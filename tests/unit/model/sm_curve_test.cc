// The bandwidth that a family of communication kernels reaches with n SMs.
#include "model/cost/detail/sm_curve.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

// Returns rates by key; the other fields of a parameter do not matter here.
Profile profile(const std::map<std::string, double>& rates) {
  std::vector<Parameter> parameters;
  for (const auto& [key, rate] : rates) {
    Parameter& parameter = parameters.emplace_back();
    parameter.name = "exchange.sm_curve." + key;
    parameter.value = rate;
    parameter.unit = "GB/s";
  }
  return {"p", "", parameters};
}

SmCurve curve(const std::map<std::string, double>& points) {
  std::map<std::string, double> keys;
  for (const auto& [sms, rate] : points) keys["f.dispatch." + sms] = rate;
  const auto read = SmCurve::read(profile(keys), "f", "dispatch");
  EXPECT_TRUE(read) << to_string(read.error());
  return read.value_or(SmCurve{});
}

TEST(SmCurve, StraightLinesFromZeroThroughThePoints) {
  const SmCurve c = curve({{"4", 30}, {"12", 40}, {"20", 50}});
  EXPECT_DOUBLE_EQ(c.share(0), 0);
  EXPECT_DOUBLE_EQ(c.share(2), 0.3);  // half way to 30 of 50
  EXPECT_DOUBLE_EQ(c.share(4), 0.6);
  EXPECT_DOUBLE_EQ(c.share(10), 0.75);  // three quarters of the way from 0.6 to 0.8
  EXPECT_DOUBLE_EQ(c.share(12), 0.8);
  EXPECT_DOUBLE_EQ(c.share(20), 1);
}

TEST(SmCurve, FlatAfterTheBest) {
  const SmCurve c = curve({{"4", 30}, {"20", 50}});
  EXPECT_EQ(c.saturation(), 20);
  EXPECT_DOUBLE_EQ(c.share(21), 1);
  EXPECT_DOUBLE_EQ(c.share(132), 1);
}

TEST(SmCurve, KeysAreNumbersNotText) {
  // "12" and "4" would sort the other way round.
  EXPECT_EQ(curve({{"12", 50}, {"4", 30}}).saturation(), 12);
}

TEST(SmCurve, ALowerRateWithMoreSmsIsNoise) {
  const SmCurve c = curve({{"4", 30}, {"8", 50}, {"12", 20}, {"16", 49}});
  EXPECT_EQ(c.saturation(), 8);
  EXPECT_DOUBLE_EQ(c.share(12), 1);
  // A dip in the middle is bridged by the line to the next higher point.
  const SmCurve dip = curve({{"4", 30}, {"8", 25}, {"12", 50}});
  EXPECT_DOUBLE_EQ(dip.share(8), 0.8);  // half way from 0.6 to 1
}

TEST(SmCurve, OnlyProportionsCount) {
  for (const std::int64_t sms : {1, 3, 7, 20})
    EXPECT_DOUBLE_EQ(curve({{"4", 3}, {"20", 5}}).share(sms), curve({{"4", 30}, {"20", 50}}).share(sms));
}

TEST(SmCurve, DispatchAndCombineHaveTheirOwn) {
  const Profile p = profile({{"f.dispatch.10", 5}, {"f.combine.20", 7}});
  EXPECT_EQ(SmCurve::read(p, "f", "dispatch")->saturation(), 10);
  EXPECT_EQ(SmCurve::read(p, "f", "combine")->saturation(), 20);
}

TEST(SmCurve, AnUnknownFamilyNamesTheKnownOnes) {
  const auto read =
      SmCurve::read(profile({{"f.dispatch.10", 5}, {"f.combine.20", 7}, {"gg.dispatch.8", 1}}), "h", "dispatch");
  ASSERT_FALSE(read);
  tests::expect_error(read.error(), ErrorKind::input, "", 0, "overlap.communication_kernels", "known: f, gg");
  EXPECT_NE(read.error().message.find("'h'"), std::string::npos);
}

TEST(SmCurve, AFamilyIsNotItsPrefix) {
  EXPECT_FALSE(SmCurve::read(profile({{"deepep-v1.dispatch.20", 1}}), "deepep", "dispatch"));
}

TEST(SmCurve, ABadKeyOrRateIsAnErrorAtItsName) {
  const std::map<std::string, double> bad = {
      {"f.dispatch.many", 1}, {"f.dispatch.20x", 1}, {"f.dispatch.0", 1}, {"f.dispatch.-4", 1}, {"f.dispatch.8", 0}};
  for (const auto& [key, rate] : bad) {
    const auto read = SmCurve::read(profile({{key, rate}}), "f", "dispatch");
    ASSERT_FALSE(read) << key;
    tests::expect_error(read.error(), ErrorKind::input, "", 0, "exchange.sm_curve." + key, "number of SMs");
  }
}

}  // namespace
}  // namespace plumbline::model
