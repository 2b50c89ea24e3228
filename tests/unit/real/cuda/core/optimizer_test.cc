// AdamW of the GPU kernels compared with its definition (arXiv 1711.05101) in double precision.
#include "real/cuda/kernels/arithmetic/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/base/random.h"

namespace plumbline::real::cuda {
namespace {

struct Weight {
  double value = 0, first = 0, second = 0;

  void update(const UpdateNumbers& n, double gradient) {
    first = n.beta1 * first + (1 - n.beta1) * gradient;
    second = n.beta2 * second + (1 - n.beta2) * gradient * gradient;
    const auto step = static_cast<double>(n.step);
    const double m = first / (1 - std::pow(n.beta1, step)), v = second / (1 - std::pow(n.beta2, step));
    value -= n.learning_rate * (m / (std::sqrt(v) + n.epsilon) + n.weight_decay * value);
  }
};

TEST(CudaOptimizer, UpdatesAsAdamWIsDefined) {
  model::Random random(5);
  for (const double gradient_size : {1.0, 1e-4, 1e-9}) {  // the last is about epsilon
    float value = static_cast<float>(random.normal()), first = 0, second = 0;
    Weight expected{static_cast<double>(value), 0, 0};
    for (std::int64_t step = 1; step <= 200; ++step) {
      const UpdateNumbers numbers{1e-3, 0.9, 0.95, 1e-8, 0.1, step};
      const auto gradient = static_cast<float>(gradient_size * random.normal());
      const double before = expected.value;
      expected.update(numbers, static_cast<double>(gradient));
      value = updated_weight(update_rule(numbers), gradient, value, first, second);
      // The last step's change is right to 0.1 %, the sum of all changes to rounding.
      EXPECT_NEAR(static_cast<double>(value), expected.value, 1e-3 * std::abs(expected.value - before) + 1e-5);
    }
    EXPECT_NEAR(static_cast<double>(first) / expected.first, 1, 1e-4);
    EXPECT_NEAR(static_cast<double>(second) / expected.second, 1, 1e-4);
  }
}

TEST(CudaOptimizer, TheFirstStepMovesByTheLearningRate) {
  float first = 0, second = 0;
  const UpdateRule rule = update_rule({0.01, 0.9, 0.95, 1e-8, 0, 1});
  EXPECT_NEAR(static_cast<double>(updated_weight(rule, 3.0F, 1.0F, first, second)), 0.99, 1e-6);
  EXPECT_NEAR(static_cast<double>(updated_weight(rule, -3.0F, 1.0F, first = 0, second = 0)), 1.01, 1e-6);
}

TEST(CudaOptimizer, GradientsAreClippedToTheLargestNorm) {
  EXPECT_EQ(clip_factor(16.0F, 1.0), 0.25F);
  EXPECT_EQ(clip_factor(1.0F, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(0.25F, 1.0), 1.0F);
  EXPECT_EQ(clip_factor(0.0F, 1.0), 1.0F);
}

TEST(CudaOptimizer, SumsAreDividedTheSameWayWhateverTheDevice) {
  EXPECT_EQ(sum_blocks(0), 0);
  EXPECT_EQ(sum_blocks(1), 1);
  EXPECT_EQ(sum_blocks(sum_block_elements + 1), 2);
  EXPECT_EQ(sum_blocks(1'000'000'000'000), most_sum_blocks);
}

}  // namespace
}  // namespace plumbline::real::cuda
