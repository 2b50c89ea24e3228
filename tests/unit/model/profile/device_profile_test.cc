#include "model/profile/device_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace plumbline::model {
namespace {

// 100 SMs, 200 TFLOP/s, 1 TB/s.
Device device() {
  Device device;
  device.name = "small";
  device.sms = 100;
  device.bf16_peak = FlopsPerSecond(200e12);
  device.memory_bandwidth = BytesPerSecond(1e12);
  return device;
}

Parameter constant(const std::string& name, double value, const std::string& unit) {
  return {name, value, unit, Evidence::measured, "a table", 0.1};
}

// A tile of 100 x 100 takes 2 * 100^2 * 100 SMs / 200 TFLOP/s = 10 ns per k at the peak.
Profile profile_of_devices(const std::vector<std::string>& devices) {
  return Profile(
      "big", "",
      {constant("gemm.tile", 100, "1"), constant("gemm.bf16.k_time", 2, "ns"),
       constant("gemm.bf16_weight_gradient.k_time", 12, "ns"), constant("gemm.fp8.k_time", 1, "ns"),
       constant("attention.reference_sms", 50, "1"), constant("attention.forward_rate", 90, "TFLOP/s"),
       constant("attention.backward_rate", 150, "TFLOP/s"), constant("memory.default.bandwidth", 3000, "GB/s"),
       constant("memory.norm.bandwidth", 0.5, "TB/s"), constant("host.memory_bandwidth", 5, "TB/s"),
       constant("measured.sms100.matmul-F-bf16-8x8-to-8x8", 1, "us")},
      devices);
}

const Parameter& of(const Profile& profile, const std::string& name) {
  return profile.parameters()[profile.find(name).value()];
}
const Parameter& of(const DeviceProfile& found, const std::string& name) { return of(found.profile, name); }

TEST(ProfileOn, ANamedDeviceTakesItAsItIs) {
  const DeviceProfile found = profile_on(profile_of_devices({"big", "small"}), device()).value();
  EXPECT_TRUE(found.holds);
  EXPECT_TRUE(found.warnings.empty());
  EXPECT_EQ(found.profile, profile_of_devices({"big", "small"}));
}

TEST(ProfileOn, RatesOfAnotherDeviceEndAtItsPeaks) {
  const DeviceProfile found = profile_on(profile_of_devices({"big"}), device()).value();
  EXPECT_FALSE(found.holds);
  EXPECT_DOUBLE_EQ(of(found, "gemm.bf16.k_time").value, 10);
  EXPECT_DOUBLE_EQ(of(found, "gemm.bf16_weight_gradient.k_time").value, 12);
  EXPECT_DOUBLE_EQ(of(found, "gemm.fp8.k_time").value, 1);  // no plan computes in FP8 there
  EXPECT_DOUBLE_EQ(of(found, "attention.forward_rate").value, 90);
  EXPECT_DOUBLE_EQ(of(found, "attention.backward_rate").value, 100);  // half of the SMs, half of the peak
  EXPECT_DOUBLE_EQ(of(found, "memory.default.bandwidth").value, 1000);
  EXPECT_DOUBLE_EQ(of(found, "memory.norm.bandwidth").value, 0.5);
  EXPECT_DOUBLE_EQ(of(found, "host.memory_bandwidth").value, 5);
}

TEST(ProfileOn, WhatWasCappedSaysSo) {
  const DeviceProfile found = profile_on(profile_of_devices({"big"}), device()).value();
  const Parameter& k_time = of(found, "gemm.bf16.k_time");
  EXPECT_EQ(k_time.kind, Evidence::assumed);
  EXPECT_EQ(k_time.relative_uncertainty, std::nullopt);
  EXPECT_EQ(k_time.source, "bf16 peak of small; 2 ns of profile big is beyond it: a table");
  EXPECT_THAT(
      found.warnings,
      testing::ElementsAre(
          "profile big holds for big, not for small",
          "small cannot reach 3 constants of profile big: its datasheet's rates replace attention.backward_rate, "
          "gemm.bf16.k_time, memory.default.bandwidth",
          "operators that profile big has as measured were not measured on small: they take the formulas"));
}

TEST(ProfileOn, MeasuredOperatorsAreOfTheDevicesNamed) {
  const std::string measured = "measured.sms100.matmul-F-bf16-8x8-to-8x8";
  EXPECT_FALSE(profile_on(profile_of_devices({"big"}), device())->profile.find(measured));
  EXPECT_TRUE(profile_on(profile_of_devices({}), device())->profile.find(measured));
}

TEST(ProfileOn, AProfileThatNamesNoDeviceIsCappedToo) {
  const DeviceProfile found = profile_on(profile_of_devices({}), device()).value();
  EXPECT_DOUBLE_EQ(of(found, "gemm.bf16.k_time").value, 10);
  EXPECT_EQ(found.warnings.size(), 1);
}

// With heads of 512 the pair takes 2 * 512 / rate + pair_time, which is 2 * 512 / 200 TFLOP/s = 5.12 ps at the peak.
TEST(ProfileOn, AttentionIsCappedWithItsTimePerPair) {
  const std::vector<Parameter> constants = {constant("attention.forward_rate", 1000, "TFLOP/s"),
                                            constant("attention.forward.pair_time", 3.12, "ps"),
                                            constant("attention.reference_sms", 100, "1")};
  const DeviceProfile found = profile_on(Profile("p", "", constants), device()).value();
  EXPECT_NEAR(of(found, "attention.forward_rate").value, 512, 1e-9);
  EXPECT_EQ(of(found, "attention.forward.pair_time").value, 3.12);
}

TEST(ProfileOn, ProfilesMadeInCodeAreChecked) {
  const auto error = [](std::vector<Parameter> constants) {
    return to_string(profile_on(Profile("p", "", std::move(constants)), device()).error());
  };
  EXPECT_THAT(error({constant("gemm.ramp", -1, "us")}), testing::HasSubstr("gemm.ramp: -1 us is out of range"));
  EXPECT_THAT(error({constant("gemm.ramp", std::numeric_limits<double>::quiet_NaN(), "us")}),
              testing::HasSubstr("nan us"));
  EXPECT_THAT(error({constant("gemm.ramp", 1, "us"), constant("gemm.ramp", 2, "us")}),
              testing::HasSubstr("gemm.ramp: profile 'p' has it twice"));
}

// From 100 SMs, 200 TFLOP/s in BF16 and 1 TB/s to 50 SMs, 400 TFLOP/s and 3 TB/s: an SM is 4 times as fast.
TEST(ScaledProfile, GoesWithTheRatiosOfTheDatasheets) {
  Device to = device();
  to.name = "mine";
  to.sms = 50;
  to.bf16_peak = FlopsPerSecond(400e12);
  to.memory_bandwidth = BytesPerSecond(3e12);
  const Profile scaled = scaled_profile(profile_of_devices({"small"}), device(), to);
  EXPECT_EQ(scaled.name(), "scaled:big");
  EXPECT_THAT(scaled.devices(), testing::ElementsAre("mine"));
  EXPECT_DOUBLE_EQ(of(scaled, "gemm.bf16.k_time").value, 0.5);
  EXPECT_DOUBLE_EQ(of(scaled, "gemm.fp8.k_time").value, 0.25);  // no peak of FP8 is known: by that of BF16
  EXPECT_DOUBLE_EQ(of(scaled, "attention.reference_sms").value, 25);
  EXPECT_DOUBLE_EQ(of(scaled, "attention.forward_rate").value, 180);
  EXPECT_DOUBLE_EQ(of(scaled, "memory.norm.bandwidth").value, 1.5);
  EXPECT_EQ(of(scaled, "gemm.tile"), constant("gemm.tile", 100, "1"));
  EXPECT_EQ(of(scaled, "host.memory_bandwidth"), constant("host.memory_bandwidth", 5, "TB/s"));
  EXPECT_FALSE(scaled.find("measured.sms100.matmul-F-bf16-8x8-to-8x8"));
}

TEST(ScaledProfile, IsAssumedAndOffAsAWhole) {
  Device to = device();
  to.fp8_peak = FlopsPerSecond(400e12);
  Device from = device();
  from.fp8_peak = FlopsPerSecond(200e12);
  const Profile scaled = scaled_profile(profile_of_devices({"small"}), from, to);
  const Parameter& k_time = of(scaled, "gemm.fp8.k_time");
  EXPECT_EQ(k_time.kind, Evidence::assumed);
  EXPECT_EQ(k_time.source, "transferred from small (1 ns, measured) by peaks of fp8 per SM, times 0.5: a table");
  EXPECT_DOUBLE_EQ(k_time.relative_uncertainty.value(), std::hypot(0.1, 0.4));
  EXPECT_DOUBLE_EQ(of(scaled, "gemm.bf16.k_time").relative_uncertainty.value(), std::hypot(0.1, 0.15));
  const std::vector<std::string> bandwidths = {"memory.default.bandwidth", "memory.norm.bandwidth"};
  EXPECT_THAT(scaled.fits(), testing::Contains(ConstantFit{{bandwidths}, {}}));
}

}  // namespace
}  // namespace plumbline::model
