#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/imports.h"

namespace plumbline::model::configurations {
namespace {

using testing::HasSubstr, testing::Not;
using tests::imported, tests::noted, tests::refusal;

// Recipes of other sizes are those of one size, given to functions of another file.
TEST(PythonRecipes, FunctionsOfAnotherFileReturnWhatTheyAreGiven) {
  const std::string recipes =
      "from megatron.bridge.perf_recipes.llama.common import *\n\n"
      "def llama3_8b_pretrain_16gpu_config():\n    cfg = llama3_8b_pretrain_config()\n"
      "    cfg.model.tensor_model_parallel_size = 2\n    cfg.model.pipeline_model_parallel_size = 1\n"
      "    cfg.model.context_parallel_size = 1\n    cfg.model.seq_length = 8192\n    cfg.train.micro_batch_size = 1\n"
      "    cfg.train.global_batch_size = 128\n    return cfg\n\n"
      "def llama3_8b_pretrain_8gpu_config():\n"
      "    return _with_global_batch_size(llama3_8b_pretrain_16gpu_config(), 64)\n\n"
      "def llama3_8b_pretrain_32gpu_config():\n    return _tuned(llama3_8b_pretrain_16gpu_config())\n";
  const auto smaller = imported("nemo", recipes, {}, "llama3_8b_pretrain_8gpu_config");
  EXPECT_EQ(smaller.plan.cluster.gpus, 8);
  EXPECT_EQ(smaller.plan.batch.global_batch_size, 64);
  EXPECT_EQ(smaller.plan.parallelism.tensor, 2);
  const auto tuned = imported("nemo", recipes, {}, "llama3_8b_pretrain_32gpu_config");
  EXPECT_EQ(tuned.plan.batch.global_batch_size, 128);
  EXPECT_THAT(noted(tuned), HasSubstr("'_tuned(...)': unknown; it may change the cost"));
}

// 32 layers on 17 stages are two a stage with embedding and head.
TEST(PythonRecipes, LayersThatDivideWithEmbeddingAndHeadCountThem) {
  const std::string recipe =
      "def llama3_8b_pretrain_17gpu_config():\n    cfg = llama3_8b_pretrain_config()\n"
      "    cfg.model.tensor_model_parallel_size = 1\n    cfg.model.pipeline_model_parallel_size = 17\n"
      "    cfg.model.context_parallel_size = 1\n    cfg.model.seq_length = 8192\n"
      "    cfg.model.pipeline_model_parallel_layout = None\n    cfg.train.micro_batch_size = 1\n"
      "    cfg.train.global_batch_size = 64\n    return cfg\n";
  const auto read = imported("nemo", recipe);
  EXPECT_THAT(read.toml, HasSubstr("layers_per_stage = \"even\"")) << "one on the first and on the last stage";
  EXPECT_THAT(noted(read), HasSubstr("32 layers do not divide over 17 stages, 34 do"));
}

// Returns a recipe of Bridge for a GPU, whose lines change what it begins with.
std::string bridge_recipe(const std::string& name, const std::string& lines) {
  return "from megatron.bridge.perf_recipes.deepseek.common import *\n\ndef " + name +
         "():\n    cfg = deepseek_v3_pretrain_config()\n    cfg.model.tensor_model_parallel_size = 1\n"
         "    cfg.model.context_parallel_size = 1\n    cfg.model.expert_model_parallel_size = 8\n"
         "    cfg.model.pipeline_model_parallel_size = 8\n    cfg.model.seq_length = 4096\n"
         "    cfg.train.micro_batch_size = 1\n    cfg.train.global_batch_size = 4096\n" +
         lines + "    return cfg\n";
}

// Functions that a recipe gives its configuration change it: those of its own file, and those of Bridge that are known.
TEST(PythonRecipes, FunctionsChangeWhatTheyAreGiven) {
  const auto read = imported("nemo",
                             bridge_recipe("deepseek_v3_pretrain_256gpu_b200_fp8mx_config",
                                           "    cfg.mixed_precision = _perf_precision(\"fp8_mx\")\n"
                                           "    set_deepseek_v3_pipeline_model_parallel_layout(cfg.model)\n"
                                           "    _benchmark_common(cfg)\n    _in_halves(cfg.train, 2)\n"
                                           "    _enable_deepseek_transformer_engine_graph(cfg)\n") +
                                 "\ndef _in_halves(train, size):\n    train.micro_batch_size = size\n",
                             {}, "deepseek_v3_pretrain_256gpu_b200_fp8mx_config");
  EXPECT_EQ(read.plan.batch.micro_batch_size, 2) << "as the file's own function has it";
  EXPECT_EQ(read.plan.cluster.gpus, 256);
  EXPECT_EQ(read.plan.cluster.topology, "b200-hgx") << "of the recipe's name";
  EXPECT_EQ(read.plan.precision.gradients, Precision::bf16) << "_perf_precision() and _benchmark_common()";
  EXPECT_EQ(read.plan.precision.parameters, "fp8") << "bf16_with_mxfp8_mixed() gathers parameters in FP8";
  EXPECT_THAT(read.plan.stack.graphs, testing::ElementsAre("attn", "moe_router", "moe_preprocess"));
  EXPECT_EQ(read.plan.stack.name, "megatron-core-2025");
  // 61 layers on 8 stages: 7 of 8, and 61 - 56 on the last.
  EXPECT_THAT(read.plan.schedule.layers_per_stage.counts, testing::ElementsAre(8, 8, 8, 8, 8, 8, 8, 5));
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("': unknown")));
}

// Stages that are not in the table of Bridge's function decide the plan, and have no value.
TEST(PythonRecipes, StagesThatAFunctionDoesNotHaveAreRefused) {
  const auto of = [](const std::string& lines) {
    return bridge_recipe("deepseek_v3_pretrain_256gpu_h100_bf16_config",
                         lines + "    set_deepseek_v3_pipeline_model_parallel_layout(cfg.model)\n");
  };
  EXPECT_THAT(refusal("nemo", of("    cfg.model.pipeline_model_parallel_size = 2\n")), HasSubstr("is an expression"));
  const auto read = imported("nemo", of("    cfg.model.virtual_pipeline_model_parallel_size = 2\n"));
  // 61 layers on 16 stages: 15 of 4, and one on the last.
  EXPECT_EQ(read.plan.schedule.layers_per_stage.counts.size(), 16);
  EXPECT_EQ(read.plan.schedule.layers_per_stage.counts.back(), 1);
}

// A recipe of NeMo 2 as its package writes them, whose functions of other files are read with it.
const std::string recipe_of_nemo =
    "from nemo.collections.llm.peft import PEFT_STR2CLS\n"
    "from nemo.collections.llm.recipes.finetune_default import default_finetune_recipe\n"
    "from nemo.collections.llm.recipes.optim.adam import distributed_fused_adam_with_cosine_annealing\n"
    "from nemo.collections.llm.recipes.precision.mixed_precision import bf16_mixed\n\n"
    "@run.cli.factory(name=\"llama3_8b\")\ndef model() -> run.Config[pl.LightningModule]:\n"
    "    return run.Config(LlamaModel, config=run.Config(Llama3Config8B))\n\n"
    "def pretrain_recipe(num_nodes: int = 2, tensor: Optional[int] = 2, overlap: bool = True) -> run.Partial:\n"
    "    recipe = run.Partial(\n        pretrain, model=model(),\n"
    "        data=run.Config(MockDataModule, seq_length=8192, global_batch_size=128, micro_batch_size=1),\n"
    "        trainer=run.Config(nl.Trainer, devices=8, num_nodes=num_nodes, callbacks=[run.Config(TimingCallback)],\n"
    "                           plugins=bf16_mixed(), strategy=run.Config(nl.MegatronStrategy,\n"
    "                           tensor_model_parallel_size=tensor, sequence_parallel=True)),\n"
    "        optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4))\n"
    "    if overlap:\n"
    "        recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True))\n"
    "    return recipe\n\n"
    "def finetune_recipe(peft_scheme: Optional[str] = 'lora', num_nodes: int = 1) -> run.Partial:\n"
    "    recipe = default_finetune_recipe(model(), \"meta-llama/Llama\", None, \"name\", num_nodes, 8)\n"
    "    if peft_scheme is None or peft_scheme.lower() == 'none':\n"
    "        recipe.trainer.strategy.tensor_model_parallel_size = 2\n"
    "    elif peft_scheme.lower() in ['lora', 'dora']:\n"
    "        recipe.peft = run.Config(PEFT_STR2CLS[peft_scheme.lower()])\n"
    "        recipe.peft.target_modules = ['linear_qkv', 'linear_proj']\n"
    "        recipe.optim.config.use_distributed_optimizer = False\n"
    "    else:\n        raise ValueError(f\"{peft_scheme}\")\n    return recipe\n";

TEST(PythonRecipes, ConfigurationsOfNemoRunAreRead) {
  const auto read = imported("nemo", recipe_of_nemo, {}, "pretrain_recipe");
  EXPECT_EQ(read.plan.model.config, "llama-3-8b");
  EXPECT_EQ(read.plan.cluster.gpus, 16);
  EXPECT_EQ(read.plan.parallelism.tensor, 2);
  EXPECT_TRUE(read.plan.parallelism.sequence);
  EXPECT_EQ(read.plan.parallelism.zero_stage, 1) << "the optimizer's function has it";
  EXPECT_EQ(read.plan.precision.gradients, Precision::fp32) << "of bf16_mixed()";
  EXPECT_EQ(read.plan.batch.sequence_length, 8192);
  EXPECT_EQ(read.plan.batch.global_batch_size, 128);
  EXPECT_EQ(read.plan.overlap.tensor, true) << "of the callback that is appended";
  EXPECT_TRUE(read.plan.overlap.gradient_reduce && read.plan.overlap.parameter_gather) << "the callback sets both";
  EXPECT_THAT(noted(read), Not(HasSubstr("unknown")));
  // As `nemo llm pretrain --factory` takes arguments.
  const auto asked = imported("nemo", recipe_of_nemo, {}, "pretrain_recipe(num_nodes=4, tensor=4, overlap=False)");
  EXPECT_EQ(asked.plan.cluster.gpus, 32);
  EXPECT_EQ(asked.plan.parallelism.tensor, 4);
  EXPECT_FALSE(asked.plan.overlap.gradient_reduce);
}

TEST(PythonRecipes, AdaptersOfNemoAreRead) {
  const auto lora = imported("nemo", recipe_of_nemo, {}, "finetune_recipe");
  EXPECT_EQ(lora.plan.training.method, "lora");
  EXPECT_EQ(lora.plan.training.rank, 32) << "of the class";
  EXPECT_EQ(lora.plan.training.targets, std::vector<std::string>{"attention"});
  EXPECT_EQ(lora.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(lora.plan.batch.sequence_length, 2048);
  EXPECT_EQ(lora.plan.batch.global_batch_size, 128);
  const auto whole = imported("nemo", recipe_of_nemo, {}, "finetune_recipe(peft_scheme=\"none\", num_nodes=2)");
  EXPECT_EQ(whole.plan.training.method, "full");
  EXPECT_EQ(whole.plan.cluster.gpus, 16);
  EXPECT_EQ(whole.plan.parallelism.tensor, 2);
  EXPECT_EQ(whole.plan.parallelism.zero_stage, 1);
  const auto dora = tests::import("nemo", recipe_of_nemo, {}, "finetune_recipe(peft_scheme='dora')");
  ASSERT_FALSE(dora);
  EXPECT_THAT(to_string(dora.error()), HasSubstr("DoRA is not read"));
}

// A user's own function changes a recipe of NeMo's package, which is not read: what it leaves to the recipe is asked.
TEST(PythonRecipes, RecipesOfNemosPackageLeaveDegrees) {
  const auto of = [](const std::string& lines) {
    return "def configure(nodes=8):\n    recipe = llm.llama3_70b.pretrain_recipe(name=\"a\", dir=\"/b\", "
           "num_nodes=nodes, "
           "num_gpus_per_node=8)\n    recipe.trainer.strategy.tensor_model_parallel_size = 4\n"
           "    recipe.trainer.strategy.pipeline_model_parallel_size = 4\n    recipe.data.seq_length = 8192\n"
           "    recipe.data.micro_batch_size = 1\n    recipe.data.global_batch_size = 128\n" +
           lines + "    return recipe\n\nif __name__ == \"__main__\":\n    run.run(configure())\n";
  };
  EXPECT_THAT(refusal("nemo", of("")), HasSubstr("sets parallelism.context, which this file leaves to it"));
  const auto read = imported("nemo", of("    recipe.trainer.strategy.context_parallel_size = 2\n"));
  EXPECT_EQ(read.plan.model.config, "llama-3-70b");
  EXPECT_EQ(read.plan.cluster.gpus, 64);
  EXPECT_EQ(read.plan.parallelism.zero_stage, 1);
  EXPECT_TRUE(read.plan.parallelism.sequence);
  EXPECT_TRUE(read.plan.overlap.gradient_reduce);
  EXPECT_EQ(read.plan.precision.gradients, Precision::fp32);
  std::string mistral = of("    recipe.trainer.strategy.context_parallel_size = 2\n");
  mistral.replace(mistral.find("llama3_70b"), 10, "mistral_7b");
  const auto overlapping = imported("nemo", mistral, {"model.config=mistral-7b"});
  EXPECT_TRUE(overlapping.plan.overlap.gradient_reduce) << "its trainer has a section of DDP";
  EXPECT_TRUE(overlapping.plan.overlap.parameter_gather);
  const auto tuned = [](const std::string& scheme) {
    return "def configure():\n    recipe = llm.llama3_8b.finetune_recipe(num_nodes=1, num_gpus_per_node=8, "
           "peft_scheme=" +
           scheme +
           ")\n    recipe.trainer.strategy.tensor_model_parallel_size = 2\n"
           "    recipe.trainer.strategy.pipeline_model_parallel_size = 1\n"
           "    recipe.trainer.strategy.context_parallel_size = 1\n    recipe.data.seq_length = 2048\n"
           "    recipe.data.micro_batch_size = 1\n    recipe.data.global_batch_size = 64\n    return recipe\n";
  };
  EXPECT_THAT(refusal("nemo", tuned("'lora'")), HasSubstr("is not read")) << "its rank is in the recipe";
  const auto whole = imported("nemo", tuned("None"));
  EXPECT_EQ(whole.plan.training.method, "full");
  EXPECT_EQ(whole.plan.parallelism.zero_stage, 1);
  EXPECT_FALSE(whole.plan.overlap.gradient_reduce) << "its trainer has no section of DDP";
}

// Types of PyTorch stand for themselves, and a statement behind a function's holds over it.
TEST(PythonRecipes, TypesOfPyTorchAreRead) {
  const auto read =
      imported("nemo", bridge_recipe("deepseek_v3_pretrain_256gpu_gb200_bf16_config",
                                     "    cfg.mixed_precision = _perf_precision(\"bf16\")\n"
                                     "    cfg.model.pipeline_model_parallel_layout = \"Et*8|(t*8|)*6t*5L\"\n"
                                     "    cfg.model.cuda_graph_impl = \"full_iteration\"\n"
                                     "    _benchmark_common(cfg)\n"
                                     "    cfg.mixed_precision.grad_reduce_in_fp32 = True\n"
                                     "    cfg.optimizer.use_precision_aware_optimizer = True\n"
                                     "    cfg.optimizer.exp_avg_dtype = torch.bfloat16\n"
                                     "    cfg.optimizer.exp_avg_sq_dtype = torch.bfloat16\n"));
  EXPECT_EQ(read.plan.precision.optimizer_moments, Precision::bf16);
  EXPECT_EQ(read.plan.precision.gradients, Precision::fp32);
  EXPECT_EQ(read.plan.precision.parameters, "bf16");
  EXPECT_EQ(read.plan.cluster.topology, "gb200-nvl72");
  EXPECT_EQ(read.plan.stack.name, "megatron-core-2026") << "which replays whole iterations";
}

TEST(PythonRecipes, GpusOfWhichNoClusterIsKnownAreRefused) {
  const std::string recipe = bridge_recipe("deepseek_v3_pretrain_256gpu_vr200_bf16_config", "");
  EXPECT_THAT(refusal("nemo", recipe), HasSubstr("is for the GPU vr200, of which no cluster is known here"));
  EXPECT_EQ(
      tests::read(tests::import("nemo", recipe, {"cluster.topology=gb300-nvl72", "schedule.layers_per_stage=even"}))
          .plan.cluster.topology,
      "gb300-nvl72");
}

// Bridge's recipes state the formats of the optimizer's states as PyTorch's types, and have helpers that return
// nothing.
TEST(PythonRecipes, TypesOfPyTorchAreWords) {
  const auto read = imported("nemo",
                             "def set_layout(model_cfg) -> None:\n    model_cfg.layout = None\n\n"
                             "def llama3_8b_pretrain_16gpu_config():\n    cfg = _pretrain_common()\n"
                             "    cfg.model = AutoBridge.from_hf_pretrained(\"meta-llama/Meta-Llama-3-8B\")"
                             ".to_megatron_provider(load_weights=False)\n"
                             "    cfg.model.tensor_model_parallel_size = 2\n"
                             "    cfg.model.pipeline_model_parallel_size = 1\n"
                             "    cfg.model.context_parallel_size = 1\n    cfg.model.seq_length = 8192\n"
                             "    cfg.train.micro_batch_size = 1\n    cfg.train.global_batch_size = 64\n"
                             "    cfg.optimizer.use_precision_aware_optimizer = True\n"
                             "    cfg.optimizer.main_params_dtype = torch.float32\n"
                             "    cfg.optimizer.exp_avg_dtype = torch.bfloat16\n"
                             "    cfg.optimizer.exp_avg_sq_dtype = torch.bfloat16\n    return cfg\n");
  EXPECT_EQ(read.plan.model.config, "llama-3-8b");
  EXPECT_EQ(read.plan.precision.master_weights, Precision::fp32);
  EXPECT_EQ(read.plan.precision.optimizer_moments, Precision::bf16);
}

// What the call leaves behind, wherever the recipe has its own words for it.
TEST(PythonRecipes, TheFlexDispatcherIsApplied) {
  const auto of = [](const std::string& backend, const std::string& argument) {
    const std::string recipe =
        "def recipe():\n    cfg = _pretrain_common()\n    cfg.model.tensor_model_parallel_size = 1\n"
        "    cfg.model.moe_token_dispatcher_type = \"alltoall\"\n    cfg.model.moe_flex_dispatcher_backend = " +
        backend + "\n    apply_flex_dispatcher_backend(cfg.model, " + argument + ")\n    return cfg\n";
    const std::vector<std::string> rest = {"cluster.gpus=8", "model.config=plan.json", "batch.sequence_length=2048",
                                           "batch.micro_batch_size=1", "batch.global_batch_size=64"};
    const auto with_experts = [](const std::string& name) {
      auto model = tests::dense_model(name);
      model->experts.routed_experts = 64;
      return model;
    };
    return tests::read(
        import_configuration(tests::format_of("nemo"), recipe, "file", {rest, "", "plan.json", with_experts}));
  };
  const std::string field = "cfg.model.moe_flex_dispatcher_backend";
  const auto hybrid = of("\"hybridep\"", field);
  EXPECT_EQ(hybrid.plan.stack.dispatcher, "hybridep");
  EXPECT_THAT(noted(hybrid), Not(HasSubstr("apply_flex_dispatcher_backend")));
  EXPECT_EQ(of("None", "\"deepep\"").plan.stack.dispatcher, "deepep");
  EXPECT_EQ(of("None", field).plan.stack.dispatcher, "alltoall");
}

// Returns a recipe of 32 layers on four stages, whose lines change what it begins with.
std::string staged_recipe(const std::string& lines) {
  return "def llama3_8b_pretrain_8gpu_config():\n    cfg = _pretrain_common()\n"
         "    cfg.model.tensor_model_parallel_size = 1\n    cfg.model.pipeline_model_parallel_size = 4\n"
         "    cfg.model.context_parallel_size = 1\n    cfg.model.seq_length = 8192\n"
         "    cfg.train.micro_batch_size = 1\n    cfg.train.global_batch_size = 64\n" +
         lines + "    return cfg\n";
}

std::vector<std::int64_t> stages_of(const std::string& recipe) {
  return imported("nemo", recipe, {"model.config=llama-3-8b"}).plan.schedule.layers_per_stage.counts;
}

TEST(PythonRecipes, LayoutsOfStagesAreListsAndDictionaries) {
  using testing::ElementsAre;
  EXPECT_THAT(stages_of(staged_recipe("    cfg.model.pipeline_model_parallel_layout = [\n"
                                      "        [\"embedding\"] + [\"decoder\"] * 7,  # one less\n"
                                      "    ] + [[\"decoder\"] * 9] * 2 + [[\"decoder\"] * 7 + [\"loss\"]]\n")),
              ElementsAre(7, 9, 9, 7));
  const std::string by_degrees =
      "def _layout(stages: int, chunks: int):\n    layouts = {\n        (1, 1): None,\n"
      "        (2, 2): [[\"embedding\"] + [\"decoder\"] * 8] + [[\"decoder\"] * 8] * 3,\n"
      "        (4, 1): [[\"embedding\"] + [\"decoder\"] * 9, [\"decoder\"] * 9, [\"decoder\"] * 9, [\"decoder\"] * 5 + "
      "[\"loss\"]],\n    }\n    if (stages, chunks) not in layouts:\n        raise ValueError(\"none\")\n"
      "    return layouts[(stages, chunks)]\n\n";
  const std::string assigned = staged_recipe("    cfg.model.pipeline_model_parallel_layout = _layout(4, 1)\n");
  EXPECT_THAT(stages_of(by_degrees + assigned), ElementsAre(9, 9, 9, 5)) << "a helper is no configuration";
  const std::string sets =
      "def set_layout(model_cfg, layout=None, *, alone: bool = False) -> None:\n    if layout is not None:\n"
      "        model_cfg.pipeline_model_parallel_layout = layout\n        return\n\n"
      "    mtp_layers = getattr(model_cfg, \"mtp_num_layers\", 1) or 0\n"
      "    last_layer = [\"mtp\"] * mtp_layers + [\"loss\"]\n    layout_map = {\n"
      "        (4, 1): [[\"embedding\"] + [\"decoder\"] * 8] + [[\"decoder\"] * 9] * 2 + [[\"decoder\"] * 6 + "
      "last_layer],\n    }\n    if alone:\n        model_cfg.pipeline_model_parallel_layout = None\n"
      "    elif (4, 1) in layout_map:\n        model_cfg.pipeline_model_parallel_layout = layout_map[(4, 1)]\n\n\n";
  const std::string called = sets + staged_recipe("    set_layout(cfg.model)\n");
  EXPECT_THAT(stages_of(called), ElementsAre(8, 9, 9, 6));
  EXPECT_THAT(noted(imported("nemo", called, {"model.config=llama-3-8b"})), Not(HasSubstr("layout_map")));
  EXPECT_THAT(stages_of(sets + staged_recipe("    set_layout(cfg.model, alone=True)\n")), testing::IsEmpty())
      << "a layout of another kind, which 32 layers on four stages do not need";
  // A dump has one list for each stage.
  std::string first = "embedding", last = "loss";
  for (int layer = 0; layer < 10; ++layer) first += ", decoder";
  for (int layer = 0; layer < 22; ++layer) last.insert(0, "decoder, ");
  EXPECT_THAT(imported("nemo",
                       "trainer:\n  devices: 4\nmodel:\n  pipeline_model_parallel_size: 2\n"
                       "  pipeline_model_parallel_layout:\n  - [" +
                           first + "]\n  - [" + last + "]\n",
                       {"model.config=llama-3-8b", "batch.sequence_length=4096", "batch.micro_batch_size=1",
                        "batch.global_batch_size=64"})
                  .plan.schedule.layers_per_stage.counts,
              ElementsAre(10, 22));
}

// Functions that choose a layout run as they stand; one that raises sets nothing.
TEST(PythonRecipes, FunctionsThatChooseALayoutRun) {
  const std::string chooses =
      "def _layout_of(stages: int, chunks: int, predictions: int):\n    last = [\"mtp\"] * predictions + [\"loss\"]\n"
      "    layouts = {\n        (1, 1): None,\n        (4, 1): [[\"embedding\"] + [\"decoder\"] * 9] + 2 * [9 * "
      "[\"decoder\"]] + [[\"decoder\"] * (2 + 3) + last],\n    }\n    chunks = 1 if chunks is None else chunks\n"
      "    if (stages, chunks) not in layouts:\n        raise ValueError(\"none\")\n"
      "    layout = layouts.get((stages, chunks))\n    if layout is not None and stages != 1:\n"
      "        layout = list([list(x) for x in layout])\n    return layout\n\n\n"
      "def set_layout(model) -> None:\n    predictions = getattr(model, \"mtp_num_layers\", 1) or 0\n    try:\n"
      "        model.pipeline_model_parallel_layout = _layout_of(\n            model.pipeline_model_parallel_size or "
      "1, "
      "model.virtual_pipeline_model_parallel_size, predictions\n        )\n    except ValueError:\n        pass\n\n\n";
  const std::string of_one = "    cfg.model.virtual_pipeline_model_parallel_size = None\n    set_layout(cfg.model)\n";
  const auto read = imported("nemo", chooses + staged_recipe(of_one), {"model.config=llama-3-8b"});
  EXPECT_THAT(read.plan.schedule.layers_per_stage.counts, testing::ElementsAre(9, 9, 9, 5));
  EXPECT_THAT(noted(read), Not(HasSubstr("ValueError")));
  const auto none =
      imported("nemo", chooses + staged_recipe("    cfg.model.pipeline_model_parallel_size = 2\n" + of_one),
               {"model.config=llama-3-8b"});
  EXPECT_THAT(none.plan.schedule.layers_per_stage.counts, testing::IsEmpty());
  EXPECT_THAT(noted(none), HasSubstr("'raise ValueError(\"none\")': unknown"));
}

// Of a chain of branches that is taken whose condition is decided by what was assigned.
TEST(PythonRecipes, BranchesAreDecidedByWhatWasAssigned) {
  const std::string chooses =
      "def _choose(cfg, kind: str, narrow=None) -> None:\n    if kind == \"adam\":\n"
      "        made, schedule = distributed_fused_adam_with_cosine_annealing(lr=1)\n        wide = False\n"
      "    elif kind == \"muon\":\n        made, schedule = distributed_muon_with_cosine_annealing(lr=1)\n"
      "        wide = True\n        cfg.ddp.use_distributed_optimizer = False\n    else:\n        raise "
      "ValueError(kind)\n"
      "    cfg.optimizer = made\n    cfg.scheduler = schedule\n    if narrow is None:\n"
      "        cfg.mixed_precision = \"bf16_mixed\"\n        cfg.mixed_precision.grad_reduce_in_fp32 = wide\n\n\n";
  const auto of = [&](const std::string& kind) {
    return imported("nemo", chooses + staged_recipe("    _choose(cfg, \"" + kind + "\")\n"),
                    {"model.config=llama-3-8b"});
  };
  const auto muon = of("muon");
  EXPECT_EQ(muon.plan.optimizer.kind, "muon");
  EXPECT_EQ(muon.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(muon.plan.precision.gradients, Precision::fp32);
  EXPECT_THAT(noted(muon), Not(HasSubstr("if kind")));
  const auto adam = of("adam");
  EXPECT_EQ(adam.plan.optimizer.kind, "adamw");
  EXPECT_EQ(adam.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(adam.plan.precision.gradients, Precision::bf16);
  // What is not assigned decides nothing: the chain is listed, and none of its branches is taken.
  const auto open = imported("nemo",
                             staged_recipe("    if cfg.model.apply_rope_fusion:\n"
                                           "        cfg.model.sequence_parallel = True\n    else:\n"
                                           "        cfg.model.tensor_model_parallel_size = 2\n"),
                             {"model.config=llama-3-8b"});
  EXPECT_EQ(open.plan.parallelism.tensor, 1);
  EXPECT_THAT(noted(open), HasSubstr("'if cfg.model.apply_rope_fusion:': unknown"));
  EXPECT_THAT(noted(open), HasSubstr("'else:': unknown"));
}

// A model may be named in the line after the call.
TEST(PythonRecipes, CallsMayGoOnInTheNextLine) {
  const auto read = imported(
      "nemo", staged_recipe("    cfg.model = AutoBridge.from_hf_pretrained(\n        \"meta-llama/Meta-Llama-3-8B\", "
                            "trust_remote_code=True\n    ).to_megatron_provider(load_weights=False)\n"
                            "    cfg.model.tensor_model_parallel_size = 2\n"
                            "    cfg.model.pipeline_model_parallel_size = 1\n    cfg.model.context_parallel_size = 1\n"
                            "    cfg.model.seq_length = 4096\n"));
  EXPECT_EQ(read.plan.model.config, "llama-3-8b");
}

}  // namespace
}  // namespace plumbline::model::configurations
