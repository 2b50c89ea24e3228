#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "model/architecture/load_architecture.h"
#include "model/base/random.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "model/routing/detail/gate.h"
#include "model/routing/documents.h"
#include "model/routing/files.h"
#include "model/routing/rank_rows.h"
#include "model/routing/served_load.h"
#include "tests/support/architectures.h"
#include "tests/support/inputs.h"
#include "tests/support/routed_padding.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

// The load of experts: the gate, its balancing, the rows of ranks, packing by load, and the files of loads and lengths.

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

// Documents far shorter than a sequence are not all drawn: a billion tokens would be 4e9 documents. With none cut at
// the end of a sequence, E = E[l^2] / E[l] = 2m of exponential lengths.
TEST(Documents, OfALongSequenceTakeNoLonger) {
  const std::vector<std::string> keys = {"batch.document_length=1000", "batch.sequence_length=1000000000"};
  EXPECT_NEAR(document_tokens(plan_with(keys)), 2000, 10);
  EXPECT_NEAR(document_attention(plan_with(keys), 2000, 1), 1, 0.01);
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

namespace plumbline::tests {
namespace {

using model::Tensor;

const Tensor kRows{.name = "rows", .shape = {{5, model::Extent::rows}, {2}}};
const Tensor kTransposed{.name = "rows_t", .shape = {{2}, {5, model::Extent::rows}}};
const Tensor kMap{.name = "row_map", .shape = {{5, model::Extent::rows}}, .type = model::DataType::int32};
const Tensor kOffsets{.name = "expert_offsets", .shape = {{4}}, .type = model::DataType::int32};

Matrix column(std::initializer_list<double> values) {
  Matrix result(static_cast<Index>(values.size()), 1);
  Index i = 0;
  for (const double value : values) result(i++) = value;
  return result;
}

// Experts with 3, 0 and 2 rows, in multiples of 4.
const RoutedPadding kPadding(column({0, 3, 3, 5}), 4);

TEST(RoutedPadding, EveryExpertBeginsAtAMultiple) {
  EXPECT_EQ(kPadding.padded(kOffsets, column({0, 3, 3, 5})), column({0, 4, 4, 8}));
  EXPECT_EQ(kPadding.padded(kMap, column({7, 8, 9, 1, 2})), column({7, 8, 9, -1, 1, 2, -1, -1}));
}

TEST(RoutedPadding, RowsComeBackFromEitherDimension) {
  const Matrix rows = Matrix::Random(5, 2);
  const Matrix padded = kPadding.padded(kRows, rows);
  EXPECT_EQ(padded.rows(), 8);
  EXPECT_EQ(padded.row(3), Matrix::Zero(1, 2));
  EXPECT_EQ(padded.row(4), rows.row(3));
  EXPECT_EQ(kPadding.stripped(kRows, padded), rows);
  EXPECT_EQ(kPadding.padded(kTransposed, rows.transpose()), padded.transpose());
  EXPECT_EQ(kPadding.stripped(kTransposed, padded.transpose()), rows.transpose());
  EXPECT_EQ(kPadding.stripped(kOffsets, column({0, 4, 4, 8})), column({0, 3, 3, 5}));
}

TEST(RoutedPadding, OtherPaddingAndOtherShapesAreSeen) {
  Matrix padded = kPadding.padded(kRows, Matrix::Random(5, 2));
  padded(3, 1) = 1;
  EXPECT_EQ(kPadding.stripped(kRows, padded).size(), 0);
  EXPECT_EQ(kPadding.stripped(kRows, Matrix::Zero(7, 2)).size(), 0);
  EXPECT_EQ(kPadding.stripped(kOffsets, column({0, 4, 4, 7})).size(), 0);
}

TEST(RoutedPadding, TensorsWithoutRoutedRowsStay) {
  const Tensor other{.name = "x", .shape = {{3}, {2}}};
  const Matrix value = Matrix::Random(3, 2);
  EXPECT_EQ(kPadding.padded(other, value), value);
  EXPECT_EQ(RoutedPadding().stripped(other, value), value);
}

}  // namespace
}  // namespace plumbline::tests

namespace plumbline::model {
namespace {

MixtureOfExperts experts(const std::string& name) {
  return load_architecture(tests::shipped("examples/models/" + name + ".json")).value().experts;
}

TEST(Routing, DeepSeekV3OverSixtyFourRanks) {
  // The published gate (8 groups, the best 4 by their two best experts, top 8 of 256) on random scores reaches 3.966
  // distinct nodes of 8 ranks per token, and 30,686 tokens are received per 4,096 sent.
  const RoutingSpread spread = routing_spread(experts("deepseek-v3"), 4, 64, 8);
  EXPECT_NEAR(spread.nodes_per_token, 3.966, 0.01);
  EXPECT_NEAR(spread.ranks_per_token, 30686.0 / 4096, 0.005 * 30686 / 4096);
}

TEST(Routing, StaysWithinItsBounds) {
  for (const char* name : {"deepseek-v3", "deepseek-v2"}) {
    const MixtureOfExperts e = experts(name);
    for (const std::int64_t groups : {std::int64_t{1}, e.groups_per_token, e.groups}) {
      for (const std::int64_t ranks : {2, 8, 16, 32}) {
        const RoutingSpread spread = routing_spread(e, groups, ranks, 8);
        EXPECT_GE(spread.nodes_per_token, 1);
        EXPECT_LE(spread.nodes_per_token, spread.ranks_per_token);
        EXPECT_LE(spread.ranks_per_token, static_cast<double>(std::min(ranks, e.experts_per_token)));
        EXPECT_LE(spread.nodes_per_token, static_cast<double>((ranks + 7) / 8));
      }
    }
  }
}

TEST(Routing, AGroupThatFillsANodeLimitsTheNodes) {
  // 8 groups on 8 nodes: a token reaches as many nodes as groups at most, and just one with one group.
  const MixtureOfExperts e = experts("deepseek-v3");
  EXPECT_EQ(routing_spread(e, 1, 64, 8).nodes_per_token, 1);
  double before = 1;
  for (const std::int64_t groups : {2, 4, 8}) {
    const double nodes = routing_spread(e, groups, 64, 8).nodes_per_token;
    EXPECT_GT(nodes, before);
    EXPECT_LE(nodes, static_cast<double>(groups));
    before = nodes;
  }
}

TEST(Routing, WithoutParallelismOrExpertsNothingSpreads) {
  const RoutingSpread one = routing_spread(experts("deepseek-v3"), 4, 1, 8);
  EXPECT_EQ(one.ranks_per_token, 1);
  EXPECT_EQ(one.nodes_per_token, 1);
  EXPECT_EQ(routing_spread(experts("llama-3-8b"), 1, 1, 8).ranks_per_token, 0);
}

// Of a million experts fewer tokens are drawn. Eight uniform choices among 64 ranks reach 64 (1 - (63/64)^8) = 7.576 of
// them; a token varies by about 0.6, sixteen by 0.15.
TEST(Routing, AMillionExpertsSpreadLikeFew) {
  MixtureOfExperts e = experts("deepseek-v3");
  e.routed_experts = 1'000'000;
  e.groups = e.groups_per_token = 1;
  e.experts_per_token = 8;
  EXPECT_NEAR(routing_spread(e, 1, 64, 8).ranks_per_token, 7.576, 0.6);
}

// The more experts an auxiliary loss balances, the more their loads vary.
TEST(Routing, AnAuxiliaryLossLeavesMoreToManyExperts) {
  const auto middle = [](std::int64_t count) {
    return routing_balance(Plan{}, {.routed_experts = count, .experts_per_token = 2}).middle *
           std::sqrt(static_cast<double>(count));
  };
  EXPECT_NEAR(middle(64), 0.3, 1e-12);
  EXPECT_NEAR(middle(8), 0.0375, 1e-12);
  EXPECT_NEAR(middle(128), 0.6, 1e-12);
  EXPECT_NEAR(middle(1024), 0.83, 1e-12);
}

// 0.15 and 0.3 of one expert even out over the four experts of a rank.
TEST(Routing, APlanThatStatesNothingHasARange) {
  Plan plan = load_plan(tests::shipped("examples/deepseek-v3-2048xh800.toml"), {}).value();
  const MixtureOfExperts e = experts("deepseek-v3");
  EXPECT_TRUE(routing_balance(plan, e).stated);
  EXPECT_DOUBLE_EQ(routing_balance(plan, e).used, 0.075);
  plan.routing.imbalance = 0;
  EXPECT_TRUE(routing_balance(plan, e).stated);  // the file gives the key
  plan.places.clear();
  const RoutingBalance unknown = routing_balance(plan, e);
  EXPECT_FALSE(unknown.stated);
  EXPECT_EQ(unknown.used, 0);
  EXPECT_EQ(unknown.low, 0);
  EXPECT_DOUBLE_EQ(unknown.middle, 0.075);
  EXPECT_DOUBLE_EQ(unknown.high, 0.15);
}

TEST(Routing, IsTheSameEveryTime) {
  const MixtureOfExperts e = experts("deepseek-v3");
  EXPECT_EQ(routing_spread(e, 4, 64, 8).ranks_per_token, routing_spread(e, 4, 64, 8).ranks_per_token);
}

// The load of experts as models are served, against published loads of DeepSeek-R1 and closed forms.

MixtureOfExperts deepseek_experts() { return tests::architecture("deepseek-v3").experts; }

// NVIDIA/TensorRT-LLM examples/wide_ep/ep_load_balancer/README.md: rows of 32 ranks vary by 491.65 of 1,024 over a data
// set, the fullest has 2.564 times the mean; with 32 copies on 36 ranks 1.115 times.
TEST(ServedLoad, TheFullestRankIsAsFullAsPublished) {
  const double skew = 491.651199 / 1024 * std::sqrt(8.0);
  EXPECT_NEAR(served_skew(deepseek_experts()).high, skew, 0.01);
  const double alone = ServedRanks(deepseek_experts(), 32, 0, skew).fullest(32 * 1024 / 8);
  const double copied = ServedRanks(deepseek_experts(), 36, 32, skew).fullest(36 * 1024 / 8);
  EXPECT_NEAR(alone / 2.564, 1, 0.15);
  EXPECT_NEAR(copied / 1.115, 1, 0.08);
}

TEST(ServedLoad, BiasesLeaveWhatRequestsHaveInCommon) {
  const ServedSkew biased = served_skew(deepseek_experts());
  EXPECT_NEAR(biased.middle * biased.middle, biased.low * biased.high, 1e-12);
  // An auxiliary loss leaves 0.3 of 64 experts and in proportion less of fewer.
  EXPECT_NEAR(served_skew(tests::architecture("mixtral-8x7b").experts).middle, 0.3 * 8 / 64, 1e-12);
}

// The mean over experts of (1 - k s)^T falls with a skew, as it is convex in s: fewer experts have rows. Without one it
// is the closed form. One token hits its own number whatever the skew.
TEST(ServedLoad, FewTokensHitFewerExpertsWithASkew) {
  const MixtureOfExperts experts = deepseek_experts();
  EXPECT_NEAR(experts_with_rows(experts, 0, 0, 16), 256 * (1 - std::pow(1 - 8 / 256.0, 16)), 1e-9);
  for (const double tokens : {8.0, 16.0, 64.0}) {
    double before = 256;
    for (const double skew : {0.0, 0.24, 0.57, 1.36}) {
      const double hit = experts_with_rows(experts, 0, skew, tokens);
      EXPECT_LT(hit, before) << tokens << " tokens, skew " << skew;
      before = hit;
    }
  }
  EXPECT_NEAR(experts_with_rows(experts, 0, 0.57, 1), 8, 1e-9);
  EXPECT_NEAR(experts_with_rows(experts, 0, 0.57, 1e6), 256, 1e-6);
  EXPECT_NEAR(experts_with_rows(experts, 32, 0.57, 1e6), 288, 1e-6);  // copies are slots of their own
}

TEST(ServedLoad, RanksFillByTheirExperts) {
  const MixtureOfExperts experts = deepseek_experts();
  EXPECT_EQ(ServedRanks(experts, 1, 0, 0.57).fullest(100), 1);
  // More ranks have fewer experts each, more tokens less noise, copies less load on the fullest.
  EXPECT_LT(ServedRanks(experts, 8, 0, 0.57).fullest(4096), ServedRanks(experts, 32, 0, 0.57).fullest(4096));
  EXPECT_LT(ServedRanks(experts, 8, 0, 0.57).fullest(65536), ServedRanks(experts, 8, 0, 0.57).fullest(64));
  EXPECT_LT(ServedRanks(experts, 144, 32, 0.57).fullest(18432), ServedRanks(experts, 64, 0, 0.57).fullest(18432));
  EXPECT_NEAR(ServedRanks(experts, 8, 0, 0).fullest(1e9), 1, 1e-3);
}

}  // namespace
}  // namespace plumbline::model
