#include "model/graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/cost/operator_class.h"
#include "model/graph/offload.h"
#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/inputs.h"
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

// Invariants of every block's graph, whatever its architecture, number format and recomputation.

const std::vector<RecomputeGroup> kGroups = {RecomputeGroup::rmsnorm, RecomputeGroup::mla_up_projection,
                                             RecomputeGroup::swiglu,  RecomputeGroup::core_attention,
                                             RecomputeGroup::mlp,     RecomputeGroup::moe,
                                             RecomputeGroup::other};

std::vector<RecomputePolicy> policies() {
  std::vector<RecomputePolicy> result;
  for (RecomputeGroup group : kGroups) result.push_back({group});
  result.push_back({RecomputeGroup::rmsnorm, RecomputeGroup::mla_up_projection, RecomputeGroup::swiglu});
  result.emplace_back(kGroups.begin(), kGroups.end());
  result.push_back(result.back());
  result.back().insert(RecomputeGroup::early_stop);
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

// What lies behind the last result that gradients read does not run again, and all before it does.
TEST_P(Blocks, AnEarlyStopEndsWithAResultThatGradientsRead) {
  const auto again = [](const Graph& graph) {
    std::vector<Operator> result;
    std::ranges::copy_if(graph.operators, std::back_inserter(result), &Operator::replayed);
    return result;
  };
  RecomputePolicy policy(kGroups.begin(), kGroups.end());
  for (BlockKind kind : kinds()) {
    const std::vector<Operator> whole = again(block(kind, policy));
    RecomputePolicy early = policy;
    early.insert(RecomputeGroup::early_stop);
    const Graph graph = block(kind, early);
    const std::vector<Operator> some = again(graph);
    ASSERT_LE(some.size(), whole.size());
    for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i].name, whole[i].name);
    if (some.empty()) continue;
    EXPECT_TRUE(std::ranges::any_of(graph.operators,
                                    [&](const Operator& op) {
                                      return op.phase != Phase::F && !op.replayed &&
                                             std::ranges::find_first_of(op.reads, some.back().writes) != op.reads.end();
                                    }))
        << graph.name << ": " << some.back().name;
  }
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

namespace plumbline::model {
namespace {

using tests::shipped;

// Offloading: which tensors are copied to the host and back, when, and the bytes left on the device.

TensorId add_rows(Graph& graph, std::string name, std::int64_t rows, Role role = Role::activation) {
  graph.tensors.push_back({.name = std::move(name), .shape = {{rows}}, .type = DataType::fp32, .role = role});
  return static_cast<TensorId>(graph.tensors.size() - 1);
}

// All tensors are FP32. F keeps x (100 rows) and s (1000) for I, which W reads too, and k (40) for W alone; t lives in
// F only.
Graph layer() {
  Graph g;
  g.name = "layer";
  const TensorId x = add_rows(g, "x", 100, Role::input), t = add_rows(g, "t", 300), s = add_rows(g, "s", 1000),
                 k = add_rows(g, "k", 40), y = add_rows(g, "y", 100), dy = add_rows(g, "dy", 100, Role::input),
                 dx = add_rows(g, "dx", 100), w = add_rows(g, "w", 200, Role::parameter),
                 dw = add_rows(g, "dw", 200, Role::gradient);
  const auto op = [&g](std::string name, Phase phase, Section section, std::vector<TensorId> reads,
                       std::vector<TensorId> writes) {
    g.operators.push_back({.name = std::move(name),
                           .phase = phase,
                           .section = section,
                           .reads = std::move(reads),
                           .writes = std::move(writes)});
  };
  op("f1", Phase::F, Section::attention, {x, w}, {t});
  op("f2", Phase::F, Section::attention, {t}, {s});
  op("f3", Phase::F, Section::mlp, {s}, {k, y});
  op("i1", Phase::I, Section::mlp, {dy, s}, {});
  op("i2", Phase::I, Section::attention, {dy, x}, {dx});
  op("w1", Phase::W, Section::attention, {s, k, dy}, {dw});
  g.input = x;
  g.output = y;
  g.output_gradient = dy;
  g.input_gradient = dx;
  return g;
}

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> found;
  for (const Operator& op : graph.operators) found.push_back(op.name);
  return found;
}

TEST(Offload, CopiesOutAfterForwardAndBackBeforeThePhaseThatReadsFirst) {
  Graph graph = layer();
  offload(graph, 0.25);
  EXPECT_EQ(names(graph), (std::vector<std::string>{"f1", "f2", "f3", "offload_x", "offload_s", "offload_k", "fetch_s",
                                                    "fetch_x", "i1", "i2", "fetch_k", "w1"}));
  EXPECT_EQ(check(graph), "");
  // A quarter of 1000 rows of 4 B.
  const Operator& out = graph.operators[4];
  EXPECT_EQ(graph.tensor(out.writes[0]).bytes(), Bytes(1000));
  EXPECT_EQ(graph.tensor(out.writes[0]).role, Role::host);
  EXPECT_EQ(graph.operators[6].reads, out.writes);
  EXPECT_EQ(graph.operators[6].writes, out.reads);
}

TEST(Offload, LeavesTheEndsOfTheModelAndWhatPassesThrough) {
  Graph head = layer();
  for (Operator& op : head.operators) op.section = Section::head;
  offload(head, 1);
  EXPECT_EQ(names(head), names(layer()));
  Graph passing = layer();
  passing.output = passing.input;
  offload(passing, 1);
  for (const std::string& name : names(passing)) EXPECT_NE(name, "offload_x");
}

// Returns templates in the order of OpType, of one stage of so many layers.
StepProgram program(int layers, double share) {
  StepProgram program;
  program.blocks = {layer()};
  if (share > 0) offload(program.blocks[0], share);
  program.stage_kinds.resize(1);
  program.stage_kinds[0].blocks.assign(static_cast<std::size_t>(layers), 0);
  for (const OpType type : {OpType::F, OpType::B, OpType::I, OpType::W, OpType::FB}) {
    const bool forward = type == OpType::F || type == OpType::FB;
    program.templates.push_back(
        make_slot_template(type, forward ? 0 : -1, type == OpType::F ? -1 : 0, program.stage_kinds, program.blocks));
  }
  return program;
}

SlotMemory slot(const StepProgram& p, OpType type) { return slot_memories(p)[static_cast<std::size_t>(type)]; }

// {operator, activations, communication} of every moment.
using Levels = std::vector<std::tuple<std::string, double, double>>;
Levels levels(const StepProgram& p, OpType type) {
  Levels found;
  const SlotTemplate& slot_template = p.templates[static_cast<std::size_t>(type)];
  for (const SlotMoment& moment : slot(p, type).moments) {
    const Segment& segment = slot_template.segments[moment.segment];
    const Operator& op = p.blocks[segment.block].operators[segment.operators[moment.operator_index]];
    found.emplace_back(op.name, moment.activations.value(), moment.communication.value());
  }
  return found;
}

TEST(Offload, LeavesTheRestOnTheDevice) {
  // 400 B of x, 4000 of s and 160 of k are kept; a quarter of each stays until it is copied.
  const StepProgram p = program(1, 0.25);
  EXPECT_EQ(levels(p, OpType::F), (Levels{{"f1", 300, 100},
                                          {"f2", 3300, 1100},
                                          {"f3", 3420, 1140},
                                          {"offload_x", 3420, 1140},
                                          {"offload_s", 3420, 1040},
                                          {"offload_k", 3420, 40}}));
  EXPECT_EQ(slot(p, OpType::F).kept, Bytes(3420));
  // All tensors of the block are fetched when the slot begins and freed after the last reader: x after i2, the rest
  // after w1.
  EXPECT_EQ(levels(p, OpType::B), (Levels{{"fetch_s", 0, 1000},
                                          {"fetch_x", 0, 1100},
                                          {"fetch_k", 0, 1140},
                                          {"i1", 0, 1140},
                                          {"i2", 0, 1140},
                                          {"w1", -300, 1040}}));
  EXPECT_EQ(slot(p, OpType::B).kept, Bytes(-3420));
}

TEST(Offload, ApartWeightGradientsKeepWhatHasComeBack) {
  // I fetches 1000 B of s and 100 of x, and leaves all 4000 of s for W; x is freed (300 of it were there). W fetches k.
  const StepProgram p = program(1, 0.25);
  EXPECT_EQ(slot(p, OpType::I).kept - slot(program(1, 0), OpType::I).kept, Bytes(1000 + 100));
  EXPECT_EQ(slot(p, OpType::W).kept - slot(program(1, 0), OpType::W).kept, Bytes(40));
  EXPECT_EQ(slot(p, OpType::F).kept + slot(p, OpType::I).kept + slot(p, OpType::W).kept, Bytes(0));
}

TEST(Offload, HoldsWhatTwoBlocksCopy) {
  // y of a layer is x of the next: each of many layers keeps 400 + 4000 + 160 B, and the end has none.
  for (const int layers : {2, 5, 9}) {
    const StepProgram p = program(layers, 1);
    for (const OpType type : {OpType::F, OpType::B}) {
      double most = 0;
      for (const auto& [name, activations, communication] : levels(p, type)) {
        EXPECT_DOUBLE_EQ(activations, 0) << name;
        most = std::max(most, communication);
      }
      // The forward also has the x that the second layer has computed for the third.
      EXPECT_DOUBLE_EQ(most, 2 * 4560 + (type == OpType::F && layers > 2 ? 400 : 0)) << layers;
    }
  }
}

// Returns the segments of one stream and block, in launch order.
std::vector<std::uint16_t> segments(const SlotTemplate& slot, Stream stream, int block) {
  std::vector<std::uint16_t> found;
  for (std::size_t i = 0; i < slot.segments.size(); ++i)
    if (slot.segments[i].stream == stream && slot.segments[i].block_of_stage == block)
      found.push_back(static_cast<std::uint16_t>(i));
  return found;
}

bool waits(const SlotTemplate& slot, std::uint16_t segment, std::uint16_t other) {
  return std::ranges::find(slot.segments[segment].waits, other) != slot.segments[segment].waits.end();
}

TEST(Offload, StreamsWaitForTheirTensorsAndBuffers) {
  const StepProgram p = program(4, 1);
  const SlotTemplate& forward = p.templates[0];
  for (int block = 0; block < 4; ++block) {
    const auto kernels = segments(forward, Stream::compute, block), out = segments(forward, Stream::to_host, block);
    ASSERT_EQ(kernels.size(), 2u);  // attention, mlp
    ASSERT_EQ(out.size(), 2u);      // x and s, k
    EXPECT_TRUE(waits(forward, out[0], kernels[0]));
    EXPECT_TRUE(waits(forward, out[1], kernels[1]));
    if (block >= 2) {
      EXPECT_TRUE(waits(forward, kernels[0], segments(forward, Stream::to_host, block - 2).back()));
    }
  }
  const SlotTemplate& backward = p.templates[1];
  for (int block = 3; block >= 0; --block) {
    const auto kernels = segments(backward, Stream::compute, block), in = segments(backward, Stream::from_host, block);
    ASSERT_EQ(kernels.size(), 3u);  // mlp(B), attention(B), attention(W)
    ASSERT_EQ(in.size(), 3u);       // s, x, and k for W
    EXPECT_TRUE(waits(backward, kernels[0], in[0]));
    EXPECT_TRUE(waits(backward, kernels[1], in[1]));
    EXPECT_TRUE(waits(backward, kernels[2], in[2]));
    EXPECT_EQ(backward.segments[in[0]].waits.empty(), block >= 2);  // the first two come at once
    if (block < 2) {
      EXPECT_TRUE(waits(backward, in[0], segments(backward, Stream::compute, block + 2).back()));
    }
  }
}

StepProgram compiled(const std::vector<std::string>& overrides) {
  const Plan plan = load_plan(shipped("examples/llama-3-8b-64xh800.toml"), overrides).value();
  const Architecture architecture = load_architecture(shipped("examples/" + plan.model.config)).value();
  return compile(plan, architecture, make_layout(plan, architecture).value()).value();
}

TEST(Offload, UnderFullRecomputationOnlyTheInputsOfLayersGo) {
  for (const Graph& graph : compiled({"recompute.policy=full", "offload.activations=1"}).blocks) {
    std::vector<std::string> copies;
    for (const Operator& op : graph.operators)
      if (op.kind == OperatorKind::copy_to_host) copies.push_back(op.name);
    EXPECT_EQ(copies,
              graph.name == "dense_layer" ? std::vector<std::string>{"offload_layer_in"} : std::vector<std::string>{})
        << graph.name;
  }
}

// The down projection of a Llama is linear in its input, the gate, and no gradient reads what it or the sum behind it
// writes: these two run again to the end of the layer, and do not with an early stop.
TEST(Recomputation, EndsEarlyInFrontOfTheDownProjection) {
  const auto again = [](const char* early) {
    const StepProgram program = compiled({"recompute.policy=full", std::string("recompute.early_stop=") + early});
    std::vector<std::string> names;
    for (const Operator& op : std::ranges::find(program.blocks, "dense_layer", &Graph::name)->operators)
      if (op.replayed) names.push_back(op.name);
    return names;
  };
  std::vector<std::string> whole = again("false");
  const std::vector<std::string> early = again("true");
  ASSERT_EQ(whole.size(), early.size() + 2);
  EXPECT_EQ(early.back(), "swiglu");
  EXPECT_EQ(std::vector<std::string>(whole.end() - 2, whole.end()), (std::vector<std::string>{"down", "mlp_residual"}));
  whole.resize(early.size());
  EXPECT_EQ(whole, early);
}

TEST(Offload, NothingChangesWithoutIt) {
  for (const SlotTemplate& slot : compiled({"offload.activations=0"}).templates)
    for (const Segment& segment : slot.segments) EXPECT_FALSE(on_host_link(segment.stream));
}

}  // namespace
}  // namespace plumbline::model
