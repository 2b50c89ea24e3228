// The reference attention of measured cases: rows and gradients in double precision compared with finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "real/cuda/kernels/arithmetic.h"
#include "real/cuda/measure/detail/expected.h"

namespace plumbline::real::cuda {
namespace {

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
