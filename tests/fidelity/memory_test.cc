// Memory in cases that estimators are known to get wrong, each compared with a figure worked out by hand.
#include "model/memory/memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "tests/support/inputs.h"

namespace plumbline::model {
namespace {

using tests::shipped;

struct Predicted {
  Plan plan;
  Layout layout;
  StepProgram program;
  Memory memory;
  TrainingState state(std::size_t rank) const {
    return training_state(plan, layout, program, memory.ranks[rank].stages);
  }
};

// Predicts on GPUs with the memory that an H800 reports and the shipped reserves.
Predicted predict(const std::string& example, const std::vector<std::string>& changes) {
  Predicted p;
  p.plan = load_plan(shipped("examples/" + example + ".toml"), changes).value();
  const Architecture architecture = load_architecture(shipped("examples/" + p.plan.model.config)).value();
  p.layout = make_layout(p.plan, architecture).value();
  p.program = compile(p.plan, architecture, p.layout).value();
  ClusterShape cluster;
  cluster.device.memory = Bytes(84943110144.0);
  cluster.device.reserve = {Bytes(569376768), Bytes(33554432), Bytes(335544320), Bytes(510154752), 0.05};
  p.memory = memory(p.plan, p.layout, p.program, cluster.device);
  return p;
}
Predicted deepseek(const std::vector<std::string>& changes = {}) { return predict("deepseek-v3-2048xh800", changes); }

const Tensor& tensor(const StepProgram& program, const std::string& block, const std::string& name) {
  for (const Graph& graph : program.blocks)
    for (const Tensor& found : graph.tensors)
      if (graph.name == block && found.name == name) return found;
  ADD_FAILURE() << block << " has no tensor " << name;
  return program.blocks.front().tensors.front();
}

TEST(MemoryCases, ExpertsAreDividedByTheExpertDegreeAlone) {
  // Each MoE layer has 256 / EP experts of 3 * 7168 * 2048 parameters, in FP8 blocks of 128 x 128 with a scale of 4 B.
  const double expert = 3.0 * 7168 * 2048 * (1 + 4 / (128.0 * 128));
  for (const int degree : {32, 64, 128}) {
    const Predicted p = deepseek({"parallelism.expert=" + std::to_string(degree)});
    // Rank 7 holds the stages 7 and 8, of 4 MoE layers each.
    EXPECT_DOUBLE_EQ(p.state(7).experts.parameters.value(), 8 * 256.0 / degree * expert) << degree;
    // Parameters outside the experts do not depend on the expert degree.
    EXPECT_EQ(p.state(7).others.parameters, deepseek().state(7).others.parameters) << degree;
  }
}

TEST(MemoryCases, ExpertsAreDividedByTheirOwnTensorDegreeAndNotByThatOfAttention) {
  const double experts = deepseek().state(7).experts.parameters.value();
  // Two ranks that divide heads and columns of all other parameters each hold whole experts.
  const std::vector<std::string> divided = {"parallelism.tensor=2", "parallelism.sequence=true"};
  const Predicted tensor = deepseek(divided);
  EXPECT_DOUBLE_EQ(tensor.state(7).experts.parameters.value(), experts);
  EXPECT_LT(tensor.state(7).others.parameters, deepseek().state(7).others.parameters);
  // Two ranks that divide the columns of an expert each hold half of it: 256 / 64 experts of half the width. Scales are
  // counted per element, so they are halved too.
  std::vector<std::string> both = divided;
  both.push_back("parallelism.expert_tensor=2");
  EXPECT_DOUBLE_EQ(deepseek(both).state(7).experts.parameters.value(), experts / 2);
  EXPECT_EQ(deepseek(both).state(7).others.parameters, tensor.state(7).others.parameters);
}

TEST(MemoryCases, TokensAreNotDividedByTheExpertDegree) {
  // A rank of a data-parallel replica has its own 4096 tokens for any EP, and its experts receive 8 rows for each of
  // them: as many as are sent, since all ranks are alike. Only the number of distinct tokens of those rows depends on
  // EP.
  for (const int degree : {8, 64, 128}) {
    const StepProgram program = deepseek({"parallelism.expert=" + std::to_string(degree)}).program;
    EXPECT_EQ(tensor(program, "moe_layer", "layer_in").shape[0].size, 4096) << degree;
    EXPECT_EQ(tensor(program, "moe_layer", "attention_out").shape[0].size, 4096) << degree;
    EXPECT_EQ(tensor(program, "moe_layer", "row_weights").shape[0].size, 8 * 4096) << degree;
    const std::int64_t received = tensor(program, "moe_layer", "received_indices").shape[0].size;
    EXPECT_GT(received, 4096) << degree;
    EXPECT_LE(received, 8 * 4096) << degree;
  }
}

TEST(MemoryCases, DeepSeeksRecomputationInFp8FitsIn80Gigabytes) {
  const Predicted published = deepseek();
  EXPECT_TRUE(published.memory.fits);
  EXPECT_LT(published.memory.peak_bytes, 80e9);
  // Each of its three parts saves memory, and without any of it the plan does not fit.
  const auto peak = [](const std::string& operators) {
    return deepseek({"recompute.operators=" + operators}).memory.peak_bytes;
  };
  EXPECT_GT(peak(R"(["mla_up_projection", "swiglu"])"), published.memory.peak_bytes);
  EXPECT_GT(peak(R"(["rmsnorm", "swiglu"])"), published.memory.peak_bytes);
  EXPECT_GT(peak(R"(["rmsnorm", "mla_up_projection"])"), published.memory.peak_bytes);
  EXPECT_FALSE(deepseek({"recompute.policy=none"}).memory.fits);
  // In BF16 the same recipe keeps two bytes for each byte of FP8.
  EXPECT_GT(deepseek({"precision.gemm=bf16", "precision.dispatch=bf16"}).memory.ranks[7].activations_peak_bytes,
            1.2 * published.memory.ranks[7].activations_peak_bytes);
}

TEST(MemoryCases, EmbeddingAndHeadStages) {
  // Llama 3 8B on two ranks: 16 layers of 4096 * (6144 + 4096 + 3 * 14336) + 2 * 4096 parameters each; the first rank
  // has the embedding of 128256 * 4096 besides, the second the head of the same size and the final norm of 4096.
  const Predicted p = predict("llama-3-8b-64xh800", {});
  const double layers = 16 * (4096.0 * (6144 + 4096 + 3 * 14336) + 2 * 4096), table = 128256.0 * 4096;
  EXPECT_DOUBLE_EQ(p.memory.ranks[0].parameters_bytes, 2 * (layers + table));
  EXPECT_DOUBLE_EQ(p.memory.ranks[1].parameters_bytes, 2 * (layers + table + 4096));
  // The head's logits of 8192 tokens, BF16, and their gradient are temporary tensors of its stage, whose peak is at
  // another moment than that of the first stage.
  EXPECT_GE(p.memory.ranks[1].temporary_bytes, 2 * 8192.0 * 128256);
  EXPECT_LT(p.memory.ranks[0].temporary_bytes, p.memory.ranks[1].temporary_bytes);
  // The two middle stages of four have neither.
  const Predicted four = predict("llama-3-8b-64xh800", {"parallelism.pipeline=4"});
  EXPECT_DOUBLE_EQ(four.memory.ranks[0].parameters_bytes - four.memory.ranks[1].parameters_bytes, 2 * table);
  EXPECT_DOUBLE_EQ(four.memory.ranks[3].parameters_bytes - four.memory.ranks[2].parameters_bytes, 2 * (table + 4096));
}

TEST(MemoryCases, DualPipeHoldsTwoStagesAndOneEmbedding) {
  const Predicted dual = deepseek();
  // With the layers of the plan, which another schedule would divide anew.
  const Predicted single =
      deepseek({"schedule.kind=1f1b", "schedule.layers_per_stage=[3,4,4,4,4,4,4,4,4,4,4,4,4,4,4,2]"});
  for (std::size_t rank = 0; rank < 16; ++rank) {
    // Each rank holds its stage and the mirrored one.
    EXPECT_EQ(dual.memory.ranks[rank].stages,
              (std::vector<std::int64_t>{static_cast<std::int64_t>(rank), 15 - static_cast<std::int64_t>(rank)}));
    EXPECT_DOUBLE_EQ(dual.memory.ranks[rank].parameters_bytes, dual.memory.ranks[15 - rank].parameters_bytes);
    if (rank == 0 || rank == 15) continue;
    const double both = single.memory.ranks[rank].parameters_bytes + single.memory.ranks[15 - rank].parameters_bytes;
    EXPECT_DOUBLE_EQ(dual.memory.ranks[rank].parameters_bytes, both);
  }
  // The first and the last stage lie on one rank: the embedding of 129280 * 7168, BF16, which multi-token prediction
  // also reads, is there once; on two ranks each has its own.
  const double table = 2 * 129280.0 * 7168;
  EXPECT_DOUBLE_EQ(dual.memory.ranks[0].parameters_bytes,
                   single.memory.ranks[0].parameters_bytes + single.memory.ranks[15].parameters_bytes - table);
  // Both copies are reduced together, so the optimizer states are divided over twice as many ranks.
  EXPECT_DOUBLE_EQ(dual.memory.ranks[7].optimizer_bytes,
                   (single.memory.ranks[7].optimizer_bytes + single.memory.ranks[8].optimizer_bytes) / 2);
}

}  // namespace
}  // namespace plumbline::model
