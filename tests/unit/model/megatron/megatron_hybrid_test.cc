// Hybrid models of Megatron-LM: their patterns, and the model and stages that a script with one gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "model/base/text_file.h"
#include "model/megatron/import.h"
#include "model/megatron/model_shape.h"
#include "tests/support/inputs.h"

namespace plumbline::model::megatron {
namespace {

using Counts = std::vector<std::int64_t>;
using tests::error_of, tests::value_of;

TEST(MegatronHybrid, PatternsAreParsed) {
  const auto whole = value_of(parse_hybrid_pattern("M-M*|[ME]*E/*E/*E"));
  EXPECT_EQ(whole.layers, "M-M*ME*E");
  EXPECT_EQ(whole.counts, (Counts{4, 4}));
  EXPECT_EQ(whole.prediction, "*E");
  EXPECT_EQ(whole.predictions, 2);
  EXPECT_EQ(hybrid_pattern_text(whole.layers, whole.counts, 2), "M-M*|ME*E/*E/*E");
  const auto plain = value_of(parse_hybrid_pattern("MM*/"));
  EXPECT_EQ(plain.counts, (Counts{3}));
  EXPECT_EQ(plain.predictions, 0);
  for (const char* wrong : {"", "MX", "/ME", "M/ME/MM", "M/M|M", "M M"})
    EXPECT_FALSE(parse_hybrid_pattern(wrong)) << wrong;
}

// By Megatron's rule the layers of Mamba-2 are cut into one section more than there are layers with attention: 8 in 3
// sections of 2.67, of which a half or more is a layer. MLPs stand behind equal shares of the rest.
TEST(MegatronHybrid, SharesAreSpreadEvenly) {
  EXPECT_EQ(hybrid_layers_of_shares(10, 0.2, 0), "MMM*MM*MMM");
  EXPECT_EQ(hybrid_layers_of_shares(10, 0, 0.5), "M-M-M-M-M-");
  EXPECT_EQ(hybrid_layers_of_shares(3, 0, 0), "MMM");
  EXPECT_EQ(hybrid_layers_of_shares(10, 0.7, 0.4), "");
  EXPECT_EQ(hybrid_layers_of_shares(0, 0, 0), "");
}

TEST(MegatronHybrid, LayersWithLinearAttentionAreNamedByANumberOrAList) {
  const std::vector<bool> fourth = {true, true, true, false, true, true, true, false};
  EXPECT_EQ(parse_linear_layers("4", 8), fourth);
  EXPECT_EQ(parse_linear_layers("([1]*3+[0])*2", 8), fourth);
  EXPECT_EQ(parse_linear_layers("[1,1,1,0]*2", 8), fourth);
  EXPECT_EQ(linear_layers_text(fourth), "4");
  EXPECT_EQ(linear_layers_text({false, true, false}), "[0,1,0]");
  for (const char* wrong : {"0", "[1]*3", "([1]*8", "[2]*8", "", "[1]*-8"})
    EXPECT_FALSE(parse_linear_layers(wrong, 8)) << wrong;
}

Result<ImportedScript> import_hybrid(const std::string& pattern, const std::string& more = "",
                                     const std::string& program = "pretrain_hybrid.py") {
  return import_script("torchrun --nproc_per_node 8 " + program + " --hybrid-layer-pattern '" + pattern +
                           "' --hidden-size 512 --num-attention-heads 8 --group-query-attention --num-query-groups 2 "
                           "--normalization RMSNorm --disable-bias-linear --seq-length 64 --max-position-embeddings 64 "
                           "--micro-batch-size 1 --vocab-size 1024 --bf16 " +
                           more + "\n",
                       "h.sh", {.config = "m.json"});
}

std::string notes_of(const ImportedScript& imported) {
  std::string notes;
  for (const Note& note : imported.notes) notes += note.text + "\n";
  return notes;
}

TEST(MegatronHybrid, AScriptGivesTheModelOfItsPattern) {
  const auto read =
      value_of(import_hybrid("MEM*-", "--num-experts 8 --moe-ffn-hidden-size 256 --position-embedding-type none"));
  EXPECT_EQ(read.config->model_type, "nemotron_h");
  EXPECT_EQ(read.shape.layers, 5);
  for (const char* line :
       {R"("hybrid_override_pattern": "MEM*-")", R"("mamba_num_heads": 16)", R"("n_routed_experts": 8)",
        R"("moe_intermediate_size": 256)", R"("n_shared_experts": 0)", R"("intermediate_size": 2048)"})
    EXPECT_THAT(read.config->json, testing::HasSubstr(line));  // 2 x 512 columns in heads of 64
  EXPECT_THAT(notes_of(read), testing::HasSubstr("a GELU is priced like a squared ReLU"));
  EXPECT_THAT(notes_of(read), testing::HasSubstr("--moe-router-score-function softmax: nemotron_h"));
  const auto older =
      value_of(import_hybrid("MM*", "--squared-relu --spec a.mamba_layer_specs mamba_stack_spec --num-layers 9"));
  EXPECT_EQ(older.shape.layers, 3);  // the pattern holds over --num-layers
  EXPECT_THAT(notes_of(older), testing::Not(testing::HasSubstr("not modelled")));
}

// Two layers of attention and an MLP are one of the plain types.
TEST(MegatronHybrid, PairsAreLayersOfPlainTypes) {
  const auto dense =
      value_of(import_hybrid("*-*-|*-*-", "--swiglu --position-embedding-type rope --pipeline-model-parallel-size 2"));
  EXPECT_EQ(dense.config->model_type, "llama");
  EXPECT_EQ(dense.shape.layers, 4);
  EXPECT_EQ(dense.plan.schedule.kind, "1f1b");
  const std::string experts = "--swiglu --num-experts 8 --moe-ffn-hidden-size 256 --position-embedding-type rope ";
  const auto linear = value_of(import_hybrid("GEGEGE*E", experts + "--moe-shared-expert-intermediate-size 256"));
  EXPECT_EQ(linear.config->model_type, "qwen3_next");
  EXPECT_EQ(linear.shape.linear_layers, "4");
  const auto latent =
      value_of(import_hybrid("+-+E+E", experts + "--q-lora-rank 64 --moe-router-score-function sigmoid"));
  EXPECT_EQ(latent.config->model_type, "deepseek_v3");
  EXPECT_THAT(latent.config->json, testing::HasSubstr("\"first_k_dense_replace\": 1"));
  const auto sparse = value_of(import_hybrid("D-DE", experts + "--q-lora-rank 64 --dsa-indexer-topk 32"));
  EXPECT_EQ(sparse.config->model_type, "deepseek_v32");
  EXPECT_THAT(sparse.config->json, testing::HasSubstr("\"index_topk\": 32"));
}

TEST(MegatronHybrid, SeparatorsDivideTheStages) {
  const std::string two = "--pipeline-model-parallel-size 2";
  const auto uneven = value_of(import_hybrid("MM*|M", two));
  EXPECT_EQ(uneven.plan.schedule.layers_per_stage.counts, (Counts{3, 1}));
  const auto chunks = import_hybrid("MM|M-|M*|MM", two);  // of equal size, so that no list is needed
  ASSERT_TRUE(chunks) << to_string(chunks.error());
  EXPECT_EQ(chunks->plan.schedule.virtual_stages, 2);
  EXPECT_EQ(chunks->plan.schedule.kind, "interleaved");
  const auto three = error_of(import_hybrid("MM|M-|M*", two));
  EXPECT_THAT(three.message, testing::HasSubstr("3 stages do not divide over 2 pipeline ranks"));
  const auto within = value_of(import_hybrid("*-*|-*-*-", two + " --swiglu --position-embedding-type rope"));
  EXPECT_THAT(notes_of(within), testing::HasSubstr("a stage ends between attention and its MLP"));
  EXPECT_FALSE(import_hybrid("MM|MM"));
}

TEST(MegatronHybrid, WhatNoTypeHasIsNamed) {
  for (const auto& [pattern, more, message] : {std::tuple("M-MG", "", "linear attention in layers of their own"),
                                               {"M+M-", "", "latent attention in layers of their own"},
                                               {"M-M*", "--swiglu", "gated MLPs in layers of their own"},
                                               {"M-MD", "", "sparse attention in layers of their own"},
                                               {"C-C-", "", "compressed attention"},
                                               {"K-KE", "", "Kimi Delta Attention"},
                                               {"+-*-", "", "latent attention and other layers"}}) {
    const auto read = import_hybrid(pattern, more);
    ASSERT_FALSE(read) << pattern;
    EXPECT_EQ(read.error().key, "--hybrid-layer-pattern");
    EXPECT_THAT(read.error().message, testing::HasSubstr(message));
  }
  EXPECT_THAT(import_hybrid("MX").error().message, testing::HasSubstr("'MX' is no pattern"));
  const auto modules = value_of(import_hybrid("MM*/MM"));
  EXPECT_THAT(notes_of(modules), testing::HasSubstr("--hybrid-layer-pattern: not modelled; it can change the cost: "
                                                    "prediction modules 'MM' are left out"));
}

// The model of a shipped config.json, as a script and back, on stages that a pattern divides.
TEST(MegatronHybrid, AnExportedHybridComesBack) {
  const std::string path = tests::shipped("examples/models/nemotron-3-super-120b-a12b.json");
  const auto shape = value_of(shape_of(read_text_file(path).value(), path, {}));
  Plan plan;
  plan.model.config = "model";
  plan.cluster = {.topology = "h100-dgx", .gpus = 32};
  plan.parallelism.pipeline = 4;
  plan.parallelism.expert = 8;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 64};
  plan.schedule.layers_per_stage.counts = {24, 22, 22, 20};
  const auto out = value_of(export_script(plan, shape));
  EXPECT_THAT(out.script, testing::HasSubstr("pretrain_hybrid.py"));
  EXPECT_THAT(out.script, testing::HasSubstr("/*E'"));
  const auto back = value_of(import_script(out.script, "s.sh", {.config = "model"}));
  EXPECT_EQ(back.plan.schedule.layers_per_stage.counts, plan.schedule.layers_per_stage.counts);
  EXPECT_EQ(back.shape.pattern, shape.pattern);
  EXPECT_EQ(back.shape.prediction_layers, 1);
  EXPECT_EQ(back.shape.expert_latent, 1024);
}

// What Megatron states since 2026 by arguments that were others before, and layers without experts before those with
// them.
TEST(MegatronHybrid, ArgumentsOf2026AreRead) {
  const auto whole = value_of(import_hybrid("MM*-", "--cuda-graph-impl full_iteration --optimizer dist_muon"));
  EXPECT_EQ(whole.plan.stack.graphs, (std::vector<std::string>{"full_iteration"}));
  EXPECT_EQ(whole.plan.optimizer.kind, "muon");
  EXPECT_THAT(notes_of(import_hybrid("MM*-", "--optimizer sgd").value()),
              testing::HasSubstr("--optimizer sgd: not modelled"));
  const auto dense = value_of(import_hybrid("*-*E*E", "--swiglu --num-experts 8 --position-embedding-type rope"));
  EXPECT_EQ(dense.config->model_type, "qwen3_moe");
  EXPECT_THAT(dense.config->json, testing::HasSubstr("\"mlp_only_layers\": [\n    0\n  ]"));
  EXPECT_THAT(notes_of(dense), testing::Not(testing::HasSubstr("--moe-layer-freq")));
}

// A script takes any model, also one that its arguments cannot describe, as which it is not written.
TEST(MegatronHybrid, AnyModelCanBeNamed) {
  const std::string path = tests::shipped("examples/models/minimax-m2.json");
  const std::string text = read_text_file(path).value();
  EXPECT_FALSE(shape_of(text, path, {}));
  const auto shape = value_of(nearest_shape_of(text, path, {}));
  EXPECT_EQ(shape.layers, 62);
  EXPECT_EQ(shape.experts, 256);
  EXPECT_FALSE(nearest_shape_of("{\"model_type\": \"resnet\"}", "r.json", {}));
}

}  // namespace
}  // namespace plumbline::model::megatron
