#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/search/cluster_option.h"
#include "sim/search/ranking.h"
#include "tests/support/inputs.h"

namespace plumbline::sim {
namespace {

using model::ErrorKind;
using testing::ElementsAre;
using tests::expect_error;

TEST(PlanQuestion, DurationsAreDays) {
  EXPECT_DOUBLE_EQ(parse_days("60d").value(), 60);
  EXPECT_DOUBLE_EQ(parse_days("36h").value(), 1.5);
  EXPECT_DOUBLE_EQ(parse_days("8w").value(), 56);
  EXPECT_DOUBLE_EQ(parse_days("90min").value(), 0.0625);
  EXPECT_DOUBLE_EQ(parse_days("0.5d").value(), 0.5);
}

TEST(PlanQuestion, ADurationNeedsAPositiveNumberAndAUnit) {
  for (const char* text : {"", "60", "d", "60 d", "-3d", "0d", "nand", "infd", "60days", "60m"})
    expect_error(parse_days(text), ErrorKind::input, "--deadline", "60d");
}

TEST(PlanQuestion, Money) {
  EXPECT_DOUBLE_EQ(parse_usd("6e6").value(), 6e6);
  EXPECT_DOUBLE_EQ(parse_usd("6000000").value(), 6e6);
  EXPECT_DOUBLE_EQ(parse_usd("5.5M").value(), 5.5e6);
  EXPECT_DOUBLE_EQ(parse_usd("800k").value(), 8e5);
  EXPECT_DOUBLE_EQ(parse_usd("1B").value(), 1e9);
  for (const char* text : {"", "M", "-1", "0", "5 M", "5USD"}) EXPECT_FALSE(parse_usd(text)) << text;
}

TEST(PlanQuestion, Tokens) {
  EXPECT_DOUBLE_EQ(parse_tokens("5T").value(), 5e12);
  EXPECT_DOUBLE_EQ(parse_tokens("14.8T").value(), 14.8e12);
  EXPECT_DOUBLE_EQ(parse_tokens("300B").value(), 3e11);
  EXPECT_DOUBLE_EQ(parse_tokens("1e12").value(), 1e12);
  EXPECT_DOUBLE_EQ(parse_tokens("2000000").value(), 2e6);
  for (const char* text : {"", "T", "-1T", "0", "5 T", "5Tokens", "5t"})
    expect_error(parse_tokens(text), ErrorKind::input, "--tokens");
}

TEST(PlanQuestion, ObjectivesHaveNames) {
  for (const Objective objective : {Objective::time, Objective::cost, Objective::gpu_hours})
    EXPECT_EQ(parse_objective(to_string(objective)).value(), objective);
  expect_error(parse_objective("costs"), ErrorKind::input, "--objective", "did you mean 'cost'");
}

std::vector<std::string> words(const std::vector<ClusterChoice>& choices) {
  std::vector<std::string> result;
  for (const ClusterChoice& choice : choices)
    result.push_back(choice.cluster + " " + std::to_string(choice.gpus) + " " + choice.profile);
  return result;
}

TEST(PlanQuestion, EveryClusterWithEverySizeOnce) {
  EXPECT_THAT(words(cluster_choices({"a", "b:p", "a"}, {8, 16, 8}).value()),
              ElementsAre("a 8 ", "a 16 ", "b 8 p", "b 16 p"));
}

TEST(PlanQuestion, AClusterMayHaveASizeOfItsOwn) {
  EXPECT_THAT(words(cluster_choices({"a@512", "b@1024:p", "some@place/c.toml", "d@8:scaled:p"}, {}).value()),
              ElementsAre("a 512 ", "b 1024 p", "some@place/c.toml 0 ", "d 8 scaled:p"));
}

TEST(PlanQuestion, OwnSizesAgreeWithThoseOfAllClusters) {
  EXPECT_THAT(words(cluster_choices({"a@512", "b"}, {512, 1024}).value()), ElementsAre("a 512 ", "b 512 ", "b 1024 "));
  expect_error(cluster_choices({"a@256"}, {512, 1024}), ErrorKind::input, "--cluster",
               "a@256 contradicts --gpus 512,1024");
}

TEST(PlanQuestion, WhatIsNotGivenIsThePlans) {
  EXPECT_THAT(words(cluster_choices({}, {}).value()), ElementsAre(" 0 "));
}

TEST(PlanQuestion, AnOfferHasItsSizeAndItsPrice) {
  const auto choices =
      cluster_choices({}, {}, {"a:512@2.60", "some:place/b.toml:1024", "a:512@2", "a:512@2:own"}).value();
  ASSERT_THAT(words(choices), ElementsAre("a 512 ", "some:place/b.toml 1024 ", "a 512 ", "a 512 own"));
  EXPECT_EQ(choices[0].usd_per_gpu_hour, 2.6);
  EXPECT_TRUE(choices[0].offered);
  EXPECT_FALSE(choices[1].usd_per_gpu_hour);
  EXPECT_EQ(choices[2].usd_per_gpu_hour, 2);
  EXPECT_EQ(choices[3].usd_per_gpu_hour, 2);
}

TEST(PlanQuestion, AWrongOfferIsNamedWithWhatItLacks) {
  const std::pair<const char*, const char*> wrong[] = {{"h200-hgx", "it names no number of GPUs"},
                                                       {"h200-hgx@512", "it names no number of GPUs"},
                                                       {":512@2.60", "it names no cluster"},
                                                       {"h200-hgx:@2.60", "'' is no number of GPUs"},
                                                       {"h200-hgx:h200@2.60", "'h200' is no number of"},
                                                       {"h200-hgx:0@2.60", "'0' is no number of GPUs"},
                                                       {"h200-hgx:512@", "'' is no price above 0"},
                                                       {"h200-hgx:512@-1", "'-1' is no price above 0"},
                                                       {"h200-hgx:512@2,60", "'2,60' is no price above 0"},
                                                       {"h200-hgx:512@nan", "'nan' is no price above 0"},
                                                       {"h200-hgx:512@$2", "'$2' is no price above 0"},
                                                       {"h200-hgx:512@2:", "it names no profile"}};
  for (const auto& [text, why] : wrong) {
    const auto parsed = cluster_choices({}, {}, {text});
    expect_error(parsed, ErrorKind::input, "--offer", why);
    expect_error(parsed, ErrorKind::input, "--offer", "--offer h200-hgx:512@2.60");
  }
}

TEST(PlanQuestion, OffersTakeThePlaceOfClustersAndSizes) {
  for (const auto& parsed : {cluster_choices({"a"}, {}, {"a:512"}), cluster_choices({}, {512}, {"a:512"})})
    expect_error(parsed, ErrorKind::input, "--offer");
}

TEST(PlanQuestion, InvalidClusterOptions) {
  EXPECT_FALSE(cluster_choices({"a"}, {0}));
  EXPECT_FALSE(cluster_choices({"a"}, {-8}));
  EXPECT_FALSE(cluster_choices({""}, {8}));
  EXPECT_FALSE(cluster_choices({":p"}, {8}));
  EXPECT_FALSE(cluster_choices({"a:"}, {8}));
  for (const char* text : {"a@", "a@0", "a@-8", "a@many", "@8", "a@8:", "a@1.5"})
    EXPECT_FALSE(cluster_choices({text}, {})) << text;
}

}  // namespace
}  // namespace plumbline::sim
