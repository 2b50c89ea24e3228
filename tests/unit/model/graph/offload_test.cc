// Offloading: which tensors are copied to the host and back, when, and the bytes left on the device.
#include "model/graph/offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::shipped;

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

TEST(Offload, NothingChangesWithoutIt) {
  for (const SlotTemplate& slot : compiled({"offload.activations=0"}).templates)
    for (const Segment& segment : slot.segments) EXPECT_FALSE(on_host_link(segment.stream));
}

}  // namespace
}  // namespace plumbline::model
