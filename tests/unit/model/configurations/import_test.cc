#include "model/configurations/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/megatron/model_shape.h"
#include "tests/support/imports.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model::configurations {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using tests::dense_model, tests::error_of, tests::format_of, tests::import, tests::noted, tests::read, tests::shipped,
    tests::value_of;

Result<ImportedConfiguration> import_file(const std::string& format, const std::string& name,
                                          const std::vector<std::string>& overrides = {},
                                          const std::string& function = "") {
  const auto text = value_of(read_text_file(shipped("tests/golden/inputs/configurations/" + name)));
  return import(format, text, overrides, function);
}

std::vector<std::string> texts_of(const ImportedConfiguration& imported) {
  std::vector<std::string> texts;
  for (const PlanAlternative& alternative : imported.alternatives) texts.push_back(alternative.text);
  return texts;
}

void expect_refusal(const Result<ImportedConfiguration>& imported, int line, const std::string& text) {
  ASSERT_FALSE(imported) << text;
  EXPECT_EQ(imported.error().line, line) << to_string(imported.error());
  EXPECT_THAT(to_string(imported.error()), HasSubstr(text));
}

const std::string titan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 4\nseq_len = 8192\n";

TEST(Torchtitan, OptionsWinAndWhatFollowsFollowsFromThem) {
  const auto wider = read(import_file("torchtitan", "llama3-8b.toml", {"cluster.gpus=64", "parallelism.tp=8"}));
  EXPECT_EQ(wider.plan.parallelism.tensor, 8);
  EXPECT_EQ(wider.plan.parallelism.shard_group, 4);  // 64 / 8 = 8 ranks, 2 replicas
  EXPECT_EQ(wider.plan.batch.global_batch_size, 8);
  const auto fsdp = read(import_file("torchtitan", "llama3-8b.toml", {"cluster.gpus=64", "parallelism.fsdp=32"}));
  EXPECT_EQ(fsdp.plan.parallelism.zero_stage, 3);
  EXPECT_NE(fsdp.plan.parallelism.shard_group, 16) << "no replicas";
  expect_refusal(import("torchtitan", titan, {"cluster.gpus=8", "parallelism.tensr=2"}), 0, "did you mean");
}

// A key that a comment states is one of the file, not of the command line.
TEST(Comments, OfAPlanAreNamedByTheirLine) {
  const std::string text = titan + "# plumbline: batch.micro_batch_size = 0\n";
  const auto wrong = import("torchtitan", text, {"cluster.gpus=8"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().file, "file");
  EXPECT_EQ(wrong.error().line, std::ranges::count(text, '\n'));
  EXPECT_EQ(wrong.error().key, "batch.micro_batch_size");
  const auto option = import("torchtitan", titan, {"cluster.gpus=8", "batch.micro_batch_size=0"});
  ASSERT_FALSE(option);
  EXPECT_EQ(option.error().file, "--set");
}

TEST(Torchtitan, ModesOfRecomputation) {
  const auto of = [](const std::string& section) {
    return read(import("torchtitan", titan + section, {"cluster.gpus=8"}));
  };
  EXPECT_EQ(of("[activation_checkpoint]\nmode = \"none\"\n").plan.recompute.policy, "none");
  const auto silent = of("");
  EXPECT_EQ(silent.plan.recompute.policy, "full") << "selective, every second layer";
  EXPECT_EQ(silent.plan.recompute.layers, 16);
  EXPECT_THAT(noted(silent), HasSubstr("torchtitan's default"));
  EXPECT_EQ(of("[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"3\"\n").plan.recompute.layers,
            10);
  EXPECT_FALSE(of("[activation_checkpoint]\nmode = \"full\"\n").plan.recompute.layers);
  const std::string stops = "[activation_checkpoint]\nmode = \"full\"\nearly_stop = true\n";
  EXPECT_TRUE(of(stops).plan.recompute.early_stop);
}

// Without a pipeline every micro-batch is reduced, unless the file defers that.
TEST(Torchtitan, GradientsOfAccumulatedMicroBatches) {
  const auto of = [](const std::string& more) {
    return read(import("torchtitan", titan + more, {"cluster.gpus=8"})).plan.parallelism.reduce_after;
  };
  EXPECT_EQ(of(""), "pass");
  EXPECT_EQ(of("[parallelism]\nfsdp_defer_gradient_reduction = true\n"), "step");
}

TEST(Torchtitan, RowwiseFp8HasAScaleForEachRow) {
  const auto of = [](const std::string& recipe) {
    return read(import("torchtitan",
                       "[model]\nname = \"llama3\"\nflavor = \"8B\"\nconverters = [\"float8\"]\n[training]\n"
                       "local_batch_size = 4\nseq_len = 8192\n[quantize.linear.float8]\nrecipe_name = \"" +
                           recipe + "\"\n",
                       {"cluster.gpus=8"}))
        .plan.precision;
  };
  EXPECT_EQ(of("rowwise").gemm, Precision::fp8_tensor);
  EXPECT_EQ(of("rowwise").scaling, "row");
  EXPECT_EQ(of("tensorwise").scaling, "current");
}

// aten._scaled_mm is none of the operators whose results are kept, so that the layers are not counted as in bf16.
TEST(Torchtitan, NoFloat8GemmIsKept) {
  const auto of = [](const std::string& converters) {
    return read(import("torchtitan",
                       "[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + converters +
                           "[training]\nlocal_batch_size = 4\nseq_len = 8192\n[activation_checkpoint]\n"
                           "mode = \"selective\"\nselective_ac_option = \"op\"\n",
                       {"cluster.gpus=8"}));
  };
  EXPECT_TRUE(of("").plan.recompute.layers);
  const auto scaled = of("converters = [\"float8\"]\n");
  EXPECT_FALSE(scaled.plan.recompute.layers);
  EXPECT_EQ(scaled.plan.recompute.operators, of("").plan.recompute.operators);
  EXPECT_THAT(noted(scaled), HasSubstr("no result of a float8 GEMM is kept"));
}

TEST(Torchtitan, SchedulesAndOlderNames) {
  const std::string pipeline = "[experimental]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = ";
  const auto of = [&](const std::string& name) {
    return import("torchtitan", titan + pipeline + "\"" + name + "\"\n", {"cluster.gpus=32"});
  };
  for (const auto& [name, kind] : std::map<std::string, std::string>{{"1F1B", "1f1b"},
                                                                     {"GPipe", "gpipe"},
                                                                     {"Interleaved1F1B", "interleaved"},
                                                                     {"ZBVZeroBubble", "zb-v"},
                                                                     {"DualPipeV", "dualpipev"}})
    EXPECT_EQ(read(of(name)).plan.schedule.kind, kind);
  EXPECT_EQ(read(of("1F1B")).plan.parallelism.reduce_after, "step");
  expect_refusal(of("Interleaved1F1"), 9, "did you mean 'Interleaved1F1B'?");
  expect_refusal(of("LoopedBFS"), 9, "LoopedBFS is not predicted: it keeps the activations of all micro-batches");
  const auto zero_bubble = read(of("InterleavedZeroBubble"));
  EXPECT_EQ(zero_bubble.plan.schedule.kind, "interleaved");
  EXPECT_THAT(noted(zero_bubble), HasSubstr("schedule.kind = \"interleaved\": the nearest to InterleavedZeroBubble"));
  EXPECT_THAT(texts_of(zero_bubble), testing::Contains("with schedule.kind=zb-v"));
  const auto ddp = read(import("torchtitan",
                               "[model]\nflavor = \"8B\"\n[training]\nbatch_size = 2\nseq_len = 4096\ncompile = true\n"
                               "tensor_parallel_degree = 8\n",
                               {"cluster.gpus=8"}));
  EXPECT_EQ(ddp.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(ddp.plan.parallelism.tensor, 8);
  EXPECT_EQ(ddp.plan.batch.micro_batch_size, 2);
  EXPECT_EQ(ddp.plan.stack.name, "torchtitan-compile");
}

TEST(Torchtitan, SchedulesThatSplitTheBackwardPassAreNotedWhereLayersAreCompiled) {
  const auto notes = [](const std::string& schedule, const std::string& compile) {
    return noted(read(import("torchtitan",
                             titan + "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"" +
                                 schedule + "\"\n[compile]\n" + compile,
                             {"cluster.gpus=32"})));
  };
  for (const std::string schedule : {"ZBVZeroBubble", "InterleavedZeroBubble", "DualPipeV"}) {
    EXPECT_THAT(notes(schedule, "enable = true\n"), HasSubstr(schedule + " runs with compile.enable: PyTorch refuses"));
    EXPECT_THAT(notes(schedule, "enable = true\ncomponents = [\"loss\"]\n"), Not(HasSubstr("PyTorch refuses")));
    EXPECT_THAT(notes(schedule, "enable = false\n"), Not(HasSubstr("PyTorch refuses")));
  }
  EXPECT_THAT(notes("Interleaved1F1B", "enable = true\n"), Not(HasSubstr("PyTorch refuses")));
}

TEST(Torchtitan, RefusesWhatContradictsItself) {
  expect_refusal(import("torchtitan", titan), 0, "--gpus N");
  expect_refusal(import("torchtitan", titan + "[parallelism]\ndata_parallel_shard_degree = 5\n", {"cluster.gpus=64"}),
                 8, "64 GPUs are not replicas 1 x shards 5");
  expect_refusal(import("torchtitan", titan + "global_batch_size = 100\n", {"cluster.gpus=8"}), 7,
                 "no multiple of local batch 4");
  expect_refusal(import("torchtitan", "[model]\nname = \"llama3\"\nflavor = \"9B\"\n", {"cluster.gpus=8"}), 3, "405B");
  expect_refusal(import("torchtitan", titan + "[parallelism]\ntensor_parallel_degree = \"two\"\n", {"cluster.gpus=8"}),
                 8, "is no number");
  expect_refusal(import("torchtitan", "[model\n"), 1, "TOML");
  // Degrees of 0 divide nothing, and products beyond 64 bits are the largest number.
  expect_refusal(import("torchtitan", titan + "[parallelism]\npipeline_parallel_degree = 0\n", {"cluster.gpus=8"}), 8,
                 "must be at least 1, found 0");
  for (const char* change : {"parallelism.pipeline=0", "schedule.virtual_stages=0"})
    EXPECT_FALSE(import("torchtitan", titan, {"cluster.gpus=8", change})) << change;
  expect_refusal(import("torchtitan", titan + "[parallelism]\ndata_parallel_replicate_degree = 1000000000\n"
                                              "data_parallel_shard_degree = 1000000000\n"
                                              "tensor_parallel_degree = 1000000000\n"),
                 9, "9223372036854775807 GPUs are not replicas 1000000000 x shards 1000000000");
  const auto typo =
      read(import("torchtitan", titan + "[parallelism]\ntensor_paralel_degree = 2\n", {"cluster.gpus=8"}));
  EXPECT_THAT(noted(typo),
              HasSubstr("unknown; did you mean 'parallelism.tensor_parallel_degree', which decides the plan?"));
}

TEST(Torchtitan, RegistriesOfFunctionsAreReadWithoutRunningThem) {
  const auto small = read(import_file("torchtitan", "llama3-registry.py", {"cluster.gpus=8"}, "llama3_small"));
  EXPECT_EQ(small.plan.model.config, "llama-3-8b");
  EXPECT_EQ(small.plan.parallelism.tensor, 2);
  EXPECT_EQ(small.plan.batch.sequence_length, 4096) << "a name of the file";
  EXPECT_EQ(small.plan.batch.global_batch_size, 8);  // 2 of each of 8 / 2 ranks
  EXPECT_EQ(small.plan.run.tokens, 10.0 * 8 * 4096);
  EXPECT_EQ(small.plan.precision.gemm, Precision::fp8_tensor);
  EXPECT_EQ(small.plan.stack.name, "torchtitan-2026");
  EXPECT_THAT(small.plan.recompute.operators, ElementsAre("mlp", "swiglu", "rmsnorm"));
  EXPECT_FALSE(small.plan.recompute.layers) << "float8, as of train.toml";
  EXPECT_THAT(noted(small), testing::Not(HasSubstr("unknown")));
  EXPECT_THAT(small.toml, HasSubstr("sequence_length = 4096  # training.seq_len"));

  const auto changed = [](const std::vector<std::string>& overrides) {
    return import_file("torchtitan", "llama3-registry.py", overrides, "llama3_changed");
  };
  expect_refusal(changed({"cluster.gpus=8"}), 33, "'2 ** 1' is an expression, which is not run");
  const auto wide = read(changed({"cluster.gpus=8", "parallelism.tensor=4"}));
  EXPECT_EQ(wide.plan.batch.global_batch_size, 2);  // 1 of each of 8 / 4 ranks
  EXPECT_EQ(wide.plan.recompute.policy, "full");
  EXPECT_FALSE(wide.plan.recompute.layers);
  EXPECT_THAT(noted(wide), HasSubstr("'config.training.seq_len += 1': unknown; it may change the cost"));
  EXPECT_THAT(noted(wide), HasSubstr("'for layer in config.model_spec.layers:': unknown; it may change the cost"));
}

// Two names of one object are one, and a part of what another file makes is not known.
TEST(Torchtitan, RegistriesMayNameAnObjectTwice) {
  const auto of = [](const std::string& lines) {
    return read(import("torchtitan",
                       "def one():\n    config = Trainer.Config(training=TrainingConfig(seq_len=4096))\n" + lines +
                           "    return config\n",
                       {"cluster.gpus=8", "model.config=llama-3-8b"}));
  };
  EXPECT_EQ(of("    training = config.training\n    training.seq_len = 8192\n").plan.batch.sequence_length, 8192);
  EXPECT_EQ(of("    same = config\n    same.training.seq_len = 8192\n").plan.batch.sequence_length, 8192);
  EXPECT_EQ(of("    same = config\n    config = replace(a=1)\n    same.training.seq_len = 8192\n"
               "    config = same\n")
                .plan.batch.sequence_length,
            8192);
  EXPECT_EQ(of("    config.training = TrainingConfig()\n    training = config.training\n"
               "    config.training.seq_len = 1024\n    training.seq_len = 8192\n")
                .plan.batch.sequence_length,
            8192)
      << "an object that has nothing yet";
  const auto unread = of("    loader = config.dataloader\n    loader.workers = 2\n");
  EXPECT_EQ(unread.plan.batch.sequence_length, 4096);
  EXPECT_THAT(noted(unread), HasSubstr("'loader.workers = 2': unknown; it may change the cost"));
  const auto in_itself = of("    config.x = config\n    config.y = config\n");
  EXPECT_EQ(in_itself.plan.batch.sequence_length, 4096);
}

// What lies next to a registry is read with it; a name of its own hides no function of a file that it imports.
TEST(Torchtitan, RegistriesCallFunctionsOfTheirFolder) {
  const tests::TemporaryDirectory folder;
  folder.write("llama3/base.py",
               "from . import model_registry\nLENGTH = 1024\n"
               "def make(flavor: str = \"70B\", *, batch=2, steps: int = 10) -> Trainer.Config:\n"
               "    return Trainer.Config(model_spec=model_registry(flavor), training=TrainingConfig(\n"
               "        local_batch_size=batch, seq_len=8 * LENGTH, steps=steps))\n"
               "def run():\n    return make(\"8B\", batch=4)\n");
  const std::string text =
      "from .base import make, run as run_base\nfrom .missing import other\nLENGTH = 1\n"
      "def run():\n    config = run_base()\n    config.training.steps = 20\n    return config\n"
      "def larger():\n    return make()\n";
  const std::string path = folder.write("llama3/config_registry.py", text);
  const auto of = [&](const std::string& function) {
    return read(import_configuration(format_of("torchtitan"), text, path,
                                     {{"cluster.gpus=8"}, function, "plan.json", dense_model}));
  };
  const auto run = of("run"), larger = of("larger");
  EXPECT_EQ(run.plan.model.config, "llama-3-8b");
  EXPECT_EQ(run.plan.batch.sequence_length, 8192);
  EXPECT_EQ(run.plan.batch.micro_batch_size, 4);
  EXPECT_EQ(run.plan.run.tokens, 20.0 * 4 * 8 * 8192);
  EXPECT_EQ(larger.plan.model.config, "llama-3-70b");
  EXPECT_EQ(larger.plan.batch.micro_batch_size, 2);
  EXPECT_THAT(noted(run), testing::Not(HasSubstr("unknown")));
}

TEST(Torchtitan, ArgumentsHoldOverTheConfiguration) {
  const auto text = read_text_file(shipped("tests/golden/inputs/configurations/llama3-registry.py")).value();
  const auto with = [&](const std::vector<std::string>& arguments) {
    return import_configuration(format_of("torchtitan"), text, "file",
                                {{"cluster.gpus=8"}, "llama3_small", "plan.json", dense_model, arguments});
  };
  const auto changed = read(with({"--training.local-batch-size", "4", "--training.seq_len=8192", "--compile.no-enable",
                                  "--parallelism.enable_sequence_parallel"}));
  EXPECT_EQ(changed.plan.batch.micro_batch_size, 4);
  EXPECT_EQ(changed.plan.batch.sequence_length, 8192);
  EXPECT_EQ(changed.plan.stack.name, "pytorch-fsdp-eager");
  EXPECT_TRUE(changed.plan.parallelism.sequence);
  EXPECT_THAT(changed.toml, HasSubstr("micro_batch_size = 4  # --training.local-batch-size"));
  const std::string two_names =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = 2\nlocal_batch_size = 1\n";
  const auto over_both = read(import_configuration(format_of("torchtitan"), two_names, "file",
                                                   {{"cluster.gpus=8"},
                                                    "",
                                                    "plan.json",
                                                    dense_model,
                                                    {"--training.local-batch-size=3", "--training.batch-size=4"}}));
  EXPECT_EQ(over_both.plan.batch.micro_batch_size, 4);
  EXPECT_THAT(noted(over_both), testing::Not(HasSubstr("not read")));
  expect_refusal(with({"4"}), 0, "'4' is no --SECTION.KEY of the configuration");
  expect_refusal(with({"--config=llama3_8b"}), 0, "'--config' is no --SECTION.KEY of the configuration");
}

TEST(Torchtitan, ReleasesThatCountTokensHaveWholeSequences) {
  const auto of = [](const std::string& length) {
    return import("torchtitan",
                  "def one():\n    return Trainer.Config(parallelism=ParallelismConfig(\n"
                  "        pipeline_parallel_degree=2, num_pp_microbatches=4), training=TrainingConfig(\n"
                  "        num_tokens_per_microbatch_per_dp_rank=2 * 4096,\n"
                  "        num_tokens_per_train_step=64 * 4096, max_context_length=" +
                      length + "))\n",
                  {"cluster.gpus=8", "model.config=llama-3-8b"});
  };
  const auto plan = read(of("4096")).plan;
  EXPECT_EQ(plan.batch.sequence_length, 4096);
  EXPECT_EQ(plan.batch.micro_batch_size, 2);
  EXPECT_EQ(plan.batch.global_batch_size, 64);  // of each of 4 replicas 16: twice 4 micro-batches of 2
  expect_refusal(of("3000"), 4, "are no whole sequences of 3000 tokens");
}

// The form of torchtitan_recipes of the end of 2026: models are built with a length of context, which the batch reads
// from them; optimizers, compilation and recomputation have sections of their own.
TEST(Torchtitan, RecipesBuildTheirModels) {
  const std::string head =
      "from torchtitan.config.transform import apply_transforms, TokenDispatcherTransform\n"
      "from torchtitan.models.llama3 import (\n    build_model_config,\n    other,\n)\n"
      "def small(seq_len: int | None = None) -> Trainer.Config:\n"
      "    model_config = build_model_config(\"8B\", seq_len=seq_len)\n"
      "    return Trainer.Config(\n"
      "        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(\n"
      "            global_vocab_size=decoder_vocab_size(model_config))),\n"
      "        model=model_config,\n"
      "        optim=Optim.Config(optimizer=OptimizersContainer.Config(\n"
      "            optimizers=[AdamW.Config(pattern=r\".*\", lr=3e-4, moment_dtype=\"bfloat16\")]), max_norm=0.0),\n"
      "        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * model_config.max_context_length,\n"
      "            max_context_length=model_config.max_context_length, steps=10),\n"
      "        parallelism=ParallelismConfig(),\n"
      "        checkpointer=CheckpointManager.Config(interval=10),\n"
      "        activation_checkpoint=SelectiveActivationRematConfig())\n";
  const auto of = [&](const std::string& lines) {
    return import("torchtitan", head + "def one():\n    config = small(seq_len=8192)\n" + lines + "    return config\n",
                  {"cluster.gpus=8"}, "one");
  };
  const auto eager = read(of(""));
  EXPECT_EQ(eager.plan.model.config, "llama-3-8b");
  EXPECT_EQ(eager.plan.batch.sequence_length, 8192);
  EXPECT_EQ(eager.plan.batch.micro_batch_size, 2);
  EXPECT_EQ(eager.plan.batch.global_batch_size, 16);
  EXPECT_EQ(eager.plan.loss.chunks, 8);
  EXPECT_EQ(eager.plan.attention.kernel, "triton") << "FlexAttention is the default";
  EXPECT_EQ(eager.plan.precision.optimizer_moments, Precision::bf16);
  EXPECT_FALSE(eager.plan.optimizer.gradient_clipping);
  EXPECT_THAT(eager.plan.recompute.operators, ElementsAre("swiglu", "rmsnorm"));
  EXPECT_FALSE(eager.plan.recompute.layers);
  EXPECT_EQ(eager.plan.stack.name, "pytorch-fsdp-eager");
  EXPECT_THAT(eager.plan.stack.graphs, ElementsAre("full_iteration"));
  EXPECT_THAT(noted(eager), testing::Not(HasSubstr("unknown")));
  const auto changed =
      read(of("    config.model = build_model_config(\"8B\", seq_len=4096, attn_backend=\"varlen\")\n"
              "    config.training.max_context_length = config.model.max_context_length\n"
              "    config.training.disable_cuda_graphs = True\n    config.compile = CompileConfig()\n"
              "    config.loss = CrossEntropyLoss.Config()\n"
              "    config.activation_checkpoint = FullActivationRematConfig()\n"
              "    config = apply_transforms(config, [AsyncTensorParallelTransform()])\n"
              "    config.parallelism.tensor_parallel_degree = 2\n"));
  EXPECT_EQ(changed.plan.batch.sequence_length, 4096);
  EXPECT_EQ(changed.plan.batch.micro_batch_size, 4) << "as many tokens";
  EXPECT_EQ(changed.plan.attention.kernel, "flash2");
  EXPECT_EQ(changed.plan.loss.chunks, 1);
  EXPECT_EQ(changed.plan.recompute.policy, "full");
  EXPECT_EQ(changed.plan.stack.name, "torchtitan-2026");
  EXPECT_THAT(changed.plan.stack.graphs, testing::IsEmpty());
  EXPECT_TRUE(changed.plan.overlap.tensor);
  // Without a length the flavor's holds, of models whose flavors are known.
  const auto longest = read(import("torchtitan", head, {"cluster.gpus=8"}));
  EXPECT_EQ(longest.plan.batch.sequence_length, 131072);
  expect_refusal(import("torchtitan",
                        "from torchtitan.models.kimi_k3 import build_model_config\ndef one():\n"
                        "    model = build_model_config(\"2T\")\n    return Trainer.Config(model=model,\n"
                        "        training=TrainingConfig(max_context_length=model.max_context_length))\n",
                        {"cluster.gpus=8", "model.config=llama-3-8b"}),
                 3, "'max_context_length' is an expression, which is not run");
  expect_refusal(of("    config = apply_transforms(config, [LoRATransform(rank=8)])\n"), 21,
                 "LoRATransform is not read");
}

// Without the tokens of a micro-batch in the file the length does not divide torchtitan's default.
TEST(Torchtitan, ALengthThatDoesNotDivideTheDefaultIsNamed) {
  expect_refusal(import("torchtitan",
                        "def one():\n    return Trainer.Config(\n"
                        "        training=TrainingConfig(max_context_length=3000))\n",
                        {"cluster.gpus=8", "model.config=llama-3-8b"}),
                 3, "training.max_context_length: 16384 tokens are no whole sequences of 3000 tokens");
}

// Shards need FSDP; HYBRID_SHARD is within a machine, of eight GPUs where none is stated; a section of DeepSpeed has
// the keys of its own file; Liger's loss has ceil(V / H) parts of tokens, rounded down to powers of 2.
TEST(Trainers, ShardsSectionsAndLosses) {
  expect_refusal(import("accelerate",
                        "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\nparallelism_config:\n"
                        "  parallelism_config_dp_shard_size: 4\n  parallelism_config_dp_replicate_size: 2\n",
                        {"model.config=llama-3-8b", "batch.sequence_length=4096", "batch.micro_batch_size=1"}),
                 5, "4 shards need FSDP, which is not configured");
  const std::string head =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B\nfinetuning_type: full\ncutoff_len: 4096\n"
      "per_device_train_batch_size: 2\n";
  const auto hybrid = read(import("llama-factory", head + "fsdp: hybrid_shard\n", {"cluster.gpus=32"}));
  EXPECT_EQ(hybrid.plan.parallelism.shard_group, 8);
  EXPECT_THAT(noted(hybrid), HasSubstr("HYBRID_SHARD is within a machine, which has 8 GPUs"));
  expect_refusal(import("llama-factory", head + "fsdp: hybrid_shard\n", {"cluster.gpus=12"}), 5,
                 "is within a machine, and 12 GPUs are no machines of 8");
  const auto product = read(import("axolotl",
                                   "base_model: meta-llama/Meta-Llama-3-8B\nsequence_len: 8192\n"
                                   "gradient_accumulation_steps: 4\ndp_shard_size: 4\ndp_replicate_size: 2\n"
                                   "context_parallel_size: 2\nfsdp_version: 2\nfsdp_config:\n"
                                   "  reshard_after_forward: true\n"));
  EXPECT_EQ(product.plan.cluster.gpus, 16);
  EXPECT_EQ(product.plan.batch.global_batch_size, 1 * 4 * 8);
  EXPECT_EQ(product.plan.parallelism.shard_group, 8);
  const auto section = read(import("llama-factory",
                                   head + "deepspeed:\n  zero_optimization:\n    stage: 2\n    overlap_comm: true\n"
                                          "    offload_optimizer:\n      device: cpu\n  gradient_clipping: 1.0\n",
                                   {"cluster.gpus=8"}));
  EXPECT_EQ(section.plan.parallelism.zero_stage, 2);
  EXPECT_TRUE(section.plan.offload.optimizer);
  EXPECT_TRUE(section.plan.overlap.gradient_reduce);
  EXPECT_EQ(section.plan.stack.name, "deepspeed");
  const auto stage_0 =
      read(import("llama-factory", head + "deepspeed:\n  bf16:\n    enabled: true\n", {"cluster.gpus=8"}));
  EXPECT_EQ(stage_0.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(stage_0.plan.stack.name, "deepspeed");
  EXPECT_THAT(noted(section), testing::Not(HasSubstr("unknown")));
  const auto liger = read(import("llama-factory", head + "enable_liger_kernel: true\n", {"cluster.gpus=8"}));
  EXPECT_EQ(liger.plan.loss.chunks, 32);  // 8,192 tokens by ceil(128,256 / 4,096) = 32 are 256, a power of 2
  EXPECT_EQ(liger.plan.loss.kernel, "fused_in_place");
  const auto cut = read(import("llama-factory", head + "cut_cross_entropy: true\n", {"cluster.gpus=8"}));
  EXPECT_EQ(cut.plan.loss.kernel, "linear");
  const auto plugin = [](const std::string& lines) {
    return read(import("axolotl",
                       "base_model: meta-llama/Meta-Llama-3-8B\nsequence_len: 4096\nplugins:\n"
                       "  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\n"
                       "  - axolotl.integrations.liger.LigerPlugin\nliger_rope: true\n" +
                           lines,
                       {"cluster.gpus=8"}));
  };
  EXPECT_EQ(plugin("").plan.loss.kernel, "linear") << "the plugin has it on";
  EXPECT_THAT(noted(plugin("")), HasSubstr("liger_rope = true: not modelled"));
  EXPECT_THAT(noted(plugin("")), testing::Not(HasSubstr("plugins")));
  const auto own = plugin("cut_cross_entropy: false\nliger_cross_entropy: true\n").plan.loss;
  EXPECT_EQ(own.kernel, "fused_in_place");
  EXPECT_EQ(own.chunks, 1);
}

// A converter of linear layers leaves the experts as they are, one of experts the linear layers.
TEST(Torchtitan, ConvertersAreOfLinearLayersOrOfExperts) {
  const auto of = [](const std::string& converters) {
    return read(import("torchtitan",
                       "from torchtitan.models.deepseek_v3 import model_registry\ndef one():\n"
                       "    return Trainer.Config(model_spec=model_registry(\"671B\", converters=[" +
                           converters + "]), training=TrainingConfig(seq_len=4096, local_batch_size=1))\n",
                       {"cluster.gpus=64"}))
        .plan.precision;
  };
  const std::string linear = "MXFP8LinearConverter.Config()", experts = "MXFP8GroupedLinearConverter.Config()";
  EXPECT_EQ(of(linear).gemm, Precision::mxfp8);
  EXPECT_EQ(of(linear).experts, Precision::bf16);
  EXPECT_EQ(of(experts).gemm, Precision::bf16);
  EXPECT_EQ(of(experts).experts, Precision::mxfp8);
  EXPECT_EQ(of(linear + ", " + experts).experts, std::nullopt);
  EXPECT_EQ(of("NVFP4LinearConverter.Config()").gemm, Precision::nvfp4);
}

// Two files that are imported may have functions of one name, and each its own package of models.
TEST(Torchtitan, ImportedFilesHaveNamesOfTheirOwn) {
  const tests::TemporaryDirectory folder;
  const auto registry = [](const std::string& flavor, int length) {
    return "from . import model_registry\nLENGTH = " + std::to_string(length) +
           "\ndef debug():\n    return Trainer.Config(model_spec=model_registry(\"" + flavor +
           "\"), training=TrainingConfig(local_batch_size=1, seq_len=LENGTH))\ndef run():\n    return debug()\n";
  };
  folder.write("torchtitan/models/llama3/config_registry.py", registry("8B", 8192));
  folder.write("torchtitan/models/qwen3/config_registry.py", registry("32B", 4096));
  const std::string text =
      "from torchtitan.models.llama3.config_registry import debug, run as llama\n"
      "from torchtitan.models.qwen3.config_registry import run\n"
      "def first():\n    return llama()\ndef second():\n    return run()\ndef third():\n    return debug()\n"
      "def fourth():\n    from torchtitan.models.llama3.config_registry import run as own, LENGTH\n"
      "    config = own()\n    config.training.seq_len = LENGTH * 2\n    return config\n"
      "def fifth():\n    from torchtitan.models.qwen3.config_registry import run as own\n    return own()\n";
  const std::string path = folder.write("recipes.py", text);
  const auto of = [&](const std::string& function) {
    return read(import_configuration(format_of("torchtitan"), text, path,
                                     {{"cluster.gpus=8"}, function, "plan.json", dense_model}))
        .plan;
  };
  EXPECT_EQ(of("first").model.config, "llama-3-8b");
  EXPECT_EQ(of("first").batch.sequence_length, 8192);
  EXPECT_EQ(of("second").model.config, "qwen3-32b");
  EXPECT_EQ(of("second").batch.sequence_length, 4096);
  EXPECT_EQ(of("third").model.config, "llama-3-8b");
  EXPECT_EQ(of("fourth").model.config, "llama-3-8b");
  EXPECT_EQ(of("fourth").batch.sequence_length, 16384);
  EXPECT_EQ(of("fifth").model.config, "qwen3-32b");
}

TEST(Torchtitan, RegistriesAreRefusedWithTheirFunctions) {
  expect_refusal(import_file("torchtitan", "llama3-registry.py", {"cluster.gpus=8"}), 0,
                 "holds 2 configurations (--config NAME takes one of llama3_changed, llama3_small)");
  expect_refusal(import_file("torchtitan", "llama3-registry.py", {"cluster.gpus=8"}, "llama4"), 0,
                 "has no configuration 'llama4'");
  expect_refusal(import_file("torchtitan", "llama3-8b.toml", {"cluster.gpus=8"}, "llama3_small"), 0,
                 "is no file of Python");
  const auto of = [](const std::string& body) {
    return import("torchtitan", "from . import model_registry\ndef one():\n    return " + body + "\n",
                  {"cluster.gpus=8", "model.config=llama-3-8b"});
  };
  expect_refusal(of("Trainer.Config(training=TrainingConfig(seq_len=[8192)"), 3, "returns no configuration");
  expect_refusal(of("replace(*all), 1"), 3, "returns no configuration");
  expect_refusal(of("Trainer.Config(model_spec=model_registry(\"8B\", converters=[LoRAConverter.Config(rank=8)]))"), 3,
                 "LoRAConverter.Config is not read");
  const auto nested =
      read(of("Trainer.Config(training=TrainingConfig(**base), compile=dict(enable=False), x=[(1, 2)])"));
  EXPECT_THAT(noted(nested), HasSubstr("training: unknown"));
  EXPECT_THAT(noted(nested), HasSubstr("x[0]: unknown"));
  EXPECT_THAT(noted(read(of("Trainer.Config(**base)"))), HasSubstr("'**base': unknown"));
  std::string path;
  for (int i = 0; i < 50'000; ++i) path += ".a";
  const auto chained =
      read(import("torchtitan", "def f():\n    c = Trainer.Config()\n    c" + path + " = 1\n    return c\n",
                  {"cluster.gpus=8", "model.config=llama-3-8b"}));
  EXPECT_THAT(noted(chained), HasSubstr("'c.a.a.a"));
  std::string deep = "def f():\n    return ";
  for (int i = 0; i < 100; ++i) deep += "a(b=";
  expect_refusal(import("torchtitan", deep, {"cluster.gpus=8"}), 2, "nested more than 64 levels deep");
  expect_refusal(import("torchtitan", "def f():\n    return f()\n", {"cluster.gpus=8"}), 2,
                 "nested more than 64 levels");
  std::string copies = "def f():\n    a = '" + std::string(100'000, 'x') + "'\n    return T(x=[";
  for (int i = 0; i < 200; ++i) copies += "a,";
  expect_refusal(import("torchtitan", copies + "])\n", {"cluster.gpus=8"}), 3, "more than 100000 values");
  copies = "A = '" + std::string(100'000, 'x') + "'\ndef g():\n    return T()\ndef f():\n    return [";
  for (int i = 0; i < 200; ++i) copies += "g(),";
  expect_refusal(import("torchtitan", copies + "]\n", {"cluster.gpus=8"}, "f"), 1, "more than 100000 values");
  copies = "def g():\n";
  for (int i = 0; i < 1000; ++i) copies += "    run()\n";
  copies += "    return T()\ndef f():\n    return [";
  for (int i = 0; i < 1000; ++i) copies += "g(),";
  expect_refusal(import("torchtitan", copies + "]\n", {"cluster.gpus=8"}, "f"), 702, "more than 100000 values");
}

TEST(Torchtitan, CommentsAndWhatMakesAnotherValueChangeNothing) {
  const auto of = [](const std::string& body) {
    return read(import("torchtitan",
                       "def one():\n    training = TrainingConfig(seq_len=4096)\n"
                       "    config = Trainer.Config(training=training)\n" +
                           body + "    return config\n",
                       {"cluster.gpus=8", "model.config=llama-3-8b"}));
  };
  const auto direct =
      of("    length = 8192\n    config.training.seq_len = length  # of the model\n"
         "    config.compile.enable = True  # faster\n");
  EXPECT_EQ(direct.plan.batch.sequence_length, 8192);
  EXPECT_EQ(direct.plan.stack.name, "torchtitan-compile");
  EXPECT_THAT(noted(direct), testing::Not(HasSubstr("unknown")));
  const std::string text = "else: config.training.seq_len = 8192";
  const auto other = of("    " + text + "\n");
  EXPECT_EQ(other.plan.batch.sequence_length, 4096);
  EXPECT_THAT(noted(other), HasSubstr("'" + text + "': unknown; it may change the cost"));
  const auto used = of("    config.loss = made(config)\n    config.training.seq_len = 8192\n");
  EXPECT_EQ(used.plan.batch.sequence_length, 8192) << "what makes another value keeps none";
}

TEST(Torchtitan, DumpsHaveTheFieldsOfTheirClasses) {
  const auto of = [](const std::string& policy) {
    return read(import("torchtitan",
                       R"({"model_spec": {"name": "llama3", "flavor": "8B"}, "comm": {"mode": "default"},
 "training": {"local_batch_size": 1, "global_batch_size": -1, "seq_len": 8192, "dtype": "float32"},
 "compile": {"enable": true, "components": ["model", "loss"]}, "activation_checkpoint": )" +
                           policy + "}",
                       {"cluster.gpus=8"}));
  };
  const auto full = of(R"({"preserve_rng_state": true, "determinism_check": "default", "debug": false})");
  EXPECT_EQ(full.plan.recompute.policy, "full");
  EXPECT_EQ(full.plan.batch.global_batch_size, 8);
  EXPECT_EQ(full.plan.stack.name, "torchtitan-2026");
  EXPECT_THAT(noted(full), testing::Not(HasSubstr("not modelled")));
  const auto selective =
      of(R"({"determinism_check": "default", "force_recompute_mm_shapes_by_fqns": ["moe.router.gate"]})");
  EXPECT_EQ(selective.plan.recompute.layers, 22);
  EXPECT_EQ(of("null").plan.recompute.policy, "none");
  EXPECT_EQ(of(R"({"mode": "full"})").plan.recompute.policy, "full");
}

// Without an expert degree tensor-parallel ranks divide the experts, with one they hold whole ones.
TEST(Torchtitan, ExpertsLieOverTensorRanksAndRunAgain) {
  const auto of = [](const std::string& degree) {
    return read(import("torchtitan",
                       "[model]\nname = \"deepseek_v3\"\nflavor = \"671B\"\n[parallelism]\n"
                       "tensor_parallel_degree = 8\n" +
                           degree + "[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n",
                       {"cluster.gpus=64"}));
  };
  const auto divided = of("");
  EXPECT_EQ(divided.plan.parallelism.expert_tensor, 8);
  EXPECT_THAT(divided.plan.recompute.operators, ElementsAre("mlp", "swiglu", "rmsnorm", "moe"));
  EXPECT_EQ(of("expert_tensor_parallel_degree = 1\n").plan.parallelism.expert_tensor, 8);
  const auto whole = of("expert_parallel_degree = 8\n");
  EXPECT_EQ(whole.plan.parallelism.expert_tensor, 1);
  EXPECT_THAT(texts_of(whole), testing::Contains("with recompute.operators=[\"mlp\", \"swiglu\", \"rmsnorm\"]"));
  const auto dense =
      read(import("torchtitan", titan + "[parallelism]\ntensor_parallel_degree = 8\n", {"cluster.gpus=8"}));
  EXPECT_EQ(dense.plan.parallelism.expert_tensor, 1);
}

const std::vector<std::string> model_and_length = {"model.config=llama-3-8b", "batch.sequence_length=4096"};

std::vector<std::string> with(std::vector<std::string> overrides, const std::string& more) {
  overrides.push_back(more);
  return overrides;
}

TEST(DeepSpeed, StagesBucketsAndBatches) {
  const auto zero2 = read(import_file("deepspeed", "zero2.json", model_and_length));
  EXPECT_EQ(zero2.plan.cluster.gpus, 32);  // 1024 / (4 x 8)
  EXPECT_EQ(zero2.plan.parallelism.zero_stage, 2);
  EXPECT_TRUE(zero2.plan.offload.optimizer);
  EXPECT_TRUE(zero2.plan.overlap.gradient_reduce);
  EXPECT_EQ(zero2.plan.overlap.gradient_bucket_bytes, 1e9);  // 5e8 in BF16
  EXPECT_EQ(zero2.plan.precision.gradients, Precision::bf16);
  EXPECT_TRUE(zero2.plan.optimizer.gradient_clipping);
  EXPECT_EQ(zero2.plan.stack.name, "deepspeed");
  const auto derived = read(import("deepspeed", R"({"train_batch_size": 64, "fp16": {"enabled": true}})",
                                   with(model_and_length, "cluster.gpus=16")));
  EXPECT_EQ(derived.plan.batch.micro_batch_size, 4);
  EXPECT_EQ(derived.plan.parallelism.zero_stage, 0);
  EXPECT_EQ(derived.plan.precision.gradients, Precision::fp16);
  EXPECT_FALSE(derived.plan.overlap.gradient_reduce);
}

// What the trainer decides follows from what is set in its place.
TEST(DeepSpeed, AutoFollowsFromWhatIsSet) {
  std::vector<std::string> settings = model_and_length;
  for (const char* more :
       {"cluster.gpus=64", "precision.gemm=bf16", "batch.micro_batch_size=1", "batch.global_batch_size=64"})
    settings.emplace_back(more);
  const auto read_auto = read(import("deepspeed",
                                     R"({"bf16": {"enabled": "auto"}, "gradient_clipping": "auto",
                                         "zero_optimization": {"stage": 3}})",
                                     settings));
  EXPECT_EQ(read_auto.plan.precision.dispatch, Precision::bf16);
  EXPECT_EQ(read_auto.plan.precision.gradients, Precision::bf16);
  EXPECT_EQ(read_auto.plan.overlap.gradient_bucket_bytes, 1e9);  // 5e8 in BF16
  EXPECT_TRUE(read_auto.plan.optimizer.gradient_clipping);
  // A bucket that the trainer decides has as many parameters as the square of the hidden size: 4096 x 4096 in BF16.
  const auto bucket = read(import("deepspeed",
                                  R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
                                      "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}})",
                                  settings));
  EXPECT_EQ(bucket.plan.overlap.gradient_bucket_bytes, 33554432);
  EXPECT_THAT(noted(bucket), HasSubstr("stage3_prefetch_bucket_size = auto: not modelled"));
}

TEST(DeepSpeed, RefusesBatchesThatContradict) {
  expect_refusal(import_file("deepspeed", "zero2.json", with(model_and_length, "cluster.gpus=64")), 2,
                 "1024 is not micro-batch 4 x accumulation 8 x 64 data-parallel ranks = 2048");
  expect_refusal(import_file("deepspeed", "zero3-auto.json", with(model_and_length, "cluster.gpus=64")), 5, "auto");
  expect_refusal(
      import_file("deepspeed", "zero3-auto.json", {"precision.gemm=bf16"}), 0,
      "does not state the model, the number of GPUs, the sequence length, the micro-batch, the global batch");
  expect_refusal(
      import("deepspeed", "{\"zero_optimization\": {\"stage\": 4}}", with(model_and_length, "cluster.gpus=8")), 0, "");
  // 2^32 of each: their product is 0 in 64 bits, by which the batch would be divided.
  expect_refusal(import("deepspeed",
                        R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4294967296,
                            "gradient_accumulation_steps": 4294967296})",
                        model_and_length),
                 1, "'4294967296' is no whole number in range");
  expect_refusal(import("deepspeed", R"({"train_batch_size": 64, "gradient_accumulation_steps": 4})",
                        with(model_and_length, "batch.micro_batch_size=0")),
                 0, "--gpus N");
  expect_refusal(import("deepspeed", "{\"a\": 1,\n \"a\": 2}"), 2, "given twice");
  expect_refusal(import("deepspeed", "{\"a\": [}"), 1, "YAML or JSON");
}

TEST(Accelerate, ShardingStrategies) {
  const std::vector<std::string> batch = {"model.config=qwen3-8b", "batch.sequence_length=4096",
                                          "batch.micro_batch_size=2"};
  const auto fsdp2 = read(import_file("accelerate", "fsdp2.yaml", batch));
  EXPECT_EQ(fsdp2.plan.cluster.gpus, 32);
  EXPECT_EQ(fsdp2.plan.parallelism.zero_stage, 3);
  EXPECT_FALSE(fsdp2.plan.parallelism.reshard_after_forward);
  EXPECT_EQ(fsdp2.plan.recompute.policy, "full");
  EXPECT_EQ(fsdp2.plan.batch.global_batch_size, 64);
  EXPECT_EQ(fsdp2.plan.stack.name, "torchtitan-compile");
  const auto hybrid = read(import_file("accelerate", "hybrid-shard.yaml", batch));
  EXPECT_EQ(hybrid.plan.parallelism.shard_group, 8);  // 16 GPUs of two machines
  EXPECT_EQ(hybrid.plan.precision.gemm, Precision::fp16);
  EXPECT_THAT(noted(hybrid), HasSubstr("SIZE_BASED_WRAP: not modelled"));
  const auto of = [&](const std::string& strategy) {
    return import(
        "accelerate",
        "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf16\nfsdp_config:\n  fsdp_sharding_strategy: " +
            strategy + "\n",
        batch);
  };
  EXPECT_EQ(read(of("NO_SHARD")).plan.parallelism.zero_stage, 0);
  EXPECT_FALSE(read(of("SHARD_GRAD_OP")).plan.parallelism.reshard_after_forward);
  expect_refusal(of("FULL_SHART"), 5, "did you mean 'FULL_SHARD'?");
  EXPECT_EQ(read(of("FULL_SHARD")).plan.parallelism.reduce_after, "pass") << "of one micro-batch a step";
  EXPECT_EQ(read(of("FULL_SHARD\ngradient_accumulation_steps: 4")).plan.parallelism.reduce_after, "run");
}

TEST(Accelerate, DeepSpeedAndMegatronSections) {
  const std::vector<std::string> batch = {"model.config=qwen3-8b", "batch.sequence_length=4096",
                                          "batch.micro_batch_size=2"};
  const auto zero =
      read(import("accelerate",
                  "distributed_type: DEEPSPEED\nnum_processes: 16\nmixed_precision: bf16\ndeepspeed_config:\n"
                  "  zero_stage: 3\n  gradient_accumulation_steps: 4\n  offload_optimizer_device: cpu\n",
                  batch));
  EXPECT_EQ(zero.plan.parallelism.zero_stage, 3);
  EXPECT_EQ(zero.plan.batch.global_batch_size, 128);  // 2 x 4 x 16
  EXPECT_TRUE(zero.plan.offload.optimizer);
  EXPECT_EQ(zero.plan.stack.name, "deepspeed");
  const auto megatron =
      read(import("accelerate",
                  "distributed_type: MEGATRON_LM\nnum_processes: 16\nmixed_precision: bf16\nmegatron_lm_config:\n"
                  "  megatron_lm_tp_degree: 2\n  megatron_lm_pp_degree: 2\n  megatron_lm_num_micro_batches: 4\n",
                  batch));
  EXPECT_EQ(megatron.plan.parallelism.pipeline, 2);
  EXPECT_EQ(megatron.plan.batch.global_batch_size, 32);  // 2 x 4 x 16 / (2 x 2)
  expect_refusal(
      import("accelerate", "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"), 3,
      "import deepspeed ds.json");
}

TEST(Trainers, NamesOfThreeProgramsAreOneTable) {
  const auto factory = read(import_file("llama-factory", "llama-factory.yaml", {"cluster.gpus=8"}));
  EXPECT_EQ(factory.plan.model.config, "llama-3-8b");
  EXPECT_EQ(factory.plan.parallelism.zero_stage, 3) << "of the name of DeepSpeed's file";
  EXPECT_EQ(factory.plan.batch.sequence_length, 2048);
  EXPECT_EQ(factory.plan.batch.global_batch_size, 16);  // 1 x 2 x 8
  EXPECT_EQ(factory.plan.recompute.policy, "full") << "unless it is disabled";
  EXPECT_EQ(factory.plan.precision.gradients, Precision::bf16);
  EXPECT_EQ(factory.plan.precision.optimizer_moments, Precision::fp32);
  EXPECT_EQ(factory.plan.stack.name, "deepspeed");
  EXPECT_THAT(noted(factory), testing::Not(HasSubstr("unknown")));

  const auto axolotl = read(import("axolotl",
                                   "base_model: Qwen/Qwen3-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
                                   "gradient_accumulation_steps: 4\nbf16: auto\nadapter:\ntensor_parallel_size: 2\n"
                                   "optimizer: adamw_bnb_8bit\nfsdp_version: 2\nfsdp_config:\n"
                                   "  reshard_after_forward: false\n",
                                   {"cluster.gpus=16"}));
  EXPECT_EQ(axolotl.plan.model.config, "qwen3-8b");
  EXPECT_EQ(axolotl.plan.parallelism.tensor, 2);
  EXPECT_EQ(axolotl.plan.parallelism.zero_stage, 3);
  EXPECT_FALSE(axolotl.plan.parallelism.reshard_after_forward);
  EXPECT_EQ(axolotl.plan.batch.global_batch_size, 64);  // 2 x 4 x 16 / 2
  EXPECT_EQ(axolotl.plan.recompute.policy, "none");
  EXPECT_EQ(axolotl.plan.precision.gemm, Precision::bf16);
  EXPECT_EQ(axolotl.plan.precision.gradients, Precision::fp32);
  EXPECT_EQ(axolotl.plan.stack.name, "pytorch-fsdp-eager");
  EXPECT_EQ(axolotl.plan.precision.optimizer_moments, Precision::fp8);
  EXPECT_THAT(noted(axolotl), HasSubstr("optimizer = adamw_bnb_8bit: not modelled"));
  EXPECT_THAT(noted(axolotl), HasSubstr("every sequence has the full length"));

  const auto swift = read(import("ms-swift",
                                 "model: Qwen/Qwen3-8B\ntrain_type: full\nmax_length: 8192\ndeepspeed: zero2_offload\n"
                                 "packing: true\nmax_steps: 100\n",
                                 {"cluster.gpus=6"}));
  EXPECT_EQ(swift.plan.parallelism.zero_stage, 2);
  EXPECT_TRUE(swift.plan.offload.optimizer);
  EXPECT_EQ(swift.plan.batch.global_batch_size, 18);  // the first multiple of 6 from 16 on
  EXPECT_EQ(swift.plan.run.tokens, 100.0 * 18 * 8192);
  EXPECT_EQ(swift.plan.recompute.policy, "full");

  const auto parameters = read(import("axolotl",
                                      "base_model: Qwen/Qwen3-8B\n"
                                      "deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_params.json\n",
                                      {"cluster.gpus=8"}));
  EXPECT_FALSE(parameters.plan.offload.optimizer);
  EXPECT_THAT(noted(parameters), HasSubstr("not modelled; it can change the cost: parameters stay on the GPU"));
}

TEST(Trainers, ALaunchScriptHasTheSameKeys) {
  const auto swift = read(import("ms-swift",
                                 "n=4\nNPROC_PER_NODE=$n \\\nswift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B "
                                 "--train_type full --dataset 'a/b#200' c/d --max_length 4096 --deepspeed zero3 \\\n"
                                 "  --gradient_accumulation_steps $(expr 16 / $n)\n"));
  EXPECT_EQ(swift.plan.cluster.gpus, 4);
  EXPECT_EQ(swift.plan.training.objective, "dpo");
  EXPECT_EQ(swift.plan.parallelism.zero_stage, 3);
  EXPECT_EQ(swift.plan.batch.global_batch_size, 32);  // pairs of 4 ranks, 4 of them accumulated
  const std::string factory = "torchrun --nnodes 2 --nproc_per_node 8 src/train.py ";
  EXPECT_EQ(
      read(import("llama-factory", factory + "--model_name_or_path Qwen/Qwen3-8B --cutoff_len 64\n")).plan.cluster.gpus,
      16);
  const std::string deepspeed =
      "deepspeed --num_nodes 2 --num_gpus 8 src/train.py --model_name_or_path Qwen/Qwen3-8B\n";
  EXPECT_EQ(read(import("llama-factory", deepspeed)).plan.cluster.gpus, 16);
  expect_refusal(import("llama-factory", "llamafactory-cli train sft.yaml\n"), 1, "trains by sft.yaml");
}

TEST(Trainers, WeightsOfPureBf16HaveNoCopy) {
  const auto of = [](const std::string& keys) {
    return read(import("llama-factory", "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\n" + keys,
                       {"cluster.gpus=8"}));
  };
  EXPECT_EQ(of("pure_bf16: true\n").plan.precision.master_weights, Precision::bf16);
  EXPECT_EQ(of("pure_bf16: true\n").plan.precision.optimizer_moments, Precision::bf16);
  EXPECT_EQ(of("bf16: true\n").plan.precision.master_weights, Precision::fp32);
  EXPECT_THAT(noted(of("bf16: true\n")), HasSubstr("assumed: parallelism.zero_stage = 0"));
}

// A name behind that of a shipped model is that of a further training.
TEST(Trainers, NamesBeginAsThoseOfShippedModels) {
  const auto known = [](const std::string& name) {
    return name == "llama-3-8b" ? dense_model(name) : wrong_input("model.config", "no model");
  };
  const auto of = [&](const std::string& name) {
    return import_configuration(format_of("axolotl"), "base_model: " + name + "\n", "file",
                                {{"cluster.gpus=8"}, "", "plan.json", known});
  };
  EXPECT_EQ(read(of("a/Llama-3-8b-sft-mixture")).plan.model.config, "llama-3-8b");
  EXPECT_THAT(noted(read(of("a/Llama-3-8b-sft-mixture"))), HasSubstr("has the dimensions of llama-3-8b"));
  EXPECT_THAT(noted(read(of("a/llama-3-8b-fp16"))), testing::Not(HasSubstr("dimensions")));
  EXPECT_FALSE(of("a/other-8b"));
}

// Of two names of one key the last that states something holds, and the other one is listed.
TEST(Trainers, AKeyMayHaveTwoNames) {
  const auto of = [](const std::string& keys) {
    return read(import("ms-swift", "model: Qwen/Qwen3-8B\nmax_length: 2048\n" + keys, {"cluster.gpus=8"}));
  };
  EXPECT_THAT(noted(of("train_type: lora\ntuner_type: full\n")),
              HasSubstr("train_type = lora: not read; tuner_type (line 4) holds"));
  EXPECT_THAT(noted(of("train_type: full\ntuner_type:\n")), testing::Not(HasSubstr("not read")));
  EXPECT_THAT(noted(of("train_type: full\ntuner_type: full\n")), testing::Not(HasSubstr("not read")));
}

TEST(Trainers, ShardsTimesReplicasAreTheDataParallelRanks) {
  const std::string mesh =
      "base_model: Qwen/Qwen3-8B\ndp_shard_size: 4\ndp_replicate_size: 2\ntensor_parallel_size: 2\n"
      "fsdp_config:\n  reshard_after_forward: true\n";
  EXPECT_EQ(read(import("axolotl", mesh, {"cluster.gpus=16"})).plan.parallelism.shard_group, 4);
  expect_refusal(import("axolotl", mesh, {"cluster.gpus=64"}), 2, "4 shards x 2 replicas are not the 32");
}

// Numbers of YAML 1.1, FP8, and experts over ranks of their own, as the programs' examples have them.
TEST(Trainers, LongContextsFp8AndExperts) {
  const auto of = [](const std::string& format, const std::string& text, const std::string& gpus) {
    return read(import(format, text, {"cluster.gpus=" + gpus}));
  };
  const auto longest = of("axolotl",
                          "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 500_000\nsequence_parallel_degree: 8\n"
                          "tiled_mlp: true\ngradient_checkpointing: true\nactivation_offloading: legacy\n"
                          "deepspeed: deepspeed_configs/zero3_bf16.json\n",
                          "8");
  EXPECT_EQ(longest.plan.batch.sequence_length, 500000);
  EXPECT_THAT(noted(longest), HasSubstr("tiled_mlp = true: not modelled"));
  EXPECT_THAT(noted(longest), HasSubstr("activation_offloading = legacy: not modelled"));
  const std::string factory =
      "model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct\nfinetuning_type: full\nbf16: true\n"
      "fsdp: full_shard auto_wrap\nfsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\nfp8: true\n";
  const auto torchao = of("llama-factory", factory + "fp8_backend: torchao\n", "8");
  EXPECT_EQ(torchao.plan.precision.gemm, Precision::fp8_tensor);
  EXPECT_EQ(torchao.plan.precision.scaling, "current");
  EXPECT_THAT(noted(torchao), testing::Not(HasSubstr("unknown")));
  EXPECT_EQ(of("llama-factory", factory + "fp8_backend: te\n", "8").plan.precision.scaling, "delayed");
  const std::string experts =
      "base_model: Qwen/Qwen3-30B-A3B\nexpert_parallel_size: 2\ndp_shard_size: 2\nfsdp_config:\n"
      "  reshard_after_forward: true\nplugins:\n  - axolotl.integrations.expert_parallel.ExpertParallelPlugin\n";
  const Plan plan = of("axolotl", experts, "4").plan;
  EXPECT_EQ(plan.parallelism.expert, 2);
  EXPECT_EQ(plan.parallelism.shard_group, 2);
  EXPECT_EQ(plan.stack.dispatcher, "deepep");
  expect_refusal(import("axolotl", experts, {"cluster.gpus=8"}), 3, "2 shards x 2 replicas are not the 8");
}

TEST(Trainers, TheModelMayBeAFolder) {
  const auto of = [](const std::string& name) {
    return import("llama-factory", "finetuning_type: full\nmodel_name_or_path: " + name + "\n", {"cluster.gpus=8"});
  };
  EXPECT_EQ(read(of("/data/llama3")).plan.model.config, "/data/llama3/config.json");
  expect_refusal(of("llama3"), 2, "no shipped model has the name 'llama3'");
  // A folder of another machine is named after its model.
  const auto load = [](const std::string& config) -> Result<Architecture> {
    if (config == "qwen3-8b") return tests::dense_model(config);
    return wrong_input_at(config, 0, "", "is no model", "");
  };
  const auto elsewhere = find_named_model("/data/models/Qwen3-8B-Instruct", load);
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->model.shipped, "qwen3-8b");
  EXPECT_TRUE(elsewhere->further) << "which is noted";
  EXPECT_FALSE(find_named_model("/data/models/mine", load));
}

TEST(Trainers, WordsOfFsdp) {
  const auto of = [](const std::string& keys) {
    return read(import("axolotl", "base_model: Qwen/Qwen3-8B\n" + keys, {"cluster.gpus=8"})).plan;
  };
  const auto listed = of("fsdp:\n  - shard_grad_op\n  - auto_wrap\n  - offload\n");
  EXPECT_EQ(listed.parallelism.zero_stage, 3);
  EXPECT_FALSE(listed.parallelism.reshard_after_forward);
  EXPECT_TRUE(listed.offload.optimizer);
  EXPECT_EQ(of("fsdp: no_shard auto_wrap\n").parallelism.zero_stage, 0);
  const auto replicated = of("fsdp:\nfsdp_config:\ngradient_checkpointing: offload\n");
  EXPECT_EQ(replicated.parallelism.zero_stage, 0);
  EXPECT_EQ(replicated.recompute.policy, "full");
  EXPECT_FALSE(replicated.recompute.early_stop) << "the Trainer's checkpoints are reentrant";
  EXPECT_TRUE(of("gradient_checkpointing: true\ngradient_checkpointing_kwargs:\n  use_reentrant: false\n")
                  .recompute.early_stop);
  EXPECT_EQ(replicated.batch.sequence_length, 512);
  EXPECT_EQ(replicated.batch.global_batch_size, 8);
}

// transformers 5 has other checkpoints where a file states none; LLaMA-Factory states them itself.
TEST(Trainers, CheckpointsThatAreNotStatedAreNoted) {
  const auto of = [](const std::string& format, const std::string& keys) {
    const std::string model = format == "axolotl" ? "base_model" : "model_name_or_path";
    return read(import(format, model + ": Qwen/Qwen3-8B\ngradient_checkpointing: true\n" + keys,
                       {"cluster.gpus=8", "parallelism.zero_stage=3"}));
  };
  const auto open = of("axolotl", "");
  EXPECT_THAT(noted(open), HasSubstr("assumed: recompute.early_stop = false: the default of"));
  EXPECT_THAT(texts_of(open), testing::Contains("with recompute.early_stop=true"));
  const std::string stated = "gradient_checkpointing_kwargs:\n  use_reentrant: true\n";
  EXPECT_THAT(noted(of("axolotl", stated)), Not(HasSubstr("assumed: recompute.early_stop")));
  EXPECT_THAT(noted(of("llama-factory", "finetuning_type: full\n")), Not(HasSubstr("assumed: recompute.early_stop")));
}

TEST(Trainers, AdaptersOfLora) {
  using testing::ElementsAre;
  const auto shipped_model = [](const std::string& name) {
    return load_architecture(shipped("examples/models/" + name + ".json"));
  };
  const auto factory = [&](const std::string& keys, const std::string& model = "Qwen/Qwen3-8B") {
    const std::string text = "model_name_or_path: " + model + "\n" + keys;
    return read(import_configuration(format_of("llama-factory"), text, "file",
                                     {{"cluster.gpus=8"}, "", "plan.json", shipped_model}))
        .plan.training;
  };
  const auto silent = factory("");
  EXPECT_EQ(silent.method, "lora");
  EXPECT_EQ(silent.rank, 8);
  EXPECT_THAT(silent.targets, ElementsAre("attention", "mlp", "experts"));
  const auto stated =
      factory("finetuning_type: lora\nlora_rank: 64\nlora_target: q_proj,v_proj\nquantization_bit: 4\n");
  EXPECT_EQ(stated.method, "qlora");
  EXPECT_EQ(stated.rank, 64);
  EXPECT_THAT(stated.targets, ElementsAre("attention"));
  EXPECT_THAT(factory("lora_target: gate_proj,up_proj,down_proj\n", "Qwen/Qwen3-30B-A3B").targets,
              ElementsAre("mlp", "experts"));
  EXPECT_EQ(factory("finetuning_type: full\n").method, "full");

  const auto axolotl = read(import("axolotl",
                                   "base_model: Qwen/Qwen3-8B\nadapter: qlora\nload_in_4bit: true\nlora_r: 32\n"
                                   "lora_alpha: 16\nlora_dropout: 0.05\nlora_target_linear: true\n"
                                   "optimizer: muon\n",
                                   {"cluster.gpus=8"}));
  EXPECT_EQ(axolotl.plan.training.method, "qlora");
  EXPECT_EQ(axolotl.plan.training.rank, 32);
  EXPECT_EQ(axolotl.plan.optimizer.kind, "muon");
  EXPECT_THAT(axolotl.plan.training.targets, ElementsAre("attention", "mlp", "experts"));
  EXPECT_THAT(noted(axolotl), HasSubstr("lora_dropout = 0.05: not modelled"));
  EXPECT_THAT(noted(axolotl), testing::Not(HasSubstr("unknown")));

  // Shared experts are MLPs, which routed experts are not, and a router is neither.
  const auto shared = [](const std::string& modules) {
    return import_configuration(format_of("axolotl"),
                                "base_model: Qwen/Qwen3-30B-A3B\nsequence_len: 2048\nmicro_batch_size: "
                                "1\ngradient_accumulation_steps: 1\nbf16: auto\n"
                                "adapter: lora\nlora_r: 16\nlora_target_modules:" +
                                    modules,
                                "file", {{"cluster.gpus=8"}, "", "plan.json", [](const std::string& name) {
                                           auto model = dense_model(name);
                                           model->experts = {
                                               .routed_experts = 8, .experts_per_token = 2, .intermediate_size = 1024};
                                           return model;
                                         }});
  };
  EXPECT_THAT(read(shared(" [q_proj, shared_expert.up_proj, shared_expert_gate, mlp.gate]")).plan.training.targets,
              ElementsAre("attention", "mlp"));
  EXPECT_THAT(read(shared(" [q_proj, mlp.gate, router]")).plan.training.targets, ElementsAre("attention"));
  EXPECT_THAT(read(shared(" [q_proj, up_proj]")).plan.training.targets, ElementsAre("attention", "mlp", "experts"));

  const auto swift = read(import("ms-swift",
                                 "model: Qwen/Qwen3-8B\nmax_length: 2048\ntrain_type: lora\nlora_rank: 16\n"
                                 "target_modules: [q_proj, k_proj, v_proj, o_proj]\n",
                                 {"cluster.gpus=8"}));
  EXPECT_EQ(swift.plan.training.method, "lora");
  EXPECT_EQ(swift.plan.training.rank, 16);
  EXPECT_THAT(swift.plan.training.targets, ElementsAre("attention"));
  EXPECT_THAT(noted(swift), testing::Not(HasSubstr("target_modules")));
}

// Two sequences of each sample, and a reference model unless the loss or the file has none.
TEST(Trainers, PairsOfAnswers) {
  const auto of = [](const char* format, const std::string& text) {
    return read(import(format, text, {"cluster.gpus=8"})).plan;
  };
  const std::string factory =
      "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 3\n"
      "gradient_accumulation_steps: 2\nstage: dpo\npref_beta: 0.1\n";
  const model::Plan dpo = of("llama-factory", factory);
  EXPECT_EQ(dpo.training.objective, "dpo");
  EXPECT_EQ(dpo.training.reference, "model");
  EXPECT_EQ(dpo.batch.micro_batch_size, 6);
  EXPECT_EQ(dpo.batch.global_batch_size, 96);
  EXPECT_EQ(of("llama-factory", factory + "pref_loss: simpo\n").training.reference, "precomputed");
  const model::Plan kto_pair = of("llama-factory", factory + "pref_loss: kto_pair\n");
  EXPECT_EQ(kto_pair.training.objective, "dpo");
  EXPECT_EQ(kto_pair.training.reference, "model");
  EXPECT_EQ(kto_pair.batch.micro_batch_size, 6);
  const model::Plan axolotl =
      of("axolotl", "base_model: Qwen/Qwen3-8B\nrl: dpo\nprecompute_ref_log_probs: true\nmicro_batch_size: 1\n");
  EXPECT_EQ(axolotl.training.objective, "dpo");
  EXPECT_EQ(axolotl.training.reference, "precomputed");
  EXPECT_EQ(axolotl.batch.micro_batch_size, 2);
  EXPECT_EQ(of("ms-swift", "model: Qwen/Qwen3-8B\nmax_length: 2048\nrlhf_type: dpo\n").training.objective, "dpo");
}

TEST(Trainers, FewWeightsAndFilesWithoutAStageAreRefused) {
  const std::string model = "model_name_or_path: Qwen/Qwen3-8B\n";
  expect_refusal(import("llama-factory", model + "finetuning_type: oft\n", {"cluster.gpus=8"}), 2, "oft is not read");
  expect_refusal(import("llama-factory", model + "use_dora: true\n", {"cluster.gpus=8"}), 2, "DoRA is not read");
  expect_refusal(import("axolotl", "base_model: Qwen/Qwen3-8B\nadapter: lora\n", {"cluster.gpus=8"}), 0,
                 "the rank of the adapters (lora_r) is not stated");
  const std::string all = model + "finetuning_type: full\n";
  expect_refusal(import("llama-factory", all + "deepspeed: configs/mine.json\n", {"cluster.gpus=8"}), 3,
                 "the name 'configs/mine.json' has no stage");
  expect_refusal(import("llama-factory", all), 0, "the number of GPUs");
  expect_refusal(import("ms-swift", "model: Qwen/Qwen3-8B\ntrain_type: full\n", {"cluster.gpus=8"}), 0,
                 "does not state the sequence length");
  expect_refusal(import("llama-factory", "model_name_or_path: gpt2\nfinetuning_type: full\n", {"cluster.gpus=8"}), 1,
                 "no shipped model has the name 'gpt2'");
}

// Fields that have the name of an argument of Megatron are read by its rules.
TEST(Nemo, WholeConfigurationsOfBridge) {
  const std::string dump = R"(_target_: megatron.bridge.training.config.ConfigContainer
checkpoint: {save: checkpoints}
dataset: {seq_length: 4096}
ddp: {average_in_collective: true, grad_reduce_in_fp32: true, overlap_grad_reduce: true, overlap_param_gather: true,
      use_distributed_optimizer: true}
mixed_precision: {bf16: true, fp16: false, fp8: null, fp8_recipe: tensorwise, grad_reduce_in_fp32: false}
model: {_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, add_bias_linear: false,
        attention_backend: AttnBackend.fused, cross_entropy_fusion_impl: te, cross_entropy_loss_fusion: true,
        cuda_graph_impl: local, cuda_graph_scope: [full_iteration], ffn_hidden_size: 1024, gated_linear_unit: true,
        hidden_size: 512, made_up_choice: fast, made_up_switch: false, normalization: RMSNorm, num_attention_heads: 8,
        num_layers: 4, position_embedding_type: rope, recompute_granularity: selective,
        recompute_modules: [core_attn, mlp], sequence_parallel: true, share_embeddings_and_output_weights: false,
        tensor_model_parallel_size: 2, vocab_size: 32000}
optimizer: {exp_avg_dtype: torch.bfloat16, exp_avg_sq_dtype: torch.bfloat16, optimizer: adam,
            use_precision_aware_optimizer: true}
peft: null
train: {global_batch_size: 32, micro_batch_size: 2, train_iters: 10}
)";
  const auto imported = read(import("nemo", dump, {"cluster.gpus=8"}));
  const Plan& plan = imported.plan;
  EXPECT_EQ(plan.parallelism.tensor, 2);
  EXPECT_EQ(plan.parallelism.zero_stage, 1);
  EXPECT_EQ(plan.batch.micro_batch_size, 2);
  EXPECT_EQ(plan.run.tokens, 10.0 * 32 * 4096);
  EXPECT_EQ(plan.precision.gemm, Precision::bf16);
  EXPECT_EQ(plan.precision.gradients, Precision::bf16) << "the recipe of precision wins over DDP's section";
  EXPECT_EQ(plan.precision.optimizer_moments, Precision::bf16);
  EXPECT_TRUE(plan.overlap.gradient_reduce);
  EXPECT_EQ(plan.overlap.gradient_bucket_bytes, 80e6);  // 40 million gradients
  EXPECT_THAT(plan.recompute.operators, ElementsAre("core_attention", "mlp"));
  EXPECT_EQ(plan.attention.kernel, "cudnn");
  EXPECT_EQ(plan.loss.kernel, "fused_in_place");
  EXPECT_THAT(plan.stack.graphs, ElementsAre("full_iteration"));
  ASSERT_TRUE(imported.config_json);
  EXPECT_THAT(*imported.config_json, HasSubstr("\"num_hidden_layers\": 4"));
  EXPECT_THAT(noted(imported), HasSubstr("model.made_up_choice: unknown"));
  EXPECT_THAT(noted(imported), testing::Not(HasSubstr("made_up_switch")));
  const auto half = read(import("nemo", "model:\n  _target_: Llama3ModelProvider8B\n  fp16: true\n  seq_length: 4096\n",
                                {"cluster.gpus=8", "batch.micro_batch_size=1", "batch.global_batch_size=8"}));
  EXPECT_EQ(half.plan.precision.gemm, Precision::fp16);
  EXPECT_THAT(noted(half), testing::Not(HasSubstr("states no precision")));
  const std::string adapters =
      "model: {_target_: Llama3ModelProvider8B, seq_length: 4096}\ntrain: {micro_batch_size: 1, global_batch_size: 8}\n"
      "peft:\n  _target_: megatron.bridge.peft.";
  expect_refusal(import("nemo",
                        "model: {_target_: Llama3ModelProvider8B, seq_length: 4096}\n"
                        "train: {micro_batch_size: 1, global_batch_size: 8}\npeft:\n  dim: 16\n",
                        {"cluster.gpus=8"}),
                 4, "an adapter is not read");
  const auto lora = read(import("nemo", adapters + "lora.LoRA\n  dim: 16\n", {"cluster.gpus=8"}));
  EXPECT_EQ(lora.plan.training.method, "lora");
  EXPECT_EQ(lora.plan.training.rank, 16);
  EXPECT_THAT(lora.toml, HasSubstr("targets = [\"attention\", \"mlp\", \"experts\"]")) << "of the class";
  expect_refusal(import("nemo", adapters + "dora.DoRA\n", {"cluster.gpus=8"}), 4, "DoRA is not read");
}

TEST(Nemo, RecipesOfPythonHaveTheirGpusAndModelInNames) {
  const auto imported = read(import("nemo", R"(from megatron.bridge.perf_recipes.llama.common import *

def llama3_70b_pretrain_64gpu_h100_fp8cs_config() -> ConfigContainer:
    cfg = llama3_70b_pretrain_config()
    cfg.mixed_precision = _perf_precision("fp8_cs")
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 8
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.sequence_parallel = True
    cfg.train.global_batch_size = 256
    cfg.train.micro_batch_size = 1
    _tune(cfg)
    return cfg
)",
                                    {"batch.sequence_length=8192", "parallelism.context=1"}));
  EXPECT_EQ(imported.plan.cluster.gpus, 64);
  EXPECT_EQ(imported.plan.model.config, "llama-3-70b");
  EXPECT_EQ(imported.plan.parallelism.pipeline, 8);
  EXPECT_EQ(imported.plan.schedule.virtual_stages, 5);
  EXPECT_EQ(imported.plan.precision.gemm, Precision::fp8_tensor);
  EXPECT_EQ(imported.plan.precision.scaling, "current");
  EXPECT_EQ(imported.plan.batch.global_batch_size, 256);
  EXPECT_EQ(imported.plan.parallelism.zero_stage, 1) << "of the common base";
  EXPECT_TRUE(imported.plan.overlap.gradient_reduce && imported.plan.overlap.parameter_gather);
  EXPECT_THAT(imported.toml, HasSubstr("zero_stage = 1  # llama3_70b_pretrain_config()"));
  EXPECT_THAT(noted(imported), HasSubstr("'_tune(cfg)': unknown"));
  EXPECT_THAT(noted(imported), HasSubstr("llama3_70b_pretrain_config(): unknown"));
}

// What a recipe of another file sets is no default.
TEST(Nemo, DegreesThatARecipeOfAnotherFileSetsAreAskedFor) {
  const auto of = [](const std::string& from, const std::string& model, const std::string& degree) {
    const std::string base = model + "_pretrain_config";
    return import(
        "nemo",
        "from megatron.bridge.recipes." + from + "\n\n\ndef " + model +
            "_pretrain_64gpu_h100_bf16_config():\n    cfg = " + base +
            "()\n    cfg.model.tensor_model_parallel_size = 4\n    cfg.model.pipeline_model_parallel_size = 8\n" +
            degree + "    cfg.train.micro_batch_size = 1\n    cfg.train.global_batch_size = 256\n    return cfg\n",
        {"batch.sequence_length=8192"});
  };
  expect_refusal(
      of("llama import llama3_70b_pretrain_config", "llama3_70b", ""), 5,
      "llama3_70b_pretrain_config(): sets parallelism.context, which this file leaves to it, and is defined in "
      "megatron.bridge.recipes.llama, which is not read");
  expect_refusal(
      of("llama import (\n    llama3_70b_pretrain_config,\n)\nfrom megatron.bridge.utils import *", "llama3_70b", ""),
      8, "is defined in megatron.bridge.recipes.llama, which");
  const std::string context = "    cfg.model.context_parallel_size = 2\n";
  EXPECT_EQ(read(of("llama import *", "llama3_70b", context)).plan.parallelism.context, 2);
  expect_refusal(of("deepseek import *", "deepseek_v3", context), 5,
                 "sets parallelism.expert, which this file leaves to it, and is defined in "
                 "megatron.bridge.recipes.deepseek");
  expect_refusal(of("nemotronh import *", "nemotron_3_nano", context), 5, "sets parallelism.expert");
}

TEST(Nemo, RecipesBeginAsBridgesCommonOnes) {
  const auto of = [](const std::string& base) {
    return import(
        "nemo", "def recipe():\n    cfg = " + base + "\n    cfg.model.tensor_model_parallel_size = 2\n    return cfg\n",
        {"cluster.gpus=8", "model.config=llama-3-8b", "batch.sequence_length=2048", "batch.micro_batch_size=1",
         "batch.global_batch_size=64"});
  };
  const auto pretrained = read(of("_pretrain_common()"));
  EXPECT_EQ(pretrained.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(pretrained.plan.precision.gradients, Precision::fp32);
  EXPECT_TRUE(pretrained.plan.overlap.gradient_reduce && pretrained.plan.overlap.parameter_gather);
  const auto tuned = read(of("_sft_common()"));
  EXPECT_EQ(tuned.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(tuned.plan.precision.gradients, Precision::fp32);
  EXPECT_FALSE(tuned.plan.overlap.gradient_reduce || tuned.plan.overlap.parameter_gather);
  expect_refusal(of("_peft_common()"), 2, "an adapter is not read");
}

TEST(Nemo, RecipesOfAdaptersAreRefused) {
  const auto of = [](const std::string& base, const std::string& line) {
    return import(
        "nemo",
        "def llama3_8b_lora_8gpu_h100_bf16_config():\n    cfg = " + base + "\n    " + line + "\n    return cfg\n",
        {"batch.sequence_length=2048"});
  };
  expect_refusal(of("llama3_8b_peft_config(peft_scheme=\"lora\")", "cfg.train.micro_batch_size = 1"), 2,
                 "lora is not read");
  expect_refusal(of("llama3_8b_peft_config()", "cfg.peft.target_modules = [\"linear_qkv\"]"), 3,
                 "an adapter is not read");
}

TEST(Nemo, StagesMayBeUneven) {
  // 32 layers on 4 stages: 6 and 8 at the ends leave (32 - 14) / 2 = 9 for each of the others.
  const auto of = [](const std::string& keys) {
    return import("nemo", "trainer:\n  devices: 8\nmodel:\n  pipeline_model_parallel_size: 4\n" + keys,
                  {"model.config=llama-3-8b", "batch.sequence_length=4096", "batch.micro_batch_size=1",
                   "batch.global_batch_size=64"});
  };
  const std::string ends = "  num_layers_in_first_pipeline_stage: 6\n  num_layers_in_last_pipeline_stage: 8\n";
  EXPECT_THAT(read(of(ends)).plan.schedule.layers_per_stage.counts, ElementsAre(6, 9, 9, 8));
  EXPECT_THAT(read(of("  pipeline_model_parallel_layout: Et*7|(t*8|)*2,t*9L\n")).plan.schedule.layers_per_stage.counts,
              ElementsAre(7, 8, 8, 9));
  EXPECT_THAT(read(of("")).plan.schedule.layers_per_stage.counts, testing::IsEmpty());
  expect_refusal(of("  num_layers_in_first_pipeline_stage: 6\n"), 5, "the other ranks cannot share the rest evenly");
  // A function of another file sets the stages of DeepSeek-V3, whose layers do not divide.
  const auto thirds = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"model.config=llama-3-8b", "batch.sequence_length=4096", "batch.micro_batch_size=1",
                                    "batch.global_batch_size=64"};
    all.insert(all.end(), more.begin(), more.end());
    return import("nemo", "trainer:\n  devices: 6\nmodel:\n  pipeline_model_parallel_size: 3\n", all);
  };
  expect_refusal(thirds({}), 0, "32 layers do not divide over 3 stages (as Megatron refuses it; --set schedule.");
  EXPECT_THAT(read(thirds({"schedule.layers_per_stage=[11, 11, 10]"})).plan.schedule.layers_per_stage.counts,
              ElementsAre(11, 11, 10));
}

// Without a key the program's default holds, and so does what follows from it.
TEST(Configurations, DecisionsHaveThePlanWithoutThem) {
  const auto imported = read(import_file("torchtitan", "llama3-8b.toml", {"cluster.gpus=64"}));
  const auto found =
      std::ranges::find(imported.alternatives, "without parallelism.tensor_parallel_degree", &PlanAlternative::text);
  ASSERT_NE(found, imported.alternatives.end());
  EXPECT_GT(found->line, 0);
  EXPECT_EQ(found->plan.parallelism.tensor, 1);
  EXPECT_EQ(found->plan.parallelism.shard_group, 32);  // 64 GPUs / 2 replicas
  EXPECT_EQ(found->plan.batch.sequence_length, imported.plan.batch.sequence_length);
  EXPECT_THAT(texts_of(imported), testing::Not(testing::Contains(HasSubstr("seq_len")))) << "it is what is computed";
  const auto zero =
      read(import_file("deepspeed", "zero2.json", {"model.config=llama-3-8b", "batch.sequence_length=1"}));
  EXPECT_THAT(texts_of(zero), testing::Contains("with recompute.policy=full"));
}

TEST(Nemo, RefusesWhatHasNoModel) {
  expect_refusal(
      import("nemo", "trainer:\n  devices: 8\nmodel:\n  num_layers: 2\n  hidden_size: 64\n  num_attention_heads: 4\n"),
      0, "vocab_size");
  expect_refusal(import("nemo", "trainer:\n  devices: 8\n"), 0, "the model, the sequence length");
}

TEST(Configurations, HostileFilesAreRefused) {
  expect_refusal(import("nemo", std::string(100'000, '[')), 1, "YAML");
  std::string nested = "x: 1\n";
  for (int depth = 0; depth < 80; ++depth)
    nested = "a:\n" + [&] {
      std::string out;
      for (std::size_t at = 0; at < nested.size();) {
        const std::size_t end = nested.find('\n', at) + 1;
        out += " " + nested.substr(at, end - at);
        at = end;
      }
      return out;
    }();
  const auto deep = error_of(import("nemo", nested));
  EXPECT_THAT(deep.message, HasSubstr("levels deep"));
  std::string bomb = "a0: &a0 {x: 1, y: 2, z: 3, u: 4, v: 5, w: 6, p: 7, q: 8}\n";
  for (int level = 1; level < 9; ++level) {
    const std::string last = std::to_string(level - 1), now = std::to_string(level);
    bomb += "a" + now + ": &a" + now + " {";
    for (const char* key : {"a", "b", "c", "d", "e", "f", "g", "h"}) bomb += std::string(key) + ": *a" + last + ", ";
    bomb += "}\n";
  }
  const auto expanded = error_of(import("nemo", bomb));
  EXPECT_THAT(expanded.message, HasSubstr("more than 100000 values"));
  expect_refusal(
      import("torchtitan", titan + "[parallelism]\ntensor_parallel_degree = 9223372036854775807\n", {"cluster.gpus=8"}),
      8, "range");
  expect_refusal(import("deepspeed", "{\"train_batch_size\": 1e400}"), 1, "number");
  expect_refusal(import("deepspeed", std::string(9 << 20, ' ')), 0, "larger than");
}

// A file with parts removed and symbols changed is either read or refused with an error.
RC_GTEST_PROP(Configurations, MutilatedFilesAreReadOrRefused, ()) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"torchtitan", "llama3-8b.toml"}, {"deepspeed", "zero2.json"},          {"accelerate", "fsdp2.yaml"},
      {"nemo", "nemo-llama3-70b.yaml"}, {"torchtitan", "llama3-registry.py"}, {"llama-factory", "llama-factory.yaml"}};
  const auto& [format, name] = *rc::gen::elementOf(files);
  std::string text = read_text_file(shipped("tests/golden/inputs/configurations/" + name)).value();
  const int changes = *rc::gen::inRange(1, 8);
  for (int i = 0; i < changes; ++i) {
    const auto place = static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(text.size()) - 1));
    text.replace(
        place, static_cast<std::size_t>(*rc::gen::inRange(0, 12)),
        *rc::gen::elementOf(std::vector<std::string>{"", "\"", "-", "0", "99999999999", "{", "*a", "&a ", "]", "\n"}));
  }
  const auto imported =
      import(format, text, {"cluster.gpus=64", "model.config=llama-3-8b", "batch.sequence_length=4096"},
             name.ends_with(".py") ? "llama3_changed" : "");
  if (!imported) RC_ASSERT(!imported.error().message.empty());
}

// A recipe of Megatron-Bridge states a hybrid model by its pattern, with HybridModelProvider's other defaults.
TEST(Nemo, ReadsThePatternOfAHybridModel) {
  const std::string model =
      "_target_: megatron.bridge.training.config.ConfigContainer\nmodel:\n  num_layers: 4\n  hidden_size: 64\n"
      "  num_attention_heads: 4\n  num_query_groups: 2\n  kv_channels: 16\n  ffn_hidden_size: 96\n"
      "  mamba_num_heads: 8\n  mamba_head_dim: 16\n  mamba_num_groups: 2\n  vocab_size: 1024\n"
      "  hybrid_layer_pattern: ";
  const std::vector<std::string> settings = {"cluster.gpus=8", "batch.sequence_length=64", "batch.micro_batch_size=1",
                                             "batch.global_batch_size=8"};
  const auto hybrid = read(import("nemo", model + "M-M*\n", settings));
  ASSERT_TRUE(hybrid.config_json);
  for (const char* line : {R"("model_type": "nemotron_h")", R"("hybrid_override_pattern": "M-M*")",
                           R"("mamba_num_heads": 8)", R"("tie_word_embeddings": false)", R"("mlp_bias": false)"})
    EXPECT_THAT(*hybrid.config_json, HasSubstr(line));
  EXPECT_THAT(to_string(import("nemo", model + "M-MX\n", settings).error()), HasSubstr("'M-MX' is no pattern"));
  EXPECT_THAT(to_string(import("nemo", model + "M-MG\n", settings).error()), HasSubstr("no known model type has"));
}

// A size behind a model's name is that of another model.
TEST(Nemo, NamesOfRecipesAreWhole) {
  const std::vector<std::string> settings = {"cluster.gpus=8", "batch.sequence_length=64", "batch.micro_batch_size=1",
                                             "batch.global_batch_size=8"};
  const auto of = [&](const std::string& name) {
    return import("nemo", "model:\n  _target_: bridge." + name + "\n  tensor_model_parallel_size: 1\n", settings);
  };
  EXPECT_EQ(read(of("Nemotron3NanoProvider")).plan.model.config, "nemotron-3-nano-30b-a3b");
  EXPECT_EQ(read(of("Qwen3NextModelProvider80B_A3B")).plan.model.config, "qwen3-next-80b-a3b");
  EXPECT_FALSE(of("Nemotron3Nano4BProvider"));
}

TEST(Configurations, TablesNameKeysThatExistAndAreDocumented) {
  std::vector<std::string> keys = plan_keys();
  megatron::ModelShape shape;
  megatron::visit_shape(shape, [&](std::string_view key, auto&) { keys.emplace_back(key); });
  const auto page = value_of(read_text_file(shipped("docs/configurations.md")));
  for (const ConfigurationFormat& format : configuration_formats()) {
    std::map<std::string_view, int> names;
    for (const KeyRow& row : format.keys) {
      EXPECT_EQ(++names[row.name], 1) << row.name;
      if (!row.key.empty()) {
        EXPECT_THAT(keys, testing::Contains(std::string(row.key)));
      }
      if (row.meaning == Meaning::no_cost) continue;
      const std::string target = row.key.empty() ? "–" : "`" + std::string(row.key) + "`";
      const std::string name = "`" + std::string(row.name) + "`";
      const std::string end = " | " + target + " | " + std::string(row.note) + " |";
      EXPECT_TRUE(std::ranges::any_of(
          lines_of(page),
          [&](std::string_view line) {
            return line.ends_with(end) && line.substr(0, line.size() - end.size()).find(name) != std::string_view::npos;
          }))
          << name << end;
    }
  }
}

Plan plan_of(const std::string& text) {
  return value_of(
      read_plan("[model]\nconfig = \"llama-3-8b\"\n[cluster]\ntopology = \"h100-dgx\"\ngpus = 64\n[batch]\n"
                "sequence_length = 4096\nmicro_batch_size = 1\nglobal_batch_size = 128\n" +
                    text,
                "p.toml", {}));
}

// The keys that both plans have set come back; what the format has no key for through comments.
TEST(Export, PlansComeBackFromTorchtitansFile) {
  const Architecture model = dense_model("").value();
  const std::vector<std::string> plans = {
      "[parallelism]\nzero_stage = 3\n",
      "[parallelism]\nzero_stage = 3\ntensor = 8\nsequence = true\nshard_group = 4\n",
      "[parallelism]\npipeline = 4\nzero_stage = 1\n[schedule]\nkind = \"zb-v\"\n[recompute]\npolicy = \"full\"\n",
      "[parallelism]\ncontext = 2\nzero_stage = 3\n[precision]\ngemm = \"mxfp8\"\n[overlap]\nprefetch = "
      "2\n[stack]\nname = \"torchtitan-compile\"\n",
      "[parallelism]\nzero_stage = 3\n[recompute]\npolicy = \"selective\"\noperators = [\"mlp\", \"rmsnorm\"]\n",
      "[parallelism]\ntensor = 2\n[precision]\ngemm = \"fp16\"\n[schedule]\nlayers_per_stage = [32]\n[run]\ntokens = "
      "1e12\n"};
  for (const std::string& text : plans) {
    const Plan plan = plan_of(text);
    const auto out = value_of(export_torchtitan({plan, model, 8}));
    EXPECT_THAT(out.text, HasSubstr("torchrun --nnodes=8 --nproc_per_node=8 --rdzv_backend=c10d"));
    const bool older = plan.stack.name == "torchtitan-compile";
    EXPECT_EQ(out.text.starts_with("# For torchtitan up to 0.2.2 (February 2026)"), older);
    EXPECT_EQ(out.text.find("def from_plan() -> Trainer.Config:") == std::string::npos, older);
    const auto back = read(import("torchtitan", out.text, {"cluster.gpus=64"}));
    const std::string wanted = to_toml(plan), found = to_toml(back.plan);
    for (const std::string_view line : lines_of(wanted))
      EXPECT_TRUE(line.starts_with('#') || found.find(std::string(line) + "\n") != std::string::npos) << line << '\n'
                                                                                                      << out.text;
  }
  const auto fsdp = export_torchtitan({plan_of(plans.front()), model, 8});
  EXPECT_THAT(fsdp->text, testing::Not(HasSubstr("# plumbline: parallelism")));
  Plan other = plan_of("");
  other.model.config = "mpt-7b";
  EXPECT_EQ(export_torchtitan({other, model, 8}).error().kind, ErrorKind::infeasible);
}

TEST(Export, TorchtitansRegistryStartsAsItIs) {
  const Architecture model = dense_model("").value();
  const auto out = value_of(export_torchtitan({plan_of("[precision]\ngemm = \"fp8_tensor\"\n"), model, 8}));
  for (const char* line : {"# Append it to torchtitan/models/llama3/config_registry.py.",
                           "-m torchtitan.train --module llama3 --config from_plan\n",
                           "\nfrom torchtitan.components.quantization.float8 import Float8LinearConverter\n",
                           "model_spec=model_registry(\"8B\"),\n", "converters=[Float8LinearConverter.Config()]",
                           "        compile=CompileConfig(\n            enable=True,\n        ),\n    )\n"})
    EXPECT_THAT(out.text, HasSubstr(line));
}

// A split that torchtitan's own rule does not give is written by the names of its modules.
TEST(Export, TorchtitansFileListsTheLayersOfStages) {
  const Architecture model = dense_model("").value();
  const auto exported = [&](const std::string& text) {
    const Plan plan = plan_of(text);
    const auto out = export_torchtitan({plan, model, 8});
    EXPECT_TRUE(out) << to_string(out.error());
    const auto back = read(import("torchtitan", out->text, {"cluster.gpus=64"}));
    EXPECT_EQ(back.plan.schedule.layers_per_stage.counts, plan.schedule.layers_per_stage.counts) << out->text;
    EXPECT_EQ(back.plan.schedule.virtual_stages, plan.schedule.virtual_stages);
    return out->text;
  };
  const std::string interleaved =
      "[stack]\nname = \"torchtitan-compile\"\n[parallelism]\npipeline = 2\nzero_stage = 1\n[schedule]\n"
      "kind = \"interleaved\"\nvirtual_stages = 2\n";
  const std::string registry = "[parallelism]\npipeline = 2\n[schedule]\nlayers_per_stage = [10, 22]\n";
  EXPECT_THAT(exported(registry), HasSubstr("            module_fqns_per_model_part=[[\"tok_embeddings\", "));
  const std::string listed = exported(interleaved + "layers_per_stage = [8, 9, 10, 5]\n");
  EXPECT_THAT(listed, HasSubstr("module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\""));
  EXPECT_THAT(listed, HasSubstr("\"layers.31\", \"norm\", \"output\"]]"));
  EXPECT_THAT(listed, HasSubstr("fsdp_reshard_after_forward = \"never\""));
  EXPECT_THAT(listed, testing::Not(HasSubstr("# plumbline: schedule")));
  const std::string ruled = exported(interleaved + "layers_per_stage = [8, 9, 8, 7]\n");  // 34 with both ends
  EXPECT_THAT(ruled, HasSubstr("pipeline_parallel_layers_per_stage = 9"));
  EXPECT_THAT(ruled, testing::Not(HasSubstr("module_fqns")));
  expect_refusal(import("torchtitan",
                        titan + "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
                                "\"Interleaved1F1B\"\nmodule_fqns_per_model_part = [[\"layers.0\"]]\n",
                        {"cluster.gpus=8"}),
                 10, "do not divide over 2 ranks");
}

TEST(Export, DeepSpeedsFileHasWhatItExpresses) {
  const Architecture model = dense_model("").value();
  const Plan plan = plan_of(
      "[parallelism]\nzero_stage = 2\n[offload]\noptimizer = true\n[recompute]\npolicy = \"full\"\n"
      "[overlap]\nparameter_gather = false\n[precision]\ngradients = \"bf16\"\n");
  const auto out = value_of(export_deepspeed({plan, model, 8}));
  const auto back = read(
      import("deepspeed", out.text,
             {"model.config=llama-3-8b", "batch.sequence_length=4096", "cluster.gpus=64", "recompute.policy=full"}));
  EXPECT_EQ(back.plan.parallelism.zero_stage, 2);
  EXPECT_EQ(back.plan.batch.global_batch_size, 128);
  EXPECT_TRUE(back.plan.offload.optimizer);
  EXPECT_EQ(back.plan.overlap.gradient_bucket_bytes, 40e6);
  EXPECT_THAT(out.notes, testing::Contains(HasSubstr("recompute.policy = \"full\": is in the training script")));
  EXPECT_THAT(out.notes, testing::Not(testing::Contains(HasSubstr("zero_stage"))));
  EXPECT_THAT(out.launch, ElementsAre(HasSubstr("deepspeed --hostfile hosts --num_nodes 8 --num_gpus 8 train.py"),
                                      HasSubstr("torchrun --nnodes=8 --nproc_per_node=8")));
}

TEST(StartingPlan, TakesTheFirstLayoutThatFits) {
  Architecture architecture;
  architecture.layers = 32;
  int asked = 0;
  const auto imported =
      starting_plan("m.json", "m.json", architecture, {"cluster.gpus=64"}, [&](const Plan& plan) -> Result<bool> {
        ++asked;
        return plan.recompute.policy == "full";
      });
  ASSERT_TRUE(imported) << to_string(imported.error());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(imported->plan.parallelism.tensor, 1);
  EXPECT_EQ(imported->plan.parallelism.zero_stage, 3);
  EXPECT_EQ(imported->plan.batch.global_batch_size, 1024);  // 4 Mi tokens of 4096
  // 2^62 sequences of each of 64 ranks are 0 in 64 bits.
  for (const std::string size : {"0", "4611686018427387904"})
    EXPECT_FALSE(starting_plan("m.json", "m.json", architecture, {"cluster.gpus=64", "batch.micro_batch_size=" + size},
                               [](const Plan&) -> Result<bool> { return true; }));
}

}  // namespace
}  // namespace plumbline::model::configurations
