// The optimizer's graph is executed too: reduction, AdamW and gather run on every rank of the group.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "model/plan/plan.h"
#include "model/program/data_parallel.h"
#include "model/program/program.h"
#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {
namespace {

constexpr Index elements = 8;
constexpr std::size_t ranks = 2;
constexpr double loss_scale = 1024;

struct Case {
  std::string name;
  std::function<void(model::Plan&)> change;
};

model::Graph optimizer(const Case& c, bool& sharded) {
  model::Plan plan;
  plan.cluster.gpus = ranks;
  plan.optimizer.gradient_clipping = false;
  c.change(plan);
  sharded = plan.parallelism.zero_stage >= 1;
  model::Layout layout;
  layout.dense_group = ranks;
  model::Graph block;
  block.tensors.push_back({.name = "w", .shape = {{elements}}, .role = model::Role::parameter});
  return model::make_stage_optimizer(plan, layout, model::stage_units(plan, {block}, {{0}})).graph;
}

bool has(const model::Graph& graph, model::OperatorKind kind) {
  for (const model::Operator& op : graph.operators)
    if (op.kind == kind) return true;
  return false;
}

// Rank r's gradient of element i is (r + 1) * (i - 3.5); the (master) weights are i.
Interpreter started(const model::Graph& graph, bool sharded) {
  Interpreter interpreter(graph, ranks);
  const bool scaled = has(graph, model::OperatorKind::unscale);
  const auto indices = Matrix(Eigen::VectorXd::LinSpaced(elements, 0, elements - 1));
  const Index shard = sharded ? elements / static_cast<Index>(ranks) : elements;
  bool master = false;
  for (const model::Tensor& tensor : graph.tensors) master = master || tensor.name.starts_with("master_");
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (model::TensorId id = 0; id < graph.tensors.size(); ++id) {
      const std::string& name = graph.tensors[id].name;
      const Index start = sharded ? static_cast<Index>(rank) * shard : 0;
      if (name.starts_with("d_"))
        interpreter.set(rank, id,
                        (indices.array() - 3.5) * (static_cast<double>(rank) + 1) * (scaled ? loss_scale : 1));
      if (name.starts_with(master ? "master_" : "updated_"))
        interpreter.set(rank, id, indices.middleRows(start, shard));
      if (name == "loss_scale") interpreter.set(rank, id, Matrix::Constant(1, 1, loss_scale));
    }
  return interpreter;
}

// In the first step both moments, without their bias, are the gradient and its square, so the direction is g / (|g| +
// epsilon) with g = 3 (i - 3.5), summed over the two ranks, and weight decay adds its share. Clipping divides g by its
// norm: the sum of (i - 3.5)^2 over 0..7 is 42, so the norm is sqrt(9 * 42), above the limit of 1.
double expected(Index i, bool clipped) {
  const model::AdamwAttributes a;
  const double weight = static_cast<double>(i);
  const double g = 3 * (weight - 3.5) / (clipped ? std::sqrt(9 * 42.0) : 1);
  return weight - a.learning_rate * (g / (std::abs(g) + a.epsilon) + a.weight_decay * weight);
}

class Optimizer : public testing::TestWithParam<Case> {};

std::function<void(model::Plan&)> zero(std::int64_t stage, const std::function<void(model::Plan&)>& more = {}) {
  return [stage, more](model::Plan& plan) {
    plan.parallelism.zero_stage = stage;
    if (more) more(plan);
  };
}

void clips(model::Plan& plan) { plan.optimizer.gradient_clipping = true; }
void offloads(model::Plan& plan) { plan.offload.optimizer = true; }
void averages(model::Plan& plan) { plan.optimizer.ema = "host"; }
void scales(model::Plan& plan) { plan.precision.gemm = model::Precision::fp16; }
void casts(model::Plan& plan) { plan.precision.gradient_reduce = model::Precision::bf16; }
void keeps_no_master(model::Plan& plan) { plan.precision.master_weights = model::Precision::bf16; }

INSTANTIATE_TEST_SUITE_P(Plans, Optimizer,
                         testing::Values(Case{"zero_0", zero(0)}, Case{"zero_1", zero(1)}, Case{"zero_2", zero(2)},
                                         Case{"zero_3", zero(3)}, Case{"clipped_zero_1", zero(1, clips)},
                                         Case{"offloaded_zero_1", zero(1, offloads)},
                                         Case{"offloaded_zero_0", zero(0, offloads)},
                                         Case{"averaged", zero(1, averages)}, Case{"fp16", zero(2, scales)},
                                         Case{"cast", zero(0, casts)}, Case{"pure_bf16", zero(1, keeps_no_master)}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Optimizer, EveryRankEndsWithTheWholeUpdatedParameter) {
  bool sharded = false;
  const model::Graph graph = optimizer(GetParam(), sharded);
  ASSERT_EQ(model::check(graph), "");
  Interpreter interpreter = started(graph, sharded);
  interpreter.run(model::Phase::W);
  // Parameters are gathered, copied back from the host, or updated whole by the last operator but the moving average's
  // copy.
  const bool averaged =
      has(graph, model::OperatorKind::copy_to_host) && !has(graph, model::OperatorKind::copy_to_device);
  const model::TensorId result = graph.operators[graph.operators.size() - (averaged ? 2 : 1)].writes[0];
  const bool clipped = has(graph, model::OperatorKind::sum_of_squares);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Matrix& parameter = interpreter.value(rank, result);
    ASSERT_EQ(parameter.rows(), elements);
    for (Index i = 0; i < elements; ++i) EXPECT_NEAR(parameter(i, 0), expected(i, clipped), 1e-12) << "rank " << rank;
  }
}

TEST(OptimizerGraph, WithoutClippingThereIsNoNorm) {
  bool sharded = false;
  const model::Graph graph = optimizer({"", zero(1)}, sharded);
  EXPECT_FALSE(has(graph, model::OperatorKind::sum_of_squares));
  EXPECT_FALSE(has(graph, model::OperatorKind::all_reduce));
}

}  // namespace
}  // namespace plumbline::tests
