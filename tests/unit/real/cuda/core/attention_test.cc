#include "real/cuda/kernels/arithmetic/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/measure/detail/expected.h"

namespace plumbline::real::cuda {
namespace {

// The arithmetic of plumbline's own attention kernels, on the CPU.

TEST(AttentionArithmetic, AQuerySeesItselfAndWhatCameBefore) {
  EXPECT_TRUE(sees(4, 4, 0));
  EXPECT_TRUE(sees(4, 0, 0));
  EXPECT_FALSE(sees(4, 5, 0));
  EXPECT_TRUE(sees(4, 3, 2));
  EXPECT_FALSE(sees(4, 2, 2));
}

TEST(AttentionArithmetic, SlopesOfAlibiArePowersOfTwo) {
  for (std::int64_t head = 0; head < 12; ++head)
    EXPECT_NEAR(alibi_slope(head, 12), std::exp2(-8.0 * static_cast<double>(head + 1) / 12), 1e-7);
}

// Keys come tile by tile, with very different scores: the sum is that of all keys at once.
TEST(AttentionArithmetic, ASoftmaxInPartsIsThatOfAllKeys) {
  for (const float spread : {1.0F, 30.0F}) {
    std::vector<float> scores;
    for (std::uint64_t i = 0; i < 100; ++i) scores.push_back(spread * random_normal(7, i));
    RunningSoftmax softmax;
    double weighted = 0;  // sum of the values 0, 1, 2 ..., weighted like outputs
    for (std::size_t first = 0; first < scores.size(); first += 16) {
      const std::size_t end = std::min(first + 16, scores.size());
      float largest = -INFINITY, sum = 0;
      for (std::size_t i = first; i < end; ++i) largest = std::fmax(largest, scores[i]);
      const float merged = merged_largest(softmax, largest);
      double part = 0;
      for (std::size_t i = first; i < end; ++i) {
        sum += std::exp(scores[i] - merged);
        part += static_cast<double>(i) * std::exp(scores[i] - merged);
      }
      weighted = weighted * take_up(softmax, largest, sum) + part;
    }
    double sum = 0, wanted = 0;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      sum += std::exp(static_cast<double>(scores[i]));
      wanted += static_cast<double>(i) * std::exp(static_cast<double>(scores[i]));
    }
    EXPECT_NEAR(log_sum_exp(softmax), std::log(sum), 1e-5 * spread);
    EXPECT_NEAR(weighted / softmax.sum, wanted / sum, 1e-4);
  }
}

TEST(AttentionArithmetic, KeysThatNoneSeesChangeNothing) {
  RunningSoftmax softmax;
  EXPECT_EQ(take_up(softmax, -INFINITY, 0.0F), 0.0F);
  EXPECT_EQ(take_up(softmax, 2.0F, 1.0F), 0.0F);
  EXPECT_EQ(take_up(softmax, -INFINITY, 0.0F), 1.0F);
  EXPECT_FLOAT_EQ(log_sum_exp(softmax), 2.0F);
}

// Compares the gradient of sum(g * softmax(s)) with finite differences.
TEST(AttentionArithmetic, ScoreGradientsAreThoseOfSoftmax) {
  const std::vector<double> scores = {0.3, -1.2, 0.9}, gradients = {0.5, 2.0, -1.0};
  const double scale = 0.25, step = 1e-6;
  const auto loss = [&](std::vector<double> values) {
    double sum = 0, result = 0;
    for (const double s : values) sum += std::exp(scale * s);
    for (std::size_t i = 0; i < values.size(); ++i) result += gradients[i] * std::exp(scale * values[i]) / sum;
    return result;
  };
  double sum = 0, inner = 0;
  for (const double s : scores) sum += std::exp(scale * s);
  for (std::size_t i = 0; i < 3; ++i) inner += gradients[i] * std::exp(scale * scores[i]) / sum;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<double> up = scores, down = scores;
    up[i] += step;
    down[i] -= step;
    const float found =
        score_gradient(static_cast<float>(std::exp(scale * scores[i]) / sum), static_cast<float>(gradients[i]),
                       static_cast<float>(inner), static_cast<float>(scale));
    EXPECT_NEAR(found, (loss(up) - loss(down)) / (2 * step), 1e-6);
  }
}

// The reference attention of measured cases: rows and gradients in double precision compared with finite differences.

constexpr std::size_t length = 7, qk_dim = 5, v_dim = 3;

Rows random_rows(std::size_t columns, std::uint64_t seed) {
  Rows rows(length, std::vector<double>(columns));
  std::uint64_t index = 0;
  for (auto& row : rows)
    for (double& value : row) value = random_normal(seed, index++);
  return rows;
}

AttentionHead example() {
  return {random_rows(qk_dim, 1), random_rows(qk_dim, 2), random_rows(v_dim, 3), random_rows(v_dim, 4), {}, {}};
}

// Returns the sum of all outputs times d_o, whose gradients the functions return.
double loss(const AttentionHead& head) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const AttentionRow row = attention_row(head, i);
    for (std::size_t d = 0; d < v_dim; ++d) sum += row.output[d] * head.d_o[i][d];
  }
  return sum;
}

double difference(AttentionHead head, Rows AttentionHead::*rows, std::size_t row, std::size_t column) {
  constexpr double step = 1e-5;
  (head.*rows)[row][column] += step;
  const double above = loss(head);
  (head.*rows)[row][column] -= 2 * step;
  return (above - loss(head)) / (2 * step);
}

TEST(AttentionReference, ARowWeighsWhatItSees) {
  AttentionHead head = example();
  EXPECT_EQ(attention_row(head, 0).output, head.v[0]);  // the first attends to itself alone
  // With equal scores the output is the mean of the values so far.
  for (auto& row : head.q) row.assign(qk_dim, 0.0);
  const AttentionRow third = attention_row(head, 2);
  EXPECT_NEAR(third.output[1], (head.v[0][1] + head.v[1][1] + head.v[2][1]) / 3, 1e-12);
  EXPECT_NEAR(third.log_sum_exp, std::log(3.0), 1e-12);
}

TEST(AttentionReference, ScoresAreDividedByTheRootOfTheDimension) {
  AttentionHead head = example();
  for (auto& row : head.q) row.assign(qk_dim, 1.0);
  for (auto& row : head.k) row.assign(qk_dim, 0.0);
  head.k[1].assign(qk_dim, 2.0);
  // Scores 0 and 2 * 5 / sqrt(5).
  EXPECT_NEAR(attention_row(head, 1).log_sum_exp, std::log(1 + std::exp(2 * std::sqrt(5.0))), 1e-12);
}

TEST(AttentionReference, GradientsAreThoseOfDifferences) {
  AttentionHead head = example();
  for (std::size_t i = 0; i < length; ++i) {
    const AttentionRow row = attention_row(head, i);
    head.log_sum_exp.push_back(row.log_sum_exp);
    double delta = 0;
    for (std::size_t d = 0; d < v_dim; ++d) delta += row.output[d] * head.d_o[i][d];
    head.deltas.push_back(delta);
  }
  for (std::size_t i = 0; i < length; ++i) {
    const std::vector<double> dq = query_gradient(head, i);
    std::vector<double> dk, dv;
    add_key_gradients(head, i, dk, dv);
    for (std::size_t d = 0; d < qk_dim; ++d) {
      EXPECT_NEAR(dq[d], difference(head, &AttentionHead::q, i, d), 1e-7);
      EXPECT_NEAR(dk[d], difference(head, &AttentionHead::k, i, d), 1e-7);
    }
    for (std::size_t d = 0; d < v_dim; ++d) EXPECT_NEAR(dv[d], difference(head, &AttentionHead::v, i, d), 1e-7);
  }
}

}  // namespace
}  // namespace plumbline::real::cuda
