// Single published figures: device points, the spread of step times, and what slows production steps.
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <set>
#include <string>

#include "tests/support/inputs.h"
#include "tests/support/published.h"

namespace plumbline::tests {
namespace {

TEST(PublishedPoints, OfDevicesSayWhatTheyAreFor) {
  const std::set<std::string> uses = {"gemm_best", "collective", "link", "moe_overlap", "sparse_attention"};
  const std::set<std::string> bounds = {"mean", "best", "minimum"};
  const auto rows = published("device_points");
  EXPECT_EQ(rows.size(), 63u);
  for (const Row& row : rows) {
    EXPECT_TRUE(uses.contains(row.at("use"))) << row.at("what");
    EXPECT_TRUE(bounds.contains(row.at("bound"))) << row.at("what");
    EXPECT_GT(number(row, "value"), 0) << row.at("what");
    EXPECT_FALSE(row.at("source").empty()) << row.at("what");
  }
}

// A run's steps lie on both sides of their median, and a higher percentile is not below a lower one.
TEST(PublishedPoints, OfStepTimesAreOrdered) {
  const auto rows = published("step_time_jitter");
  EXPECT_EQ(rows.size(), 53u);
  for (const Row& row : rows) {
    EXPECT_LT(number(row, "min_over_median"), 1);
    EXPECT_GE(number(row, "p90_over_median"), 1);
    EXPECT_GE(number(row, "p99_over_median"), number(row, "p90_over_median"));
    EXPECT_GE(number(row, "max_over_median"), number(row, "p99_over_median"));
  }
}

// Each fact has its own key, and a value or a range.
TEST(PublishedPoints, OfStragglersAreNumbers) {
  const toml::table file = toml::parse_file(shipped("calibrate/published/straggler_priors.toml"));
  const toml::array* facts = file["fact"].as_array();
  ASSERT_NE(facts, nullptr);
  std::set<std::string> keys;
  for (const toml::node& node : *facts) {
    const toml::table& fact = *node.as_table();
    const std::string key = fact["key"].value_or(std::string());
    EXPECT_TRUE(keys.insert(key).second) << key;
    EXPECT_FALSE(fact["source"].value_or(std::string()).empty()) << key;
    EXPECT_FALSE(fact["unit"].value_or(std::string()).empty()) << key;
    if (fact.contains("value")) {
      EXPECT_TRUE(fact["value"].is_number()) << key;
      EXPECT_FALSE(fact.contains("low") || fact.contains("high")) << key;
    } else {
      EXPECT_LT(fact["low"].value_or(1.0), fact["high"].value_or(0.0)) << key;
    }
    const bool prior = fact["status"].value_or(std::string()) == "secondhand";
    EXPECT_GE(fact["uncertainty"].value_or(0.0), prior ? 0.5 : 0.0) << key;
  }
  EXPECT_EQ(keys.size(), 35u);
}

}  // namespace
}  // namespace plumbline::tests
