#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "sim/search/cluster_choice.h"
#include "sim/search/ranking.h"
#include "tests/support/inputs.h"

namespace plumbline::sim {
namespace {

TEST(PlanQuestion, DurationsAreDays) {
  EXPECT_DOUBLE_EQ(parse_days("60d").value(), 60);
  EXPECT_DOUBLE_EQ(parse_days("36h").value(), 1.5);
  EXPECT_DOUBLE_EQ(parse_days("8w").value(), 56);
  EXPECT_DOUBLE_EQ(parse_days("90min").value(), 0.0625);
  EXPECT_DOUBLE_EQ(parse_days("0.5d").value(), 0.5);
}

TEST(PlanQuestion, ADurationNeedsAPositiveNumberAndAUnit) {
  for (const char* text : {"", "60", "d", "60 d", "-3d", "0d", "nand", "infd", "60days", "60m"}) {
    const auto parsed = parse_days(text);
    tests::expect_error(parsed, model::ErrorKind::input, "--deadline", "60d");
  }
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
  for (const char* text : {"", "T", "-1T", "0", "5 T", "5Tokens", "5t"}) {
    const auto parsed = parse_tokens(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().key, "--tokens");
  }
}

TEST(PlanQuestion, ObjectivesHaveNames) {
  for (const Objective objective : {Objective::time, Objective::cost, Objective::gpu_hours})
    EXPECT_EQ(parse_objective(to_string(objective)).value(), objective);
  const auto wrong = parse_objective("costs");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().hint.find("did you mean 'cost'"), std::string::npos);
}

TEST(PlanQuestion, EveryClusterWithEverySizeOnce) {
  const auto choices = cluster_choices({"a", "b:p", "a"}, {8, 16, 8}).value();
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0].cluster, "a");
  EXPECT_EQ(choices[0].gpus, 8);
  EXPECT_EQ(choices[1].gpus, 16);
  EXPECT_EQ(choices[2].cluster, "b");
  EXPECT_EQ(choices[2].profile, "p");
  EXPECT_EQ(choices[0].profile, "");
}

TEST(PlanQuestion, AClusterMayHaveASizeOfItsOwn) {
  const auto choices = cluster_choices({"a@512", "b@1024:p", "some@place/c.toml", "d@8:scaled:p"}, {}).value();
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0].cluster, "a");
  EXPECT_EQ(choices[0].gpus, 512);
  EXPECT_EQ(choices[1].cluster, "b");
  EXPECT_EQ(choices[1].gpus, 1024);
  EXPECT_EQ(choices[1].profile, "p");
  EXPECT_EQ(choices[2].cluster, "some@place/c.toml");
  EXPECT_EQ(choices[2].gpus, 0);
  EXPECT_EQ(choices[3].cluster, "d");
  EXPECT_EQ(choices[3].profile, "scaled:p");
}

TEST(PlanQuestion, OwnSizesAgreeWithThoseOfAllClusters) {
  const auto both = cluster_choices({"a@512", "b"}, {512, 1024}).value();
  ASSERT_EQ(both.size(), 3u);
  EXPECT_EQ(both[0].gpus, 512);
  EXPECT_EQ(both[1].gpus, 512);
  EXPECT_EQ(both[2].gpus, 1024);
  const auto wrong = cluster_choices({"a@256"}, {512, 1024});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().key, "--cluster");
  EXPECT_EQ(wrong.error().message, "a@256 contradicts --gpus 512,1024");
}

TEST(PlanQuestion, WhatIsNotGivenIsThePlans) {
  const auto choices = cluster_choices({}, {}).value();
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].cluster, "");
  EXPECT_EQ(choices[0].gpus, 0);
}

TEST(PlanQuestion, AnOfferHasItsSizeAndItsPrice) {
  const auto choices =
      cluster_choices({}, {}, {"a:512@2.60", "some:place/b.toml:1024", "a:512@2", "a:512@2:own"}).value();
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_EQ(choices[0].cluster, "a");
  EXPECT_EQ(choices[0].gpus, 512);
  EXPECT_EQ(choices[0].usd_per_gpu_hour, 2.6);
  EXPECT_TRUE(choices[0].offered);
  EXPECT_EQ(choices[1].cluster, "some:place/b.toml");
  EXPECT_EQ(choices[1].gpus, 1024);
  EXPECT_FALSE(choices[1].usd_per_gpu_hour);
  EXPECT_EQ(choices[2].usd_per_gpu_hour, 2);
  EXPECT_EQ(choices[3].usd_per_gpu_hour, 2);
  EXPECT_EQ(choices[3].profile, "own");
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
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().key, "--offer");
    EXPECT_NE(parsed.error().message.find(why), std::string::npos) << parsed.error().message;
    EXPECT_NE(parsed.error().hint.find("--offer h200-hgx:512@2.60"), std::string::npos);
  }
}

TEST(PlanQuestion, OffersTakeThePlaceOfClustersAndSizes) {
  for (const auto& parsed : {cluster_choices({"a"}, {}, {"a:512"}), cluster_choices({}, {512}, {"a:512"})}) {
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().key, "--offer");
  }
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
