// An executed step gives the same gradients however it is divided: every schedule, pipeline, data, expert and tensor
// parallelism and sharded optimizers are compared with one rank that does everything.
#include <gtest/gtest.h>

#include "tests/support/real/divided_training.h"

namespace plumbline::tests {
namespace {

class RealGradients : public testing::TestWithParam<Division> {
 protected:
  Trained divided(int steps) { return train_all(request_of(GetParam(), steps)); }
  Trained whole(int steps) { return train_all(request_of(whole_of(GetParam()), steps)); }
};

// Sums over ranks and micro-batches have another order: FP32 rounding, 1e-7, over some hundred additions.
constexpr double rounding = 2e-5;

TEST_P(RealGradients, EqualThoseOfOneRank) {
  const Trained reference = whole(1), divided = this->divided(1);
  ASSERT_EQ(reference.error, "");
  ASSERT_EQ(divided.error, "");
  EXPECT_NEAR(divided.loss(0), reference.loss(0), 1e-5 * reference.loss(0));
  EXPECT_NEAR(divided.ranks[0].steps[0].gradient_norm, reference.ranks[0].steps[0].gradient_norm,
              1e-5 * reference.ranks[0].steps[0].gradient_norm);
  if (GetParam().zero_stage > 0) return;  // no rank holds the whole sum
  std::size_t compared = 0;
  for (std::size_t world = 0; world < divided.ranks.size(); ++world)
    for (const auto& [name, part] : divided.ranks[world].gradients) {
      const TrainedRank::Piece& all = reference.ranks[0].gradients.at(name);
      EXPECT_LT(difference(GetParam(), world, all, part), rounding) << name << " on rank " << world;
      ++compared;
    }
  EXPECT_GE(compared, reference.ranks[0].gradients.size());
}

// AdamW divides by the gradient's size, so where a gradient is nearly 0 the sign of its rounding decides its update.
// The loss hardly depends on it.
TEST_P(RealGradients, TrainTheSameModel) {
  constexpr int steps = 3;
  const Trained reference = whole(steps), divided = this->divided(steps);
  ASSERT_EQ(divided.error, "");
  for (std::size_t step = 0; step < steps; ++step)
    EXPECT_NEAR(divided.loss(step), reference.loss(step), 2e-4 * reference.loss(step)) << "step " << step;
  std::size_t compared = 0;
  for (std::size_t world = 0; world < divided.ranks.size(); ++world)
    for (const auto& [name, part] : divided.ranks[world].parameters) {
      const TrainedRank::Piece& all = reference.ranks[0].parameters.at(name);
      // A step changes an entry by the learning rate, 1e-3, which is visible in entries of 0.1 to 1.
      EXPECT_LT(difference(GetParam(), world, all, part), 8e-3) << name << " on rank " << world;
      ++compared;
    }
  EXPECT_GE(compared, reference.ranks[0].parameters.size());
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, RealGradients,
    testing::Values(
        Division{"pp2_1f1b", "1f1b", 2}, Division{"pp4_1f1b", "1f1b", 4}, Division{"pp2_zb_h1", "zb-h1", 2},
        Division{"pp4_zb_h1", "zb-h1", 4}, Division{"pp2_dualpipe", "dualpipe", 2},
        Division{"pp4_dualpipe", "dualpipe", 4}, Division{"pp2_dualpipev", "dualpipev", 2},
        Division{.name = "pp2_interleaved", .schedule = "interleaved", .pipeline = 2, .virtual_stages = 2},
        Division{"pp2_gpipe", "gpipe", 2}, Division{"pp2_zb_v", "zb-v", 2}, Division{.name = "dp2", .data = 2},
        Division{.name = "dp4_zero1", .data = 4, .zero_stage = 1},
        Division{.name = "dp2_zero1_at_the_end", .data = 2, .zero_stage = 1, .overlapped = false},
        Division{.name = "ep2", .data = 2, .expert = 2}, Division{.name = "ep4", .data = 4, .expert = 4},
        Division{.name = "ep2_of_dp4_zero1", .data = 4, .expert = 2, .zero_stage = 1},
        Division{.name = "tp2", .tensor = 2, .dense = true}, Division{.name = "tp4", .tensor = 4, .dense = true},
        Division{.name = "tp2_sequence", .tensor = 2, .sequence = true},
        Division{.name = "tp2_ep2_sequence", .expert = 2, .tensor = 2, .sequence = true},
        Division{.name = "tp2_pp2_dp2_zero1", .pipeline = 2, .data = 2, .tensor = 2, .sequence = true, .zero_stage = 1},
        Division{"pp2_dp2_dualpipe_zero1", "dualpipe", 2, 2, 2, 1, false, 1},
        Division{"pp2_dp2_dualpipe", "dualpipe", 2, 2},
        Division{"pp2_ep2_dualpipe_inline", "dualpipe", 2, 2, 2, 1, false, 1, true, false},
        Division{"pp2_zb_h1_inline", "zb-h1", 2, 2, 1, 1, false, 0, true, false},
        Division{"pp2_dualpipe_prediction_module", "dualpipe", 2, 1, 1, 1, false, 0, true, true, 1}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace plumbline::tests
