#include <gtest/gtest.h>

#include <vector>

#include "real/executor/training/loss_scale.h"
#include "real/executor/training/trainer.h"
#include "tests/support/real/training.h"

namespace plumbline::real {
namespace {

using tests::on_ranks;
using Loads = model::Result<std::vector<LayerLoad>>;

TEST(LossScale, DoublesAfterAnIntervalWithoutOverflow) {
  LossScale scale({.start = 8, .interval = 3, .highest = 16});
  const auto good = [&](int steps) {
    for (int i = 0; i < steps; ++i) scale.keep_or_grow();
    return scale.factor();
  };
  EXPECT_EQ(good(2), 8);
  EXPECT_TRUE(scale.shrink());  // the interval restarts
  EXPECT_EQ(good(2), 4);
  EXPECT_EQ(good(1), 8);
  EXPECT_EQ(good(3), 16);
  EXPECT_EQ(good(6), 16);  // the upper limit
}

TEST(LossScale, OfOtherFormatsIsOne) {
  LossScale scale;
  for (int i = 0; i < 5000; ++i) scale.keep_or_grow();
  EXPECT_EQ(scale.factor(), 1);
  EXPECT_FALSE(scale.shrink());
}

TEST(ExpertBalance, SumsTheLoadsOfAllRanks) {
  // Rank 0 holds layers 0 and 2, rank 1 layer 2, rank 2 the prediction module.
  const std::vector<std::vector<ExpertLoad>> own = {
      {{.layer = 2, .rows = {1, 3}}, {.layer = 0, .rows = {5, 5}}},
      {{.layer = 2, .rows = {1, 11}}},
      {{.layer = -1, .rows = {0, 4}}},
  };
  const auto results = on_ranks<Loads>(3, [&](Communicator& communicator) {
    return sum_loads(own[static_cast<std::size_t>(communicator.rank())], 3, 2, communicator);
  });
  for (const Loads& loads : results) {
    ASSERT_TRUE(loads);
    ASSERT_EQ(loads->size(), 3U);
    EXPECT_EQ((*loads)[0].layer, 0);
    EXPECT_EQ((*loads)[0].max_violation, 0);
    EXPECT_EQ((*loads)[0].variation, 0);
    EXPECT_EQ((*loads)[1].layer, 2);
    EXPECT_EQ((*loads)[1].rows, (std::vector<double>{2, 14}));
    EXPECT_DOUBLE_EQ((*loads)[1].max_violation, 14.0 / 8 - 1);
    EXPECT_DOUBLE_EQ((*loads)[1].variation, 6.0 / 8);  // both are 6 away from the mean of 8
    EXPECT_EQ((*loads)[2].layer, -1);
    EXPECT_DOUBLE_EQ((*loads)[2].max_violation, 1);
  }
}

TEST(ExpertBalance, RefusesLoadsOfAnotherModel) {
  const auto loads = [](const ExpertLoad& load) {
    return on_ranks<Loads>(1, [&](Communicator& communicator) { return sum_loads({load}, 3, 2, communicator); })[0];
  };
  EXPECT_EQ(loads({.layer = 3, .rows = {1, 1}}).error().message,
            "loads of 2 experts of layer 3, where the model has 3 layers of 2 experts");
  EXPECT_FALSE(loads({.layer = 0, .rows = {1, 1, 1}}));
}

TEST(ExpertBalance, MovesBiasesByTheSpeedTowardsTheMean) {
  const LayerLoad load{.rows = {10, 2, 6, 6}};
  const std::vector<float> bias = moved_bias({0.5F, 0.5F, 0.5F, -1.0F}, load, 0.25);
  EXPECT_EQ(bias, (std::vector<float>{0.25F, 0.75F, 0.5F, -1.0F}));  // experts at the mean keep their bias
}

TEST(ExpertBalance, LeavesLayersOfOtherRanksAlone) {
  const auto bias_after = [](std::int64_t layer) {
    return on_ranks<std::vector<float>>(1, [&](Communicator& communicator) {
      tests::TinyStep step(communicator, {.experts = 2});
      update_biases(step, {{.layer = 1, .rows = {1, 1}}}, {{.layer = layer, .rows = {9, 1}}}, 0.5);
      return step.router_bias(1);
    })[0];
  };
  EXPECT_EQ(bias_after(0), (std::vector<float>{0, 0}));
  EXPECT_EQ(bias_after(1), (std::vector<float>{-0.5, 0.5}));
}

}  // namespace
}  // namespace plumbline::real
