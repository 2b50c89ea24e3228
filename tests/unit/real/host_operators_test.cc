#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "real/host/operators/operators.h"
#include "real/host/pool.h"
#include "real/host/rounding.h"
#include "tests/support/interpreter/interpreter.h"
#include "tests/support/operator_blocks.h"
#include "tests/support/real/host_operator.h"

namespace plumbline::tests {
namespace {

using Wide = Eigen::MatrixXd;
using enum model::OperatorKind;
using model::Graph;
using model::OperatorKind;
using model::TensorId;
using real::host::Index;

// Every operator of the host compared with the interpreter's, on the blocks of tiny models: both read the same tensors.

constexpr double tolerance = 1e-4;      // relative to the largest entry: FP32 compared with double precision
constexpr float zero_rounding = 1e-6f;  // of gradients that are zero

// Returns the layers in their FP32 and FP8 forms; narrower formats are not compared here.
std::vector<Graph> blocks() {
  std::vector<Graph> graphs;
  for (const model::Precision precision : {model::Precision::fp32, model::Precision::fp8})
    for (const Graph& graph : operator_blocks(tiny_models(), precision, tiny_operator_context))
      graphs.push_back(widened(graph));
  return graphs;
}

// Runs one graph on both. The host reads the interpreter's tensors, so that errors do not add up, but accumulates in
// its own memory.
class Comparison {
 public:
  Comparison(const Graph& graph, int cores) : graph_(graph), interpreter_(graph, 1), cores_(cores) {
    model::Random random(5);
    for (TensorId id = 0; id < graph.tensors.size(); ++id) {
      const model::Tensor& tensor = graph.tensor(id);
      if (tensor.role == model::Role::activation || tensor.role == model::Role::host) continue;
      const Matrix value = start_value(tensor, tiny_sequence_length, random);
      interpreter_.set(0, id, value);
      if (tensor.role == model::Role::gradient || tensor.role == model::Role::cache)
        accumulated_[id] = make_buffer(pool_, tensor.type, value.cast<float>());
    }
    for (const model::Phase phase : {model::Phase::F, model::Phase::I, model::Phase::W}) interpreter_.run(phase);
  }

  void run(std::set<OperatorKind>& covered) {
    for (const model::Operator& op : graph_.operators)
      if (real::host::function_of(op.kind)) {
        covered.insert(op.kind);
        run(op);
      }
    for (const auto& [id, buffer] : accumulated_) expect_equal(id, *buffer, "sums and caches");
  }

 private:
  void run(const model::Operator& op) {
    std::vector<std::unique_ptr<real::host::HostBuffer>> buffers;
    real::Kernel kernel{.graph = &graph_, .op = &op};
    for (const TensorId id : op.reads) {
      const FloatMatrix value = interpreter_.value(0, id).cast<float>();
      kernel.reads.push_back(buffers.emplace_back(make_buffer(pool_, graph_.tensor(id).type, value)).get());
    }
    for (const TensorId id : op.writes) {
      const auto sum = accumulated_.find(id);
      if (sum == accumulated_.end()) {
        const FloatMatrix other = zeros(graph_.tensor(id)).cast<float>().array() + 7;  // all of it must be overwritten
        kernel.writes.push_back(buffers.emplace_back(make_buffer(pool_, graph_.tensor(id).type, other)).get());
      } else {
        kernel.writes.push_back(sum->second.get());
      }
    }
    real::host::run({kernel, cores_});
    for (std::size_t i = 0; i < op.writes.size(); ++i)
      if (!accumulated_.contains(op.writes[i]))
        expect_equal(op.writes[i], static_cast<const real::host::HostBuffer&>(*kernel.writes[i]), op.name);
  }

  void expect_equal(TensorId id, const real::host::HostBuffer& actual, const std::string& where) const {
    const FloatMatrix expected = interpreter_.value(0, id).cast<float>();
    const FloatMatrix found = actual.matrix();
    const bool both_zero =
        expected.cwiseAbs().maxCoeff() < zero_rounding && found.cwiseAbs().maxCoeff() < zero_rounding;
    EXPECT_TRUE(both_zero || difference(found, expected) <= tolerance)
        << graph_.name << ", " << where << ": " << graph_.tensor(id).name;
  }

  const Graph& graph_;
  Interpreter interpreter_;
  real::host::Pool pool_;
  real::host::Cores cores_;
  std::map<TensorId, std::unique_ptr<real::host::HostBuffer>> accumulated_;
};

std::set<OperatorKind> compare_all(int cores) {
  std::set<OperatorKind> covered;
  for (const Graph& graph : blocks()) Comparison(graph, cores).run(covered);
  const Graph last = widened(optimizer_block());
  Comparison(last, cores).run(covered);
  return covered;
}

TEST(HostOperators, ComputeWhatTheInterpreterComputes) {
  const std::set<OperatorKind> covered = compare_all(1);
  for (int kind = 0; kind <= static_cast<int>(OperatorKind::copy_to_device); ++kind) {
    const bool known = real::host::function_of(static_cast<OperatorKind>(kind)) != nullptr;
    EXPECT_EQ(known, covered.contains(static_cast<OperatorKind>(kind))) << to_string(static_cast<OperatorKind>(kind));
  }
}

TEST(HostOperators, ComputeTheSameOnTwoCores) { compare_all(2); }

// A table that doubled at every turn would have 2^64 positions.
TEST(HostOperators, RotateForModelsInTurns) {
  const FloatMatrix x = FloatMatrix::Ones(3, 4);
  const auto rotated = [&](double theta) {
    const model::RotaryAttributes rotary{
        .heads = 1, .head_dim = 4, .rope_dim = 4, .sequence_length = 3, .theta = theta};
    return run_on_host({.kind = OperatorKind::rotary, .attributes = rotary, .reads = {x}, .writes = {no_floats(3, 4)}});
  };
  const FloatMatrix first = rotated(100)[0], second = rotated(10000)[0];
  for (int turn = 0; turn < 32; ++turn) {
    EXPECT_EQ(rotated(100)[0], first);
    EXPECT_EQ(rotated(10000)[0], second);
  }
}

// Guarantees of the host's operators beyond the graph: numerics, the step's numbers.

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
