#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/base/provenance.h"
#include "model/profile/profile.h"
#include "model/profile/stack.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace plumbline::model
