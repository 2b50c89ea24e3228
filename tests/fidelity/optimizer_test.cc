// The optimizer's graph is executable too: reduction, AdamW and gather run on every rank of the group.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "model/stage_optimizer.h"
#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {
namespace {

constexpr Index elements = 8;
constexpr std::size_t ranks = 2;

model::Graph optimizer(std::int64_t zero_stage) {
  model::Plan plan;
  plan.parallelism.zero_stage = zero_stage;
  model::Layout layout;
  layout.dense_group = ranks;
  model::Graph block;
  block.tensors.push_back({.name = "w", .shape = {{elements}}, .role = model::Role::parameter});
  return model::make_stage_optimizer(plan, layout, {block}, {{0}});
}

// Rank r's gradient of element i is (r + 1) * (i - 3.5); the master weights are i.
Interpreter started(const model::Graph& graph, bool sharded) {
  Interpreter interpreter(graph, ranks);
  const auto indices = Matrix(Eigen::VectorXd::LinSpaced(elements, 0, elements - 1));
  const Index shard = sharded ? elements / static_cast<Index>(ranks) : elements;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (model::TensorId id = 0; id < graph.tensors.size(); ++id) {
      const std::string& name = graph.tensors[id].name;
      const Index start = sharded ? static_cast<Index>(rank) * shard : 0;
      if (name.starts_with("d_")) interpreter.set(rank, id, (indices.array() - 3.5) * (static_cast<double>(rank) + 1));
      if (name.starts_with("master_")) interpreter.set(rank, id, indices.middleRows(start, shard));
    }
  return interpreter;
}

// In the first step both moments, bias taken out, are the gradient and its square, so the direction is
// g / (|g| + epsilon) with g = 3 (i - 3.5), summed over the two ranks; the weight decays by its share.
double expected(Index i) {
  const model::AdamwAttributes a;
  const double weight = static_cast<double>(i);
  const double g = 3 * (weight - 3.5);
  return weight - a.learning_rate * (g / (std::abs(g) + a.epsilon) + a.weight_decay * weight);
}

class Optimizer : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(ZeroStages, Optimizer, testing::Values(0, 1));

TEST_P(Optimizer, EveryRankEndsWithTheWholeUpdatedParameter) {
  const bool sharded = GetParam() >= 1;
  const model::Graph graph = optimizer(GetParam());
  ASSERT_EQ(model::check(graph), "");
  Interpreter interpreter = started(graph, sharded);
  interpreter.run(model::Phase::W);
  const model::TensorId result = graph.operators.back().writes[0];  // gathered, or updated whole
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Matrix& parameter = interpreter.value(rank, result);
    ASSERT_EQ(parameter.rows(), elements);
    for (Index i = 0; i < elements; ++i) EXPECT_NEAR(parameter(i, 0), expected(i), 1e-12) << "rank " << rank;
  }
}

}  // namespace
}  // namespace plumbline::tests
