
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "calibrate/fit/recipe/profile_maker.h"
#include "model/base/text_file.h"
#include "model/profile/profile.h"
#include "tests/support/profiles.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

RecipeFolders shipped_folders() {
  return {.recipes = tests::shipped("calibrate/recipes"),
          .profiles = tests::shipped("calibrate/profiles"),
          .components = tests::shipped("calibrate/published/components"),
          .measured = tests::shipped("calibrate/measured"),
          .devices = tests::shipped("topologies/devices")};
}

// A profile is remade by `plumbline calibrate --profile NAME`.
TEST(Recipe, MakesTheShippedProfilesByteForByte) {
  ProfileMaker maker(shipped_folders());
  const auto names = maker.names();
  EXPECT_THAT(names, testing::IsSupersetOf({"a100", "h100", "h200", "b200", "b300", "gb200", "gb300", "mi300x",
                                            "mi325x", "mi350x", "mi355x", "h20", "h800"}));
  for (const std::string& name : names) {
    const auto made = maker.make(name);
    ASSERT_TRUE(made) << name << ": " << to_string(made.error());
    const auto shipped = model::read_text_file(tests::shipped("calibrate/profiles/" + name + ".toml"));
    ASSERT_TRUE(shipped) << name;
    EXPECT_EQ((*made)->text, *shipped) << name;
  }
}

// An interval of a deviation that half of the left-out rows give holds eight of ten of the other half.
TEST(Recipe, ResidualsHoldOnOtherRows) {
  ProfileMaker maker(shipped_folders());
  std::size_t within = 0, rows = 0;
  for (const std::string& name : maker.names()) {
    std::map<std::string, std::vector<double>> first, second;
    for (const HeldOut& table : (*maker.make(name))->held_out)
      for (std::size_t i = 0; i < table.large.size(); ++i)
        (i % 2 == 0 ? first : second)[table.family].push_back(std::abs(table.large[i]));
    for (const auto& [family, errors] : first) {
      const double limit = 1.28155 * deviation_of(errors);
      within += static_cast<std::size_t>(std::ranges::count_if(second[family], [&](double e) { return e <= limit; }));
      rows += second[family].size();
    }
  }
  EXPECT_GT(rows, 5000U);
  EXPECT_NEAR(static_cast<double>(within) / static_cast<double>(rows), 0.8, 0.03);
}

// Returns the correlation of the errors of two constants.
double correlation(const std::vector<model::ConstantFit>& fits, const std::string& a, const std::string& b) {
  for (const model::ConstantFit& fit : fits) {
    const auto place = [&](const std::string& name) {
      const auto has = [&](const std::vector<std::string>& entry) { return std::ranges::count(entry, name) > 0; };
      return static_cast<std::size_t>(std::ranges::find_if(fit.constants, has) - fit.constants.begin());
    };
    const std::size_t i = std::max(place(a), place(b)), j = std::min(place(a), place(b));
    if (i < fit.constants.size()) return i == j ? 1 : fit.correlation[i - 1][j];
  }
  return 0;
}

// A weight gradient's k_time is that of the other GEMMs times a ratio of its own, so it shares as much of its error as
// k_time has: 0.02 of 0.042. What is copied within a profile is one fact.
TEST(Recipe, CopiesShareTheErrorOfWhatTheyCopy) {
  const auto profile = model::load_profile(tests::shipped("calibrate/profiles/h100.toml")).value();
  const auto uncertainty = [&](const std::string& name) {
    return profile.parameters()[profile.find(name).value()].relative_uncertainty.value();
  };
  const std::vector<model::ConstantFit>& h100 = profile.fits();
  EXPECT_NEAR(correlation(h100, "gemm.bf16.k_time", "gemm.bf16_weight_gradient.k_time"),
              uncertainty("gemm.bf16.k_time") / uncertainty("gemm.bf16_weight_gradient.k_time"), 0.01);
  EXPECT_EQ(correlation(h100, "gemm.bf16.droop", "gemm.bf16_weight_gradient.droop"), 1);
  EXPECT_EQ(correlation(h100, "exchange.dispatch.start", "exchange.cached_dispatch.start"), 1);
  EXPECT_EQ(correlation(h100, "network.nvlink_rate", "exchange.nvlink_rate"), 1);
  EXPECT_EQ(correlation(h100, "gemm.bf16.k_time", "exchange.dispatch.start"), 0);
  // Less time for a wave means more for its tiles.
  EXPECT_LT(correlation(h100, "gemm.bf16.k_time", "gemm.bf16.wave_overhead"), 0);
}

// One fit gives the k_time of weight gradients and how far products hide their sums, with errors that go together by
// 0.88 to 0.94. The k_time has other parts too: of the other GEMMs' k_time and of the ratio to them.
TEST(Recipe, WeightGradientsErrAsTheirFitDoes) {
  const auto h100 = model::load_profile(tests::shipped("calibrate/profiles/h100.toml")).value();
  for (const std::string kind : {"bf16", "fp8", "fp8_tensor"}) {
    const std::string gradient = fmt::format("gemm.{}_weight_gradient.", kind);
    const double found = correlation(h100.fits(), gradient + "k_time", gradient + "memory_exponent");
    EXPECT_GT(found, 0.6) << kind;
    EXPECT_LT(found, 0.9) << kind;
    EXPECT_EQ(correlation(h100.fits(), fmt::format("gemm.{}.k_time", kind), gradient + "memory_exponent"), 0);
  }
}

// Weight gradients hide less of the sums that they read and write than other GEMMs of their memory, on every GPU.
TEST(Recipe, WeightGradientsHaveTheExponentOfTheirRecords) {
  const auto h100 = model::load_profile(tests::shipped("calibrate/profiles/h100.toml")).value();
  for (const std::string kind : {"bf16", "fp8", "fp8_tensor"}) {
    const std::string name = fmt::format("gemm.{}_weight_gradient.memory_exponent", kind);
    const auto of = [&](const model::Profile& profile) { return profile.parameters()[profile.find(name).value()]; };
    EXPECT_EQ(of(h100).kind, model::Evidence::fitted) << name;
    EXPECT_GT(of(h100).value, 1.1) << name;
    EXPECT_LT(of(h100).value, 1.9) << name;
    for (const char* other : {"h200", "b200", "gb300", "mi300x"}) {
      const auto profile = model::load_profile(tests::shipped(fmt::format("calibrate/profiles/{}.toml", other)));
      EXPECT_EQ(of(profile.value()).value, of(h100).value) << other << ": " << name;
    }
  }
}

// The factor on k_time that was fitted with the exponent is of the kernels of those SMs (docs/costs.md).
TEST(Recipe, HopperAloneHasTheFactorOfTheWeightGradientsOfTheH100) {
  const auto factor = [](const std::string& name, const std::string& kind) {
    const auto profile = model::load_profile(tests::shipped("calibrate/profiles/" + name + ".toml")).value();
    const auto k_time = [&](const std::string& of) {
      return profile.parameters()[profile.find(fmt::format("gemm.{}.k_time", of)).value()].value;
    };
    return k_time(kind + "_weight_gradient") / k_time(kind);
  };
  for (const std::string kind : {"bf16", "fp8_tensor"}) {
    EXPECT_LT(factor("h100", kind), 0.95) << kind;
    EXPECT_NEAR(factor("h200", kind), factor("h100", kind), 0.001) << kind;
    for (const char* other : {"b200", "gb300"}) EXPECT_EQ(factor(other, kind), 1) << other << ": " << kind;
  }
  EXPECT_EQ(factor("a100", "bf16"), 1);
  EXPECT_EQ(factor("gb200", "mxfp8"), 1);
}

// Of FP8 by blocks the kernel that was held is not that of the bursts: what its meter read over that of BF16 is the
// energy of a FLOP, 0.65 of that of BF16 on either.
TEST(Recipe, EnergiesOfOtherKernelsAreReadFromTheMeter) {
  for (const char* name : {"h200", "b200"}) {
    const auto profile = model::load_profile(tests::shipped(fmt::format("calibrate/profiles/{}.toml", name))).value();
    const auto of = [&](const std::string& kind) {
      return profile.parameters()[profile.find(fmt::format("power.gemm.{}.energy_per_flop", kind)).value()];
    };
    EXPECT_THAT(of("fp8").source, HasSubstr("as the meter read")) << name;
    EXPECT_NEAR(of("fp8").value / of("bf16").value, 0.65, 0.02) << name;
  }
}

// What differs from GPU to GPU stands in the file itself; a base gives what does not.
TEST(Recipe, ProfilesInheritNoRateOfAnotherGpu) {
  ProfileMaker maker(shipped_folders());
  for (const std::string& name : maker.names()) {
    // Those that extend another profile of the same chip have its constants, but for their memory.
    if (std::ranges::count(std::vector<std::string>{"h800", "a100-40gb", "h100-500w-torch"}, name) > 0) continue;
    const auto profile = model::load_profile(tests::shipped("calibrate/profiles/" + name + ".toml"));
    ASSERT_TRUE(profile) << name;
    const auto& own = (*maker.make(name))->constants;
    const auto in_file = [&](const std::string& constant) {
      return std::ranges::find(own, constant, &model::Parameter::name) != own.end();
    };
    for (const char* constant :
         {"gemm.bf16.k_time", "gemm.bf16_weight_gradient.k_time", "gemm.fp8.k_time", "gemm.fp8_weight_gradient.k_time",
          "gemm.fp32.k_time", "attention.forward_rate", "attention.backward_rate", "attention.reference_sms",
          "memory.default.bandwidth", "memory.default.saturation_sms", "network.nvlink_rate", "network.nic_rate",
          "network.nvlink_line_rate", "network.nic_line_rate", "exchange.nvlink_rate", "exchange.dispatch.nic_rate",
          "exchange.combine.nic_rate"})
      EXPECT_TRUE(in_file(constant)) << name << ": " << constant;
  }
}

class RecipeFile : public testing::Test {
 protected:
  // Returns folders with the recipes of this test, whose profiles extend copies of the shipped ones.
  RecipeFolders own_folders() const {
    RecipeFolders folders = shipped_folders();
    folders.recipes = folder_.path().string();
    folders.profiles = tests::frozen("profiles");
    return folders;
  }
  // Returns the error of making a profile "x" by this recipe.
  std::string error_of(const std::string& text) {
    fs::create_directories(folder_.path() / "stated");
    folder_.write("x.toml", text);
    ProfileMaker maker(own_folders());
    const auto made = maker.make("x");
    return made ? "" : to_string(made.error());
  }
  static std::string with(const std::string& steps, const std::string& device = "h100-sxm") {
    return "name = \"x\"\ndescription = \"a\"\nextends = \"generic-datasheet\"\nabout = [\"a\"]\ndevices = [\"" +
           device + "\"]\ntables = \"h100\"\nmeasured = \"nvidia-h100-80gb-hbm3-2026-11-22.jsonl\"\n" + steps;
  }

  tests::TemporaryDirectory folder_;
};

TEST_F(RecipeFile, WeightGradientsAreFittedToWhatWasCopied) {
  const std::string gemm = "[[step]]\nfit = \"gemm\"\nkind = \"bf16\"\nformat = \"bf16\"\nsoftware = [\"sglang\"]\n";
  EXPECT_THAT(error_of(with(gemm + "[[step]]\nfit = \"weight_gradient\"\nkind = \"bf16\"\nformat = \"bf16\"\n")),
              AllOf(HasSubstr("gemm.bf16_weight_gradient has no tile or no memory_bandwidth"),
                    HasSubstr("copy gemm.bf16 before weight_gradient")));
}

TEST_F(RecipeFile, UnknownKeysAndFitsAreRefusedWithTheirLine) {
  EXPECT_THAT(error_of(with("fitt = 1\n")), HasSubstr("x.toml:8: fitt: unknown key"));
  EXPECT_THAT(error_of(with("[[step]]\nfit = \"gemmm\"\n")),
              HasSubstr("x.toml:9: step.fit: unknown fit (did you mean 'gemm'?"));
  EXPECT_THAT(error_of(with("[[step]]\nkind = \"bf16\"\n")), HasSubstr("x.toml:8: step.fit: a step either fits"));
}

TEST_F(RecipeFile, NamesStepsOfOtherFiles) {
  fs::create_directories(folder_.path() / "steps");
  folder_.write("steps/rate.toml",
                "[[step]]\nneighbor = \"generic-datasheet\"\nconstants = [\"attention.forward_rate\"]\n");
  folder_.write("steps/wrong.toml", "[[step]]\nneighbor = \"generic-datasheet\"\nconstants = [\"gem.*\"]\n");
  EXPECT_EQ(error_of(with("[[step]]\nsteps = [\"rate\"]\n")), "");
  EXPECT_THAT(error_of(with("[[step]]\nsteps = [\"rate\", \"wrong\"]\n")), HasSubstr("wrong.toml:1: step.constants"));
  EXPECT_THAT(error_of(with("[[step]]\nsteps = [\"rates\"]\n")), HasSubstr("x.toml:9: step.steps: no steps 'rates'"));
}

TEST_F(RecipeFile, StatesWhatStepsOfAnotherFileLeaveOpen) {
  fs::create_directories(folder_.path() / "steps");
  folder_.write("steps/rate.toml",
                "[[step]]\nneighbor = \"h99\"\nconstants = [\"attention.forward_rate\"]\nuncertainty = 0.1\n");
  folder_.write("steps/gap.toml", "[[step]]\nfit = \"launch_gap\"\n");
  const std::string settings = "neighbor = \"generic-datasheet\"\ntimes = 2\nuncertainty = 0.3\nbecause = \"so\"\n";
  ASSERT_EQ(error_of(with("[[step]]\nsteps = [\"rate\"]\n" + settings)), "");
  ProfileMaker maker(own_folders());
  const model::Parameter rate = (*maker.make("x"))->constants.at(0);
  EXPECT_EQ(rate.value, 2 * 593);
  EXPECT_EQ(rate.relative_uncertainty, 0.3);
  EXPECT_THAT(rate.source, HasSubstr("as generic-datasheet (593 TFLOP/s, assumed)"));
  EXPECT_THAT(rate.source, testing::EndsWith("; so"));
  EXPECT_THAT(error_of(with("[[step]]\nsteps = [\"gap\"]\n" + settings)),
              HasSubstr("x.toml:10: step.neighbor: unknown key"));
}

TEST_F(RecipeFile, MissingDataAreRefusedWithTheirPlace) {
  EXPECT_THAT(error_of(with("", "h101")), HasSubstr("no device named 'h101'"));
  EXPECT_THAT(error_of(with("[[step]]\nfit = \"tray\"\nkernel = \"k\"\nformat = \"bf16\"\n")), HasSubstr("nvl72.csv"));
  EXPECT_THAT(
      error_of(with("[[step]]\nfit = \"gemm\"\nkind = \"bf16\"\nformat = \"bf16\"\nsoftware = [\"tvm\"]\n")),
      HasSubstr("x.toml:8: step.software: calibrate/published/components/h100/gemm.csv has no bf16 row of tvm"));
  EXPECT_THAT(error_of(with("[[step]]\nneighbor = \"h99\"\nconstants = [\"gemm.*\"]\n")),
              HasSubstr("neither a recipe nor a profile 'h99'"));
  EXPECT_THAT(error_of(with("[[step]]\nneighbor = \"generic-datasheet\"\nconstants = [\"gem.*\"]\n")),
              HasSubstr("x.toml:8: step.constants: generic-datasheet has no constant 'gem.*'"));
  EXPECT_THAT(error_of(with("[[step]]\nneighbor = \"x\"\nconstants = [\"gemm.*\"]\n")), HasSubstr("needs itself"));
  EXPECT_THAT(error_of(with("[[step]]\nfit = \"memory\"\nop = \"sort\"\nconstant = \"memory.norm.bandwidth\"\n")),
              HasSubstr("has no record of sort that moves 64 MB"));
}

// Own records count as in every fit to records. Copies of 134 MB and 2 GB take 42.45 and 713.6 us without the 1.7 us of
// the events around each: 3.162 and 3.009 TB/s.
TEST_F(RecipeFile, RecordsCountWithoutTheEventsAroundThem) {
  ASSERT_EQ(error_of(with("[[step]]\nfit = \"memory\"\nop = \"copy\"\nconstant = \"memory.copy.bandwidth\"\n")), "");
  ProfileMaker maker(own_folders());
  const auto& constants = (*maker.make("x"))->constants;
  const auto rate = std::ranges::find(constants, "memory.copy.bandwidth", &model::Parameter::name);
  ASSERT_NE(rate, constants.end());
  EXPECT_EQ(rate->value, 3.086);
}

// The constants of another GPU's table are assumed, whatever their fit.
TEST_F(RecipeFile, AttentionOfTrainingMayBeOfAnotherGpusTable) {
  const std::string step = "[[step]]\nfit = \"attention_training\"\nsoftware = [\"cudnn\"]\n";
  EXPECT_THAT(error_of(with(step)), HasSubstr("attention_training.csv"));  // the H100 has none
  EXPECT_THAT(error_of(with(step + "tables = \"h200\"\nop = \"backward\"\n")),
              HasSubstr("x.toml:8: step.fit: attention.forward.pair_time is not known yet"));
  const std::string forward = "[[step]]\nfit = \"attention\"\n";
  ASSERT_EQ(error_of(with(forward + step + "tables = \"h200\"\nop = \"backward\"\n")), "");
  EXPECT_THAT(error_of(with(forward + step + "tables = \"h200\"\nformat = \"mxfp8\"\n")),
              HasSubstr("has no such mxfp8 row"));
  ProfileMaker maker(own_folders());
  error_of(with(forward + step + "tables = \"h200\"\nop = \"backward\"\n"));
  const auto& constants = (*maker.make("x"))->constants;
  const auto rate = std::ranges::find(constants, "attention.backward_rate", &model::Parameter::name);
  ASSERT_NE(rate, constants.end());
  EXPECT_EQ(rate->kind, model::Evidence::assumed);
  EXPECT_THAT(rate->source, HasSubstr("components/h200/attention_training.csv"));
}

TEST_F(RecipeFile, NeighborsScaleByFiguresOfTheDevices) {
  ASSERT_EQ(error_of(with("[[step]]\nneighbor = \"generic-datasheet\"\nconstants = [\"attention.forward_rate\"]\n"
                          "by = [\"device.memory_bandwidth\"]\nover = [\"device.sms\"]\nuncertainty = 0.3\n",
                          "h200-sxm")),
            "");
  ProfileMaker maker(own_folders());
  const auto& constants = (*maker.make("x"))->constants;
  ASSERT_EQ(constants.size(), 1U);
  EXPECT_NEAR(constants.front().value, 593.0 * 4.8 / 3.35, 0.5);
  EXPECT_EQ(constants.front().kind, model::Evidence::assumed);
  EXPECT_EQ(constants.front().relative_uncertainty, 0.3);
  EXPECT_THAT(constants.front().source,
              HasSubstr("as generic-datasheet (593 TFLOP/s, assumed), by device.memory_bandwidth"));
}

// What is scaled from another GPU is slower or faster than that as a whole: rates fall where times grow. Constants of
// the recipe's own GPU keep errors of their own.
TEST_F(RecipeFile, WhatIsScaledFromAnotherGpuErrsTogether) {
  const std::string rest = "uncertainty = 0.3\n";
  const std::string text =
      "[[step]]\nneighbor = \"h100\"\nconstants = [\"gemm.bf16.k_time\"]\nover = [\"device.bf16_peak\"]\n" + rest +
      "[[step]]\nneighbor = \"h100\"\nconstants = [\"attention.forward_rate\", \"network.latency\"]\n" + rest +
      "[[step]]\nneighbor = \"h200\"\nconstants = [\"memory.norm.bandwidth\"]\n" + rest;
  const auto fits = [&](const std::string& device) {
    EXPECT_EQ(error_of(with(text, device)), "");
    ProfileMaker maker(own_folders());
    return (*maker.make("x"))->fits;
  };
  const auto h200 = fits("h200-sxm");
  EXPECT_EQ(correlation(h200, "gemm.bf16.k_time", "network.latency"), 1);
  EXPECT_EQ(correlation(h200, "gemm.bf16.k_time", "attention.forward_rate"), -1);
  EXPECT_EQ(correlation(h200, "gemm.bf16.k_time", "memory.norm.bandwidth"), 0);
  EXPECT_EQ(correlation(fits("h100-sxm"), "gemm.bf16.k_time", "network.latency"), 0);
}

// Times that a table of another GPU gives are assumed of this one, and their errors test no constant of it.
TEST_F(RecipeFile, ExpertsMayBeOfAnotherGpusTable) {
  ASSERT_EQ(error_of(with("[[step]]\nfit = \"decode_experts\"\nkind = \"nvfp4\"\nformat = \"nvfp4\"\n"
                          "software = [\"flashinfer\"]\ntables = \"b300\"\n",
                          "b200-sxm")),
            "");
  ProfileMaker maker(own_folders());
  const auto made = *maker.make("x");
  const auto rate = std::ranges::find(made->constants, "gemm.nvfp4.grouped_small_m_rate", &model::Parameter::name);
  ASSERT_NE(rate, made->constants.end());
  EXPECT_EQ(rate->kind, model::Evidence::assumed);
  EXPECT_THAT(rate->source, HasSubstr("components/b300/decode_experts.csv"));
  EXPECT_TRUE(made->held_out.empty());
}

}  // namespace
}  // namespace plumbline::calibrate
