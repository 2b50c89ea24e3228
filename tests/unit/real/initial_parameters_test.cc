// Initial values of parameters: the parts of every division are those of one whole, and numbers do not depend on
// threads.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "real/executor/parallel.h"
#include "real/executor/step/parameter_part.h"

namespace plumbline::real {
namespace {

using model::Tensor;

Tensor parameter(const std::string& name, std::vector<std::int64_t> shape, bool expert = false) {
  Tensor tensor{.name = name, .role = model::Role::parameter, .expert = expert};
  for (const std::int64_t size : shape) tensor.shape.push_back({size});
  return tensor;
}

std::vector<float> initial(const Tensor& whole, const Tensor& held, const Division& division) {
  model::Architecture architecture;
  architecture.heads = 8;
  architecture.key_value_heads = 4;
  architecture.head_dim = 4;
  std::vector<float> values(7, -1);  // as an earlier call left them
  initial_part(architecture, whole, held, division, "layer 1 attention/" + whole.name, values);
  const std::vector<float> all = [&] {
    std::vector<float> result;
    initial_part(architecture, whole, whole, {}, "layer 1 attention/" + whole.name, result);
    return result;
  }();
  EXPECT_EQ(values, part_of(architecture, whole, held, division, all)) << whole.name;
  return values;
}

TEST(InitialParameters, PartsAreThoseOfTheWhole) {
  for (const std::int64_t rank : {0, 1}) {
    const Division two{2, rank, 2, 1 - rank, 2, rank};
    EXPECT_EQ(initial(parameter("qkv", {64, 24}), parameter("qkv", {32, 24}), two).size(), 32U * 24);
    EXPECT_EQ(initial(parameter("output", {24, 32}), parameter("output", {24, 16}), two).size(), 24U * 16);
    EXPECT_EQ(initial(parameter("norm", {24}), parameter("norm", {24}), two), std::vector<float>(24, 1));
    EXPECT_EQ(initial(parameter("qkv_bias", {64}), parameter("qkv_bias", {32}), two), std::vector<float>(32, 0));
    const Tensor experts = parameter("experts_gate_up", {4, 16, 24}, true);
    EXPECT_EQ(initial(experts, parameter("experts_gate_up", {2, 8, 24}, true), two).size(), 2U * 8 * 24);
    EXPECT_EQ(initial(experts, parameter("experts_gate_up", {2, 16, 24}, true), {1, 0, 2, rank}).size(), 2U * 16 * 24);
  }
}

// More numbers than one thread gets: a normal distribution of variance 1 / columns without repeated numbers.
TEST(InitialParameters, AreNormalAndAllDifferent) {
  constexpr std::int64_t rows = 1024, columns = 400;
  const Tensor matrix = parameter("down", {rows, columns});
  std::vector<float> values;
  initial_part({}, matrix, matrix, {}, "layer 2 mlp/down", values);
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(rows * columns);
  // The mean of 4e5 numbers is within 5 / sqrt(4e5) deviations, the variance within 5 * sqrt(2 / 4e5).
  EXPECT_NEAR(sum / count * std::sqrt(columns), 0, 8e-3);
  EXPECT_NEAR(squares / count * columns, 1, 1.2e-2);
  const std::vector<float> first(values.begin(), values.begin() + columns);
  for (std::int64_t row = 1; row < rows; ++row)
    EXPECT_FALSE(std::equal(first.begin(), first.end(), values.begin() + row * columns)) << row;
  std::vector<float> other;
  initial_part({}, matrix, matrix, {}, "layer 3 mlp/down", other);
  EXPECT_NE(other, values);
}

TEST(InitialParameters, AnyNumberOfASequenceCanBeHadAlone) {
  model::Random sequence(17);
  for (std::uint64_t drawn = 0; drawn < 5; ++drawn) EXPECT_EQ(model::Random(17, drawn).next(), sequence.next());
}

TEST(InParallel, EveryElementIsVisitedOnce) {
  for (const std::int64_t count : {0, 1, 7, 1000})
    for (const std::int64_t least : {1, 3, 2000}) {
      std::vector<int> visits(static_cast<std::size_t>(count));
      in_parallel(count, least, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(visits.size(), 1)) << count << " by " << least;
    }
}

}  // namespace
}  // namespace plumbline::real
