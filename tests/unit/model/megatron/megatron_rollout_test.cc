// Imports scripts of reinforcement learning on Megatron-Core: slime's, and ms-swift's GRPO.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/megatron/import.h"
#include "tests/support/inputs.h"

namespace plumbline::model::megatron {
namespace {

using testing::HasSubstr;
using tests::error_of, tests::value_of;

const std::vector<std::string> lengths = {"rollout.prompt_tokens=500", "rollout.answer_tokens=1500",
                                          "rollout.answer_tokens_sd=1000"};

FoundFile find_model(const std::string& path) {
  if (!path.ends_with("models/dense-8b.sh")) return {};
  return {FileKind::file,
          "MODEL_ARGS=(\n   --num-layers 32 --hidden-size 4096 --ffn-hidden-size 12288\n   --num-attention-heads 32 "
          "--group-query-attention --num-query-groups 8\n   --swiglu --normalization RMSNorm --disable-bias-linear\n   "
          "--qk-layernorm --kv-channels 128 --position-embedding-type rope\n   --untie-embeddings-and-output-weights "
          "--vocab-size 151936\n)\n"};
}

Result<ImportedScript> import_rl(const std::string& text, const std::vector<std::string>& overrides = lengths,
                                 const std::string& arguments = "") {
  return import_script(text, "rl.sh",
                       {.more_arguments = arguments,
                        .config = "m.json",
                        .overrides = overrides,
                        .folder = "/scripts",
                        .find_file = find_model});
}

std::string noted(const ImportedScript& read) {
  std::string notes;
  for (const Note& note : read.notes) notes += note.text + "\n";
  return notes;
}

// A script as slime's are written: it asks the machine for NVLink, starts Ray on every host and submits a job.
constexpr const char* before_rollout = R"sh(#!/bin/bash
pkill -9 sglang
ray stop --force
set -ex
if [ -z "${BASE}" ]; then
  echo "BASE is not set"
  exit 1
fi
LINKS=$(nvidia-smi topo -m 2>/dev/null | grep -o 'NV[0-9]*' | wc -l)
if [ "$LINKS" -gt 0 ]; then HAS_NVLINK=1; else HAS_NVLINK=0; fi
HERE="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
source "${HERE}/models/dense-8b.sh"
CKPT_ARGS=(--hf-checkpoint ${BASE}/Dense-8B --ref-load ${BASE}/Dense-8B_dist)
ROLLOUT_ARGS=(
   --prompt-data ${BASE}/data.jsonl
)sh";
constexpr const char* before_job = R"sh(
)
PERF_ARGS=(
   --tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 2
   --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
   # --micro-batch-size 1
   --use-dynamic-batch-size --max-tokens-per-gpu 9216
)
ENGINE_ARGS=(
   --rollout-num-gpus-per-engine 4
   --sglang-mem-fraction-static 0.7
   --sglang-cuda-graph-bs 1 2 4 $(seq 8 8 32)
)
for HOST in $(awk '{print $1}' hostfile); do
  if [[ "$HOST" == "$HEAD" ]]; then
    continue
  fi
  ssh root@"${HOST}" "pkill -9 sglang ; ray stop --force ; pkill -9 python ; ray start --address=${HEAD}:6379" &
done
wait
ENV="{
  \"env_vars\": {\"NCCL_NVLS_ENABLE\": \"${HAS_NVLINK}\"}
}"
ray job submit --address="http://127.0.0.1:8265" --runtime-env-json="${ENV}" -- python3 )sh";
constexpr const char* after_job = R"sh( \
   ${MODEL_ARGS[@]} ${CKPT_ARGS[@]} ${ROLLOUT_ARGS[@]} ${PERF_ARGS[@]} ${ENGINE_ARGS[@]} ${EVAL_ARGS[@]}
)sh";

std::string slime(const std::string& program, const std::string& launch, const std::string& rollout) {
  return before_rollout + rollout + before_job + program + " \\\n   " + launch + after_job;
}

const std::string grpo =
    "   --num-rollout 300 --rollout-batch-size 64 --n-samples-per-prompt 8 --rollout-max-response-len 8192\n"
    "   --global-batch-size 512 --advantage-estimator grpo --use-kl-loss --kl-loss-coef 0.00";

TEST(MegatronRollout, SlimeOnTheGpusThatTrain) {
  const auto read =
      value_of(import_rl(slime("train.py", "--actor-num-nodes 2 --actor-num-gpus-per-node 8 --colocate", grpo)));
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.cluster.gpus, 16);
  EXPECT_EQ(plan.parallelism.tensor, 2);
  EXPECT_EQ(plan.parallelism.zero_stage, 1) << "slime's default";
  EXPECT_EQ(plan.rollout.algorithm, "grpo");
  EXPECT_EQ(plan.rollout.placement, "colocated");
  EXPECT_EQ(plan.rollout.prompts, 64);
  EXPECT_EQ(plan.rollout.answers, 8);
  EXPECT_EQ(plan.rollout.updates, 1);  // 64 * 8 / 512
  EXPECT_FALSE(plan.rollout.old_log_probs) << "the only update compares itself with its own";
  EXPECT_EQ(plan.rollout.reference, true) << "loaded with the loss, whatever its coefficient";
  EXPECT_EQ(plan.rollout.critic, false);
  EXPECT_EQ(plan.rollout.max_answer_tokens, 8192);
  EXPECT_EQ(plan.rollout.tensor, 4);
  EXPECT_EQ(plan.rollout.steps, 300);
  EXPECT_EQ(plan.rollout.answer_tokens, 1500);
  EXPECT_EQ(plan.inference.engine, "sglang");
  EXPECT_EQ(plan.inference.weights, Precision::bf16);
  EXPECT_DOUBLE_EQ(plan.inference.memory_share, 0.7);
  EXPECT_EQ(plan.batch.sequence_length, 18432) << "9216 tokens of each of 2 context ranks";
  EXPECT_EQ(plan.batch.micro_batch_size, 1);
  // 512 samples of 2000 tokens are 55.6 sequences; 4 data-parallel ranks have 14 each.
  EXPECT_EQ(plan.batch.global_batch_size, 56);
  EXPECT_EQ(plan.batch.document_length, 2000);
  EXPECT_FALSE(plan.run.tokens);
  EXPECT_THAT(noted(read), HasSubstr("--sglang-cuda-graph-bs 1 2 4 8 16 24 32: not modelled"));
  EXPECT_THAT(noted(read), HasSubstr("'[ -z \"${BASE}\" ]' is not decided: it is taken not to hold"));
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("its rollout is not")));
}

TEST(MegatronRollout, SlimeOnGpusOfItsOwn) {
  const std::string launch = "--actor-num-nodes 1 --rollout-num-gpus 24";
  const auto ahead = value_of(import_rl(slime("train_async.py", launch, grpo)));
  EXPECT_EQ(ahead.plan.cluster.gpus, 8);
  EXPECT_EQ(ahead.plan.rollout.placement, "asynchronous");
  EXPECT_EQ(ahead.plan.rollout.gpus, 24);
  EXPECT_EQ(value_of(import_rl(slime("train.py", launch, grpo))).plan.rollout.placement, "split");
  EXPECT_THAT(error_of(import_rl(slime("train.py", "--actor-num-nodes 1", grpo))).message,
              HasSubstr("does not state the GPUs of the engines"));
}

TEST(MegatronRollout, SlimeFiltersSamplesAndTrainsACritic) {
  const std::string launch = "--actor-num-nodes 1 --colocate --no-offload-train";
  const auto filtered = value_of(import_rl(
      slime("train.py", launch,
            "   --rollout-batch-size 32 --n-samples-per-prompt 16 --rollout-max-response-len 4096\n"
            "   --num-steps-per-rollout 4 --over-sampling-batch-size 80 --dynamic-sampling-filter-path a.b.c\n"
            "   --rollout-max-prompt-len 1024 --rollout-max-context-len 5000")));
  EXPECT_EQ(filtered.plan.rollout.algorithm, "dapo");
  EXPECT_EQ(filtered.plan.rollout.updates, 4);
  EXPECT_TRUE(filtered.plan.rollout.old_log_probs) << "of the policy before the first of four updates";
  EXPECT_EQ(filtered.plan.rollout.oversampling, 2.5);  // 80 / 32
  EXPECT_EQ(filtered.plan.rollout.reference, false);
  EXPECT_EQ(filtered.plan.rollout.offload, false);
  const std::string samples = "   --rollout-batch-size 32 --rollout-max-response-len 1600 --global-batch-size 32 ";
  const auto critic =
      value_of(import_rl(slime("train.py", launch, samples + "--advantage-estimator ppo --kl-coef 0.1")));
  EXPECT_EQ(critic.plan.rollout.algorithm, "ppo");
  EXPECT_EQ(critic.plan.rollout.critic, true);
  EXPECT_EQ(critic.plan.rollout.reference, true) << "for the penalty in the reward";
  EXPECT_TRUE(critic.plan.rollout.old_log_probs);
  EXPECT_TRUE(value_of(import_rl(slime("train.py", launch, samples + "--advantage-estimator gspo")))
                  .plan.rollout.old_log_probs);
  EXPECT_FALSE(
      value_of(import_rl(slime("train.py", launch, samples + "--advantage-estimator gspo --use-rollout-logprobs")))
          .plan.rollout.old_log_probs)
      << "those of the engine";
}

TEST(MegatronRollout, WithoutLengthsAnUpdateAloneIsPriced) {
  const std::string script = slime("train.py", "--actor-num-nodes 1 --colocate", grpo);
  const Error without = error_of(import_rl(script, {}));
  EXPECT_THAT(without.message, HasSubstr("as long as they are generated"));
  EXPECT_THAT(without.hint, HasSubstr("--set rollout.prompt_tokens=N"));
  EXPECT_THAT(without.hint, HasSubstr("--seq-length N"));
  const auto update = value_of(import_rl(script, {}, "--seq-length 2000"));
  EXPECT_FALSE(update.plan.rollout.given);
  EXPECT_EQ(update.plan.batch.global_batch_size, 512);
  EXPECT_EQ(update.plan.batch.micro_batch_size, 8);  // 18432 / 2000, which divides 256 samples of a rank
  EXPECT_THAT(noted(update), HasSubstr("its rollout is not: --set rollout.prompt_tokens=N"));
  // Two of three lengths are none.
  EXPECT_FALSE(import_rl(script, {lengths[0], lengths[1]}));
  // A longest answer that no argument states.
  EXPECT_THAT(error_of(import_rl(slime("train.py", "--actor-num-nodes 1 --colocate",
                                       "   --rollout-batch-size 8 --global-batch-size 8")))
                  .hint,
              HasSubstr("--set rollout.max_answer_tokens=N"));
}

TEST(MegatronRollout, SlimeOnText) {
  const auto text = value_of(
      import_rl(slime("train_async.py", "--actor-num-nodes 1",
                      "   --rollout-function-path slime.rollout.sft_rollout.generate_rollout --rollout-batch-size 128\n"
                      "   --global-batch-size 128 --loss-type sft_loss --debug-train-only"),
                {}, "--seq-length 4096"));
  EXPECT_FALSE(text.plan.rollout.given) << "nothing is generated";
  EXPECT_EQ(text.plan.batch.global_batch_size, 128);
  EXPECT_EQ(text.plan.batch.micro_batch_size, 4);  // 18432 / 4096
}

// Loops over hosts leave everything as it is, unless they may start a training.
TEST(MegatronRollout, LoopsOverHosts) {
  const std::string train =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 1024 "
      "--num-attention-heads 16 --vocab-size 32000 --seq-length 1024 --micro-batch-size 1 --bf16 ";
  const auto loop = [&](const std::string& body) {
    return import_rl("for h in $(cat hosts); do\n  " + body + "\ndone\n" + train, {});
  };
  EXPECT_TRUE(loop("ssh $h \"killall -q python3; ray start\" &"));
  EXPECT_TRUE(loop("pkill -9 -f python"));
  EXPECT_FALSE(loop("ssh $h python train.py &"));
  EXPECT_FALSE(loop("pkill -9 ray; torchrun pretrain_gpt.py"));
  EXPECT_FALSE(loop("pkill python && N=2"));
  // What seq prints is read.
  const auto layers = [&](const std::string& numbers) {
    return import_rl("for n in " + numbers + "; do LAST=$n; done\n" + train + "--train-samples $LAST", {});
  };
  EXPECT_EQ(value_of(layers("$(seq 3)")).plan.run.tokens, 3 * 1024.0);
  EXPECT_EQ(value_of(layers("$(seq 8 -3 1)")).plan.run.tokens, 2 * 1024.0);
  EXPECT_EQ(value_of(layers("$(seq 2 4 12)")).plan.run.tokens, 10 * 1024.0);
  for (const char* other : {"$(seq -w 3)", "$(seq 1 0.5 2)", "$(seq 100000)", "$(seq)", "$(seq 1 0 2)"})
    EXPECT_FALSE(layers(other)) << other;
}

// ms-swift's batches count answers: a generation is as many of them as steps_per_generation updates take.
TEST(MegatronRollout, SwiftGrpo) {
  const std::string model =
      "--num_layers 32 --hidden_size 4096 --ffn_hidden_size 12288 --num_attention_heads 32 --swiglu true "
      "--vocab_size 151936 --tensor_model_parallel_size 4 --sequence_parallel true ";
  const auto of = [&](const std::string& arguments, const std::vector<std::string>& overrides = lengths) {
    return import_rl("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \\\nNPROC_PER_NODE=8 \\\nmegatron rlhf --rlhf_type grpo " +
                         model + arguments,
                     overrides);
  };
  const auto read = value_of(
      of("--global_batch_size 64 --micro_batch_size 1 --steps_per_generation 4 --num_generations 16 --max_length 2048 "
         "--max_completion_length 4096 --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.4 "
         "--vllm_tensor_parallel_size 2 --sleep_level 2 --offload_model true --offload_optimizer true --beta 0.001 "
         "--dynamic_sample false --reward_funcs accuracy format --train_iters 400"));
  const Plan& plan = read.plan;
  EXPECT_EQ(plan.rollout.algorithm, "grpo");
  EXPECT_EQ(plan.rollout.prompts, 16);  // 64 * 4 / 16
  EXPECT_EQ(plan.rollout.answers, 16);
  EXPECT_EQ(plan.rollout.updates, 4);
  EXPECT_TRUE(plan.rollout.old_log_probs);
  EXPECT_EQ(plan.rollout.reference, true);
  EXPECT_EQ(plan.rollout.offload, true);
  EXPECT_EQ(plan.rollout.tensor, 2);
  EXPECT_EQ(plan.rollout.steps, 100);  // 400 updates
  EXPECT_EQ(plan.inference.engine, "vllm");
  EXPECT_DOUBLE_EQ(plan.inference.memory_share, 0.4);
  EXPECT_EQ(plan.batch.sequence_length, 6144);  // 2048 + 4096
  // An update has 64 samples of 2000 tokens, 20.8 sequences; two data-parallel ranks have 11 each.
  EXPECT_EQ(plan.batch.global_batch_size, 22);
  EXPECT_THAT(noted(read), testing::Not(HasSubstr("unknown")));
  const auto plain = value_of(
      of("--global_batch_size 64 --max_length 2048 --beta 0.0 --max_completion_length 4096 --vllm_max_model_len 2500"));
  EXPECT_EQ(plain.plan.rollout.prompts, 8) << "8 answers each";
  EXPECT_EQ(plain.plan.rollout.reference, false);
  EXPECT_FALSE(plain.plan.rollout.old_log_probs) << "of the policy that generates";
  EXPECT_DOUBLE_EQ(plain.plan.inference.memory_share, 0.9) << "ms-swift's default";
  EXPECT_EQ(plain.plan.batch.sequence_length, 2500);
  EXPECT_EQ(plain.plan.rollout.max_answer_tokens, 2000) << "what a prompt of 500 leaves";
}

TEST(MegatronRollout, SwiftGrpoThatIsRefused) {
  const auto of = [](const std::string& arguments, const std::vector<std::string>& overrides) {
    return import_rl(
        "NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --num_layers 2 --hidden_size 1024 --num_attention_heads 16 "
        "--vocab_size 32000 --max_length 1024 --max_completion_length 2048 " +
            arguments,
        overrides);
  };
  const Error unstated = error_of(of("--global_batch_size 64", {}));
  EXPECT_THAT(unstated.message, HasSubstr("the lengths of what grpo generates are not in the script"));
  EXPECT_THAT(unstated.hint, HasSubstr("--set rollout.answer_tokens=N"));
  EXPECT_THAT(error_of(of("--global_batch_size 60 --num_generations 16", lengths)).message,
              HasSubstr("60 answers of a generation are no whole groups of 16"));
  std::vector<std::string> server = lengths;
  EXPECT_THAT(error_of(of("--global_batch_size 64 --vllm_mode server", server)).message,
              HasSubstr("does not state the GPUs of the engines"));
  server.emplace_back("rollout.gpus=4");
  const auto asked = value_of(of("--global_batch_size 64 --vllm_mode server --async_generate false", server));
  EXPECT_EQ(asked.plan.rollout.placement, "split");
  EXPECT_EQ(asked.plan.rollout.gpus, 4);
  // What MegatronArguments itself does not take.
  for (const auto& [words, message] :
       {std::pair("--global_batch_size 64 --num_iterations 2", "--num-iterations: Megatron GRPO uses an answer once"),
        {"--global_batch_size 64 --vllm_mode server --async_generate true", "--async-generate: Megatron GRPO"},
        {"--global_batch_size 64 --generation_batch_size 96", "96 answers are not whole updates of"},
        {"--global_batch_size 64 --generation_batch_size 128 --steps_per_generation 4",
         "128 answers are not 4 updates of --global-batch-size 64"}})
    EXPECT_THAT(error_of(of(words, server)).message, HasSubstr(message)) << words;
  EXPECT_EQ(value_of(of("--global_batch_size 64 --generation_batch_size 128 --num_iterations 1", lengths))
                .plan.rollout.updates,
            2);
}

}  // namespace
}  // namespace plumbline::model::megatron
