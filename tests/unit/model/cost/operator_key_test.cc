#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "model/cost/measured_operators.h"
#include "model/cost/work.h"
#include "model/layers/blocks.h"
#include "tests/support/costs.h"

namespace plumbline::model {
namespace {

// [4, 8] x [8, 2] in FP32.
Graph gemm() {
  Graph graph;
  graph.tensors = {{.name = "a", .shape = {{4}, {8}}, .type = DataType::fp32},
                   {.name = "b", .shape = {{8}, {2}}, .type = DataType::fp32},
                   {.name = "c", .shape = {{4}, {2}}, .type = DataType::fp32}};
  graph.operators = {{.kind = OperatorKind::matmul, .reads = {0, 1}, .writes = {2}, .attributes = MatmulAttributes{}}};
  return graph;
}

TEST(OperatorKey, NamesKindPhaseFormatAndShapes) {
  const Graph graph = gemm();
  EXPECT_EQ(operator_key(graph, graph.operators[0]), "matmul-F-fp32-4x8-8x2-to-4x2");
}

TEST(OperatorKey, DiffersWhereTimesDiffer) {
  const Graph plain = gemm();
  const std::string key = operator_key(plain, plain.operators[0]);
  const auto changed = [&](const auto& change) {
    Graph graph = gemm();
    change(graph);
    return operator_key(graph, graph.operators[0]);
  };
  const std::vector<std::string> others = {
      changed([](Graph& g) { g.operators[0].phase = Phase::I; }),
      changed([](Graph& g) { g.operators[0].kind = OperatorKind::grouped_matmul; }),
      changed([](Graph& g) { g.operators[0].attributes = MatmulAttributes{.transpose_a = true}; }),
      changed([](Graph& g) { g.operators[0].attributes = MatmulAttributes{.transpose_b = true}; }),
      changed([](Graph& g) { g.operators[0].attributes = MatmulAttributes{.accumulate = true}; }),
      changed([](Graph& g) { g.tensors[0].type = DataType::bf16; }),
      changed([](Graph& g) { g.tensors[2].type = DataType::bf16; }),
      changed([](Graph& g) { g.tensors[0].shape[0].size = 5; }),
      changed([](Graph& g) { g.operators[0].reads.push_back(2); }),
  };
  for (std::size_t i = 0; i < others.size(); ++i) {
    EXPECT_NE(others[i], key);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(others[i], others[j]);
  }
}

TEST(OperatorKey, DoesNotDependOnNamesOrOnNumbersOfTheArithmetic) {
  Graph graph = gemm();
  const std::string key = operator_key(graph, graph.operators[0]);
  graph.operators[0].name = "q_b";
  graph.tensors[0].name = "x";
  EXPECT_EQ(operator_key(graph, graph.operators[0]), key);
  graph.operators[0].kind = OperatorKind::rmsnorm;
  graph.operators[0].attributes = NormAttributes{.epsilon = 1e-5};
  const std::string norm = operator_key(graph, graph.operators[0]);
  graph.operators[0].attributes = NormAttributes{.epsilon = 1e-6};
  EXPECT_EQ(operator_key(graph, graph.operators[0]), norm);
}

TEST(OperatorKey, CountsEqualShapesInARow) {
  Graph graph = gemm();
  graph.operators[0] = {.kind = OperatorKind::add, .reads = {2, 2, 2}, .writes = {2}};
  EXPECT_EQ(operator_key(graph, graph.operators[0]), "add-F-fp32-3n4x2-to-4x2");
}

TEST(OperatorKey, AttentionNamesWhatShapesDoNotHold) {
  Graph graph = gemm();
  AttentionAttributes a{.query_heads = 2, .key_value_heads = 1, .query_key_dim = 4, .value_dim = 4};
  a.sequence_length = 4;
  const auto key = [&] {
    graph.operators[0] = {.kind = OperatorKind::attention, .reads = {0, 1}, .writes = {2}, .attributes = a};
    return operator_key(graph, graph.operators[0]);
  };
  const std::string whole = key();
  a.sequence_length = 2;
  const std::string shorter = key();
  a.window = 1;
  const std::string windowed = key();
  EXPECT_NE(whole, shorter);
  EXPECT_NE(shorter, windowed);
}

// In a block of a model, operators with one key do the same work on the same bytes, and keys are bare keys of TOML.
TEST(OperatorKey, EqualKeysMeanEqualWork) {
  for (const BlockKind kind : {BlockKind::dense_layer, BlockKind::moe_layer}) {
    for (const Precision precision : {Precision::fp8, Precision::bf16, Precision::fp32}) {
      const Graph graph = make_block(kind, tests::deepseek_rank(precision));
      std::map<std::string, const Operator*> known;
      for (const Operator& op : graph.operators) {
        const std::string key = operator_key(graph, op);
        EXPECT_TRUE(std::ranges::all_of(key, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; }))
            << key;
        const Operator& first = *known.try_emplace(key, &op).first->second;
        EXPECT_EQ(first.kind, op.kind);
        EXPECT_EQ(flops(graph, first, 1, true).value(), flops(graph, op, 1, true).value()) << key;
        EXPECT_EQ(bytes_moved(graph, first, 1).value(), bytes_moved(graph, op, 1).value()) << key;
      }
      EXPECT_GT(known.size(), graph.operators.size() / 2);
    }
  }
}

}  // namespace
}  // namespace plumbline::model
