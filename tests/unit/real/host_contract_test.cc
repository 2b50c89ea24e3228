// Guarantees of the host's operators beyond the graph: numerics, the step's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "real/host/rounding.h"
#include "tests/support/real/host_operator.h"

namespace plumbline::tests {
namespace {

using enum model::OperatorKind;
using real::host::Index;
using Wide = Eigen::MatrixXd;

struct Seen {
  Wide out, log_sum_exp;
};

// Computes attention as operators.def defines it, in double precision.
Seen attention_of(const model::AttentionAttributes& a, const FloatMatrix& q, const FloatMatrix& k,
                  const FloatMatrix& v) {
  Seen seen{Wide::Zero(q.rows(), a.query_heads * a.value_dim), Wide::Zero(q.rows(), a.query_heads)};
  for (Index t = 0; t < q.rows(); ++t)
    for (Index head = 0; head < a.query_heads; ++head) {
      const Index shared = head / (a.query_heads / a.key_value_heads), place = t % a.sequence_length;
      const Index keys = a.window > 0 ? std::min(a.window, place + 1) : place + 1;
      double total = 0;
      for (Index s = t + 1 - keys; s <= t; ++s) {
        const auto query = q.row(t).segment(head * a.query_key_dim, a.query_key_dim).cast<double>();
        const auto key = k.row(s).segment(shared * a.query_key_dim, a.query_key_dim).cast<double>();
        const double slope = std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(a.query_heads));
        const double score = query.dot(key) / std::sqrt(static_cast<double>(a.query_key_dim)) -
                             (a.alibi ? slope * static_cast<double>(t - s) : 0);
        total += std::exp(score);
        seen.out.row(t).segment(head * a.value_dim, a.value_dim) +=
            std::exp(score) * v.row(s).segment(shared * a.value_dim, a.value_dim).cast<double>();
      }
      seen.out.row(t).segment(head * a.value_dim, a.value_dim) /= total;
      seen.log_sum_exp(t, head) = std::log(total);
    }
  return seen;
}

class LongAttention : public testing::TestWithParam<model::AttentionAttributes> {};

// Sequences have several blocks, of which the last is not full, and windows that begin inside a block.
INSTANTIATE_TEST_SUITE_P(Masks, LongAttention,
                         testing::Values(model::AttentionAttributes{2, 2, 8, 6, 150},
                                         model::AttentionAttributes{4, 2, 8, 6, 150, 70},
                                         model::AttentionAttributes{2, 1, 8, 6, 64, 0, true},
                                         model::AttentionAttributes{2, 1, 8, 6, 100, 3, true}));

TEST_P(LongAttention, MatchesItsDefinition) {
  const auto& a = GetParam();
  model::Random random(3);
  const Index tokens = 2 * a.sequence_length;
  const FloatMatrix q = random_floats(tokens, a.query_heads * a.query_key_dim, random);
  const FloatMatrix k = random_floats(tokens, a.key_value_heads * a.query_key_dim, random);
  const FloatMatrix v = random_floats(tokens, a.key_value_heads * a.value_dim, random);
  const std::vector<FloatMatrix> written = run_on_host(
      {attention, a, {q, k, v}, {no_floats(tokens, a.query_heads * a.value_dim), no_floats(tokens, a.query_heads)}});
  const Seen expected = attention_of(a, q, k, v);
  EXPECT_LE(difference(written[0], expected.out.cast<float>()), 1e-5);
  EXPECT_LE(difference(written[1], expected.log_sum_exp.cast<float>()), 1e-5);
}

// Computes d(sum of do * out) for one entry at a time, by finite differences of the definition.
TEST_P(LongAttention, GradientsMatchFiniteDifferences) {
  const auto& a = GetParam();
  model::Random random(4);
  const Index tokens = a.sequence_length;
  std::vector<FloatMatrix> qkv = {random_floats(tokens, a.query_heads * a.query_key_dim, random),
                                  random_floats(tokens, a.key_value_heads * a.query_key_dim, random),
                                  random_floats(tokens, a.key_value_heads * a.value_dim, random)};
  const FloatMatrix d_out = random_floats(tokens, a.query_heads * a.value_dim, random);
  const Seen seen = attention_of(a, qkv[0], qkv[1], qkv[2]);
  const auto written =
      run_on_host({attention_grad,
                   a,
                   {d_out, qkv[0], qkv[1], qkv[2], seen.out.cast<float>(), seen.log_sum_exp.cast<float>()},
                   {qkv[0], qkv[1], qkv[2]}});
  for (std::size_t operand = 0; operand < 3; ++operand)
    for (const Index t : {Index{0}, tokens / 3, tokens / 2, tokens - 1}) {
      const Index c = t % qkv[operand].cols();
      const auto at = [&](float shift) {
        std::vector<FloatMatrix> moved = qkv;
        moved[operand](t, c) += shift;
        return attention_of(a, moved[0], moved[1], moved[2]).out.cwiseProduct(d_out.cast<double>()).sum();
      };
      const float h = 0x1p-8F;
      EXPECT_NEAR(written[operand](t, c), (at(h) - at(-h)) / (2 * h), 2e-3) << operand << ", " << t;
    }
}

TEST(HostNumerics, LargeScoresDoNotOverflow) {
  const model::AttentionAttributes a{1, 1, 4, 4, 8};
  const FloatMatrix large = FloatMatrix::Constant(8, 4, 100);
  const auto written = run_on_host({attention, a, {large, large, large}, {no_floats(8, 4), no_floats(8, 1)}});
  EXPECT_LE(difference(written[0], large), 1e-6);
  const model::LossAttributes loss{.sequence_length = 8};
  const auto entropy = run_on_host({cross_entropy, loss, {large, no_floats(8, 1)}, {no_floats(1, 1), no_floats(8, 1)}});
  EXPECT_NEAR(entropy[0](0), std::log(4.0), 1e-4);
}

TEST(HostNumerics, SixteenBitsAreStored) {
  model::Random random(5);
  const FloatMatrix a = random_floats(20, 30, random), b = random_floats(30, 10, random);
  const auto gemm = [&](model::DataType type) {
    return run_on_host({matmul, model::MatmulAttributes{}, {a, b}, {no_floats(20, 10)}, type})[0];
  };
  const FloatMatrix wide = gemm(model::DataType::fp32);
  for (const model::DataType type : {model::DataType::bf16, model::DataType::fp16}) {
    FloatMatrix expected = wide;
    real::host::round_to(type, {expected.data(), static_cast<std::size_t>(expected.size())});
    EXPECT_EQ(gemm(type), expected);
    EXPECT_NE(expected, wide);
  }
}

// 16384 times 1/4: in FP16 the sum stays at 512, where a quarter is no more than half of the distance to the next
// number, 1/2, and ties go to the even one.
TEST(HostNumerics, NarrowAccumulationLosesLongSums) {
  constexpr Index depth = 16384;
  const FloatMatrix a = FloatMatrix::Constant(1, depth, 0.25F), b = FloatMatrix::Constant(depth, 1, 1);
  HostOperator gemm{matmul, model::MatmulAttributes{}, {a, b}, {no_floats(1, 1)}};
  EXPECT_EQ(run_on_host(gemm)[0](0), 4096);
  gemm.accumulation = model::DataType::fp16;
  EXPECT_EQ(run_on_host(gemm)[0](0), 512);
}

TEST(DispatchLayoutBuilder, TiesGoToTheLowerExpertAndLoadsAreCounted) {
  const model::RouterAttributes a{
      .experts = 6, .experts_per_token = 2, .groups = 3, .groups_per_token = 2, .group_score_experts = 2};
  FloatMatrix logits = no_floats(2, 6);
  logits(1, 4) = 1;  // group 2 is best, groups 0 and 1 are equal
  const auto written = run_on_host(
      {router, a, {logits, no_floats(6, 1)}, {no_floats(2, 2), no_floats(2, 2), FloatMatrix::Constant(6, 1, 10)}});
  EXPECT_EQ(written[0], (Eigen::Matrix2f() << 0, 1, 4, 0).finished());
  EXPECT_EQ(written[2], (Eigen::Vector<float, 6>(12, 11, 10, 10, 11, 10)));
}

TEST(DispatchLayoutBuilder, LogitsThatAreNotNumbersChooseSomeExpert) {
  const model::RouterAttributes a{.experts = 4, .experts_per_token = 2};
  const FloatMatrix logits = FloatMatrix::Constant(1, 4, NAN);
  const auto written = run_on_host({router, a, {logits, no_floats(4, 1)}, {no_floats(1, 2), no_floats(1, 2)}});
  EXPECT_EQ(written[0], (Eigen::RowVector2f(0, 1)));
}

// In the first step both moments, without their bias, are the gradient and its square, so the direction is the
// gradient's sign. In later steps from zero moments it is ((1 - b1) / (1 - b1^t)) / sqrt((1 - b2) / (1 - b2^t)) times
// that.
TEST(HostOptimizer, TakesStepAndRateOfTheCall) {
  const model::AdamwAttributes a{.weight_decay = 0.1};
  const FloatMatrix weight = FloatMatrix::Constant(1, 1, 2), gradient = FloatMatrix::Constant(1, 1, -3);
  HostOperator update{adamw, a, {gradient}, {weight, no_floats(1, 1), no_floats(1, 1)}};
  EXPECT_NEAR(run_on_host(update)[0](0), 2 + a.learning_rate * (1 - 0.1 * 2), 1e-6);
  update.kernel.numbers = {.step = 10, .learning_rate = 0.5};
  const double ratio = 0.1 / (1 - std::pow(0.9, 10)) / std::sqrt(0.05 / (1 - std::pow(0.95, 10)));
  EXPECT_NEAR(run_on_host(update)[0](0), 2 + 0.5 * (ratio - 0.1 * 2), 1e-6);
}

TEST(HostOptimizer, SquaresAreWeighedAndOverflowIsFound) {
  HostOperator squares{
      sum_of_squares, {}, {FloatMatrix::Constant(3, 1, 2), FloatMatrix::Constant(2, 1, 5)}, {no_floats(1, 1)}};
  EXPECT_EQ(run_on_host(squares)[0](0), 12 + 50);
  squares.kernel.weights = {1, 0.5};
  EXPECT_EQ(run_on_host(squares)[0](0), 12 + 25);
  FloatMatrix gradient = FloatMatrix::Constant(3, 1, 8);
  const FloatMatrix scale = FloatMatrix::Constant(1, 1, 4);
  const std::vector<FloatMatrix> writes = {no_floats(3, 1), FloatMatrix::Ones(1, 1)};
  EXPECT_EQ(run_on_host({unscale, {}, {gradient, scale}, writes})[0](2), 2);
  EXPECT_EQ(run_on_host({unscale, {}, {gradient, scale}, writes})[1](0), 0);
  gradient(1) = INFINITY;
  EXPECT_EQ(run_on_host({unscale, {}, {gradient, scale}, writes})[1](0), 1);
}

}  // namespace
}  // namespace plumbline::tests
