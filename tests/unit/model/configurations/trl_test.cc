// GRPO of ms-swift and axolotl, and stages of trainers that no plan has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "tests/support/imports.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model::configurations {
namespace {

using testing::HasSubstr, testing::Not;
using tests::imported, tests::noted, tests::refusal, tests::answer_lengths;

const std::string swift_grpo =
    "export NPROC_PER_NODE=4 NNODES=2\nswift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --train_type full \\\n"
    "  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --num_generations 16 --use_vllm true \\\n"
    "  --vllm_gpu_memory_utilization 0.6 --max_completion_length 8192 --deepspeed zero3 --reward_funcs accuracy ";

TEST(TrlGrpo, AScriptOfMsSwiftIsAPlanWithRollout) {
  const auto read = imported("ms-swift",
                             swift_grpo +
                                 "--vllm_mode colocate --vllm_max_model_len 16384 --vllm_tensor_parallel_size 2 \\\n"
                                 "  --offload_model true --offload_optimizer true --sleep_level 1 --max_steps 100\n",
                             answer_lengths);
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.cluster.gpus, 8);
  EXPECT_EQ(plan.rollout.algorithm, "grpo");
  EXPECT_EQ(plan.rollout.prompts, 4);  // 2 answers x 8 ranks x 4 micro-batches / 16
  EXPECT_EQ(plan.rollout.answers, 16);
  EXPECT_EQ(plan.rollout.updates, 1);
  EXPECT_EQ(plan.rollout.epochs, 1);
  EXPECT_EQ(plan.rollout.reference, true) << "beta is 0.04";
  EXPECT_FALSE(plan.rollout.old_log_probs) << "those of its only update";
  EXPECT_EQ(plan.rollout.tensor, 2);
  EXPECT_EQ(plan.rollout.offload, true);
  EXPECT_EQ(plan.rollout.placement, "colocated");
  EXPECT_EQ(plan.rollout.max_answer_tokens, 8192);
  EXPECT_EQ(plan.rollout.steps, 100);
  EXPECT_EQ(plan.batch.sequence_length, 16384);
  EXPECT_EQ(plan.batch.micro_batch_size, 2);
  EXPECT_EQ(plan.training.objective, "next-token");
  EXPECT_DOUBLE_EQ(plan.inference.memory_share, 0.6);
  EXPECT_EQ(plan.parallelism.zero_stage, 3);
  EXPECT_THAT(noted(read), Not(HasSubstr("unknown")));
  EXPECT_THAT(noted(read), Not(HasSubstr("not modelled")));
}

// 2 x 8 x 16 answers of a generation are 16 prompts; of its 16 micro-batches an update takes 4, and all are used twice.
TEST(TrlGrpo, AGenerationMayBeForSeveralUpdates) {
  const auto read = imported("ms-swift",
                             swift_grpo +
                                 "--vllm_mode colocate --max_length 1024 --steps_per_generation 16 --num_iterations 2 "
                                 "--beta 0.0 --dynamic_sample true --max_steps 100\n",
                             answer_lengths);
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.rollout.prompts, 16);
  EXPECT_EQ(plan.rollout.updates, 4);
  EXPECT_EQ(plan.rollout.epochs, 2);
  EXPECT_EQ(plan.rollout.steps, 12);  // 100 updates of 8
  EXPECT_TRUE(plan.rollout.old_log_probs);
  EXPECT_EQ(plan.rollout.reference, false);
  EXPECT_EQ(plan.rollout.algorithm, "dapo");
  EXPECT_EQ(plan.batch.sequence_length, 1024 + 8192);
  EXPECT_THAT(noted(read), HasSubstr("sleep_level"));
  const std::string all = swift_grpo + "--vllm_mode colocate --max_length 1024 --generation_batch_size 256\n";
  EXPECT_EQ(imported("ms-swift", all, answer_lengths).plan.rollout.prompts, 16);
}

TEST(TrlGrpo, RanksOfASequenceTakeMicroBatchesOfTheirOwn) {
  const auto read = imported(
      "ms-swift", swift_grpo + "--vllm_mode colocate --max_length 1024 --sequence_parallel_size 2\n", answer_lengths);
  EXPECT_EQ(read.plan.parallelism.context, 2);
  EXPECT_EQ(read.plan.rollout.prompts, 4) << "as without";
}

TEST(TrlGrpo, AServersGpusAreInAnotherScript) {
  const std::string server = swift_grpo + "--max_length 1024 --vllm_server_host 10.0.0.2 --async_generate true\n";
  EXPECT_THAT(refusal("ms-swift", server, answer_lengths), HasSubstr("--set rollout.gpus=N"));
  std::vector<std::string> more = answer_lengths;
  more.insert(more.end(), {"rollout.gpus=4", "rollout.tensor=4"});
  const Plan plan = imported("ms-swift", server, more).plan;
  EXPECT_EQ(plan.rollout.placement, "asynchronous");
  EXPECT_EQ(plan.rollout.gpus, 4);
  EXPECT_FALSE(plan.rollout.offload);
}

TEST(TrlGrpo, AxolotlsSectionsHaveTheServer) {
  const auto read = imported("axolotl",
                             "base_model: Qwen/Qwen3-8B\nrl: grpo\nsequence_len: 1024\nmicro_batch_size: 8\n"
                             "gradient_accumulation_steps: 1\ndeepspeed: deepspeed_configs/zero2.json\n"
                             "vllm:\n  host: 0.0.0.0\n  tensor_parallel_size: 2\n  gpu_memory_utilization: 0.85\n"
                             "trl:\n  use_vllm: true\n  num_generations: 4\n  max_completion_length: 512\n"
                             "  reward_funcs: [rewards.correct]\n",
                             {"cluster.gpus=4", answer_lengths[0], answer_lengths[1], answer_lengths[2]});
  EXPECT_EQ(read.plan.rollout.placement, "split");
  EXPECT_EQ(read.plan.rollout.gpus, 2);
  EXPECT_EQ(read.plan.rollout.tensor, 2);
  EXPECT_EQ(read.plan.rollout.prompts, 8);  // 8 x 4 / 4
  EXPECT_EQ(read.plan.rollout.reference, false) << "TRL's beta is 0";
  EXPECT_DOUBLE_EQ(read.plan.inference.memory_share, 0.85);
  EXPECT_THAT(noted(read), Not(HasSubstr("unknown")));
}

TEST(TrlGrpo, RefusesWhatNoPlanHas) {
  const std::string plain = "swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --train_type full --max_length 1024 ";
  std::vector<std::string> options = answer_lengths;
  options.emplace_back("cluster.gpus=8");
  EXPECT_THAT(refusal("ms-swift", plain + "--use_vllm false\n", options), HasSubstr("transformers generates"));
  options.emplace_back("inference.engine=vllm");
  EXPECT_EQ(imported("ms-swift", plain + "\n", options).plan.inference.engine, "vllm");
  EXPECT_THAT(refusal("ms-swift", plain + "--num_generations 12\n", options), HasSubstr("no whole groups of 12"));
  EXPECT_THAT(refusal("ms-swift", swift_grpo + "--vllm_mode colocate --max_length 1024 --steps_per_generation 6\n",
                      answer_lengths),
              HasSubstr("6 micro-batches of a generation are no whole updates of 4"));
  EXPECT_THAT(refusal("ms-swift", swift_grpo + "--vllm_mode colocate --max_length 1024\n"),
              HasSubstr("does not state rollout.prompt_tokens"));
}

TEST(Trainers, StagesThatNoPlanHasAreRefused) {
  const std::string model = "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\n";
  for (const std::string stage : {"ppo", "kto"}) {
    const std::string text = model + "stage: " + stage + "\n";
    EXPECT_THAT(refusal("llama-factory", text, {"cluster.gpus=8"}), HasSubstr("no plan trains by " + stage));
    const auto stated = imported("llama-factory", text, {"cluster.gpus=8", "training.objective=dpo"});
    EXPECT_EQ(stated.plan.training.objective, "dpo");
    EXPECT_THAT(noted(stated), HasSubstr("stage = " + stage + ": not modelled"));
  }
  EXPECT_THAT(refusal("ms-swift", "model: Qwen/Qwen3-8B\nmax_length: 2048\nrlhf_type: gkd\n", {"cluster.gpus=8"}),
              HasSubstr("no plan trains by gkd"));
}

// Of a pair, the better answer is to have the higher reward: two sequences, and no other model.
TEST(Trainers, RewardModelsTrainOnPairs) {
  const auto read = imported("llama-factory",
                             "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\nstage: rm\n"
                             "per_device_train_batch_size: 1\n",
                             {"cluster.gpus=8"});
  EXPECT_EQ(read.plan.training.objective, "dpo");
  EXPECT_EQ(read.plan.training.reference, "precomputed");
  EXPECT_EQ(read.plan.batch.micro_batch_size, 2);
  EXPECT_THAT(noted(read), HasSubstr("stage = rm: not modelled"));
}

TEST(Trainers, AxolotlNamesRewardModelsByAFlag) {
  const auto read = imported("axolotl",
                             "base_model: Qwen/Qwen3-8B\nsequence_len: 2048\nmicro_batch_size: 2\n"
                             "reward_model: true\n",
                             {"cluster.gpus=8"});
  EXPECT_EQ(read.plan.training.objective, "dpo");
  EXPECT_EQ(read.plan.batch.micro_batch_size, 4);
  EXPECT_THAT(noted(read), HasSubstr("reward_model = true: not modelled"));
}

TEST(DeepSpeed, MuonIsAnOptimizer) {
  const auto read = imported("deepspeed",
                             "{\"train_micro_batch_size_per_gpu\": 1, \"bf16\": {\"enabled\": true},\n"
                             " \"zero_optimization\": {\"stage\": 1}, \"optimizer\": {\"type\": \"Muon\"}}",
                             {"cluster.gpus=8", "model.config=plan.json", "batch.sequence_length=4096"});
  EXPECT_EQ(read.plan.optimizer.kind, "muon");
  EXPECT_THAT(noted(read), Not(HasSubstr("optimizer.type")));
}

TEST(Trainers, UlyssesSendsHeads) {
  const std::string model = "base_model: Qwen/Qwen3-8B\nsequence_len: 32768\nmicro_batch_size: 1\n";
  const std::vector<std::string> gpus = {"cluster.gpus=8"};
  const std::string fsdp = model + "dp_shard_size: 1\nfsdp_version: 2\nfsdp_config:\n  reshard_after_forward: true\n";
  const auto of_ringmaster = imported("axolotl", fsdp + "context_parallel:\n  size: 8\n  backend: auto\n");
  EXPECT_EQ(of_ringmaster.plan.cluster.gpus, 8);
  EXPECT_EQ(of_ringmaster.plan.parallelism.context, 8);
  EXPECT_EQ(of_ringmaster.plan.parallelism.context_method, "all-to-all");
  EXPECT_THAT(noted(of_ringmaster), HasSubstr("keys and values may pass around rings too"));
  const auto ulysses = imported("axolotl", fsdp + "context_parallel:\n  size: 8\n  backend: ulysses\n");
  EXPECT_EQ(ulysses.plan.parallelism.context_method, "all-to-all");
  EXPECT_THAT(noted(ulysses), Not(HasSubstr("rings")));
  const auto ring = imported("axolotl", fsdp + "context_parallel:\n  size: 8\n  backend: ring\n");
  EXPECT_EQ(ring.plan.parallelism.context_method, "ring");
  const std::string fork =
      "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\ndeepspeed: z3.json\nsequence_parallel_size: 4\n";
  const auto zigzag = imported("llama-factory", fork + "sequence_parallel_mode: zigzag-ring\n", gpus);
  EXPECT_EQ(zigzag.plan.parallelism.context, 4);
  EXPECT_EQ(zigzag.plan.parallelism.context_method, "ring");
  const std::string zero = model + "deepspeed: deepspeed_configs/zero3.json\n";
  const auto method = [&](const std::string& key) {
    return imported("axolotl", zero + key + ": 8\n", gpus).plan.parallelism.context_method;
  };
  EXPECT_EQ(method("context_parallel_size"), "all-to-all");
  EXPECT_NE(method("sequence_parallel_degree"), "all-to-all");
}

TEST(Accelerate, SequenceParallelismIsThatOfDeepSpeed) {
  const auto read = imported("accelerate",
                             "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
                             "deepspeed_config:\n  zero_stage: 3\nparallelism_config:\n"
                             "  parallelism_config_dp_shard_size: 2\n  parallelism_config_sp_size: 4\n",
                             {"model.config=plan.json", "batch.sequence_length=8192", "batch.micro_batch_size=1",
                              "batch.global_batch_size=16"});
  EXPECT_EQ(read.plan.parallelism.context, 4);
  EXPECT_EQ(read.plan.parallelism.context_method, "all-to-all");
}

// What a variable of ms-swift changes is listed; it keeps all logits.
TEST(Trainers, VariablesOfLaunchScriptsAreNotDropped) {
  const auto read = imported("ms-swift",
                             "NPROC_PER_NODE=8 \\\nCELOSS_PARALLEL_SIZE=2048 \\\nswift sft --model Qwen/Qwen3-8B "
                             "--train_type full --max_length 65536 --per_device_train_batch_size 1 "
                             "--gradient_accumulation_steps 8 --sequence_parallel_size 8\n");
  EXPECT_EQ(read.plan.parallelism.context, 8);
  EXPECT_EQ(read.plan.loss.chunks, 1);
  EXPECT_THAT(noted(read), HasSubstr("CELOSS_PARALLEL_SIZE = 2048: not modelled; it can change the cost"));
}

// A path from the file's folder, or from one around it, as LLaMA-Factory's own are.
TEST(Trainers, DeepspeedsFileIsReadWhereItLies) {
  const tests::TemporaryDirectory folder;
  folder.write("zero.json", R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
    "gradient_clipping": 1.0, "tensor_parallel": {"autotp_size": 2},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": 2e8, "offload_optimizer": {"device": "cpu"}}})");
  const auto of = [&folder](const char* format, const std::string& text, std::vector<std::string> overrides) {
    const std::string path = (folder.path() / "examples" / "train.yaml").string();
    return tests::read(import_configuration(tests::format_of(format), text, path,
                                            {std::move(overrides), "", "plan.json", tests::dense_model}));
  };
  const auto factory =
      of("llama-factory",
         "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\ncutoff_len: 2048\nbf16: true\n"
         "per_device_train_batch_size: 1\ngradient_accumulation_steps: 2\ndeepspeed: zero.json\nray_num_workers: 8\n",
         {});
  const auto accelerate = of("accelerate",
                             "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\n"
                             "deepspeed_config:\n  deepspeed_config_file: zero.json\n",
                             {"model.config=a", "batch.sequence_length=2048", "batch.micro_batch_size=1"});
  for (const Plan& plan : {factory.plan, accelerate.plan}) {
    EXPECT_EQ(plan.cluster.gpus, 8);
    EXPECT_EQ(plan.parallelism.zero_stage, 2) << "whatever the file is called";
    EXPECT_EQ(plan.parallelism.tensor, 2);
    EXPECT_TRUE(plan.offload.optimizer);
    EXPECT_EQ(plan.overlap.gradient_bucket_bytes, 4e8) << "2e8 gradients of two bytes";
  }
  const std::string file = "the file of DeepSpeed that is read is " + (folder.path() / "zero.json").string();
  EXPECT_THAT(noted(factory), HasSubstr(file));
  EXPECT_THAT(noted(accelerate), HasSubstr(file));
  EXPECT_EQ(factory.plan.batch.global_batch_size, 8) << "2 of each of 4 data-parallel ranks";
  EXPECT_EQ(accelerate.plan.batch.global_batch_size, 4);
}

TEST(Trainers, OfLlamaFactoryMuonStoredWeightsAndMegatronsDegrees) {
  const std::string rest = "\ncutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 1\n";
  const std::vector<std::string> gpus = {"cluster.gpus=8"};
  const auto muon = tests::imported(
      "llama-factory", "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\nuse_muon: true" + rest, gpus);
  EXPECT_EQ(muon.plan.optimizer.kind, "muon");
  const auto stored = tests::imported("llama-factory", "model_name_or_path: a/Llama-3-8B-GPTQ" + rest, gpus);
  EXPECT_EQ(stored.plan.training.method, "qlora") << "its weights have 4 bits";
  EXPECT_THAT(tests::refusal("llama-factory",
                             "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\n"
                             "pipeline_model_parallel_size: 4\nexpert_model_parallel_size: 2" +
                                 rest,
                             gpus),
              HasSubstr("pipeline_model_parallel_size: is an argument of Megatron's"));
}

}  // namespace
}  // namespace plumbline::model::configurations
