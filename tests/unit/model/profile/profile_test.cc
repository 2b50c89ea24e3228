#include "model/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/profile/device_profile.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using tests::expect_error;
using tests::TemporaryDirectory;

const std::string entry = R"({ value = 1, unit = "us", kind = "measured", source = "s" })";

TEST(Profile, ReadsEntriesByDottedName) {
  const TemporaryDirectory folder;
  const auto path = folder.write("h800.toml", R"(name = "h800"
description = "a test"
[gemm.fp8]
k_time = { value = 3.5, unit = "ns", kind = "fitted", source = "fit", uncertainty = 0.04 }
[attention]
forward_rate = { value = 600, unit = "TFLOP/s", kind = "published", source = "paper" }
)");
  const auto profile = load_profile(path.string());
  ASSERT_TRUE(profile) << to_string(profile.error());
  EXPECT_EQ(profile->name(), "h800");
  EXPECT_EQ(profile->description(), "a test");
  ASSERT_EQ(profile->parameters().size(), 2u);
  const auto index = profile->find("gemm.fp8.k_time");
  ASSERT_TRUE(index);
  const Parameter& parameter = profile->parameters()[*index];
  EXPECT_DOUBLE_EQ(parameter.value, 3.5);
  EXPECT_EQ(parameter.unit, "ns");
  EXPECT_EQ(parameter.kind, Evidence::fitted);
  EXPECT_EQ(parameter.source, "fit");
  EXPECT_DOUBLE_EQ(parameter.relative_uncertainty.value(), 0.04);
  EXPECT_EQ(profile->find("attention.forward_rate"), 0u);  // sorted by name
  EXPECT_FALSE(profile->find("attention.forward"));
}

TEST(Profile, OwnEntriesWinOverThoseItExtends) {
  const TemporaryDirectory folder;
  folder.write("base.toml", "gemm.ramp = " + entry + "\nkernel.shortest = " + entry + "\n");
  folder.write("middle.toml", "extends = \"base\"\nkernel.launch_gap = " + entry + "\n");
  const auto path = folder.write("top.toml",
                                 "extends = \"middle\"\n[gemm.ramp]\nvalue = 7\nunit = \"ms\"\nkind = \"assumed\"\n"
                                 "source = \"own\"\n");
  const auto profile = load_profile(path.string());
  ASSERT_TRUE(profile) << to_string(profile.error());
  EXPECT_EQ(profile->name(), "top");
  ASSERT_EQ(profile->parameters().size(), 3u);
  const Parameter& a = profile->parameters()[profile->find("gemm.ramp").value()];
  EXPECT_DOUBLE_EQ(a.value, 7);
  EXPECT_EQ(a.unit, "ms");
  EXPECT_EQ(a.source, "own");
  EXPECT_DOUBLE_EQ(profile->parameters()[profile->find("kernel.shortest").value()].value, 1);
}

TEST(Profile, ExtendsAShippedOneFromAnywhere) {
  const TemporaryDirectory folder;
  folder.write("shipped/base.toml", "gemm.ramp = " + entry + "\n");
  folder.write("shipped/near.toml", "permute.map = " + entry + "\n");
  const std::string shipped = (folder.path() / "shipped").string();
  const std::string far = folder.write("own/far.toml", "extends = \"base\"\n").string();
  const auto profile = load_profile(far, shipped);
  ASSERT_TRUE(profile) << to_string(profile.error());
  EXPECT_TRUE(profile->find("gemm.ramp"));
  EXPECT_FALSE(load_profile(far));
  // A profile in the same folder comes first, and an error lists the names in both folders.
  folder.write("own/near.toml", "router.forward = " + entry + "\n");
  const std::string sibling = folder.write("own/sibling.toml", "extends = \"near\"\n").string();
  EXPECT_TRUE(load_profile(sibling, shipped)->find("router.forward"));
  const std::string lost = folder.write("own/lost.toml", "extends = \"bas\"\n").string();
  expect_error(load_profile(lost, shipped).error(), ErrorKind::input, lost, 1, "extends", "'base'");
}

// No file system has a name of 5,000 characters, which is an error of looking for it.
TEST(Profile, ExtendsNoNameThatIsTooLong) {
  const TemporaryDirectory folder;
  const std::string name(5000, 'a');
  const std::string path = folder.write("far.toml", "extends = \"" + name + "\"\n").string();
  expect_error(load_profile(path).error(), ErrorKind::input, path, 1, "extends", name);
  const std::string stack =
      folder.write("stack.toml", "stack = \"" + name + "\"\ngemm.ramp = " + entry + "\n").string();
  EXPECT_EQ(load_profile(stack)->stack(), name);
}

TEST(Profile, DevicesAreThoseOfTheNearestFileThatNamesSome) {
  const TemporaryDirectory folder;
  folder.write("base.toml", "devices = [\"h100-sxm\", \"h200-sxm\"]\n");
  const std::string heir = folder.write("heir.toml", "extends = \"base\"\n").string();
  const std::string own = folder.write("own.toml", "extends = \"base\"\ndevices = [\"h20-sxm\"]\n").string();
  const std::string open = folder.write("open.toml", "gemm.ramp = " + entry + "\n").string();
  EXPECT_EQ(load_profile(heir)->devices(), (std::vector<std::string>{"h100-sxm", "h200-sxm"}));
  EXPECT_EQ(load_profile(own)->devices(), std::vector<std::string>{"h20-sxm"});
  EXPECT_TRUE(load_profile(open)->devices().empty());
}

// A file that another one extends is checked too, even where the other one replaces the entry.
TEST(Profile, EveryFileIsChecked) {
  const TemporaryDirectory folder;
  const std::string base =
      folder.write("base.toml", "\n[gemm]\nramp = { value = -1, unit = \"us\", kind = \"measured\", source = \"s\" }\n")
          .string();
  const std::string top = folder.write("top.toml", "extends = \"base\"\ngemm.ramp = " + entry + "\n").string();
  expect_error(load_profile(top).error(), ErrorKind::input, base, 3, "gemm.ramp", "-1 us is out of range");
}

struct BadProfile {
  const char* what;
  std::string text;
  int line;
  const char* key;
  const char* says;
};

class BadProfileFile : public testing::TestWithParam<BadProfile> {};

TEST_P(BadProfileFile, IsAnInputErrorAtItsPlace) {
  const TemporaryDirectory folder;
  folder.write("h800-public.toml", "a = " + entry + "\n");
  const std::string path = folder.write("p.toml", GetParam().text).string();
  expect_error(load_profile(path), ErrorKind::input, path, GetParam().line, GetParam().key, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadProfileFile,
    testing::Values(
        BadProfile{"plain_number", "[gemm]\nrate = 3\n", 2, "gemm.rate", "without unit"},
        BadProfile{"no_value", "\na = { unit = \"us\", kind = \"measured\", source = \"s\" }", 2, "a", "lacks 'value'"},
        BadProfile{"no_unit", "a = { value = 1, kind = \"measured\", source = \"s\" }", 1, "a", "lacks 'unit'"},
        BadProfile{"no_kind", "a = { value = 1, unit = \"us\", source = \"s\" }", 1, "a", "lacks 'kind'"},
        BadProfile{"no_source", "a = { value = 1, unit = \"us\", kind = \"measured\" }", 1, "a", "lacks 'source'"},
        BadProfile{"empty_source", "a = { value = 1, unit = \"us\", kind = \"measured\", source = \"\" }", 1,
                   "a.source", "not empty"},
        BadProfile{"kind", "a = { value = 1, unit = \"us\", kind = \"mesured\", source = \"s\" }", 1, "a.kind",
                   "'measured'"},
        BadProfile{"value", "a = { value = \"1\", unit = \"us\", kind = \"measured\", source = \"s\" }", 1, "a.value",
                   "expected a number"},
        BadProfile{"infinite", "a = { value = inf, unit = \"us\", kind = \"measured\", source = \"s\" }", 1, "a.value",
                   "expected a number"},
        BadProfile{"uncertainty",
                   "a = { value = 1, unit = \"us\", kind = \"measured\", source = \"s\", uncertainty = -1 }", 1,
                   "a.uncertainty", "not negative"},
        BadProfile{"unknown_entry_key", "a = { value = 1, unit = \"us\", kind = \"measured\", sorce = \"s\" }", 1,
                   "a.sorce", "'source'"},
        BadProfile{"unknown_constant", "\ngem.bf16.k_time = " + entry, 2, "gem.bf16.k_time", "'gemm.bf16.k_time'"},
        BadProfile{"wrong_unit",
                   "gemm.bf16.k_time = { value = 5.5, unit = \"USD\", kind = \"measured\", source = \"s\" }", 1,
                   "gemm.bf16.k_time", "unit 'USD' gives a price where a time is wanted"},
        BadProfile{"devices", "devices = \"h100-sxm\"", 1, "devices", "array of strings"},
        BadProfile{"unknown_text_key", "extend = \"h800-public\"\n", 1, "extend", "'extends'"},
        BadProfile{"unknown_base", "name = \"p\"\nextends = \"h800-pubic\"\n", 2, "extends", "'h800-public'"},
        BadProfile{"circle", "extends = \"p\"\n", 1, "extends", "extends itself"},
        BadProfile{"syntax", "a = {\n", 1, "", ""}),
    [](const auto& parameter) { return std::string(parameter.param.what); });

TEST(Profile, MissingFileIsAnInputError) {
  expect_error(load_profile("/nowhere/p.toml"), ErrorKind::input, "/nowhere/p.toml", 0, "", "no such file");
}

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
