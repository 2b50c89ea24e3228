// Adapters next to frozen parameters: what is counted, kept, reduced and gathered, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "model/architecture/metrics.h"
#include "model/memory/memory.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "model/program/data_parallel.h"
#include "tests/support/architectures.h"

namespace plumbline::model {
namespace {

using testing::HasSubstr;
using tests::architecture;

constexpr Adapters all_linear{.rank = 16, .attention = true, .mlp = true, .experts = true};

Plan tuned(const std::vector<std::string>& overrides, const std::string& config = "llama-3-8b") {
  const std::string text = "[model]\nconfig = \"" + config +
                           ".json\"\n[cluster]\ntopology = \"t\"\ngpus = 8\n[batch]\nsequence_length = 1024\n"
                           "micro_batch_size = 1\nglobal_batch_size = 8\n[training]\nmethod = \"lora\"\n";
  return read_plan(text, "p.toml", overrides).value();
}

struct Compiled {
  Plan plan;
  Layout layout;
  StepProgram program;
  explicit Compiled(const std::vector<std::string>& overrides)
      : plan(tuned(overrides)),
        layout(make_layout(plan, architecture("llama-3-8b")).value()),
        program(compile(plan, architecture("llama-3-8b"), layout).value()) {}
  TrainingState state() const { return training_state(plan, layout, program, {0}); }
};

Graph layer(const std::vector<std::string>& overrides) {
  const Compiled compiled(overrides);
  return compiled.program.blocks[compiled.program.stage_kinds[0].blocks[1]];
}

std::set<std::string> names(const Graph& graph, Phase phase) {
  std::set<std::string> found;
  for (const Operator& op : graph.operators)
    if (op.phase == phase) found.insert(op.name);
  return found;
}

bool read_after_forward(const Graph& graph, const std::string& tensor) {
  return std::ranges::any_of(graph.operators, [&](const Operator& op) {
    return op.phase != Phase::F &&
           std::ranges::any_of(op.reads, [&](TensorId id) { return graph.tensor(id).name == tensor; });
  });
}

// r (in + out) of q, k, v, o, gate, up and down in 32 layers: 16 * 32 * ((4096 + 4096) + 2 (4096 + 1024) +
// (4096 + 4096) + 3 (4096 + 14336)) = 41,943,040, which PEFT prints of this model
// (model.print_trainable_parameters() with r = 16 on all linear layers).
TEST(Adapters, AreCountedAsPeftCountsThem) {
  const Architecture llama = architecture("llama-3-8b");
  const ModelMetrics full = model_metrics(llama, 1024), lora = model_metrics(llama, 1024, all_linear);
  EXPECT_FALSE(full.trained_parameters.has_value());
  EXPECT_EQ(lora.trained_parameters, 41943040);
  EXPECT_EQ(lora.parameters, full.parameters);
  // A frozen matrix has two GEMMs in place of three, an adapter's all three; the embedding and 65 norms are no
  // matrices.
  const double matrices = full.parameters - 128256.0 * 4096 - 65 * 4096;
  EXPECT_NEAR(full.flops_per_token - lora.flops_per_token, 2 * matrices - 6 * 41943040, 1e-6 * full.flops_per_token);
}

// Experts have adapters of their own: 8 experts with three matrices of 4096 x 14336, the attention of Llama-3-8B.
TEST(Adapters, OfExpertsAreCountedOnlyWhereTheyAreNamed) {
  const Architecture mixtral = architecture("mixtral-8x7b");
  Adapters adapters = all_linear;
  const double attention = 16.0 * 32 * ((4096 + 4096) + 2 * (4096 + 1024) + (4096 + 4096));
  EXPECT_EQ(model_metrics(mixtral, 1024, adapters).trained_parameters, attention + 16.0 * 32 * 8 * 3 * (4096 + 14336));
  adapters.experts = false;
  EXPECT_EQ(model_metrics(mixtral, 1024, adapters).trained_parameters, attention);
}

TEST(Adapters, LeaveNoGradientsOfFrozenParameters) {
  const Graph graph = layer({});
  std::set<std::string> gradients;
  for (const Tensor& tensor : graph.tensors)
    if (tensor.role == Role::gradient) gradients.insert(tensor.name);
  EXPECT_EQ(gradients.size(), 14u);  // two of each adapter: q, k, v, o, gate, up, down
  for (const std::string& name : names(graph, Phase::W)) EXPECT_THAT(name, HasSubstr("_adapter"));
  for (const char* frozen : {"qkv_dgrad", "o_dgrad", "gate_up_dgrad", "down_dgrad"})
    EXPECT_TRUE(names(graph, Phase::I).contains(frozen)) << frozen;
  // A norm's gain gets none, its input does.
  for (const Operator& op : graph.operators)
    if (op.kind == OperatorKind::rmsnorm_grad) {
      EXPECT_EQ(op.writes.size(), 1u);
    }
}

// Adapters read what the frozen GEMM next to them reads; other inputs of frozen GEMMs are not kept.
TEST(Adapters, KeepTheInputsThatTheyRead) {
  const Graph both = layer({}), attention = layer({"training.targets=[\"attention\"]"});
  EXPECT_TRUE(read_after_forward(both, "swiglu_out"));
  EXPECT_FALSE(read_after_forward(attention, "swiglu_out"));
  EXPECT_FALSE(read_after_forward(attention, "mlp_norm_out"));
  EXPECT_TRUE(read_after_forward(attention, "attention_norm_out"));
}

// The gradient of an input that W and its adapters read is summed over tensor ranks once.
TEST(Adapters, AddNoCollectivesToThoseOfTheirMatrices) {
  const auto collectives = [](const std::vector<std::string>& overrides) {
    std::multiset<std::string> found;
    for (const Operator& op : layer(overrides).operators)
      if (op.kind == OperatorKind::all_reduce || op.kind == OperatorKind::all_gather ||
          op.kind == OperatorKind::reduce_scatter)
        found.insert(op.name);
    return found;
  };
  for (const char* sequence : {"parallelism.sequence=false", "parallelism.sequence=true"}) {
    const auto full = collectives({"parallelism.tensor=2", sequence, "training.method=full"});
    EXPECT_FALSE(full.empty());
    EXPECT_EQ(collectives({"parallelism.tensor=2", sequence}).size(), full.size()) << sequence;
  }
}

// Next to quantized matrices adapters have 16 bits, and so has what both read: tokens are gathered before they are
// cast, as Transformer Engine does where it returns what a norm wrote. No frozen matrix keeps a quantized input.
TEST(Adapters, NextToQuantizedMatricesReadAndGather16Bits) {
  for (const char* format : {"precision.gemm=mxfp8", "precision.gemm=fp8_tensor"}) {
    const Graph graph = layer({"parallelism.tensor=2", "parallelism.sequence=true", format, "precision.scaling=delayed",
                               "precision.parameters=fp8", "precision.weight_cast=step"});
    ASSERT_EQ(check(graph), "") << format;
    bool adapters = false;
    for (const Operator& op : graph.operators) {
      if (op.kind == OperatorKind::all_gather || op.kind == OperatorKind::reduce_scatter) {
        EXPECT_EQ(graph.tensor(op.reads[0]).type, DataType::bf16) << format << " " << op.name;
      }
      if (op.kind != OperatorKind::matmul) continue;
      const bool adapter = op.name.find("_adapter") != std::string::npos;
      adapters = adapters || adapter;
      EXPECT_EQ(is_quantized(graph.tensor(op.reads[0]).type), !adapter) << format << " " << op.name;
    }
    EXPECT_TRUE(adapters);
    for (const Tensor& tensor : graph.tensors) {
      if (tensor.role != Role::parameter || tensor.shape.size() < 2) continue;
      EXPECT_EQ(is_quantized(tensor.type), tensor.frozen) << format << " " << tensor.name;
    }
  }
}

// Nothing of the embedding is computed in the backward pass; the head passes its gradient on.
TEST(Adapters, LeaveTheEndsOfTheModelFrozen) {
  const Compiled compiled({});
  const auto& blocks = compiled.program.stage_kinds[0].blocks;
  const Graph& embedding = compiled.program.blocks[blocks.front()];
  EXPECT_TRUE(names(embedding, Phase::I).empty() && names(embedding, Phase::W).empty());
  const Graph& head = compiled.program.blocks[blocks.back()];
  EXPECT_TRUE(names(head, Phase::W).empty());
  EXPECT_TRUE(names(head, Phase::I).contains("output_dgrad"));
}

// 4 bits, a byte per 64 elements and 4 bytes per 64 * 256 of them.
TEST(Adapters, OfQloraAreNextToWeightsInNf4) {
  EXPECT_NEAR(8 * bytes_per_element(DataType::nf4), 4.127, 0.0005);
  const Graph graph = layer({"training.method=qlora"});
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != Role::parameter || tensor.shape.size() < 2) continue;
    EXPECT_EQ(tensor.type, tensor.frozen ? DataType::nf4 : DataType::bf16) << tensor.name;
  }
  for (const char* gemm : {"qkv", "o", "gate_up", "down"}) {
    EXPECT_TRUE(names(graph, Phase::F).contains("dequantize_" + std::string(gemm) + "_weight_bf16"));
    EXPECT_TRUE(names(graph, Phase::I).contains("dequantize_" + std::string(gemm) + "_weight_again"));
  }
  EXPECT_FALSE(read_after_forward(graph, "down_weight_bf16"));  // no copy is kept
}

// 2 bytes of each parameter are on every rank, with 4 of gradients, 4 of master weights and 8 of moments of adapters.
TEST(Adapters, AloneHaveGradientsAndStates) {
  const TrainingState whole = Compiled({}).state();
  EXPECT_EQ(whole.others.parameters, Bytes(2 * (8030261248.0 + 41943040)));
  EXPECT_EQ(whole.others.gradients, Bytes(4 * 41943040.0));
  EXPECT_EQ(whole.others.optimizer, Bytes(12 * 41943040.0));
  EXPECT_EQ(whole.counts.updated, 41943040);
  const TrainingState sharded = Compiled({"parallelism.zero_stage=3"}).state();
  EXPECT_EQ(sharded.others.parameters - sharded.gathered_parameters, Bytes(2 * (8030261248.0 + 41943040) / 8));
  EXPECT_EQ(sharded.others.optimizer, Bytes(12 * 41943040.0 / 8));
}

double elements(const Compiled& compiled, bool frozen) {
  double sum = 0;
  const StageKind& stage = compiled.program.stage_kinds[0];
  for (const StageUnit& unit : stage_units(compiled.plan, compiled.program.blocks, stage))
    for (const UnitPiece& piece : unit.pieces) sum += piece.frozen == frozen ? piece.elements : 0;
  return sum;
}

TEST(Adapters, AloneAreReducedWhileFsdpGathersAll) {
  const Compiled replicated({"parallelism.zero_stage=1"}), sharded({"parallelism.zero_stage=3"});
  EXPECT_EQ(elements(replicated, false), 41943040);
  EXPECT_EQ(elements(replicated, true), 0);
  EXPECT_EQ(elements(sharded, false), 41943040);
  EXPECT_EQ(elements(sharded, true), 8030261248);
  const Graph& optimizer = sharded.program.stage_optimizers[0];
  double gathered = 0, reduced = 0;
  for (const Operator& op : optimizer.operators) {
    if (op.kind == OperatorKind::all_gather) gathered += optimizer.tensor(op.writes[0]).elements();
    if (op.kind == OperatorKind::reduce_scatter) reduced += optimizer.tensor(op.reads[0]).elements();
  }
  EXPECT_EQ(gathered, 8030261248 + 41943040.0);
  EXPECT_EQ(reduced, 41943040);
  for (const auto& rank : sharded.program.data_parallel)  // embedding and head, which are frozen, reduce nothing
    for (const DataParallelCollectives& one : rank)
      if (one.kind == DataParallelCollectives::Kind::reduce) {
        EXPECT_FALSE(sharded.program.stage_units[0][static_cast<std::size_t>(one.unit)].reduce.empty());
      }
}

std::string refusal(const std::vector<std::string>& overrides, const std::string& model = "llama-3-8b") {
  const auto layout = make_layout(tuned(overrides, model), architecture(model));
  return layout ? "" : to_string(layout.error());
}

TEST(Adapters, KeysWithoutEffectAreWarnedOf) {
  const auto warnings = [](const std::vector<std::string>& overrides) {
    const Plan plan = tuned(overrides);
    return layout_warnings(plan, make_layout(plan, architecture("llama-3-8b")).value());
  };
  EXPECT_THAT(warnings({"training.method=full", "training.rank=8"}), testing::ElementsAre(HasSubstr("training.rank")));
  EXPECT_THAT(warnings({"training.method=full"}), testing::IsEmpty());
  EXPECT_THAT(warnings({"training.rank=8"}), testing::IsEmpty());
}

TEST(Adapters, AreRefusedWhereTheyAreNotPredicted) {
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({"precision.gemm=mxfp8"}), "");
  EXPECT_EQ(refusal({"training.targets=all-linear"}), "");
  EXPECT_THAT(refusal({"training.targets=[\"experts\"]"}), HasSubstr("training.targets"));
  EXPECT_THAT(refusal({"training.targets=[\"mlp\"]"}, "mixtral-8x7b"), HasSubstr("no MLP but experts"));
  EXPECT_EQ(refusal({"training.targets=[\"mlp\"]"}, "deepseek-v2-lite"), "");
  EXPECT_THAT(refusal({"training.method=qlora", "precision.gemm=fp8"}), HasSubstr("training.method"));
  EXPECT_EQ(refusal({"precision.gemm=mxfp8", "parallelism.tensor=2", "parallelism.sequence=true"}), "");
  EXPECT_EQ(refusal({"training.targets=all-linear", "precision.gemm=mxfp8"}, "mixtral-8x7b"), "");
  EXPECT_THAT(refusal({"training.targets=all-linear", "precision.gemm=fp8", "precision.dispatch=fp8"}, "mixtral-8x7b"),
              HasSubstr("precision.dispatch"));
}

}  // namespace
}  // namespace plumbline::model
