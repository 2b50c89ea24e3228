// Tests plans written as launch scripts of Megatron-LM and read back, for every shipped example and for made-up plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/base/text_file.h"
#include "model/megatron/arguments.h"
#include "model/megatron/detail/fields.h"
#include "model/megatron/detail/importer.h"
#include "model/megatron/import.h"
#include "model/megatron/model_shape.h"
#include "model/megatron/rules.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/plan/plan_fields.h"
#include "model/plan/stage_split.h"
#include "tests/support/inputs.h"

namespace plumbline::model::megatron {
namespace {

using tests::error_of, tests::value_of;
using tests::shipped;

// Returns all keys as text, without those that a script cannot contain.
std::string keys_of(Plan plan) {
  plan.model = {};
  plan.inference = {};
  plan.run.phases.clear();
  return to_toml(plan);
}

ModelShape shape_in(const std::string& path, const ConfigOverrides& overrides = {}) {
  return value_of(shape_of(value_of(read_text_file(path)), path, overrides));
}

TEST(Megatron, EveryShippedPlanComesBack) {
  int plans = 0;
  for (const std::string& name : names_in_folder(shipped("examples"), ".toml")) {
    const auto plan = value_of(load_plan(shipped("examples/" + name + ".toml"), {}));
    if (plan.rollout.given) continue;  // a script has neither its engines nor the lengths of its samples
    const ModelShape shape = shape_in(shipped("examples/" + plan.model.config), plan.model.overrides);
    const auto out = export_script(plan, shape);
    ASSERT_TRUE(out) << name << to_string(out.error());
    const auto back = import_script(out->script, name, {.config = "model.json"});
    ASSERT_TRUE(back) << name << to_string(back.error());
    EXPECT_EQ(keys_of(back->plan), keys_of(plan)) << name;
    // The model read from the script gives the same arguments again, but for a vocabulary that Megatron pads.
    ModelShape unpadded = back->shape;
    unpadded.vocabulary = shape.vocabulary;
    const auto again = export_script(back->plan, unpadded);
    ASSERT_TRUE(again) << name << to_string(again.error());
    EXPECT_EQ(again->script, out->script) << name;
    EXPECT_EQ(*back->shape.vocabulary % (128 * plan.parallelism.tensor), 0) << name;
    ++plans;
  }
  EXPECT_GE(plans, 3);
}

TEST(Megatron, EveryShippedModelComesBackAsItsConfig) {
  for (const std::string& name : names_in_folder(shipped("examples/models"), ".json")) {
    const std::string path = shipped("examples/models/" + name + ".json");
    const auto text = read_text_file(path);
    const auto shape = shape_of(*text, path, {});
    if (!shape) continue;  // Megatron cannot describe the type; the next test covers this error
    const auto config = config_of(*shape);
    ASSERT_TRUE(config) << name << to_string(config.error());
    const auto back = shape_of(config->json, name, {});
    ASSERT_TRUE(back) << name << to_string(back.error());
    std::vector<std::string> before, after;
    visit_shape(*shape, [&](std::string_view key, const auto& field) {
      before.push_back(std::string(key) + testing::PrintToString(field));
    });
    visit_shape(*back, [&](std::string_view key, const auto& field) {
      after.push_back(std::string(key) + testing::PrintToString(field));
    });
    EXPECT_EQ(before, after) << name;
    EXPECT_THAT(config->notes, testing::Each(testing::Not(testing::HasSubstr("which is priced")))) << name;
  }
}

// Returns the notes of a script with these arguments, or the reason why it is refused.
std::string notes_of(const std::string& arguments) {
  const auto read = import_script(
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 "
      "--seq-length 8 --micro-batch-size 1 " +
          arguments + "\n",
      "s.sh", {.config = "m.json"});
  if (!read) return to_string(read.error());
  std::string notes;
  for (const Note& note : read->notes) notes += note.text + "\n";
  return notes;
}

TEST(Megatron, WhatTheNearestTypeHasOtherwiseIsNoted) {
  const std::string experts = notes_of(
      "--bf16 --swiglu --num-experts 8 --moe-shared-expert-intermediate-size 1024 "
      "--normalization RMSNorm --qk-layernorm");
  EXPECT_THAT(experts, testing::HasSubstr("--qk-layernorm: qwen2_moe, which is priced, has none\n"));
  EXPECT_THAT(experts, testing::HasSubstr("--position-embedding-type learned_absolute: qwen2_moe, which is priced, has "
                                          "rope\n"));
  EXPECT_THAT(experts, testing::HasSubstr("no --disable-bias-linear: qwen2_moe, which is priced, has it\n"));
  EXPECT_THAT(experts, testing::HasSubstr("--moe-grouped-gemm is not given"));
  const std::string plain = notes_of("--bf16 --group-query-attention --num-query-groups 2 --kv-channels 96");
  EXPECT_THAT(plain, testing::HasSubstr("--num-query-groups 2: gpt2, which is priced, has 8\n"));
  EXPECT_THAT(plain, testing::HasSubstr("--kv-channels 96: gpt2, which is priced, has 64\n"));
  EXPECT_THAT(notes_of("--bf16"), testing::Not(testing::HasSubstr("which is priced")));
}

TEST(Megatron, ArgumentsThatDependOnOthers) {
  EXPECT_THAT(notes_of("--bf16 --fp16"), testing::HasSubstr("--fp16: not together with --bf16"));
  EXPECT_THAT(notes_of("--bf16 --exp-avg-dtype bf16"), testing::HasSubstr("--use-precision-aware-optimizer"));
  EXPECT_THAT(notes_of("--fp8-format hybrid"), testing::HasSubstr("--bf16 is not given"));
  EXPECT_THAT(notes_of("--bf16 --recompute-method uniform"), testing::HasSubstr("without a granularity"));
  EXPECT_THAT(notes_of("--bf16 --recompute-granularity full"),
              testing::HasSubstr("full needs --recompute-method uniform or block"));
  EXPECT_THAT(notes_of("--bf16 --recompute-granularity full --recompute-method block"),
              testing::HasSubstr("full needs --recompute-num-layers N"));
  EXPECT_THAT(notes_of("--bf16 --recompute-granularity full --recompute-method uniform"),
              testing::HasSubstr("full needs --recompute-num-layers N"));
  EXPECT_THAT(notes_of("--bf16 --recompute-method block"), testing::HasSubstr("without a granularity"));
  EXPECT_THAT(notes_of("--bf16 --transformer-impl local"), testing::HasSubstr("--transformer-impl: local"));
  EXPECT_THAT(notes_of("--bf16 --reset-attention-mask"), testing::HasSubstr("not modelled; it can change the cost"));
  // The vocabulary is that of the tokenizer of pretrain_gpt.py, unless another one is named.
  EXPECT_THAT(notes_of("--bf16"), testing::HasSubstr("--tokenizer-type GPT2BPETokenizer: vocabulary of 50257 assumed"));
  EXPECT_THAT(notes_of("--bf16 --tokenizer-type HuggingFaceTokenizer"), testing::HasSubstr("give it with --args"));
}

TEST(Megatron, OtherModelTypesAreRefused) {
  const auto shape = error_of(shape_of("{\"model_type\": \"resnet\"}", "r.json", {}));
  tests::expect_error(shape, ErrorKind::input, "r.json", 0, "model_type", "resnet");
  EXPECT_FALSE(shape_of("[]", "r.json", {}));
  EXPECT_FALSE(shape_of("{\"model_type\": \"llama\"}", "r.json", {}));
}

// Returns a plan that Megatron's arguments describe completely: comments only name the topology.
Plan expressible_plan() {
  const auto pick = [](std::vector<std::int64_t> choices) { return *rc::gen::elementOf(choices); };
  Plan plan;
  plan.model.config = "model";
  plan.cluster.topology = "h100-dgx";
  auto& degrees = plan.parallelism;
  degrees = {.tensor = pick({1, 2, 8}),
             .sequence = *rc::gen::arbitrary<bool>(),
             .context = pick({1, 2}),
             .pipeline = pick({1, 2, 8, 16}),
             .expert = pick({1, 8, 64}),
             .expert_tensor = pick({1, 2}),
             .zero_stage = pick({0, 1, 2, 3})};
  plan.cluster.gpus = degrees.tensor * degrees.context * degrees.pipeline * pick({1, 3, 64});
  plan.batch = {
      .sequence_length = pick({1024, 4096}), .micro_batch_size = pick({1, 4}), .global_batch_size = pick({64, 15360})};
  plan.schedule.virtual_stages = pick({1, 2, 3});
  if (plan.schedule.virtual_stages > 1)
    plan.schedule.kind = *rc::gen::elementOf(std::vector<std::string>{"interleaved", "interleaved-overlap"});
  plan.precision.gemm =
      *rc::gen::elementOf(std::vector{Precision::fp8, Precision::bf16, Precision::fp16, Precision::fp32,
                                      Precision::mxfp8, Precision::nvfp4, Precision::fp8_tensor});
  if (plan.precision.gemm == Precision::fp8_tensor) {
    plan.precision.scaling = *rc::gen::elementOf(std::vector<std::string>{"current", "delayed"});
    plan.precision.weight_cast = "step";
  }
  plan.attention.kernel = *rc::gen::elementOf(std::vector<std::string>{"fused", "cudnn", "flash2", "unfused"});
  if (!is_quantized(plan.precision.gemm)) plan.precision.dispatch = plan.precision.combine = plan.precision.gemm;
  plan.precision.gradients = *rc::gen::elementOf(std::vector{Precision::bf16, Precision::fp32});
  plan.precision.master_weights = *rc::gen::elementOf(std::vector{Precision::fp16, Precision::fp32});
  plan.precision.optimizer_moments = *rc::gen::elementOf(std::vector{Precision::fp8, Precision::bf16, Precision::fp32});
  plan.recompute.policy = *rc::gen::elementOf(std::vector<std::string>{"none", "selective", "full"});
  if (plan.recompute.policy == "selective")
    plan.recompute.operators = *rc::gen::nonEmpty(rc::gen::unique<std::vector<std::string>>(rc::gen::elementOf(
        std::vector<std::string>{"rmsnorm", "mla_up_projection", "swiglu", "core_attention", "mlp", "moe"})));
  plan.overlap.gradient_reduce = *rc::gen::arbitrary<bool>();
  plan.overlap.parameter_gather = degrees.zero_stage == 0 || *rc::gen::arbitrary<bool>();
  plan.overlap.gradient_bucket_bytes = static_cast<double>(4 * pick({10'000'000, 12'345'678}));
  plan.parallelism.context_method = *rc::gen::elementOf(std::vector<std::string>{"ring", "all-gather"});
  plan.stack.dispatcher = *rc::gen::elementOf(std::vector<std::string>{"deepep", "hybridep", "alltoall", "allgather"});
  if (*rc::gen::arbitrary<bool>()) plan.routing.capacity_factor = static_cast<double>(pick({1, 3})) / 2;
  if (plan.routing.capacity_factor && *rc::gen::arbitrary<bool>()) plan.routing.pad_to_capacity = true;
  if (*rc::gen::arbitrary<bool>())
    plan.run.tokens = static_cast<double>(plan.batch.sequence_length * pick({1, 3'613'281'250}));
  return plan;
}

RC_GTEST_PROP(Megatron, PlansThatArgumentsExpressComeBackFromArgumentsAlone, ()) {
  Plan plan = expressible_plan();
  static const ModelShape shape = shape_in(shipped("examples/models/deepseek-v3.json"));
  // Plans that name their stages have the remainder of an uneven spread on the first ones. Naming an even spread is the
  // same as naming none.
  const std::int64_t stages = plan.parallelism.pipeline * plan.schedule.virtual_stages;
  for (std::int64_t stage = 0; stage < stages; ++stage)
    plan.schedule.layers_per_stage.counts.push_back(shape.layers / stages + (stage < shape.layers % stages ? 1 : 0));
  if (plan.schedule.layers_per_stage.counts == even_layer_counts(shape.layers, stages))
    plan.schedule.layers_per_stage = {.counts = {}, .even = stages > 1};
  const auto out = export_script(plan, shape);
  RC_ASSERT(out.has_value());
  const auto back = import_script(out->script, "s.sh", {.config = "model"});
  RC_ASSERT(back.has_value());
  RC_ASSERT(keys_of(back->plan) == keys_of(plan));
  // Without tokens the script trains some steps, which are no part of the plan.
  RC_ASSERT((out->script.find("# plumbline: ") == std::string::npos) == plan.run.tokens.has_value());
  // With tensor parallelism the vocabulary is padded further.
  RC_ASSERT(out->notes.empty() || plan.parallelism.tensor > 1 || !plan.run.tokens);
}

// Any plan is read back the same: comments hold what no argument can express.
RC_GTEST_PROP(Megatron, PlansThatArgumentsCannotExpressComeBackThroughComments, ()) {
  Plan plan = expressible_plan();
  plan.cluster.topology = "h800-multi-rail";
  plan.cluster.nic_gbps = 200;
  plan.schedule.kind = *rc::gen::elementOf(std::vector<std::string>{"dualpipe", "zb-v", "gpipe", "1f1b"});
  plan.schedule.layers_per_stage.counts =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 9));
  // Even splits, and those that are even but for their ends, are Megatron's own, which refuses them for other layers.
  for (const std::int64_t layers : {9, 8, 7, 6}) plan.schedule.layers_per_stage.counts.push_back(layers);
  plan.precision.dispatch = Precision::fp8;
  plan.recompute.operators = {"swiglu", "rmsnorm"};
  plan.overlap.gradient_bucket_bytes = 12345.5;
  plan.overlap.communication_sms = *rc::gen::inRange(0, 40);
  plan.routing.rows_per_rank = {1, 2, 3};
  static const ModelShape shape = shape_in(shipped("examples/models/deepseek-v3.json"));
  const auto out = export_script(plan, shape);
  RC_ASSERT(out.has_value());
  RC_ASSERT(!out->notes.empty());
  const auto back = import_script(out->script, "s.sh", {.config = "model"});
  RC_ASSERT(back.has_value());
  RC_ASSERT(keys_of(back->plan) == keys_of(plan));
}

Given arguments_in(const std::string& script) {
  const auto read = read_script(script, {.path = "s.sh", .definitions = {{"NNODES", "128"}}});
  std::vector<Note> notes;
  const auto launch = read ? find_launch(*read, notes) : std::nullopt;
  EXPECT_TRUE(launch);
  return launch ? group_arguments(launch->arguments, notes) : Given();
}

TEST(Megatron, ScriptsKeepTheArgumentsThatAreUnderstood) {
  // Megatron's defaults are not written. The vocabulary is, padded and without the token of NullTokenizer; latent
  // attention has no such channels.
  const std::vector<std::string> left_out = {"--kv-channels", "--make-vocab-size-divisible-by", "--vocab-size"};
  FieldTexts defaults = texts_of(megatron_defaults());
  defaults.merge(texts_of(ModelShape()));
  for (const std::string name : {"gpt3-175b", "mixtral-8x7b", "deepseek-v3"}) {
    const auto script = value_of(read_text_file(shipped("tests/golden/inputs/megatron/" + name + ".sh")));
    const auto read = value_of(import_script(script, name, {.definitions = {{"NNODES", "128"}}, .config = "m.json"}));
    const auto written = value_of(export_script(read.plan, read.shape));
    const Given before = arguments_in(script), after = arguments_in(written.script);
    int compared = 0;
    for (const auto& [argument, given] : before.all()) {
      const Argument* known = find_argument(argument);
      const bool direct = known != nullptr && (known->meaning == Meaning::value || known->meaning == Meaning::flag);
      if (!direct || std::ranges::find(left_out, argument) != left_out.end()) continue;
      // A number may be written in two forms: 1e-6 and 1e-06.
      const auto norm = [](const std::string& text) { return text == "1e-6" ? std::string("1e-06") : text; };
      EXPECT_EQ(norm(after.value(argument).value_or(defaults.at(std::string(known->key)))),
                norm(before.value(argument).value()))
          << name << argument;
      ++compared;
    }
    EXPECT_GE(compared, 10) << name;
  }
}

TEST(Megatron, TheTableNamesKeysThatExistAndIsDocumented) {
  std::vector<std::string> keys;
  Plan plan;
  ModelShape shape;
  const auto collect = [&keys](std::string_view key, const auto&) { keys.emplace_back(key); };
  visit_fields(plan, collect);
  visit_shape(shape, collect);
  const auto page = value_of(read_text_file(shipped("docs/megatron.md")));
  std::map<std::string_view, int> names;
  for (const Argument& argument : arguments()) {
    EXPECT_EQ(++names[argument.name], 1) << argument.name;
    if (argument.key.empty()) continue;
    EXPECT_THAT(keys, testing::Contains(std::string(argument.key)));
    EXPECT_NE(page.find("`" + std::string(argument.name) + "`"), std::string::npos) << argument.name;
  }
}

TEST(Megatron, TheOverlapOfTensorParallelismComesBack) {
  Plan plan;
  plan.model.config = "model";
  plan.cluster = {.topology = "h100-dgx", .gpus = 16};
  plan.parallelism.tensor = 8;
  plan.parallelism.sequence = true;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 64};
  plan.overlap.tensor = true;
  plan.offload.optimizer = true;
  plan.recompute.policy = "full";
  plan.recompute.layers = 3;
  const auto out = value_of(export_script(plan, shape_in(shipped("examples/models/llama-3-8b.json"))));
  for (const char* argument : {"--tp-comm-overlap", "--optimizer-cpu-offload", "--recompute-method block",
                               "--recompute-num-layers 3", "--mock-data", "--rdzv-endpoint"})
    EXPECT_THAT(out.script, testing::HasSubstr(argument));
  const auto back = value_of(import_script(out.script, "s.sh", {.config = "model"}));
  EXPECT_EQ(keys_of(back.plan), keys_of(plan));
}

// What Megatron refuses a script without: groups of micro-batches that are no multiple of the ranks, checkpoints of its
// FSDP, losses that a graph of the whole iteration does not read back.
TEST(Megatron, AScriptHasWhatMegatronRequires) {
  Plan plan;
  plan.model.config = "model";
  plan.cluster = {.topology = "h100-dgx", .gpus = 16};
  plan.parallelism.pipeline = 4;
  plan.batch = {.sequence_length = 4096, .micro_batch_size = 1, .global_batch_size = 20};
  plan.schedule.kind = "interleaved";
  plan.schedule.virtual_stages = 2;
  plan.stack.dispatcher = "alltoall";
  const ModelShape moe = shape_in(shipped("examples/models/mixtral-8x7b.json"));
  const auto script = [&] { return export_script(plan, moe).value().script; };
  EXPECT_THAT(script(), testing::HasSubstr("--microbatch-group-size-per-virtual-pipeline-stage 5\n"));
  EXPECT_THAT(script(), testing::HasSubstr("--moe-grouped-gemm\n"));
  const auto back = value_of(import_script(script(), "s.sh", {.config = "model"}));
  for (const Note& note : back.notes) EXPECT_EQ(note.text.find("microbatch-group"), std::string::npos);
  plan.batch.global_batch_size = 16;
  EXPECT_THAT(script(), testing::Not(testing::HasSubstr("microbatch-group")));
  plan.parallelism.zero_stage = 3;
  plan.parallelism.pipeline = plan.schedule.virtual_stages = 1;
  plan.stack.graphs = {"full_iteration"};
  EXPECT_THAT(script(), testing::HasSubstr("--ckpt-format fsdp_dtensor\n"));
  EXPECT_THAT(script(), testing::HasSubstr("--no-check-for-nan-in-loss-and-grad\n"));
}

TEST(Megatron, AScriptThatIsNoUtf8IsRefused) {
  const auto read = error_of(import_script("python a.py\n--save \xff\n", "s.sh", {}));
  tests::expect_error(read, ErrorKind::input, "s.sh", 2, "", "UTF-8");
  const Script words{.commands = {{{"python", 1}, {"a.py", 1}, {"--save", 3}, {"\xff", 3}}}};
  tests::expect_error(error_of(import_script(words, "s.yaml", {})), ErrorKind::input, "s.yaml", 3, "", "UTF-8");
}

TEST(Megatron, OptionsAddToTheScript) {
  const std::string script =
      "python pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
      "--micro-batch-size 1\n"
      "# plumbline: cluster.topology = \"host\"\n";
  ImportOptions options;
  options.more_arguments = "--vocab-size 256 --num-layers=6 --global-batch-size 16";
  options.overrides = {"cluster.gpus=8"};
  options.config = "m.json";
  const auto read = value_of(import_script(script, "s.sh", options));
  EXPECT_EQ(read.shape.layers, 6) << "the last one given holds";
  EXPECT_EQ(read.shape.vocabulary, 256);
  EXPECT_EQ(read.plan.cluster.gpus, 8);
  EXPECT_EQ(read.plan.batch.global_batch_size, 16);
  EXPECT_EQ(read.plan.cluster.topology, "host");
  options.topology = "mi300x";
  EXPECT_EQ(import_script(script, "s.sh", options)->plan.cluster.topology, "mi300x") << "over the comment";
}

TEST(Megatron, SilentArgumentsTakeMegatronsDefaults) {
  const auto read = value_of(import_script(
      "torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --num-layers 4 --hidden-size 4096 --num-attention-heads "
      "4 "
      "--vocab-size 50257 --seq-length 8 --micro-batch-size 2 --tensor-model-parallel-size 8 --swiglu --num-experts 4 "
      "--overlap-grad-reduce --bf16 --normalization RMSNorm\n",
      "s.sh", {.config = "m.json"}));
  EXPECT_EQ(read.plan.batch.global_batch_size, 16);   // 64 GPUs / 8 = 8 replicas, 2 sequences each
  EXPECT_EQ(read.plan.parallelism.expert_tensor, 8);  // the tensor degree
  EXPECT_EQ(read.shape.vocabulary, 51200);            // up to a multiple of 128 * 8 = 1024: 50 of them
  EXPECT_EQ(read.shape.ffn(), 10880);                 // 4096 * 8 / 3 = 10922, down to a multiple of 64: 170 of them
  EXPECT_EQ(read.plan.overlap.gradient_bucket_bytes, 160e6);  // 40 million parameters in fp32
  EXPECT_TRUE(read.plan.overlap.gradient_reduce);
  EXPECT_EQ(read.plan.precision.gradients, Precision::fp32);
  ASSERT_TRUE(read.config);
  EXPECT_EQ(read.config->model_type, "mixtral");
}

TEST(Megatron, StagesOfThePipeline) {
  const std::string base =
      "torchrun --nproc_per_node 8 --nnodes 64 pretrain_gpt.py --hidden-size 4096 --num-attention-heads 32 "
      "--vocab-size 51200 --seq-length 8 --micro-batch-size 1 --bf16 ";
  const auto read = [&](const std::string& arguments) {
    return value_of(import_script(base + arguments + "\n", "s.sh", {.config = "m.json"}));
  };
  using testing::ElementsAre;
  const std::string accounts =
      "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --pipeline-model-parallel-size ";
  // A list that is spread evenly is not written: each of 96 stages has one of 94 layers, but for the ends.
  const auto qwen = read("--num-layers 94 " + accounts + "16 --num-virtual-stages-per-pipeline-rank 6");
  EXPECT_EQ(qwen.plan.schedule.virtual_stages, 6);
  EXPECT_TRUE(qwen.plan.schedule.layers_per_stage.counts.empty());
  // 23 layers and the embedding: 24 over 4 ranks in chunks of 3.
  const auto chunks = read(
      "--num-layers 23 --account-for-embedding-in-pipeline-split --pipeline-model-parallel-size 4 "
      "--num-layers-per-virtual-pipeline-stage 3");
  EXPECT_THAT(chunks.plan.schedule.layers_per_stage.counts, ElementsAre(2, 3, 3, 3, 3, 3, 3, 3));
  const auto written = value_of(export_script(chunks.plan, chunks.shape));
  EXPECT_NE(written.script.find("--account-for-embedding-in-pipeline-split"), std::string::npos) << written.script;
  for (const std::string wrong : {"--pipeline-model-parallel-layout 'E(tt|)*2,t|ttt|(t|)*0|m|L'",  // 6 stages
                                  "", "--num-layers-per-virtual-pipeline-stage 2",
                                  "--decoder-last-pipeline-num-layers 1", "--account-for-loss-in-pipeline-split"})
    EXPECT_FALSE(import_script(base + "--num-layers 6 --pipeline-model-parallel-size 4 " + wrong + "\n", "s.sh",
                               {.config = "m.json"}))
        << wrong;
  const auto apart = read(
      "--num-layers 6 --mtp-num-layers 1 --pipeline-model-parallel-size 4 "
      "--pipeline-model-parallel-layout 'Ettt|ttt|m|L'");
  EXPECT_THAT(apart.plan.schedule.layers_per_stage.counts, ElementsAre(3, 3, 0, 0));
  EXPECT_NE(export_script(apart.plan, apart.shape)->script.find("'Et*3|t*3|m|L'"), std::string::npos);
}

TEST(Megatron, InstancesOfTheOptimizerAreShardGroups) {
  const std::string script =
      "torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--vocab-size 128 --seq-length 8 --micro-batch-size 1 --tensor-model-parallel-size 2 --context-parallel-size 2 "
      "--use-distributed-optimizer --num-distributed-optimizer-instances 4\n";
  const auto read = value_of(import_script(script, "s.sh", {.config = "m.json"}));
  EXPECT_EQ(read.plan.parallelism.shard_group, 8);  // 64 / 2 ranks reduce a gradient, a fourth of them shard
  EXPECT_NE(export_script(read.plan, read.shape)->script.find("--num-distributed-optimizer-instances 4"),
            std::string::npos);
}

struct Refusal {
  std::string arguments, key, text;
  int line;
};

TEST(Megatron, WrongScriptsAreRefusedWithTheirLine) {
  const std::string base =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
      "--vocab-size 128 \\\n ";
  const std::vector<Refusal> refusals = {
      {"--micro-batch-size 1 --seq-length $LENGTH", "--seq-length", "--define", 2},
      {"--micro-batch-size 1", "--seq-length", "--args", 0},
      {"--micro-batch-size 0 --seq-length 8", "--micro-batch-size", "above 0", 2},
      {"--micro-batch-size 1 --seq-length 8 --pipeline-model-parallel-size 0", "parallelism.pipeline", "at least 1", 2},
      {"--micro-batch-size 1 --seq-length 8 --swiglu yes", "--swiglu", "takes no value", 2},
      {"--micro-batch-size 1 --seq-length 8 --train-iters $ITERS", "--train-iters", "$ITERS", 2},
      {"--micro-batch-size 1 --seq-length 8\n# plumbline: schedule.knd = \"gpipe\"", "schedule.knd", "schedule.kind",
       3},
  };
  for (const Refusal& wanted : refusals) {
    const auto read = import_script(base + wanted.arguments + "\n", "s.sh", {.config = "m.json"});
    ASSERT_FALSE(read) << wanted.arguments;
    tests::expect_error(read.error(), ErrorKind::input, "s.sh", wanted.line, wanted.key, wanted.text);
  }
  EXPECT_FALSE(import_script("echo hello\n", "s.sh", {}));
}

}  // namespace
}  // namespace plumbline::model::megatron
