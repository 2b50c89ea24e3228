// The load of experts: the gate, its balancing, the rows of ranks, packing by load, and the files of loads and lengths.
#include "model/routing/rank_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "model/architecture/load_architecture.h"
#include "model/base/random.h"
#include "model/plan/layout.h"
#include "model/program/program.h"
#include "model/routing/detail/gate.h"
#include "model/routing/documents.h"
#include "model/routing/files.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

const std::string deepseek = "examples/deepseek-v3-2048xh800.toml";

Plan plan_with(std::vector<std::string> overrides) {
  overrides.emplace_back("routing.imbalance=0");
  return load_plan(tests::shipped(deepseek), overrides).value();
}

Architecture deepseek_v3() { return load_architecture(tests::shipped("examples/models/deepseek-v3.json")).value(); }

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

std::vector<double> normal_popularity(std::size_t count, double deviation, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = deviation * random.normal();
  return values;
}

// 30,000 tokens choose as the gate of DeepSeek-V3 does, with all of their numbers drawn. An expert with a share of 1/16
// has a standard error of 1.1 %; the 256 tokens of the gate add 4 % for each group.
TEST(GateModel, AgreesWithTokensThatChoose) {
  const MixtureOfExperts e{.routed_experts = 16,
                           .experts_per_token = 3,
                           .groups = 4,
                           .score = ScoreFunction::sigmoid,
                           .group_score_experts = 2};
  const std::vector<double> popularity = normal_popularity(16, 0.4, 5), bias = normal_popularity(16, 0.03, 6);
  constexpr int tokens = 30'000;
  std::vector<double> count(16), score(16);
  Random random(7);
  for (int token = 0; token < tokens; ++token) {
    for (std::size_t i = 0; i < 16; ++i) score[i] = 1 / (1 + std::exp(-popularity[i] - random.normal())) + bias[i];
    const auto of_group = [&](std::size_t g) {
      std::vector<double> own(score.begin() + static_cast<long>(4 * g), score.begin() + static_cast<long>(4 * g + 4));
      std::ranges::sort(own);
      return own[2] + own[3];
    };
    std::vector<std::size_t> groups = {0, 1, 2, 3}, experts;
    std::ranges::sort(groups, [&](auto a, auto b) { return of_group(a) > of_group(b); });
    for (std::size_t g = 0; g < 2; ++g)
      for (std::size_t i = 0; i < 4; ++i) experts.push_back(4 * groups[g] + i);
    std::ranges::sort(experts, [&](auto a, auto b) { return score[a] > score[b]; });
    for (std::size_t i = 0; i < 3; ++i) ++count[experts[i]];
  }
  const GateLoad load = GateModel(e, 2).load(popularity, bias);
  EXPECT_NEAR(sum(load.share), 1, 1e-12);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(load.share[i] / (count[i] / (3 * tokens)), 1, 0.1) << i;
    EXPECT_GT(load.popularity_slope[i], 0);
    EXPECT_GT(load.bias_slope[i], load.popularity_slope[i]);  // a sigmoid rises by a quarter at most
  }
}

// A share's relative change is its slope times a small change of one popularity, less what all shares lose.
TEST(GateModel, SlopesAreThoseOfTheLoad) {
  const MixtureOfExperts e = deepseek_v3().experts;
  const GateModel gate(e, 4);
  std::vector<double> popularity(256), bias(256);
  const GateLoad before = gate.load(popularity, bias);
  constexpr double change = 1e-3;
  popularity[17] = change;
  EXPECT_NEAR(std::log(gate.load(popularity, bias).share[17] / before.share[17]) / change, before.popularity_slope[17],
              0.05 * before.popularity_slope[17]);
  popularity[17] = 0;
  bias[17] = change / 10;
  EXPECT_NEAR(std::log(gate.load(popularity, bias).share[17] / before.share[17]) / bias[17], before.bias_slope[17],
              0.05 * before.bias_slope[17]);
}

// Each step moves biases by 0.001 at most, so that balance takes some hundred steps, and then stays within one step of
// the biases: the relative load of an expert changes by slope * rate, about 0.01 with 6 of 64 experts.
TEST(GateModel, BiasesBalance) {
  const MixtureOfExperts e{.routed_experts = 64, .experts_per_token = 6, .score = ScoreFunction::sigmoid};
  const GateModel gate(e, 1);
  const std::vector<double> popularity = normal_popularity(64, 0.4, 3);
  std::vector<double> bias;
  const double at_first = max_violation(gate.balance(popularity, 0.001, bias).share);
  EXPECT_GT(at_first, 0.5);
  double before = at_first;
  for (const int steps : {50, 100, 350}) {
    for (int i = 0; i < steps; ++i) gate.balance(popularity, 0.001, bias);
    const double now = max_violation(gate.load(popularity, bias).share);
    EXPECT_LT(now, before);
    before = now;
  }
  const GateLoad end = gate.load(popularity, bias);
  EXPECT_LT(before, 2 * 0.001 * std::ranges::max(end.bias_slope));
}

TEST(RankRows, AddUpToTheTokensOfTheGroup) {
  const MixtureOfExperts e = deepseek_v3().experts;
  for (const char* more : {"routing.correlation=1", "routing.correlation=0.3", "routing.balancing=bias",
                           "routing.balancing=auxiliary", "routing.redundant_experts=64"}) {
    const Plan plan = plan_with({"routing.skew=0.3", more});
    const RankRows drawn(plan, e, {3, 4}, 1);
    std::vector<double> rows, again;
    for (std::int64_t batch = 0; batch < 3; ++batch) {
      drawn.draw(1, 1, batch, rows);
      EXPECT_NEAR(sum(rows), 64, 1e-9) << more;
      RankRows(plan, e, {3, 4}, 1).draw(1, 1, batch, again);
      EXPECT_EQ(rows, again) << more;
      drawn.draw(0, 1, batch, again);
      EXPECT_NE(rows, again) << more;
    }
    EXPECT_NEAR(sum(drawn.shares(0)), 1, 1e-12);
  }
}

// 6 of 64 experts, one on each rank: a rank's rows have the deviation sqrt((1 - p) / (p T)) with p = 6/64 and T = 64
// times 4,096 tokens, 0.607 %. 64 * 20 draws give it to 2 % (one standard error).
TEST(RankRows, WithoutSkewTheyAreCounted) {
  const MixtureOfExperts e{.routed_experts = 64, .experts_per_token = 6};
  const Plan plan = plan_with({"routing.skew=0"});
  const RankRows drawn(plan, e, {0}, 9);
  double squares = 0;
  std::vector<double> rows;
  for (std::int64_t batch = 0; batch < 20; ++batch) {
    drawn.draw(0, 0, batch, rows);
    for (const double value : rows) squares += (value - 1) * (value - 1);
  }
  const double p = 6.0 / 64, tokens = 64 * 4096;
  EXPECT_NEAR(std::sqrt(squares / (64 * 20)) / std::sqrt((1 - p) / (p * tokens)), 1, 0.08);
}

TEST(RankRows, CapacityBoundsThem) {
  const MixtureOfExperts e = deepseek_v3().experts;
  std::vector<double> rows;
  const Plan half = plan_with({"routing.skew=0.5", "routing.capacity_factor=1.1"});
  const RankRows drawn(half, e, {3}, 1);
  drawn.draw(0, 0, 0, rows);
  EXPECT_LE(std::ranges::max(rows), 1.1 + 1e-12);
  EXPECT_LT(sum(rows), 64);
  const Plan padded = plan_with({"routing.skew=0.5", "routing.capacity_factor=1.1", "routing.pad_to_capacity=true"});
  RankRows(padded, e, {3}, 1).draw(0, 0, 0, rows);
  EXPECT_EQ(rows, std::vector<double>(64, 1));
}

// More skew, and less that can be balanced, is more uneven.
TEST(RankRows, DeviationFollowsTheGate) {
  const MixtureOfExperts e = deepseek_v3().experts;
  const auto deviation = [&](std::vector<std::string> overrides) {
    return routing_balance(plan_with(std::move(overrides)), e).used;
  };
  const double none = deviation({"routing.skew=0.3"});
  EXPECT_GT(none, 0.2);
  EXPECT_GT(deviation({"routing.skew=0.4"}), none);
  const double auxiliary = deviation({"routing.skew=1", "routing.balancing=auxiliary"});
  EXPECT_LT(auxiliary, deviation({"routing.skew=1"}));
  EXPECT_NEAR(auxiliary, auxiliary_variation(256) / 2, 0.1);  // of four experts
  const double bias = deviation({"routing.skew=0.3", "routing.balancing=bias"});
  EXPECT_LT(bias, 0.02);
  const double varying = deviation({"routing.skew=0.3", "routing.balancing=bias", "routing.correlation=0.9"});
  EXPECT_GT(varying, bias);
  EXPECT_LT(varying, none);
  EXPECT_LT(deviation({"routing.skew=0.3", "routing.redundant_experts=64"}), none);
}

TEST(ExpertPlacement, IsNeverWorseThanWithoutCopies) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<double> load = normal_popularity(64, seed % 2 == 0 ? 0.2 : 1.5, seed), before, after;
    for (double& value : load) value = std::exp(value);
    contiguous_experts(64, 16).rank_loads(load, before);
    for (const std::int64_t copies : {0, 16, 32})
      for (const std::int64_t groups : {1, 8}) {
        const ExpertPlacement placement = balanced_experts(load, 16, copies, groups);
        placement.rank_loads(load, after);
        EXPECT_LE(std::ranges::max(after), std::ranges::max(before) + 1e-12);
        EXPECT_NEAR(sum(after), sum(before), 1e-9);
        EXPECT_EQ(placement.experts.size(), static_cast<std::size_t>(64 + copies));
        std::vector<std::int32_t> held(64);
        for (const std::int32_t expert : placement.experts) ++held[static_cast<std::size_t>(expert)];
        EXPECT_EQ(held, placement.copies);
        for (std::size_t slot = 0; groups == 8 && slot < placement.experts.size(); ++slot)
          EXPECT_EQ(slot * 8 / placement.experts.size(), static_cast<std::size_t>(placement.experts[slot] / 8));
      }
  }
}

TEST(RoutingFiles, LoadsAreReadBack) {
  const std::vector<LayerRows> loads = {{-1, {1, 2}}, {3, {0.25, 4096}}};
  const auto read = parse_expert_loads(expert_loads_csv(loads, {"measured"}), "loads.csv").value();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].layer, -1);
  EXPECT_EQ(read[1].rows, loads[1].rows);
}

TEST(RoutingFiles, ErrorsNameTheLine) {
  const auto error = [](const std::string& text) { return to_string(parse_expert_loads(text, "l.csv").error()); };
  EXPECT_NE(error("layer,rows\n").find("l.csv:1"), std::string::npos);
  EXPECT_NE(error("layer,expert,rows\n0,0,1\n0,1,-1\n").find("l.csv:3"), std::string::npos);
  EXPECT_NE(error("layer,expert,rows\n0,0,1\n0,0,1\n").find("twice"), std::string::npos);
  EXPECT_NE(error("layer,expert,rows\n0,1,1\n").find("lacks expert 0"), std::string::npos);
  EXPECT_NE(error("layer,expert,rows\n0,0,1\n1,0,1\n1,1,1\n").find("2 experts"), std::string::npos);
  EXPECT_NE(error("layer,expert,rows\n0,0,0\n").find("no rows"), std::string::npos);
  EXPECT_NE(error("# nothing\n").find("no loads"), std::string::npos);
}

// A plan's loads are those of the file next to it: ranks of a group differ as the file does, but for counting.
TEST(RoutingFiles, APlanTakesItsLoads) {
  const tests::TemporaryDirectory folder;
  const Architecture model = deepseek_v3();
  std::vector<LayerRows> loads;
  for (std::int64_t layer = 3; layer < model.layers; ++layer) {
    loads.push_back({layer, std::vector<double>(256, 100)});
    std::fill_n(loads.back().rows.begin(), 4, 200);
  }
  const std::string path = (folder.path() / "loads.csv").string();
  std::ofstream(path) << expert_loads_csv(loads, {});
  const Plan plan = plan_with({"routing.load_file=" + path});
  ASSERT_TRUE(make_layout(plan, model));
  const RankRows drawn(plan, model.experts, {3, 61}, 1);
  std::vector<double> rows;
  drawn.draw(0, 0, 0, rows);
  EXPECT_NEAR(rows[0], 200 / (25600.0 + 400) * 256, 0.05);
  EXPECT_NEAR(rows[1], 100 / (25600.0 + 400) * 256, 0.05);
  drawn.draw(0, 1, 0, rows);  // the prediction module is not in the file
  EXPECT_NEAR(rows[0], 1, 0.05);
  // Of 64 ranks one has 63/65 more than the 64/65 of the others: sqrt(63) / 65.
  EXPECT_NEAR(routing_balance(plan, model.experts).used, std::sqrt(63) / 65, 0.002);
  loads.pop_back();
  std::ofstream(path) << expert_loads_csv(loads, {});
  const auto layout = make_layout(plan_with({"routing.load_file=" + path}), model);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().message, "the file has no loads of layer 60");
}

TEST(RoutingKeys, ThatExcludeEachOtherAreRefused) {
  const Architecture model = deepseek_v3();
  const auto refused = [&](const std::vector<std::string>& overrides) {
    const auto layout = make_layout(plan_with(overrides), model);
    return layout ? std::string() : layout.error().key;
  };
  EXPECT_EQ(refused({"routing.correlation=0.5"}), "routing.correlation");
  EXPECT_EQ(refused({"routing.balancing=bias"}), "routing.balancing");
  EXPECT_EQ(refused({"routing.skew=0.2", "routing.bias_rate=0.001"}), "routing.bias_rate");
  EXPECT_EQ(refused({"routing.redundant_experts=32"}), "routing.redundant_experts");
  EXPECT_EQ(refused({"routing.skew=0.2", "routing.redundant_experts=64"}), "");
  Plan both = plan_with({"routing.skew=0.2"});
  both.routing.imbalance = 0.1;
  EXPECT_EQ(make_layout(both, model).error().key, "routing.skew");
}

// Documents of L tokens, the sequence S a multiple: each token sees L. Longer than the sequence: S.
TEST(Documents, AttentionIsThatOfTheirLengths) {
  const tests::TemporaryDirectory folder;
  const std::string path = (folder.path() / "lengths.txt").string();
  std::ofstream(path) << "# tokens\n512\n";
  const Plan plan = plan_with({"batch.document_lengths=" + path});
  EXPECT_DOUBLE_EQ(document_tokens(plan), 512);
  EXPECT_DOUBLE_EQ(document_attention(plan, 512, 1), 1);
  EXPECT_EQ(document_tokens(plan_with({})), 0);
  EXPECT_EQ(document_attention(plan_with({}), 0, 1), 1);
  // Exponential lengths with mean m, cut at S: E = 2m (1 - m/S (1 - exp(-S/m))) for documents that follow each other.
  const double m = 1000, s = 4096;
  EXPECT_NEAR(
      document_tokens(plan_with({"batch.document_length=1000"})) / (2 * m * (1 - m / s * (1 - std::exp(-s / m)))), 1,
      0.03);
  double mean = 0;
  const Plan drawn = plan_with({"batch.document_length=1000"});
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
    mean += document_attention(drawn, document_tokens(drawn), seed) / 2000;
  EXPECT_NEAR(mean, 1, 0.05);
}

TEST(RoutingStatistics, AreThoseOfTheGate) {
  const Plan plan = plan_with({"routing.skew=0.3", "routing.balancing=bias"});
  const RoutingStatistics statistics = routing_statistics(plan, deepseek_v3(), 20);
  EXPECT_EQ(statistics.loads.size(), 58u);
  ASSERT_EQ(statistics.balance.size(), 6u);  // 0, 1, 2, 5, 10, 20
  EXPECT_LT(statistics.balance.back().experts.max_violation, statistics.balance.front().experts.max_violation);
  EXPECT_LT(statistics.experts.variation, 0.03);
  EXPECT_NEAR(statistics.dropped, 0, 1e-12);
}

}  // namespace
}  // namespace plumbline::model
