#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/imports.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::model::configurations {
namespace {

using testing::HasSubstr;
using tests::imported, tests::noted, tests::refusal, tests::answer_lengths;

const std::string script =
    "#!/bin/bash\nDEVICE=${DEVICE:-$(probe)}\nNODES=${NODES:-2}\n"
    "case $DEVICE in\n  gpu) TP=4 ;;\n  *) TP=1 ;;\nesac\n"
    "ACTOR=(\n  actor_rollout_ref.model.path=${HOME}/models/Qwen3-8B\n"
    "  actor_rollout_ref.actor.ppo_mini_batch_size=64\n  actor_rollout_ref.actor.use_dynamic_bsz=True\n"
    "  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192\n)\n"
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=256 \\\n"
    "  data.max_prompt_length=1024 data.max_response_length=2048 \"${ACTOR[@]}\" trainer.nnodes=$NODES \\\n"
    "  actor_rollout_ref.rollout.name=sglang actor_rollout_ref.rollout.n=8 +reward_model.reward_manager=dapo \\\n"
    "  actor_rollout_ref.rollout.tensor_model_parallel_size=$TP trainer.logger='[\"console\"]' ";

TEST(Verl, AScriptIsAPlanWithRollout) {
  const auto read = imported("verl", script + "\"$@\"\n", answer_lengths);
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.cluster.gpus, 16);  // 2 nodes of 8
  EXPECT_EQ(plan.model.config, "qwen3-8b") << "the folder's name, wherever it is";
  EXPECT_EQ(plan.parallelism.zero_stage, 3);
  EXPECT_EQ(plan.batch.sequence_length, 8192) << "tokens of a micro-batch";
  EXPECT_EQ(plan.batch.micro_batch_size, 1);
  EXPECT_EQ(plan.recompute.policy, "full");
  EXPECT_EQ(plan.rollout.algorithm, "grpo");
  EXPECT_EQ(plan.rollout.prompts, 256);
  EXPECT_EQ(plan.rollout.answers, 8);
  EXPECT_EQ(plan.rollout.updates, 4);  // 256 / 64
  EXPECT_EQ(plan.rollout.max_answer_tokens, 2048);
  EXPECT_EQ(plan.rollout.tensor, 4);
  EXPECT_EQ(plan.rollout.reference, false);
  EXPECT_EQ(plan.rollout.offload, false);
  EXPECT_EQ(plan.inference.engine, "sglang");
  EXPECT_DOUBLE_EQ(plan.inference.memory_share, 0.5);
  EXPECT_THAT(noted(read), HasSubstr("assumed: DEVICE = gpu"));
}

TEST(Verl, UpdatesFollowThePromptsThatTheUserSets) {
  auto settings = answer_lengths;
  settings.emplace_back("rollout.prompts=512");
  EXPECT_EQ(imported("verl", script + "\n", settings).plan.rollout.updates, 8);  // 512 / 64
}

TEST(Verl, LengthsInTheMeanAreInNoFile) {
  EXPECT_THAT(refusal("verl", script + "\n"),
              testing::AllOf(HasSubstr("rollout.prompt_tokens, rollout.answer_tokens, rollout.answer_tokens_sd:"),
                             HasSubstr("--set rollout.prompt_tokens=N --set rollout.answer_tokens=N --set "
                                       "rollout.answer_tokens_sd=N")));
  EXPECT_THAT(refusal("verl", script + "\n", {"rollout.answer_tokens=500"}),
              testing::AllOf(HasSubstr("does not state rollout.prompt_tokens, rollout.answer_tokens_sd:"),
                             testing::Not(HasSubstr("answer_tokens=N"))));
  EXPECT_THAT(refusal("verl", "#!/bin/bash\npython3 train.py\n", answer_lengths),
              HasSubstr("starts nothing that is read"));
  EXPECT_THAT(refusal("verl", "python3 -m other.main_base trainer.strategy=fsdp2\n", answer_lengths),
              HasSubstr("other.main_base has no option of verl"));
}

TEST(Verl, MegatronsFieldsAreThoseOfMegatron) {
  const auto read = imported("verl",
                             script +
                                 "actor_rollout_ref.actor.strategy=megatron trainer.n_gpus_per_node=8 \\\n"
                                 "  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \\\n"
                                 "  actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2 \\\n"
                                 "  actor_rollout_ref.actor.megatron.param_offload=True \\\n"
                                 "  actor_rollout_ref.actor.megatron.optimizer_offload=True \\\n"
                                 "  +actor_rollout_ref.actor.megatron.override_transformer_config."
                                 "recompute_granularity=full \\\n"
                                 "  +actor_rollout_ref.actor.megatron.override_transformer_config."
                                 "recompute_method=uniform \\\n"
                                 "  +actor_rollout_ref.actor.megatron.override_transformer_config."
                                 "recompute_num_layers=1\n",
                             answer_lengths);
  EXPECT_EQ(read.plan.parallelism.tensor, 2);
  EXPECT_TRUE(read.plan.parallelism.sequence);
  EXPECT_EQ(read.plan.parallelism.pipeline, 2);
  EXPECT_EQ(read.plan.parallelism.zero_stage, 1);
  EXPECT_EQ(read.plan.precision.gradients, Precision::bf16) << "as Megatron-Bridge leaves them";
  EXPECT_EQ(read.plan.recompute.policy, "full");
  const auto kept = std::ranges::find_if(
      read.alternatives, [](const PlanAlternative& one) { return one.text.ends_with("recompute_granularity"); });
  ASSERT_NE(kept, read.alternatives.end());
  EXPECT_EQ(kept->plan.recompute.policy, "none") << "without its method, which alone means full";
  EXPECT_EQ(read.plan.stack.name, "megatron-core-2025");
  EXPECT_EQ(read.plan.rollout.offload, true);
}

TEST(Verl, MegatronsOptimizerAndGradientsAreStated) {
  const auto of = [](const std::string& fields) {
    return imported("verl", script + "actor_rollout_ref.actor.strategy=megatron " + fields + "\n", answer_lengths).plan;
  };
  EXPECT_EQ(of("actor_rollout_ref.actor.megatron.vanilla_mbridge=True").precision.gradients, Precision::fp32);
  EXPECT_EQ(of("+actor_rollout_ref.actor.megatron.override_ddp_config.grad_reduce_in_fp32=True").precision.gradients,
            Precision::fp32);
  const std::string own = "+actor_rollout_ref.actor.optim.override_optimizer_config.";
  const auto offloaded = imported("verl",
                                  script + "actor_rollout_ref.actor.strategy=megatron " + own +
                                      "optimizer_cpu_offload=True " + own + "optimizer_offload_fraction=1\n",
                                  answer_lengths);
  EXPECT_TRUE(offloaded.plan.offload.optimizer);
  EXPECT_THAT(noted(offloaded), testing::Not(HasSubstr("optimizer_offload_fraction"))) << "all of it is priced";
  EXPECT_EQ(of(own + "use_precision_aware_optimizer=True " + own + "exp_avg_dtype=bf16").precision.optimizer_moments,
            Precision::bf16);
  EXPECT_EQ(of("actor_rollout_ref.actor.megatron.offload.param.target=cpu "
               "actor_rollout_ref.actor.megatron.offload.optimizer.target=disk")
                .rollout.offload,
            true);
}

TEST(Verl, FsdpsFormatsAreStated) {
  const std::string section = "actor_rollout_ref.actor.fsdp_config.";
  const auto read = imported(
      "verl", script + section + "dtype=float16 +" + section + "mixed_precision.reduce_dtype=bf16\n", answer_lengths);
  EXPECT_EQ(read.plan.precision.gemm, Precision::fp16);
  EXPECT_EQ(read.plan.precision.gradient_reduce, Precision::bf16);
  EXPECT_EQ(read.plan.parallelism.reduce_after, "run") << "use_no_sync_for_gradient_accumulation is the default";
  const auto each =
      imported("verl", script + "actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation=False\n",
               answer_lengths);
  EXPECT_EQ(each.plan.parallelism.reduce_after, "pass");
}

TEST(Verl, TheFileThatHydraKeeps) {
  const auto read = imported("verl",
                             "actor_rollout_ref:\n  model:\n    path: Qwen/Qwen3-8B\n  actor:\n    strategy: fsdp2\n"
                             "    ppo_mini_batch_size: 128\n    ppo_micro_batch_size_per_gpu: 4\n"
                             "    rollout_n: ${oc.select:actor_rollout_ref.rollout.n,1}\n    fsdp_config:\n"
                             "      ulysses_sequence_parallel_size: 2\n  rollout:\n    name: vllm\n    n: 4\n"
                             "algorithm:\n  adv_estimator: gae\ndata:\n  train_batch_size: 128\n",
                             answer_lengths);
  EXPECT_EQ(read.plan.rollout.algorithm, "ppo");
  EXPECT_EQ(read.plan.parallelism.context, 2);
  EXPECT_EQ(read.plan.batch.micro_batch_size, 4);
  EXPECT_EQ(read.plan.batch.sequence_length, 1024);  // 512 + 512
  EXPECT_EQ(read.plan.rollout.updates, 1);
}

TEST(Verl, OtherEnginesAndModelsAreNotThoseOfThePolicy) {
  for (const char* engine : {"actor_rollout_ref.actor.strategy=veomni", "model_engine=torchtitan"})
    EXPECT_THAT(refusal("verl", script + engine + "\n", answer_lengths), HasSubstr("whose keys are not read"));
  const std::string ulysses = "ulysses_sequence_parallel_size=2 ", both = "actor_rollout_ref.actor." + ulysses;
  const std::string reference = "actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.ref.";
  EXPECT_THAT(noted(imported("verl", script + reference + ulysses + "\n", answer_lengths)),
              HasSubstr("actor_rollout_ref.ref.ulysses_sequence_parallel_size = 2: not modelled"));
  EXPECT_THAT(noted(imported("verl", script + both + reference + ulysses + "\n", answer_lengths)),
              testing::Not(HasSubstr("actor_rollout_ref.ref.")));
  const std::string critic =
      "algorithm.adv_estimator=gae critic.model.path=Qwen/Qwen3-0.6B "
      "actor_rollout_ref.rollout.free_cache_engine=False\n";
  const std::string notes = noted(imported("verl", script + critic, answer_lengths));
  EXPECT_THAT(notes, HasSubstr("critic.model.path = Qwen/Qwen3-0.6B: not modelled"));
  EXPECT_THAT(notes, HasSubstr("free_cache_engine = False: not modelled"));
  const std::string megatron =
      "actor_rollout_ref.actor.strategy=megatron algorithm.adv_estimator=gae "
      "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 ";
  EXPECT_THAT(noted(imported("verl", script + megatron + "\n", answer_lengths)),
              HasSubstr("critic.megatron.tensor_model_parallel_size is not given, so 1: not modelled"));
  EXPECT_THAT(
      noted(imported("verl", script + megatron + "critic.megatron.tensor_model_parallel_size=2\n", answer_lengths)),
      testing::Not(HasSubstr("critic.megatron")));
}

// Words before the training, as those of Ray, are no overrides.
TEST(Verl, ARecipeThatRayStarts) {
  const auto read = imported("verl",
                             "ray job submit --address=http://a --no-wait -- python3 -m recipe.dapo.main_dapo "
                             "actor_rollout_ref.model.path=Qwen/Qwen3-8B algorithm.filter_groups.enable=True "
                             "data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64 "
                             "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1\n",
                             answer_lengths);
  EXPECT_EQ(read.plan.rollout.algorithm, "dapo");
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("address")));
}

// The reference lies where the policy does; FSDP's stays on the GPUs unless its own key is true, Megatron's follows.
TEST(Verl, AReferenceThatIsElsewhereIsNoted) {
  const auto notes = [](const std::string& options) {
    return noted(
        imported("verl", script + "actor_rollout_ref.actor.use_kl_loss=True " + options + "\n", answer_lengths));
  };
  const std::string fsdp =
      "actor_rollout_ref.actor.fsdp_config.param_offload=True "
      "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True ";
  const std::string own = "actor_rollout_ref.ref.fsdp_config.param_offload";
  EXPECT_THAT(notes(fsdp),
              HasSubstr(own + " is not given, so false: not modelled; it goes to the host with the policy"));
  EXPECT_THAT(notes(fsdp + own + "=True"), testing::Not(HasSubstr("ref.fsdp_config")));
  EXPECT_THAT(notes(""), testing::Not(HasSubstr("ref.fsdp_config")));
  EXPECT_THAT(notes(own + "=True"),
              HasSubstr(own + " = True: not modelled; it can change the cost: it stays on the GPUs"));
  const std::string megatron =
      "actor_rollout_ref.actor.strategy=megatron actor_rollout_ref.actor.megatron.param_offload=";
  const std::string reference = " actor_rollout_ref.ref.megatron.param_offload=";
  EXPECT_THAT(notes(megatron + "True"), testing::Not(HasSubstr("ref.megatron")));
  EXPECT_THAT(notes(megatron + "True" + reference + "True"), testing::Not(HasSubstr("ref.megatron")));
  EXPECT_THAT(notes(megatron + "True" + reference + "False"), HasSubstr("it goes to the host with the policy"));
}

TEST(Verl, OfReleasesBefore2025AMicroBatchIsThatOfAllRanks) {
  const auto read = imported("verl",
                             "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B "
                             "actor_rollout_ref.actor.ppo_micro_batch_size=128\n",
                             answer_lengths);
  EXPECT_EQ(read.plan.batch.micro_batch_size, 16);  // 128 / 8
}

// A critic has a micro-batch, updates and adapters of its own, which the plan takes to be the policy's; 32768 is its
// default.
TEST(Verl, ACriticMayTrainOtherwiseThanThePolicy) {
  const std::string ppo = script + "algorithm.adv_estimator=gae ";
  EXPECT_THAT(noted(imported("verl", ppo + "critic.ppo_max_token_len_per_gpu=65536\n", answer_lengths)),
              HasSubstr("critic.ppo_max_token_len_per_gpu = 65536: not modelled; it can change the cost: it has the "
                        "micro-batch of the policy"));
  const std::string silent = noted(imported("verl", ppo + "\n", answer_lengths));
  EXPECT_THAT(silent, HasSubstr("critic.ppo_max_token_len_per_gpu is not given, so 32768: not modelled"));
  EXPECT_THAT(silent, testing::Not(HasSubstr("critic.ppo_micro_batch_size_per_gpu")));
  const std::string samples = noted(
      imported("verl",
               ppo + "actor_rollout_ref.actor.use_dynamic_bsz=False "
                     "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 critic.ppo_micro_batch_size_per_gpu=8 "
                     "critic.ppo_mini_batch_size=64 critic.ppo_epochs=2\n",
               answer_lengths));
  EXPECT_THAT(samples, HasSubstr("critic.ppo_micro_batch_size_per_gpu = 8: not modelled"));
  EXPECT_THAT(samples, HasSubstr("critic.ppo_epochs = 2: not modelled"));
  EXPECT_THAT(samples, testing::Not(testing::AnyOf(HasSubstr("32768"), HasSubstr("ppo_mini_batch_size"))));
  EXPECT_THAT(noted(imported("verl", ppo + "actor_rollout_ref.model.lora_rank=32\n", answer_lengths)),
              HasSubstr("critic.model.lora_rank is not given, so 0: not modelled; it has the adapters of the policy"));
  EXPECT_EQ(imported("verl", ppo + "critic.enable=False\n", answer_lengths).plan.rollout.critic, false);
  EXPECT_THAT(noted(imported("verl", script + "critic.ppo_epochs=2\n", answer_lengths)),
              testing::Not(HasSubstr("critic")))
      << "no critic trains";
}

// Of policy and engine no section is passed over as a whole.
TEST(Verl, KeysWithoutACostAreListed) {
  const std::string notes = noted(imported(
      "verl",
      script + "actor_rollout_ref.actor.shard_twice=True actor_rollout_ref.rollout.speculate=True "
               "actor_rollout_ref.model.enable_activation_offload=True actor_rollout_ref.actor.entropy_coeff=0.01 "
               "actor_rollout_ref.actor.kl_loss_type=low_var_kl actor_rollout_ref.rollout.val_kwargs.n=4 "
               "actor_rollout_ref.actor.optim.lr=1e-6\n",
      answer_lengths));
  for (const char* unknown : {"actor.shard_twice: unknown", "rollout.speculate: unknown"})
    EXPECT_THAT(notes, HasSubstr(unknown));
  for (const char* left_out : {"activations stay on the GPU", "entropies are not computed"})
    EXPECT_THAT(notes, HasSubstr(left_out));
  for (const char* free : {"kl_loss_type", "val_kwargs", "optim.lr"}) EXPECT_THAT(notes, testing::Not(HasSubstr(free)));
}

TEST(Verl, AdaptersOfMegatronHaveASectionOfTheirOwn) {
  const Plan plan = imported("verl",
                             script +
                                 "actor_rollout_ref.actor.strategy=megatron actor_rollout_ref.model.lora.rank=64 "
                                 "actor_rollout_ref.model.lora.target_modules='[\"linear_qkv\",\"linear_proj\"]'\n",
                             answer_lengths)
                        .plan;
  EXPECT_EQ(plan.training.method, "lora");
  EXPECT_EQ(plan.training.rank, 64);
  EXPECT_THAT(plan.training.targets, testing::ElementsAre("attention"));
}

const std::string openrlhf_script =
    "ENGINES=(\n  --vllm_num_engines 4 --vllm_tensor_parallel_size 2\n  --vllm_gpu_memory_utilization 0.5\n)\n"
    "ray job submit --address=\"http://127.0.0.1:8265\" -- python3 -m openrlhf.cli.train_ppo_ray \\\n"
    "  --actor_num_gpus_per_node 8 \"${ENGINES[@]}\" --pretrain Qwen/Qwen3-8B --bf16 --zero_stage 3 \\\n"
    "  --rollout_batch_size 256 --n_samples_per_prompt 4 --eps_clip_low_high 0.2 0.27 --packing_samples ";

// Releases of 2026 have their options in sections.
TEST(OpenRlhf, OptionsInSectionsAreTheSameOnes) {
  const std::string sections =
      "python3 -m openrlhf.cli.train_ppo_ray --actor.num_nodes 2 --actor.num_gpus_per_node 8 --vllm.num_engines 8 "
      "--vllm.tensor_parallel_size 2 --vllm.gpu_memory_utilization 0.6 --train.colocate_all --ds.enable_sleep "
      "--actor.model_name_or_path Qwen/Qwen3-8B --rollout.batch_size 256 --rollout.n_samples_per_prompt 8 "
      "--train.batch_size 512 --ds.zero_stage 3 --ds.ring_attn_size 2 --ds.packing_samples --algo.kl.init_coef 0 "
      "--algo.advantage.estimator group_norm --actor.gradient_checkpointing_enable --actor.adam.lr 5e-7 "
      "--reward.remote_url a.py --actor.optim muon --ds.lora.rank 32 --data.max_len 4096 ";
  const auto read = imported("openrlhf", sections + "--rollout.max_new_tokens 3072\n", answer_lengths);
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.cluster.gpus, 16);
  EXPECT_EQ(plan.model.config, "qwen3-8b");
  EXPECT_EQ(plan.parallelism.zero_stage, 3);
  EXPECT_EQ(plan.parallelism.context, 2);
  EXPECT_EQ(plan.precision.gemm, Precision::bf16) << "the default of param_dtype";
  EXPECT_EQ(plan.batch.micro_batch_size, 1) << "the default";
  EXPECT_EQ(plan.batch.sequence_length, 4096) << "prompt and answer";
  EXPECT_EQ(plan.rollout.max_answer_tokens, 3072);
  EXPECT_EQ(plan.rollout.algorithm, "grpo");
  EXPECT_EQ(plan.rollout.prompts, 256);
  EXPECT_EQ(plan.rollout.updates, 4);  // 256 * 8 / 512
  EXPECT_EQ(plan.rollout.tensor, 2);
  EXPECT_EQ(plan.rollout.offload, true);
  EXPECT_EQ(plan.rollout.reference, false);
  EXPECT_DOUBLE_EQ(plan.inference.memory_share, 0.6);
  EXPECT_EQ(plan.recompute.policy, "full");
  EXPECT_TRUE(plan.recompute.early_stop);
  EXPECT_EQ(plan.optimizer.kind, "muon");
  EXPECT_EQ(plan.training.rank, 32);
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("unknown")));
  EXPECT_THAT(noted(imported("openrlhf", sections + "--actor.offload_everything --algo.kl.twice\n", answer_lengths)),
              testing::AllOf(HasSubstr("actor.offload_everything: unknown"), HasSubstr("algo.kl.twice: unknown")))
      << "sections have no names that stand for all";
  const auto shorter = imported("openrlhf",
                                sections +
                                    "--rollout.max_new_tokens 1024 --train.micro_batch_size 2 "
                                    "--actor.gradient_checkpointing_reentrant\n",
                                answer_lengths);
  EXPECT_FALSE(shorter.plan.recompute.early_stop);
  EXPECT_EQ(shorter.plan.batch.sequence_length, 4096);
  EXPECT_EQ(shorter.plan.rollout.max_answer_tokens, 1024);
  EXPECT_EQ(shorter.plan.batch.micro_batch_size, 2);
}

// An engine generates up to what a prompt leaves: max_len - prompt_len of each sample.
TEST(OpenRlhf, OneLengthIsOfPromptAndAnswer) {
  const std::string model =
      "python3 -m openrlhf.cli.train_ppo_ray --vllm.num_engines 8 --train.colocate_all "
      "--actor.model_name_or_path Qwen/Qwen3-8B --reward.remote_url a.py --algo.advantage.estimator rloo ";
  const Plan plan = imported("openrlhf", model + "--data.max_len 4096\n", answer_lengths).plan;
  EXPECT_EQ(plan.rollout.max_answer_tokens, 3896);  // 4096 - 200
  EXPECT_EQ(plan.batch.sequence_length, 4096);
  EXPECT_EQ(imported("openrlhf", model + "\n", answer_lengths).plan.batch.sequence_length, 2048) << "the default";
  const Plan flat =
      imported("openrlhf", openrlhf_script + "--remote_rm_url a.py --max_len 4096\n", answer_lengths).plan;
  EXPECT_EQ(flat.rollout.max_answer_tokens, 3896) << "the release before options had sections";
  EXPECT_EQ(flat.batch.micro_batch_size, 1);
}

// Releases with FSDP keep parameters of FP32, unless experts are not spread, and reduce in FP32.
TEST(OpenRlhf, FsdpTrainsInPlaceOfDeepspeed) {
  const std::string fsdp =
      "python3 -m openrlhf.cli.train_ppo_ray --actor.num_gpus_per_node 8 --vllm.num_engines 8 --train.colocate_all "
      "--actor.model_name_or_path Qwen/Qwen3-8B --reward.remote_url a.py --algo.advantage.estimator rloo "
      "--data.max_len 4096 --fsdp.tp_size 2 --fsdp.cp_size 2 --fsdp.param_dtype bf16 --fsdp.enable_sleep ";
  const auto read = imported("openrlhf", fsdp + "--fsdp.lora.rank 16\n", answer_lengths);
  EXPECT_EQ(read.plan.parallelism.zero_stage, 3);
  EXPECT_EQ(read.plan.parallelism.tensor, 2);
  EXPECT_TRUE(read.plan.parallelism.sequence) << "the default of tensor parallelism";
  EXPECT_EQ(read.plan.parallelism.context, 2);
  EXPECT_EQ(read.plan.parallelism.reduce_after, "run");
  EXPECT_EQ(read.plan.precision.master_weights, Precision::fp32);
  EXPECT_EQ(read.plan.precision.gradient_reduce, Precision::fp32);
  EXPECT_EQ(read.plan.stack.name, "pytorch-fsdp-eager");
  EXPECT_EQ(read.plan.training.rank, 16);
  EXPECT_EQ(read.plan.rollout.offload, false) << "FSDP's sleep does nothing";
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("unknown")));
  EXPECT_THAT(noted(read), HasSubstr("samples are packed")) << "not those that context-parallel ranks divide";
  EXPECT_FALSE(imported("openrlhf", fsdp + "--fsdp.no_sequence_parallel\n", answer_lengths).plan.parallelism.sequence);
  EXPECT_THAT(refusal("openrlhf", fsdp + "--fsdp.pp_size 2\n", answer_lengths), HasSubstr("without pipeline stages"));
  EXPECT_THAT(refusal("openrlhf", fsdp + "--actor.optim muon\n", answer_lengths), HasSubstr("Muon on DeepSpeed alone"));
  EXPECT_THAT(refusal("openrlhf", fsdp + "--fsdp.packing_samples\n", answer_lengths),
              HasSubstr("fsdp.packing_samples: OpenRLHF packs no samples"));
  EXPECT_THAT(noted(imported("openrlhf", fsdp + "--fsdp.cp_size 1 --fsdp.packing_samples\n", answer_lengths)),
              testing::Not(HasSubstr("samples are packed")));
}

TEST(OpenRlhf, QueuesAreHowFarThePolicyIsAhead) {
  const std::string queued = openrlhf_script + "--remote_rm_url a.py --advantage_estimator rloo --async_queue_size 2 ";
  EXPECT_EQ(imported("openrlhf", queued + "--async_train\n", answer_lengths).plan.rollout.staleness, 2);
  EXPECT_EQ(imported("openrlhf", queued + "\n", answer_lengths).plan.rollout.staleness, std::nullopt);
}

// Sections have many keys without a cost, which are not listed.
TEST(OpenRlhf, AMisspelledOptionOfASectionIsNoted) {
  const std::string sections =
      "python3 -m openrlhf.cli.train_ppo_ray --actor.model_name_or_path Qwen/Qwen3-8B --train.colocate_all "
      "--reward.remote_url a.py --vllm.num_engines 8 --data.max_len 4096 --ds.packing_samples ";
  const auto notes = [&sections](const std::string& options) {
    return noted(imported("openrlhf", sections + options + "\n", answer_lengths));
  };
  EXPECT_THAT(notes("--train.micro_bacth_size 4"), HasSubstr("did you mean 'train.micro_batch_size'"));
  EXPECT_THAT(notes("--actor.gradient_checkpointing_enabled"), HasSubstr("did you mean 'actor.gradient_checkpointing"));
  EXPECT_THAT(notes("--data.maxlen 8192"), HasSubstr("did you mean 'data.max_len'"));
  EXPECT_THAT(notes("--data.input_key question --actor.adam.lr 5e-7 --rollout.micro_batch_size 8"),
              testing::Not(HasSubstr("unknown")));
  const std::string nameless =
      "python3 -m openrlhf.cli.train_ppo_ray --actor.model_name_or_pth Qwen/Qwen3-8B "
      "--train.colocate_all --vllm.num_engines 8 --ds.packing_samples\n";
  EXPECT_THAT(refusal("openrlhf", nameless, answer_lengths),
              HasSubstr("add --model NAME; line 1 has --actor.model_name_or_pth: unknown; did you mean "
                        "'actor.model_name_or_path'"));
}

TEST(OpenRlhf, AScriptIsAPlanWithRollout) {
  const auto read = imported("openrlhf",
                             openrlhf_script +
                                 "--colocate_all_models --deepspeed_enable_sleep --use_dynamic_batch "
                                 "--train_max_tokens_per_gpu 8192 --ring_attn_size 2 --reward_pretrain a/reward-8b\n",
                             answer_lengths);
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.cluster.gpus, 8);
  EXPECT_EQ(plan.parallelism.zero_stage, 3);
  EXPECT_EQ(plan.parallelism.context_method, "ring");
  EXPECT_EQ(plan.batch.sequence_length, 16384);  // of both ranks of a ring
  EXPECT_EQ(plan.recompute.policy, "none");
  EXPECT_EQ(plan.rollout.algorithm, "ppo");
  EXPECT_EQ(plan.rollout.updates, 8);  // 256 * 4 / 128
  EXPECT_EQ(plan.rollout.tensor, 2);
  EXPECT_EQ(plan.rollout.offload, true);
  EXPECT_EQ(plan.rollout.reference, true);
  EXPECT_EQ(plan.rollout.reward_model, "reward-8b");
  EXPECT_DOUBLE_EQ(plan.inference.memory_share, 0.5);
  EXPECT_EQ(plan.stack.name, "deepspeed");
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("unknown")));
}

TEST(OpenRlhf, EnginesMayHaveGpusOfTheirOwn) {
  const auto read = imported("openrlhf",
                             openrlhf_script +
                                 "--async_train --advantage_estimator group_norm --dynamic_filtering "
                                 "--init_kl_coef 0 --critic_num_gpus_per_node 8 --remote_rm_url reward.py\n",
                             answer_lengths);
  EXPECT_EQ(read.plan.rollout.placement, "asynchronous");
  EXPECT_EQ(read.plan.rollout.gpus, 8);  // 4 engines of 2
  EXPECT_EQ(read.plan.rollout.algorithm, "dapo");
  EXPECT_EQ(read.plan.rollout.reference, false);
  EXPECT_EQ(read.plan.rollout.critic, false);
  EXPECT_EQ(read.plan.batch.micro_batch_size, 4);
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("GPUs of its own"))) << "no critic, reference or reward model";
  EXPECT_THAT(refusal("openrlhf", "python3 -m openrlhf.cli.train_sft --pretrain a\n"),
              HasSubstr("a script that runs one of: train_ppo_ray"));
}

// PPO has all four models: 2 x 4 GPUs, a node of 8 where none is stated, and those of another model.
TEST(OpenRlhf, ModelsMayHaveGpusOfTheirOwn) {
  const auto read = imported("openrlhf",
                             openrlhf_script +
                                 "--critic_num_nodes 2 --critic_num_gpus_per_node 4 "
                                 "--colocate_critic_reward --reward_pretrain a/reward-8b\n",
                             answer_lengths);
  EXPECT_EQ(read.plan.cluster.gpus, 8);
  EXPECT_EQ(read.plan.rollout.placement, "split");
  EXPECT_THAT(noted(read), HasSubstr("the critic model has 8 GPUs of its own, which are not in the plan"));
  EXPECT_THAT(noted(read), HasSubstr("the reference model has 8 GPUs of its own"));
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("the reward model has")));
}

const std::string nemo_rl_policy =
    "policy:\n  model_name: Qwen/Qwen3-8B\n  train_global_batch_size: 256\n  train_micro_batch_size: 2\n"
    "  max_total_sequence_length: 4096\n  precision: bfloat16\n";
const std::string nemo_rl_grpo =
    "grpo:\n  num_prompts_per_step: 64\n  num_generations_per_prompt: 8\n  max_num_steps: 1000000\n"
    "cluster:\n  gpus_per_node: 8\n  num_nodes: 4\n" +
    nemo_rl_policy +
    "  sequence_packing:\n    enabled: true\n"
    "    train_mb_tokens: ${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}\n"
    "  generation:\n    max_new_tokens: ${policy.max_total_sequence_length}\n"
    "    vllm_cfg:\n      tensor_parallel_size: 2\n      gpu_memory_utilization: 0.6\n";

TEST(NemoRl, GrpoIsAPlanWithRollout) {
  const auto read = imported("nemo-rl",
                             nemo_rl_grpo +
                                 "  dtensor_cfg:\n    enabled: true\n    tensor_parallel_size: 2\n"
                                 "  megatron_cfg:\n    enabled: false\n    tensor_model_parallel_size: 8\n",
                             answer_lengths);
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.cluster.gpus, 32);
  EXPECT_EQ(plan.parallelism.tensor, 2) << "of the engine that is enabled";
  EXPECT_EQ(plan.parallelism.zero_stage, 3);
  EXPECT_EQ(plan.batch.sequence_length, 8192);  // 4096 * 2
  EXPECT_EQ(plan.batch.micro_batch_size, 1);
  EXPECT_EQ(plan.rollout.updates, 2);  // 64 * 8 / 256
  EXPECT_EQ(plan.rollout.max_answer_tokens, 3896) << "what a prompt of 200 leaves";
  EXPECT_EQ(plan.rollout.reference, true);
  EXPECT_EQ(plan.rollout.steps, Plan().rollout.steps) << "a million stands for no limit";
  EXPECT_DOUBLE_EQ(plan.inference.memory_share, 0.6);
}

TEST(NemoRl, MegatronAndEnginesWithGpusOfTheirOwn) {
  const auto read = imported("nemo-rl",
                             nemo_rl_grpo +
                                 "    colocated:\n      enabled: false\n      resources:\n        num_nodes: 1\n"
                                 "  megatron_cfg:\n    enabled: true\n    tensor_model_parallel_size: 4\n"
                                 "    sequence_parallel: true\n    activation_checkpointing: true\n"
                                 "    distributed_data_parallel_config:\n      grad_reduce_in_fp32: false\n"
                                 "      overlap_grad_reduce: true\n",
                             answer_lengths);
  EXPECT_EQ(read.plan.cluster.gpus, 24);
  EXPECT_EQ(read.plan.rollout.gpus, 8);
  EXPECT_EQ(read.plan.rollout.placement, "split");
  EXPECT_EQ(read.plan.parallelism.tensor, 4);
  EXPECT_TRUE(read.plan.parallelism.sequence);
  EXPECT_EQ(read.plan.precision.gradients, Precision::bf16);
  EXPECT_EQ(read.plan.recompute.policy, "full");
  EXPECT_EQ(read.plan.stack.name, "megatron-core-2025");
  // --gpus states those that train; engines keep the nodes of the file.
  std::vector<std::string> other = answer_lengths;
  other.emplace_back("cluster.gpus=16");
  const auto fewer = imported("nemo-rl",
                              nemo_rl_grpo +
                                  "    colocated:\n      enabled: false\n      resources:\n        num_nodes: 1\n"
                                  "  megatron_cfg:\n    enabled: true\n",
                              other);
  EXPECT_EQ(fewer.plan.cluster.gpus, 16);
  EXPECT_EQ(fewer.plan.rollout.gpus, 8);
}

TEST(NemoRl, PairsAndAdapters) {
  const auto dpo = imported("nemo-rl", "dpo:\n  max_num_steps: 10\n" + nemo_rl_policy);
  EXPECT_EQ(dpo.plan.training.objective, "dpo");
  EXPECT_EQ(dpo.plan.batch.micro_batch_size, 4);
  EXPECT_EQ(dpo.plan.batch.global_batch_size, 512);
  EXPECT_EQ(dpo.plan.run.tokens, 10.0 * 512 * 4096);
  const auto sft = imported("nemo-rl", "sft:\n  max_num_epochs: 1\n" + nemo_rl_policy +
                                           "  dtensor_cfg:\n    enabled: true\n    lora_cfg:\n"
                                           "      enabled: true\n      dim: 16\n      target_modules: []\n");
  EXPECT_EQ(sft.plan.training.method, "lora");
  EXPECT_EQ(sft.plan.training.rank, 16);
  EXPECT_THAT(refusal("nemo-rl", "rm: {}\n" + nemo_rl_policy), HasSubstr("none of the sections grpo, sft and dpo"));
}

// A file states what vLLM would have too, as that which it begins as does.
TEST(NemoRl, AnEngineIsThatOfTheBackend) {
  const std::string sglang = "    sglang_cfg:\n      tp_size: 4\n      mem_fraction_static: 0.8\n";
  const auto of = [&](const std::string& backend) {
    return imported("nemo-rl", nemo_rl_grpo + "      kv_cache_dtype: fp8_e4m3\n" + sglang + "    backend: " + backend,
                    answer_lengths)
        .plan;
  };
  EXPECT_EQ(of("sglang\n").inference.engine, "sglang");
  EXPECT_EQ(of("sglang\n").rollout.tensor, 4);
  EXPECT_DOUBLE_EQ(of("sglang\n").inference.memory_share, 0.8);
  EXPECT_EQ(of("vllm\n").rollout.tensor, 2);
  EXPECT_EQ(of("vllm\n").inference.kv_cache, "fp8");
}

TEST(NemoRl, EnginesWithoutGpusAreRefused) {
  EXPECT_THAT(refusal("nemo-rl", nemo_rl_grpo + "    colocated:\n      enabled: false\n", answer_lengths),
              HasSubstr("rollout.gpus"));
}

// Keys of the file win over those of the files that it names, whose lines are theirs.
TEST(NemoRl, AFileBeginsAsItsDefaults) {
  const tests::TemporaryDirectory folder;
  const auto base = folder.write("base.yaml", "sft:\n  max_num_steps: 5\n" + nemo_rl_policy);
  const std::string text = "defaults: base.yaml\npolicy:\n  max_total_sequence_length: 512\n";
  const auto of = [&](const std::string& file) {
    return import_configuration(tests::format_of("nemo-rl"), text, (base.parent_path() / file).string(),
                                {{}, "", "plan.json", tests::dense_model});
  };
  EXPECT_EQ(tests::read(of("own.yaml")).plan.batch.sequence_length, 512);
  EXPECT_EQ(tests::read(of("own.yaml")).plan.batch.global_batch_size, 256);
  EXPECT_THAT(to_string(of("elsewhere/own.yaml").error()), HasSubstr("base.yaml' is no file"));
}

// Behind a file that is not read no default of a script holds, and what is not known is named with what helps.
TEST(Verl, VariablesThatAFileMaySetAreAskedFor) {
  const std::string launch =
      "[ -f env.sh ] && source env.sh\nTP=${TP:-2}\npython3 -m verl.trainer.main_ppo \\\n"
      "  actor_rollout_ref.model.path=Qwen/Qwen3-8B data.max_prompt_length=512 data.max_response_length=1024 \\\n"
      "  data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=64 \\\n"
      "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.rollout.n=8 \\\n"
      "  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=$TP \\\n"
      "  trainer.nnodes=1 trainer.n_gpus_per_node=8\n";
  const std::string refused = tests::refusal("verl", launch, tests::answer_lengths);
  EXPECT_THAT(refused, HasSubstr("'${TP:-2}' is not known"));
  EXPECT_THAT(refused, HasSubstr("--define NAME=VALUE of its variable, or --set rollout.tensor=VALUE"));
  const auto defined = tests::read(
      import_configuration(tests::format_of("verl"), launch, "file",
                           {tests::answer_lengths, "", "plan.json", tests::dense_model, {}, {{"TP", "4"}}}));
  EXPECT_EQ(defined.plan.rollout.tensor, 4);
  // None of these scripts is executed.
  EXPECT_THAT(tests::refusal("verl", "for ((i = 0; i < $N; i++)); do\n  echo $i\ndone\n" + launch),
              testing::AllOf(HasSubstr("write it otherwise in a copy"), testing::Not(HasSubstr("--execute"))));
}

}  // namespace
}  // namespace plumbline::model::configurations
