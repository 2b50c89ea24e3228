#include "model/profile/profile.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace plumbline::model
