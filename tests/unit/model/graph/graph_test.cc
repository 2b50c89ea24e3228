// Invariants of every block's graph, whatever its architecture, number format and recomputation.
#include "model/graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "model/cost/operator_class.h"
#include "tests/support/tiny_models.h"

namespace plumbline::tests {
namespace {

using model::BlockKind;
using model::Graph;
using model::Operator;
using model::Phase;
using model::Precision;
using model::RecomputeGroup;
using model::RecomputePolicy;

const std::vector<RecomputeGroup> kGroups = {RecomputeGroup::rmsnorm, RecomputeGroup::mla_up_projection,
                                             RecomputeGroup::swiglu,  RecomputeGroup::core_attention,
                                             RecomputeGroup::mlp,     RecomputeGroup::moe,
                                             RecomputeGroup::other};

std::vector<RecomputePolicy> policies() {
  std::vector<RecomputePolicy> result;
  for (RecomputeGroup group : kGroups) result.push_back({group});
  result.push_back({RecomputeGroup::rmsnorm, RecomputeGroup::mla_up_projection, RecomputeGroup::swiglu});
  result.emplace_back(kGroups.begin(), kGroups.end());
  return result;
}

class Blocks : public testing::TestWithParam<std::tuple<TinyModel, Precision>> {
 protected:
  Graph block(BlockKind kind, const RecomputePolicy& policy) const {
    const auto& [model, precision] = GetParam();
    return make_block(kind, tiny_context(model, {.precision = precision, .recompute = policy, .ranks = 2}));
  }
  const std::vector<BlockKind>& kinds() const { return std::get<0>(GetParam()).blocks; }
};

// Returns the activations that phase F leaves for the backward pass.
std::set<model::TensorId> saved(const Graph& graph) {
  std::set<model::TensorId> of_forward, result;
  for (const Operator& op : graph.operators) {
    if (op.phase == Phase::F) of_forward.insert(op.writes.begin(), op.writes.end());
    if (op.phase != Phase::F)
      std::copy_if(op.reads.begin(), op.reads.end(), std::inserter(result, result.end()),
                   [&](model::TensorId id) { return of_forward.contains(id); });
  }
  return result;
}

double saved_bytes(const Graph& graph) {
  double bytes = 0;
  for (model::TensorId id : saved(graph)) bytes += graph.tensor(id).bytes().value();
  return bytes;
}

// Returns whether dropping the outputs of `policy` removes any tensor that the backward pass needs.
bool drops_something(const Graph& plain, const RecomputePolicy& policy) {
  const std::set<model::TensorId> wanted = saved(plain);
  return std::any_of(plain.operators.begin(), plain.operators.end(), [&](const Operator& op) {
    return op.phase == Phase::F && policy.contains(op.group) &&
           std::any_of(op.writes.begin(), op.writes.end(), [&](model::TensorId id) { return wanted.contains(id); });
  });
}

std::vector<Operator> forward(const Graph& graph) {
  std::vector<Operator> result;
  std::copy_if(graph.operators.begin(), graph.operators.end(), std::back_inserter(result),
               [](const Operator& op) { return op.phase == Phase::F; });
  return result;
}

TEST_P(Blocks, EveryReadHasAWriterBeforeIt) {
  for (BlockKind kind : kinds()) {
    EXPECT_EQ(check(block(kind, {})), "");
    for (const RecomputePolicy& policy : policies()) EXPECT_EQ(check(block(kind, policy)), "");
  }
}

TEST_P(Blocks, OperatorsHaveANameOfTheirOwnInEachPhase) {
  for (BlockKind kind : kinds())
    for (const RecomputePolicy& policy : policies()) {
      const Graph graph = block(kind, policy);
      std::set<std::pair<Phase, std::string>> names;
      for (const Operator& op : graph.operators)
        EXPECT_TRUE(names.emplace(op.phase, op.name).second) << graph.name << ": " << op.name;
    }
}

std::vector<std::string> names(const Graph& graph, const std::vector<model::TensorId>& ids) {
  std::vector<std::string> result;
  for (const model::TensorId id : ids) result.push_back(graph.tensor(id).name);
  return result;
}

// But for casts whose second layout nothing would keep: they write the first only.
TEST_P(Blocks, RecomputationLeavesTheForwardPassAsItIs) {
  for (BlockKind kind : kinds()) {
    const Graph whole = block(kind, {});
    const std::vector<Operator> plain = forward(whole);
    for (const RecomputePolicy& policy : policies()) {
      const Graph other = block(kind, policy);
      const std::vector<Operator> again = forward(other);
      ASSERT_EQ(again.size(), plain.size());
      for (std::size_t i = 0; i < plain.size(); ++i) {
        EXPECT_EQ(again[i].name, plain[i].name);
        EXPECT_EQ(names(other, again[i].reads), names(whole, plain[i].reads));
        std::vector<std::string> written = names(whole, plain[i].writes);
        if (plain[i].kind == model::OperatorKind::cast) written.resize(again[i].writes.size());
        EXPECT_EQ(names(other, again[i].writes), written);
      }
    }
  }
}

TEST_P(Blocks, RecomputationShrinksWhatIsSaved) {
  for (BlockKind kind : kinds()) {
    const Graph plain = block(kind, {});
    for (const RecomputePolicy& policy : policies()) {
      const Graph graph = block(kind, policy);
      if (drops_something(plain, policy))
        EXPECT_LT(saved_bytes(graph), saved_bytes(plain)) << graph.name;
      else  // a cast may have written one layout less
        EXPECT_LE(saved_bytes(graph), saved_bytes(plain)) << graph.name;
    }
  }
}

TEST_P(Blocks, NoDroppedTensorIsSaved) {
  for (BlockKind kind : kinds())
    for (const RecomputePolicy& policy : policies()) {
      const Graph graph = block(kind, policy);
      const std::set<model::TensorId> kept = saved(graph);
      for (const Operator& op : forward(graph))
        for (model::TensorId id : op.writes)
          EXPECT_FALSE(policy.contains(op.group) && kept.contains(id)) << graph.name << ": " << op.name;
    }
}

// Copies of a tensor in another number format are dropped with it.
TEST_P(Blocks, DroppedTensorsAreNotSavedInAnotherFormat) {
  const std::vector<std::pair<RecomputeGroup, std::string>> dropped = {
      {RecomputeGroup::core_attention, "attention_out"}, {RecomputeGroup::mlp, "gate_up_out"}};
  for (const auto& [group, name] : dropped) {
    const Graph graph = block(BlockKind::dense_layer, {group});
    for (model::TensorId id : saved(graph)) EXPECT_FALSE(graph.tensor(id).name.starts_with(name)) << name;
  }
}

// Under the policy "full" the backward pass starts from the block's input alone.
TEST_P(Blocks, FullRecomputationSavesNothing) {
  const RecomputePolicy everything(kGroups.begin(), kGroups.end());
  for (BlockKind kind : kinds()) EXPECT_EQ(saved_bytes(block(kind, everything)), 0);
}

TEST_P(Blocks, EveryParameterHasAGradientThatIsWritten) {
  for (BlockKind kind : kinds()) {
    const Graph graph = block(kind, {});
    std::set<std::string> written;
    for (const Operator& op : graph.operators)
      for (model::TensorId id : op.writes)
        if (graph.tensor(id).role == model::Role::gradient) written.insert(graph.tensor(id).name);
    for (const model::Tensor& tensor : graph.tensors)
      EXPECT_TRUE(tensor.role != model::Role::parameter || written.contains("d_" + tensor.name)) << tensor.name;
  }
}

// A quantized gradient from other ranks is transposed exactly once per received token.
TEST_P(Blocks, ReceivedGradientsAreTransposedBeforeTheyAreGathered) {
  if (std::ranges::count(kinds(), BlockKind::moe_layer) == 0) return;
  const Graph graph = block(BlockKind::moe_layer, {});
  int gathered = 0;
  for (const Operator& op : graph.operators) {
    if (op.kind != model::OperatorKind::gather_columns) continue;
    EXPECT_EQ(op.phase, model::Phase::W);
    EXPECT_EQ(model::operator_class(graph, op), model::OperatorClass::gather_transpose);
    const auto transposed = std::ranges::find_if(
        graph.operators, [&](const Operator& other) { return std::ranges::count(other.writes, op.reads[0]) > 0; });
    ASSERT_NE(transposed, graph.operators.end());
    EXPECT_EQ(transposed->kind, model::OperatorKind::cast_transpose);
    EXPECT_EQ(transposed->phase, model::Phase::I);
    ++gathered;
  }
  EXPECT_EQ(gathered, model::is_block_scaled(std::get<1>(GetParam())) ? 1 : 0);
}

// The table and the output projection of the prediction module are the main model's.
TEST_P(Blocks, ThePredictionModuleSharesTheVocabularysParameters) {
  const Graph graph = block(BlockKind::multi_token_prediction, {});
  const model::Architecture& architecture = std::get<0>(GetParam()).architecture;
  std::vector<std::string> shared;
  for (const model::Tensor& tensor : graph.tensors) {
    if (tensor.role != model::Role::parameter || tensor.shape[0].size != architecture.vocabulary) continue;
    EXPECT_TRUE(tensor.shared) << tensor.name;
    shared.push_back(tensor.name);
  }
  EXPECT_EQ(shared, (std::vector<std::string>{"embedding", architecture.tied_embedding ? "embedding" : "output"}));
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Blocks,
                         testing::Combine(testing::ValuesIn(tiny_models()),
                                          testing::Values(Precision::bf16, Precision::fp8, Precision::mxfp8)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::string(to_string(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace plumbline::tests
