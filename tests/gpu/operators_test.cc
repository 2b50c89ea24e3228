// Every operator on a GPU compared with the interpreter's, on the blocks of models in the formats of plans.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/gpu/gpu.h"
#include "tests/gpu/operator_comparison.h"
#include "tests/support/aligned_models.h"
#include "tests/support/operator_blocks.h"

namespace plumbline::tests {
namespace {

using model::Graph;
using model::Precision;

// Errors of: FP32 sums of a few hundred terms; operands of 8 significant bits, with intermediate values rounded alike;
// and tensors of 4 significant bits, whose error is at most 2^-4 / sqrt(3) where roundings are evenly spread.
constexpr double fp32_operators = 1e-5, bf16_operators = 1e-2, fp8_operators = 5e-2;

std::vector<Graph> widened_all(std::vector<Graph> graphs) {
  for (Graph& graph : graphs) graph = widened(graph);
  return graphs;
}

class GpuOperators : public GpuTest {
 protected:
  void compare(const std::vector<Graph>& graphs, const ComparisonOptions& options) {
    for (const Graph& graph : graphs)
      if (!OperatorComparison(graph, device(), options).run()) return;
  }
};

TEST_F(GpuOperators, Fp32) {
  compare(widened_all(operator_blocks(aligned_models(), Precision::fp32, aligned_context)),
          {"fp32", aligned_sequence_length, false, fp32_operators, fp8_operators});
}

TEST_F(GpuOperators, Bf16) {
  compare(operator_blocks(aligned_models(), Precision::bf16, aligned_context),
          {"bf16", aligned_sequence_length, false, bf16_operators, fp8_operators});
}

TEST_F(GpuOperators, Fp8) {
  compare(operator_blocks(aligned_models(), Precision::fp8, aligned_context),
          {"fp8", aligned_sequence_length, false, bf16_operators, fp8_operators});
}

// At sizes that are multiples of no tile the result is right, or the operator refuses them with a reason.
TEST_F(GpuOperators, OddSizesInFp32) {
  compare(widened_all(operator_blocks(tiny_models(), Precision::fp32, tiny_operator_context)),
          {"fp32, odd", tiny_sequence_length, true, fp32_operators, fp8_operators});
}

TEST_F(GpuOperators, OddSizesInBf16) {
  compare(operator_blocks(tiny_models(), Precision::bf16, tiny_operator_context),
          {"bf16, odd", tiny_sequence_length, true, bf16_operators, fp8_operators});
}

TEST_F(GpuOperators, OfAnOptimizer) {
  compare({widened(optimizer_block())}, {"fp32", 1, false, fp32_operators, fp8_operators});
  compare({optimizer_block()}, {"fp16", 1, false, bf16_operators, fp8_operators});
}

// This test needs no GPU: the blocks above contain every kind that a GPU computes.
TEST(GpuOperatorKinds, AllAreInTheComparedBlocks) {
  std::vector<Graph> graphs = {optimizer_block()};
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8})
    for (Graph& graph : operator_blocks(aligned_models(), precision, aligned_context))
      graphs.push_back(std::move(graph));
  std::set<model::OperatorKind> compared;
  for (const Graph& graph : graphs)
    for (const model::Operator& op : graph.operators) compared.insert(op.kind);
  for (int kind = 0; kind <= static_cast<int>(model::OperatorKind::copy_to_device); ++kind) {
    const auto known = static_cast<model::OperatorKind>(kind);
    EXPECT_TRUE(real::cuda::function_of(known) == nullptr || compared.contains(known)) << to_string(known);
  }
}

}  // namespace
}  // namespace plumbline::tests
