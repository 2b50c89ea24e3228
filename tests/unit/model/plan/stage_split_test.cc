#include "model/plan/stage_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "model/base/random.h"

namespace plumbline::model {
namespace {

using Counts = std::vector<std::int64_t>;

SplitCosts equal_layers(std::int64_t layers, double last) {
  return {std::vector<double>(static_cast<std::size_t>(layers), 1.0), 0, last};
}

double dearest(const SplitCosts& costs, const Counts& counts) {
  double most = 0;
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    double sum = (stage == 0 ? costs.first : 0) + (stage + 1 == counts.size() ? costs.last : 0);
    for (std::int64_t i = 0; i < counts[stage]; ++i) sum += costs.layers[layer++];
    most = std::max(most, sum);
  }
  return most;
}

std::int64_t squares(const Counts& counts) {
  return std::inner_product(counts.begin(), counts.end(), counts.begin(), std::int64_t{0});
}

// Calls visit() with every division that stages can hold.
void every_division(std::int64_t layers, std::int64_t stages, const std::function<void(const Counts&)>& visit,
                    Counts counts = {}) {
  const auto stage = static_cast<std::int64_t>(counts.size());
  if (stage == stages) {
    if (layers == 0) visit(counts);
    return;
  }
  for (std::int64_t count = fewest_layers(stage, stages); count <= layers; ++count) {
    counts.push_back(count);
    every_division(layers - count, stages, visit, counts);
    counts.pop_back();
  }
}

SplitCosts drawn_costs(Random& random) {
  SplitCosts costs;
  const auto layers = static_cast<std::size_t>(1 + random.next() % 8);
  const double second_kind = 0.25 + 2 * random.uniform();
  for (std::size_t layer = 0; layer < layers; ++layer) costs.layers.push_back(layer < layers / 3 ? second_kind : 1);
  costs.first = random.uniform();
  costs.last = 4 * random.uniform();
  return costs;
}

TEST(StageSplit, EvenCountsLeaveTheEndsToEmbeddingAndHead) {
  EXPECT_EQ(even_layer_counts(61, 16).front(), 3);
  Counts alone(96, 1);  // 94 layers on 96 stages
  alone.front() = alone.back() = 0;
  EXPECT_EQ(even_layer_counts(94, 96), alone);
}

TEST(StageSplit, BalancedCountsGiveTheStageOfTheHeadLess) {
  // A head of 1.3 layers: 10 + 1.3 would be more than the 11 that a stage without it needs for 80 layers.
  EXPECT_EQ(balanced_layer_counts(equal_layers(80, 1.3), 8), (Counts{10, 10, 10, 10, 10, 10, 11, 9}));
  // With a head of 0.975 layers 10.975 is less than 11.
  EXPECT_EQ(balanced_layer_counts(equal_layers(80, 0.975), 8), (Counts{10, 10, 10, 10, 10, 10, 10, 10}));
  EXPECT_EQ(balanced_layer_counts(equal_layers(4, 5), 2), (Counts{4, 0})) << "a stage of the head alone";
  EXPECT_EQ(balanced_layer_counts(equal_layers(3, 0.5), 1), (Counts{3}));
}

// Of all divisions none has a smaller maximum, and of those with it none is more even.
TEST(StageSplit, BalancedCountsAreTheBestOfAllDivisions) {
  Random random(7);
  for (int draw = 0; draw < 300; ++draw) {
    const SplitCosts costs = drawn_costs(random);
    const auto layers = static_cast<std::int64_t>(costs.layers.size());
    const std::int64_t stages = 1 + static_cast<std::int64_t>(random.next() % 5) % (layers + 2);
    std::pair<double, std::int64_t> best = {1e9, 0};
    every_division(layers, stages, [&](const Counts& counts) {
      const std::pair<double, std::int64_t> found = {dearest(costs, counts), squares(counts)};
      if (found.first < best.first - 1e-9 || (found.first < best.first + 1e-9 && found.second < best.second))
        best = found;
    });
    const Counts counts = balanced_layer_counts(costs, stages);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), layers);
    EXPECT_NEAR(dearest(costs, counts), best.first, 1e-9);
    EXPECT_EQ(squares(counts), best.second);
  }
}

}  // namespace
}  // namespace plumbline::model
