#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/configurations/import.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model::configurations {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::error_of, tests::value_of;

std::string experiment_of(const std::string& framework, const std::string& model, const std::string& overrides) {
  return "work_group: ${PRIMUS_TEAM:amd}\nmodules:\n  pre_trainer:\n    framework: " + framework +
         "\n    config: pre_trainer.yaml\n    model: " + model + "\n    overrides:\n" + overrides;
}

PrimusExperiment read(const std::string& text, const std::string& path = "experiment.yaml",
                      const megatron::Definitions& environment = {}) {
  return value_of(read_primus(text, path, environment));
}

// Returns the values of an argument, joined; nothing where it is not given.
std::optional<std::string> given(const PrimusArguments& all, const std::string& name) {
  const auto found = std::ranges::find(all.arguments, name, &MegatronArgument::name);
  if (found == all.arguments.end()) return std::nullopt;
  std::string values;
  for (const std::string& value : found->values) values += (values.empty() ? "" : " ") + value;
  return values;
}

TEST(Primus, OverridesArePutOverPresetsOfTheTreeAroundTheFile) {
  const tests::TemporaryDirectory folder;
  folder.write("primus/configs/modules/megatron/pre_trainer.yaml",
               "extends:\n  - trainer_base.yaml\nseq_length: 1024\nuse_distributed_optimizer: true\n");
  folder.write("primus/configs/modules/megatron/trainer_base.yaml",
               "seq_length: 4096\nmicro_batch_size: 2\nlr: 2.5e-4\nbf16: true\nadd_bias_linear: false\n");
  folder.write("primus/configs/models/megatron/small.yaml", "includes: [base.yaml]\nnum_layers: 4\n");
  folder.write("primus/configs/models/megatron/base.yaml",
               "num_layers: 24\nhidden_size: 512\nattention_backend: auto\n");
  const auto path = folder.write("examples/megatron/configs/MI355X/small.yaml", "");
  const PrimusExperiment experiment =
      read(experiment_of("megatron", "small.yaml", "      micro_batch_size: 8\n"), path);
  EXPECT_TRUE(experiment.has_model);
  EXPECT_EQ(experiment.shipped, "");
  const PrimusArguments all = megatron_arguments(experiment);
  EXPECT_EQ(given(all, "--seq-length"), "1024") << "over trainer_base.yaml";
  EXPECT_EQ(given(all, "--micro-batch-size"), "8") << "over the preset";
  EXPECT_EQ(given(all, "--num-layers"), "4") << "over base.yaml";
  EXPECT_EQ(given(all, "--hidden-size"), "512");
  EXPECT_EQ(given(all, "--disable-bias-linear"), "") << "the flag of add_bias_linear: false";
  EXPECT_EQ(given(all, "--lr"), std::nullopt) << "presets state what changes no cost";
  EXPECT_EQ(given(all, "--attention-backend"), std::nullopt) << "fused either way";
  // Presets stand on the lines that name them, 5 and 6, the override on its own, 8.
  std::vector<int> lines;
  for (const MegatronArgument& one : all.arguments)
    if (lines.empty() || lines.back() != one.line) lines.push_back(one.line);
  EXPECT_THAT(lines, ElementsAre(5, 6, 8));
  EXPECT_EQ(primus_topology(path), "mi355x");
  EXPECT_EQ(primus_topology("experiment.yaml"), "mi300x");
}

TEST(Primus, WithoutPresetsTheModelIsTheShippedOne) {
  const PrimusExperiment experiment =
      read(experiment_of("megatron", "${PRIMUS_MODEL:llama3.1_70B}.yaml", "      lr: 1\n"));
  EXPECT_FALSE(experiment.has_model);
  EXPECT_EQ(experiment.model, "llama3.1_70B");
  EXPECT_EQ(experiment.shipped, "llama-3-70b");
  EXPECT_THAT(experiment.defaults, ElementsAre("PRIMUS_MODEL=llama3.1_70B")) << "of what trains";
  const PrimusArguments all = megatron_arguments(experiment);
  EXPECT_EQ(given(all, "--bf16"), "") << "as the preset of the module has it";
  EXPECT_EQ(given(all, "--seq-length"), "1024");
  EXPECT_EQ(given(all, "--global-batch-size"), "16");
}

TEST(Primus, TheEnvironmentReplacesDefaults) {
  const std::string text = experiment_of("megatron", "qwen3_8B.yaml",
                                         "      tensor_model_parallel_size: ${PRIMUS_TP:1}\n"
                                         "      train_data_path: ${PRIMUS_DATA:null}\n");
  EXPECT_EQ(given(megatron_arguments(read(text)), "--tensor-model-parallel-size"), "1");
  const PrimusExperiment set = read(text, "experiment.yaml", {{"PRIMUS_TP", "4"}});
  EXPECT_EQ(given(megatron_arguments(set), "--tensor-model-parallel-size"), "4");
  EXPECT_THAT(set.defaults, IsEmpty()) << "null is no value";
  const auto refused =
      error_of(read_primus(experiment_of("megatron", "m.yaml", "      seq_length: ${LENGTH}\n"), "e.yaml", {}));
  EXPECT_EQ(refused.line, 8);
  EXPECT_THAT(refused.hint, HasSubstr("--define LENGTH="));
}

// Experiments of Llama write sequence_parallel: 1, those of gpt-oss the layers with a window as a list.
TEST(Primus, SwitchesMayBeNumbersAndFrequenciesLists) {
  const auto of = [](const std::string& overrides) {
    return megatron_arguments(read(experiment_of("megatron", "llama3.1_70B.yaml", overrides)));
  };
  const PrimusArguments on =
      of("      sequence_parallel: 1\n      window_size: [128, 0]\n      window_attn_skip_freq: [1, 0, 1, 0]\n");
  EXPECT_EQ(given(on, "--sequence-parallel"), "");
  EXPECT_EQ(given(on, "--window-size"), "128 0");
  EXPECT_EQ(given(on, "--window-attn-skip-freq"), "[1,0,1,0]") << "one value";
  EXPECT_EQ(given(of("      sequence_parallel: 0\n"), "--sequence-parallel"), std::nullopt);
}

TEST(Primus, TurbosExpertsAreMegatronsDispatcherAndFusions) {
  const auto of = [](const std::string& overrides) {
    return megatron_arguments(
        read(experiment_of("megatron", "qwen3_30B_A3B.yaml", "      num_experts: 128\n" + overrides)));
  };
  const PrimusArguments plain = of("      use_turbo_deepep: true\n");
  EXPECT_EQ(given(plain, "--moe-token-dispatcher-type"), "alltoall") << "without enable_primus_turbo";
  const PrimusArguments deepep = of("      enable_primus_turbo: true\n      use_turbo_deepep: true\n");
  EXPECT_EQ(given(deepep, "--moe-token-dispatcher-type"), "flex");
  EXPECT_EQ(given(deepep, "--moe-deepep-num-sms"), "32") << "primus_turbo.yaml";
  EXPECT_EQ(given(deepep, "--moe-router-fusion"), std::nullopt);
  // The second stage turns DeepEP on, and both fusions.
  const PrimusArguments stage =
      of("      enable_primus_turbo: true\n      turbo_sync_free_moe_stage: 2\n      turbo_deepep_num_cu: 64\n");
  EXPECT_EQ(given(stage, "--moe-token-dispatcher-type"), "flex");
  EXPECT_EQ(given(stage, "--moe-deepep-num-sms"), "64");
  EXPECT_EQ(given(stage, "--moe-permute-fusion"), "");
  EXPECT_EQ(given(stage, "--moe-router-fusion"), "");
  ASSERT_EQ(stage.unread.size(), 1u);
  EXPECT_EQ(stage.unread.front().first, 10);
}

TEST(Primus, SchedulesAndLayersOfItsOwnArePlanKeys) {
  const auto of = [](const std::string& overrides) {
    return megatron_arguments(read(
        experiment_of("megatron", "deepseek_v2_lite.yaml", "      pipeline_model_parallel_size: 4\n" + overrides)));
  };
  EXPECT_THAT(of("      pp_algorithm: zbv-greedy\n").settings, IsEmpty()) << "the patch is off";
  EXPECT_THAT(of("      patch_primus_pipeline: true\n      pp_algorithm: zbv-greedy\n").settings,
              ElementsAre("schedule.kind=\"zb-v\""));
  EXPECT_THAT(of("      patch_zero_bubble: true\n      enable_zero_bubble: true\n").settings,
              ElementsAre("schedule.kind=\"zb-h1\""));
  EXPECT_THAT(of("      decoder_pipeline_manual_split_list: [6, 7, 7, 7]\n").settings,
              ElementsAre("schedule.layers_per_stage=[6, 7, 7, 7]"));
  // Five layers over four ranks are two of the fullest.
  const PrimusArguments again = of("      recompute_granularity: full\n      recompute_layer_ids: \"0,3,4,7,8\"\n");
  EXPECT_EQ(given(again, "--recompute-num-layers"), "2");
  EXPECT_EQ(given(again, "--recompute-method"), "block");
}

TEST(Primus, WhatIsNotModeledIsToldAndUnknownKeysStay) {
  const PrimusArguments all =
      megatron_arguments(read(experiment_of("megatron", "llama2_7B.yaml",
                                            "      use_turbo_gemm: true\n      use_turbo_rms_norm: false\n      "
                                            "stderr_sink_level: DEBUG\n      new_option: 3\n")));
  ASSERT_EQ(all.unread.size(), 1u) << "what is off is not told";
  EXPECT_EQ(all.unread.front().first, 8);
  EXPECT_THAT(all.unread.front().second, HasSubstr("use_turbo_gemm"));
  EXPECT_EQ(given(all, "--new_option"), "3") << "so that the import names it";
  EXPECT_EQ(given(all, "--stderr_sink_level"), std::nullopt);
}

TEST(Primus, ExperimentsOnTorchtitanHaveItsKeys) {
  const auto formats = configuration_formats();
  const auto format = std::ranges::find(formats, "primus", &ConfigurationFormat::name);
  ASSERT_NE(format, formats.end());
  const auto load = [](const std::string&) -> Result<Architecture> {
    Architecture model;
    model.layers = 32;
    return model;
  };
  const std::string text = experiment_of("torchtitan", "llama3.1_8B-fp8.yaml",
                                         "      training:\n        local_batch_size: 4\n        seq_len: 8192\n"
                                         "      primus_turbo:\n        use_turbo_async_tp: true\n");
  const auto imported = value_of(import_configuration(*format, text, "MI325X/llama.yaml", {{}, "", "plan.json", load}));
  const Plan& plan = imported.plan;
  EXPECT_EQ(plan.model.config, "llama-3-8b");
  EXPECT_EQ(plan.cluster.topology, "mi325x");
  EXPECT_EQ(plan.cluster.gpus, 8) << "one node";
  EXPECT_EQ(plan.batch.global_batch_size, 32) << "4 sequences of each of 8 replicas";
  EXPECT_EQ(plan.precision.gemm, Precision::fp8_tensor) << "the preset's converter";
  EXPECT_EQ(plan.recompute.policy, "none") << "as the preset of the module has it";
  EXPECT_EQ(plan.stack.name, "primus-torchtitan-2026");
  std::vector<std::string> notes;
  for (const Note& note : imported.notes) notes.push_back(note.text);
  EXPECT_THAT(notes, Contains(HasSubstr("use_turbo_async_tp")));
  EXPECT_THAT(notes, Not(Contains(HasSubstr("unknown"))));
}

TEST(Primus, PostTrainingOnMegatronIsATrainingOfAllWeights) {
  std::string text = experiment_of("megatron", "llama2_7B.yaml", "      finetune: true\n      micro_batch_size: 2\n");
  const std::string trainer = "pre_trainer:";
  text.replace(text.find(trainer), trainer.size(), "post_trainer:");
  const auto read = read_primus(text, "e.yaml", {});
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->shipped, "llama-2-7b");
  const auto stated = megatron_arguments(*read).arguments;
  const auto micro = std::ranges::find(stated, "--micro-batch-size", &MegatronArgument::name);
  ASSERT_NE(micro, stated.end());
  EXPECT_EQ(micro->values, std::vector<std::string>{"2"});
}

TEST(Primus, WhatIsNoExperimentIsRefused) {
  const auto of = [](const std::string& text) { return error_of(read_primus(text, "e.yaml", {})); };
  EXPECT_THAT(of("modules:\n  trainer:\n    framework: megatron\n").message, HasSubstr("no framework"));
  const Error other = of(experiment_of("maxtext", "llama2_7B.yaml", "      steps: 1\n"));
  EXPECT_EQ(other.line, 4);
  EXPECT_THAT(other.hint, HasSubstr("torchtitan"));
  const tests::TemporaryDirectory folder;
  const auto circle = folder.write("circle.yaml", "extends: [circle.yaml, circle.yaml]\n");
  const auto text = experiment_of("megatron", "circle.yaml", "      lr: 1\n");
  const auto refused = error_of(read_primus(text, (folder.path() / "experiment.yaml").string(), {}));
  EXPECT_THAT(refused.hint, HasSubstr("extend each other"));
}

}  // namespace
}  // namespace plumbline::model::configurations
