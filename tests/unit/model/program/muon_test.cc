// Muon: what it orthogonalises, computes, gathers and keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/cost/work.h"
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

// The matrices of a layer of Llama 3 8B, which has 32: qkv, o, gate and up, down.
constexpr double hidden = 4096, layers = 32, matrices_of_layer = 4;
constexpr double wide[] = {6144, 4096, 28672, 14336};

Result<Plan> plan_of(std::vector<std::string> overrides) {
  return read_plan(
      "[model]\nconfig = \"m.json\"\n[cluster]\ntopology = \"t\"\ngpus = 8\n[batch]\nsequence_length = 1024\n"
      "micro_batch_size = 1\nglobal_batch_size = 8\n[optimizer]\nkind = \"muon\"\n",
      "p.toml", overrides);
}

struct MuonStep {
  Plan plan;
  Layout layout;
  StepProgram program;
  explicit MuonStep(const std::vector<std::string>& overrides)
      : plan(plan_of(overrides).value()),
        layout(make_layout(plan, architecture("llama-3-8b")).value()),
        program(compile(plan, architecture("llama-3-8b"), layout).value()) {}
  const Graph& optimizer() const { return program.stage_optimizers[0]; }
};

double gemm_flops(const Graph& graph) {
  double sum = 0;
  for (const Operator& op : graph.operators)
    if (op.kind == OperatorKind::matmul) sum += flops(graph, op, 1, false).value();
  return sum;
}

// Five iterations of X X^T (2 m^2 n), A A (2 m^3) and B X (2 m^2 n) for m <= n.
double newton_schulz_flops() {
  double sum = 0;
  for (const double n : wide) sum += layers * 5 * (4 * hidden * hidden * n + 2 * hidden * hidden * hidden);
  return sum;
}

double elements_of_matrices() {
  double sum = 0;
  for (const double n : wide) sum += layers * hidden * n;
  return sum;
}

TEST(Muon, OrthogonalisesEveryMatrixOfTheLayers) {
  const MuonStep replicated({});
  EXPECT_DOUBLE_EQ(gemm_flops(replicated.optimizer()), newton_schulz_flops());
  EXPECT_EQ(gemm_flops(MuonStep({"optimizer.kind=adamw"}).optimizer()), 0);
  for (const Operator& op : replicated.optimizer().operators) EXPECT_NE(op.kind, OperatorKind::all_gather) << op.name;
}

// Of 128 matrices on 8 ranks a rank's shard meets 16 and one more.
TEST(Muon, ComputesWithTheMatricesThatAShardMeets) {
  const MuonStep sharded({"parallelism.zero_stage=1"});
  const double share = 1.0 / 8 + 1 / (layers * matrices_of_layer);
  const double part = gemm_flops(sharded.optimizer()) / newton_schulz_flops();
  EXPECT_GE(part, share);
  EXPECT_LT(part, 1.05 * share);  // whole GEMMs
  double gathered = 0;
  for (const Operator& op : sharded.optimizer().operators)
    if (op.name == "gather_moment_dense") gathered += sharded.optimizer().tensor(op.writes[0]).bytes().value();
  EXPECT_NEAR(gathered, 2 * share * elements_of_matrices(), 2);  // in BF16
}

// AdamW updates embedding, head and norms, with two moments; a matrix has one.
TEST(Muon, KeepsOneMomentOfAMatrix) {
  constexpr double parameters = 8030261248;
  const MuonStep muon({});
  const TrainingState state = training_state(muon.plan, muon.layout, muon.program, {0});
  EXPECT_EQ(state.others.optimizer, Bytes(12 * parameters - 4 * elements_of_matrices()));
  double by_muon = 0, by_adamw = 0;
  for (const Operator& op : muon.optimizer().operators)
    if (op.kind == OperatorKind::adamw)
      (op.name.starts_with("muon_") ? by_muon : by_adamw) += muon.optimizer().tensor(op.writes[0]).elements();
  EXPECT_EQ(by_muon, elements_of_matrices());
  EXPECT_EQ(by_adamw, parameters - elements_of_matrices());
}

TEST(Muon, OrthogonalisesEachExpert) {
  Plan plan = plan_of({}).value();
  Tensor experts{.name = "experts_down", .shape = {{8}, {4096}, {14336}}, .role = Role::parameter, .expert = true};
  EXPECT_TRUE(updated_by_muon(plan, experts));
  experts.frozen = true;
  EXPECT_FALSE(updated_by_muon(plan, experts));
  const auto updated = [&](const char* name, std::vector<Dimension> shape) {
    return updated_by_muon(plan, {.name = name, .shape = std::move(shape), .role = Role::parameter});
  };
  EXPECT_TRUE(updated("router", {{8}, {4096}}));
  EXPECT_FALSE(updated("shared_gate", {{1}, {4096}}));
  EXPECT_FALSE(updated("attention_norm", {{4096}}));
  EXPECT_FALSE(updated("embedding", {{128256}, {4096}}));
  EXPECT_FALSE(updated("output", {{128256}, {4096}}));
}

TEST(Muon, IsNotComputedByAHost) {
  const auto layout = make_layout(plan_of({"offload.optimizer=true"}).value(), architecture("llama-3-8b"));
  ASSERT_FALSE(layout);
  EXPECT_THAT(to_string(layout.error()), HasSubstr("offload.optimizer"));
}

}  // namespace
}  // namespace plumbline::model
