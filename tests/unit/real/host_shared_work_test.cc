// Host operators divided over several cores or streams have the result of one.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/real/host_operator.h"

namespace plumbline::tests {
namespace {

using enum model::OperatorKind;
using real::host::Index;

constexpr Index work_rows = 256, work_width = 96;

FloatMatrix whole_numbers(Index rows, Index columns, Index below, model::Random& random) {
  return FloatMatrix::NullaryExpr(
      rows, columns, [&] { return static_cast<float>(random.next() % static_cast<std::uint64_t>(below)); });
}

FloatMatrix column(const std::vector<float>& values) {
  FloatMatrix result(static_cast<Index>(values.size()), 1);
  for (Index i = 0; i < result.rows(); ++i) result(i) = values[static_cast<std::size_t>(i)];
  return result;
}

FloatMatrix zeros(Index rows, Index columns) { return no_floats(rows, columns); }

model::AttentionAttributes heads() {
  return {.query_heads = 4, .key_value_heads = 2, .query_key_dim = 24, .value_dim = 24, .sequence_length = 128};
}

std::vector<HostOperator> gemms(model::Random& random) {
  const auto any = [&](Index rows, Index columns) { return random_floats(rows, columns, random); };
  const FloatMatrix offsets = column({0, 100, 100, 230, 256});
  const model::MatmulAttributes by_rows{.transpose_b = true};
  const model::MatmulAttributes gradient{.transpose_a = true, .accumulate = true};
  return {
      {matmul, by_rows, {any(work_rows, work_width), any(80, work_width), any(80, 1)}, {zeros(work_rows, 80)}},
      {matmul, gradient, {any(work_rows, 80), any(work_rows, work_width)}, {any(80, work_width)}},
      {matmul,
       model::MatmulAttributes{true, true, false},
       {any(work_width, work_rows), any(80, work_width)},
       {zeros(work_rows, 80)}},
      {grouped_matmul, by_rows, {any(work_rows, work_width), any(4 * 80, work_width), offsets}, {zeros(work_rows, 80)}},
      {grouped_matmul, gradient, {any(work_rows, 80), any(work_rows, work_width), offsets}, {any(4 * 80, work_width)}},
      {grouped_matmul,
       model::MatmulAttributes{.transpose_b = true, .accumulate = true},
       {any(80, work_rows), any(work_width, work_rows), offsets},
       {any(4 * 80, work_width)}},
      {attention,
       heads(),
       {any(work_rows, work_width), any(work_rows, work_width / 2), any(work_rows, work_width / 2)},
       {zeros(work_rows, work_width), zeros(work_rows, 4)}},
      {attention_grad,
       heads(),
       {any(work_rows, work_width), any(work_rows, work_width), any(work_rows, work_width / 2),
        any(work_rows, work_width / 2), any(work_rows, work_width), any(work_rows, 4).array() + 20},
       {zeros(work_rows, work_width), zeros(work_rows, work_width / 2), zeros(work_rows, work_width / 2)}},
      {softmax, heads(), {any(work_rows, 4 * 128)}, {zeros(work_rows, 4 * 128)}},
  };
}

std::vector<HostOperator> row_wise(model::Random& random) {
  const auto any = [&](Index rows, Index columns) { return random_floats(rows, columns, random); };
  const FloatMatrix ids = whole_numbers(work_rows, 1, 50, random);
  const FloatMatrix map = whole_numbers(work_rows, 1, 70, random);
  return {
      {rmsnorm_grad,
       model::NormAttributes{},
       {any(work_rows, work_width), any(work_rows, work_width), any(work_width, 1)},
       {zeros(work_rows, work_width), any(work_width, 1)}},
      {layernorm_grad,
       model::NormAttributes{},
       {any(work_rows, work_width), any(work_rows, work_width), any(work_width, 1)},
       {zeros(work_rows, work_width), any(work_width, 1), any(work_width, 1)}},
      {column_sum, {}, {any(work_rows, work_width)}, {any(work_width, 1)}},
      {cast, {}, {any(work_rows, work_width)}, {zeros(work_rows, work_width)}, model::DataType::bf16},
      {swiglu_grad,
       {},
       {any(work_rows, work_width), any(work_rows, 2 * work_width), any(work_rows, 1)},
       {zeros(work_rows, 2 * work_width), zeros(work_rows, 1)}},
      {embedding_grad, {}, {any(work_rows, work_width), ids}, {any(50, work_width)}},
      {add_positions_grad, model::PositionAttributes{64}, {any(work_rows, work_width)}, {any(64, work_width)}},
      {unpermute, {}, {any(work_rows, work_width), map}, {zeros(70, work_width)}},
      {cast_transpose, {}, {any(work_rows, work_width)}, {zeros(work_width, work_rows)}},
      {cross_entropy,
       model::LossAttributes{.sequence_length = 64},
       {any(work_rows, 50), ids},
       {zeros(1, 1), zeros(work_rows, 1)}},
      {sum_of_squares, {}, {any(work_rows, work_width), any(70, 1)}, {zeros(1, 1)}},
  };
}

class SharedWork : public testing::TestWithParam<HostOperator> {};

INSTANTIATE_TEST_SUITE_P(Gemms, SharedWork, testing::ValuesIn([] {
                           model::Random random(11);
                           return gemms(random);
                         }()));
INSTANTIATE_TEST_SUITE_P(Rows, SharedWork, testing::ValuesIn([] {
                           model::Random random(12);
                           return row_wise(random);
                         }()));

void expect_same(const std::vector<FloatMatrix>& actual, const std::vector<FloatMatrix>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_LE(difference(actual[i], expected[i]), 1e-5) << i;
}

TEST_P(SharedWork, ManyCoresGiveWhatOneGives) {
  HostOperator host = GetParam();
  const std::vector<FloatMatrix> alone = run_on_host(host);
  for (const int cores : {2, 3}) {
    host.cores = cores;
    expect_same(run_on_host(host), alone);
  }
}

class SharedByStreams : public testing::TestWithParam<HostOperator> {};

INSTANTIATE_TEST_SUITE_P(Gemms, SharedByStreams, testing::ValuesIn([] {
                           model::Random random(13);
                           std::vector<HostOperator> all = gemms(random);
                           std::erase_if(all, [](const HostOperator& host) {
                             return host.kind != matmul && host.kind != grouped_matmul;
                           });
                           return all;
                         }()));

// Two streams do half of it each, one after the other: a stream does not write the other's half.
TEST_P(SharedByStreams, TwoHalvesGiveTheWhole) {
  HostOperator host = GetParam();
  for (const model::DataType type : {model::DataType::fp32, model::DataType::bf16}) {
    host.type = type;
    host.kernel.parts = 1;
    host.kernel.part = 0;
    host.writes = GetParam().writes;
    const std::vector<FloatMatrix> alone = run_on_host(host);
    host.kernel.parts = 2;
    const std::vector<FloatMatrix> half = run_on_host(host);
    EXPECT_GT(difference(half[0], alone[0]), 0.01);
    const Index untouched = half[0].rows() - 1;
    EXPECT_EQ(half[0].row(untouched), GetParam().writes[0].row(untouched));
    host.writes = half;
    host.kernel.part = 1;
    const std::vector<FloatMatrix> whole = run_on_host(host);
    EXPECT_LE(difference(whole[0], alone[0]), type == model::DataType::fp32 ? 1e-5 : 1.0 / 256);
  }
}

}  // namespace
}  // namespace plumbline::tests
