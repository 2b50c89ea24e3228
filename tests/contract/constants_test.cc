// The table of constants (model/profile/constants.def): it covers every shipped profile, something reads each of its
// names, and a profile with a wrong value for any of them is refused with file and line.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "model/profile/constant_rules.h"
#include "model/profile/profile.h"
#include "tests/support/folders.h"
#include "tests/support/inputs.h"
#include "tests/support/source_tree.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

// Returns a name that fits the rule.
std::string name_of(const model::ConstantRule& rule) {
  std::string name = rule.name;
  if (const auto at = name.find('#'); at != std::string::npos) name.replace(at, 1, "16");
  if (const auto at = name.find('*'); at != std::string::npos) name.replace(at, 1, "any");
  return name;
}

std::string unit_of(model::UnitDimension dimension) {
  for (const char* unit : {"1", "s", "B", "GB/s", "TFLOP/s", "W", "J", "pJ/FLOP", "pJ/B", "MHz"})
    if (model::si_unit(unit)->dimension == dimension) return unit;
  return "";
}

model::Result<model::Profile> profile_with(const std::string& name, const std::string& value, const std::string& unit) {
  const TemporaryDirectory folder;
  return model::load_profile(folder
                                 .write("p.toml", "# one constant\n" + name + " = { value = " + value + ", unit = \"" +
                                                      unit + "\", kind = \"measured\", source = \"s\" }\n")
                                 .string());
}

void expect_refused(const std::string& name, const std::string& value, const std::string& unit) {
  const auto profile = profile_with(name, value, unit);
  ASSERT_FALSE(profile) << name << " = " << value << " " << unit;
  const model::Error& error = profile.error();
  EXPECT_EQ(error.kind, model::ErrorKind::input) << to_string(error);
  EXPECT_TRUE(error.file.ends_with("p.toml")) << to_string(error);
  EXPECT_EQ(error.line, 2) << to_string(error);
  EXPECT_TRUE(error.key.starts_with(name)) << to_string(error);
  EXPECT_FALSE(error.message.empty());
}

TEST(Constants, EveryOneRefusesWrongValues) {
  for (const model::ConstantRule& rule : model::constant_rules()) {
    const std::string name = name_of(rule), unit = unit_of(rule.dimension);
    ASSERT_FALSE(unit.empty()) << name;
    for (const char* value : {"-1", "-1e-30", "nan", "inf", "1e300"}) expect_refused(name, value, unit);
    expect_refused(name, "1", "USD");
    expect_refused(name, "1", "furlong");
    if (rule.range.low > 0) expect_refused(name, "0", unit);
    if (rule.range.whole) expect_refused(name, "1.5", unit);
  }
}

TEST(Constants, EveryOneAllowsTheEndsOfItsRange) {
  for (const model::ConstantRule& rule : model::constant_rules()) {
    EXPECT_LT(rule.range.low, rule.range.high) << rule.name;
    EXPECT_GE(rule.range.low, 0) << rule.name;
    EXPECT_FALSE(rule.meaning.empty()) << rule.name;
    const std::string unit = unit_of(rule.dimension);
    for (const double end : {rule.range.low, rule.range.high}) {
      const double value = end / model::si_unit(unit)->factor;
      const auto checked = model::check_constant({name_of(rule), value, unit, model::Evidence::measured, "s"});
      EXPECT_TRUE(checked) << to_string(checked.error());
    }
  }
}

TEST(Constants, ANameHasOneRulePerDimension) {
  std::set<std::pair<std::string, model::UnitDimension>> seen;
  for (const model::ConstantRule& rule : model::constant_rules())
    EXPECT_TRUE(seen.emplace(rule.name, rule.dimension).second) << rule.name;
}

// Names whose cost functions are written after the table.
const std::set<std::string> kReadLater = {"tile_m",
                                          "tile_n",
                                          "wave_share",
                                          "memory_bandwidth",
                                          "droop",
                                          "droop_time",
                                          "grouped_slowdown",
                                          "pair_time",
                                          "row_time",
                                          "tail",
                                          "kv_bandwidth",
                                          "dim_block",
                                          "copy_bandwidth",
                                          "start",
                                          "node_rate",
                                          "rank_rate",
                                          "token_time",
                                          "local_rate",
                                          "idle",
                                          "limit_share",
                                          "clock_exponent",
                                          "energy_per_byte",
                                          "energy_per_flop",
                                          "reference_limit"};

// A constant is read by a name that is written out or put together from words, so the last word stands somewhere.
TEST(Constants, SomethingReadsEachOne) {
  std::string text;
  for (const SourceFile& file : read_source_tree(source_folder(), {".h", ".cc"}))
    if (file.folder() == "model" || file.folder() == "sim")
      for (const std::string& line : file.lines) text += line + "\n";
  for (const model::ConstantRule& rule : model::constant_rules()) {
    const std::string name = rule.name.substr(0, rule.name.find(".#"));
    const std::string word = name.substr(name.rfind('.') + 1);
    if (word == "*" || kReadLater.contains(word)) continue;
    const bool read =
        text.find("." + word + "\"") != std::string::npos || text.find("\"" + word + "\"") != std::string::npos;
    EXPECT_TRUE(read) << rule.name << " is read by nothing: remove its line";
  }
}

// load_profile() checks every constant of every file.
TEST(Constants, CoverTheShippedProfiles) {
  for (const auto& file : std::filesystem::directory_iterator(shipped("calibrate/profiles"))) {
    const auto profile = model::load_profile(file.path().string());
    EXPECT_TRUE(profile) << to_string(profile.error());
  }
}

TEST(Constants, ShippedProfilesNameShippedDevices) {
  for (const auto& file : std::filesystem::directory_iterator(shipped("calibrate/profiles"))) {
    const model::Profile profile = model::load_profile(file.path().string()).value();
    EXPECT_FALSE(profile.devices().empty()) << profile.name();
    for (const std::string& device : profile.devices())
      EXPECT_TRUE(std::filesystem::exists(shipped("topologies/devices/" + device + ".toml")))
          << profile.name() << ": " << device;
  }
}

}  // namespace
}  // namespace plumbline::tests
