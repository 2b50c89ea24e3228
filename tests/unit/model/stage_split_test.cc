#include "model/plan/stage_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace plumbline::model {
namespace {

using Counts = std::vector<std::int64_t>;

ForwardWork equal_layers(std::int64_t layers, double head) {
  return {std::vector<double>(static_cast<std::size_t>(layers), 1.0), 0, head};
}

double fullest(const ForwardWork& work, const Counts& counts) {
  double most = 0;
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    double sum = stage + 1 == counts.size() ? work.head : 0;
    for (std::int64_t i = 0; i < counts[stage]; ++i) sum += work.layers[layer++];
    most = std::max(most, sum);
  }
  return most;
}

TEST(StageSplit, EvenCountsLeaveTheEndsToEmbeddingAndHead) {
  EXPECT_EQ(even_layer_counts(61, 16).front(), 3);
  Counts alone(96, 1);  // 94 layers on 96 stages
  alone.front() = alone.back() = 0;
  EXPECT_EQ(even_layer_counts(94, 96), alone);
}

TEST(StageSplit, BalancedCountsGiveTheStageOfTheHeadLess) {
  // A head of 1.3 layers: 10 + 1.3 would be more than the 11 that a stage without it needs for 80 layers.
  EXPECT_EQ(balanced_layer_counts(equal_layers(80, 1.3), 3, 8), (Counts{10, 10, 10, 10, 10, 10, 11, 9}));
  // Where layers run three times forward the head counts as 1.3 * 3 / 4 = 0.975: 10.975 is less than 11.
  EXPECT_EQ(balanced_layer_counts(equal_layers(80, 1.3), 4, 8), (Counts{10, 10, 10, 10, 10, 10, 10, 10}));
  EXPECT_EQ(balanced_layer_counts(equal_layers(4, 5), 3, 2), (Counts{4, 0})) << "a stage of the head alone";
  EXPECT_EQ(balanced_layer_counts(equal_layers(3, 0.5), 3, 1), (Counts{3}));
}

// No division has a smaller maximum: all of them are tried.
TEST(StageSplit, BalancedCountsHaveTheSmallestMaximum) {
  for (const double head : {0.0, 0.4, 1.0, 2.7}) {
    ForwardWork work{{0.5, 0.5, 0.5, 1, 1, 1.25, 1, 1, 1}, 0, head};
    const auto layers = static_cast<std::int64_t>(work.layers.size());
    double least = 1e9;
    for (std::int64_t a = 0; a <= layers; ++a)
      for (std::int64_t b = 1; a + b <= layers; ++b)
        for (std::int64_t c = 1; a + b + c <= layers; ++c)
          least = std::min(least, fullest(work, {a, b, c, layers - a - b - c}));
    const Counts counts = balanced_layer_counts(work, 3, 4);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), layers);
    EXPECT_NEAR(fullest(work, counts), least, 1e-9) << head;
  }
}

TEST(StageSplit, EveryNumberOfStagesUpToTheLayersAndBothEndsHasBalancedCounts) {
  for (std::int64_t layers = 1; layers <= 12; ++layers)
    for (std::int64_t stages = 1; stages <= layers + 2; ++stages)
      for (const double head : {0.0, 0.7, 30.0}) {
        const Counts counts = balanced_layer_counts(equal_layers(layers, head), 3, stages);
        ASSERT_EQ(counts.size(), static_cast<std::size_t>(stages));
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), layers);
        for (std::int64_t stage = 0; stage < stages; ++stage)
          EXPECT_GE(counts[static_cast<std::size_t>(stage)], fewest_layers(stage, stages))
              << layers << " layers on " << stages << " stages, head " << head;
      }
}

}  // namespace
}  // namespace plumbline::model
