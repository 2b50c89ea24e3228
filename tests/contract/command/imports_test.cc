// Files of other programs that the command imports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/command.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

using testing::HasSubstr;

// The form of Megatron-LM's tests/functional_tests/test_cases/*/model_config.yaml: switches are true, several words of
// an argument are in brackets, and layers of experts are a list that is no such bracket.
constexpr const char* functional_test =
    "ENV_VARS:\n"
    "  NCCL_ALGO: Ring\n"
    "MODEL_ARGS:\n"
    "  --num-layers: 14 # original 61 layers\n"
    "  --hidden-size: 7168\n"
    "  --ffn-hidden-size: 18432\n"
    "  --num-attention-heads: 128\n"
    "  --vocab-size: 129280\n"
    "  --tensor-model-parallel-size: 2\n"
    "  --sequence-parallel: true\n"
    "  --pipeline-model-parallel-size: 4\n"
    "  --pipeline-model-parallel-layout: Et*2|(tt|)*5t|tL\n"
    "  --expert-model-parallel-size: 16\n"
    "  --expert-tensor-parallel-size: 1\n"
    "  --num-experts: 64\n"
    "  --moe-layer-freq: ([0]*3+[1]*11)\n"
    "  --moe-ffn-hidden-size: 2048\n"
    "  --moe-router-topk: 8\n"
    "  --multi-latent-attention: true\n"
    "  --q-lora-rank: 1536\n"
    "  --kv-lora-rank: 512\n"
    "  --qk-head-dim: 128\n"
    "  --qk-pos-emb-head-dim: 64\n"
    "  --v-head-dim: 128\n"
    "  --normalization: RMSNorm\n"
    "  --swiglu: true\n"
    "  --disable-bias-linear: true\n"
    "  --position-embedding-type: rope\n"
    "  --untie-embeddings-and-output-weights: true\n"
    "  --seq-length: 4096\n"
    "  --micro-batch-size: 1\n"
    "  --global-batch-size: 512\n"
    "  --bf16: true\n"
    "  --overlap-grad-reduce: false\n"
    "  --recompute-granularity: selective\n"
    "  --recompute-modules: \"[layernorm moe_act]\"\n"
    "  --cuda-graph-impl: transformer_engine\n"
    "  --cuda-graph-modules: \"[attn moe_router]\"\n"
    "  --load: ${CHECKPOINT_LOAD_PATH}\n"
    "  --use-sharp: true\n"
    "METRICS:\n"
    "  - \"iteration-time\"\n";

TEST(Imports, AFunctionalTestOfMegatronIsItsScript) {
  const TemporaryDirectory folder;
  const std::string file = folder.write("model_config.yaml", functional_test).string();
  const std::string out = (folder.path() / "plan.toml").string();
  const CommandResult result = plumbline("import megatron " + file + " --gpus 128 -o " + out);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr(file + ": the arguments are taken for those of pretrain_gpt.py"));
  EXPECT_THAT(result.errors, HasSubstr(file + ":40: --use-sharp: not modelled"));
  const std::string plan = model::read_text_file(out).value();
  for (const char* line : {"gpus = 128", "tensor = 2", "sequence = true", "pipeline = 4", "expert = 16",
                           "expert_tensor = 1", "layers_per_stage = [2, 2, 2, 2, 2, 2, 1, 1]", "virtual_stages = 2",
                           "global_batch_size = 512", "gradient_reduce = false", "policy = \"selective\"",
                           "operators = [\"rmsnorm\", \"swiglu\"]", "graphs = [\"attn\", \"moe_router\"]"})
    EXPECT_THAT(plan, HasSubstr(line));
}

TEST(Imports, AnotherYamlIsNoFunctionalTest) {
  const TemporaryDirectory folder;
  const std::string file = folder.write("other.yaml", "a: 1\n").string();
  const CommandResult result = plumbline("import megatron " + file + " -o " + (folder.path() / "plan.toml").string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("has no MODEL_ARGS"));
}

}  // namespace
}  // namespace plumbline::tests
