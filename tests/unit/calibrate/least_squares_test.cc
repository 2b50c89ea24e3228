#include "calibrate/fit/detail/least_squares.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plumbline::calibrate {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

// Messages: 2 us and 1 ns a byte, of 1 kB to 512 kB.
constexpr double latency = 2e-6, byte_time = 1e-9;

MatrixXd messages() {
  constexpr Eigen::Index rows = 10;
  MatrixXd features = MatrixXd::Ones(rows, 2);
  for (Eigen::Index i = 0; i < rows; ++i) features(i, 1) = std::ldexp(1000, static_cast<int>(i));
  return features;
}

Form line(const MatrixXd& features) {
  return [features](const VectorXd& x) -> VectorXd { return features * x; };
}

TEST(RobustFit, FindsALineThroughADisturbedSample) {
  const MatrixXd features = messages();
  VectorXd seconds = features * Eigen::Vector2d(latency, byte_time);
  seconds[4] *= 3;
  const RobustFit fit = robust_fit(line(features), seconds, starting_point(features, seconds));
  EXPECT_NEAR(fit.values[0] / latency, 1, 0.02);
  EXPECT_NEAR(fit.values[1] / byte_time, 1, 0.02);
  EXPECT_NEAR(fit.errors[4], -2.0 / 3, 0.01);
  EXPECT_EQ(fit.silent, std::vector<bool>({false, false}));
}

TEST(RobustFit, IsNotMovedByAStartThatIsFarOff) {
  const MatrixXd features = messages();
  const VectorXd seconds = features * Eigen::Vector2d(latency, byte_time);
  const RobustFit fit = robust_fit(line(features), seconds, Eigen::Vector2d(1e-2, 1e-12));
  EXPECT_NEAR(fit.values[0] / latency, 1, 1e-5);
  EXPECT_NEAR(fit.values[1] / byte_time, 1, 1e-5);
}

TEST(RobustFit, IsUncertainWithoutBoundOfWhatNoSampleTells) {
  const VectorXd seconds = VectorXd::Constant(4, latency);
  const MatrixXd alike = MatrixXd::Ones(4, 2);
  const RobustFit both = robust_fit(line(alike), seconds, Eigen::Vector2d(latency, latency));
  EXPECT_NEAR(both.values.sum() / latency, 1, 1e-5) << "only their sum is known";
  EXPECT_TRUE(std::isinf(both.uncertainty[0]) && std::isinf(both.uncertainty[1]));
  MatrixXd unused = alike;
  unused.col(1).setZero();
  const RobustFit one = robust_fit(line(unused), seconds, Eigen::Vector2d(latency, latency));
  EXPECT_TRUE(std::isfinite(one.uncertainty[0]) && std::isinf(one.uncertainty[1]));
  EXPECT_EQ(one.silent, std::vector<bool>({false, true}));
}

TEST(LeftOutErrors, AreThoseOfAFitWithoutTheSample) {
  const MatrixXd once = MatrixXd::Ones(2, 1);
  const Eigen::Vector2d seconds(1, 1.02);
  const RobustFit fit = robust_fit(line(once), seconds, VectorXd::Ones(1));
  EXPECT_NEAR(fit.values[0], std::sqrt(1.02), 1e-5) << "the geometric mean";
  const VectorXd errors = left_out_errors(line(once), seconds, fit);
  EXPECT_NEAR(errors[0], 0.02, 1e-5);
  EXPECT_NEAR(errors[1], 1 / 1.02 - 1, 1e-5);
}

}  // namespace
}  // namespace plumbline::calibrate
