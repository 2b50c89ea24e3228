#include "cli/detail/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/import/detail/execution.h"
#include "cli/progress.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using model::megatron::Execution;
using testing::ElementsAre;

struct Foreign {
  const char *name, *text, *what, *command;
};

constexpr const char* by_hand =
    "no command reads it: its degrees and batch are keys of a plan; plumbline show key parallelism lists them";

TEST(ForeignFile, IsRefusedWithTheCommandThatReadsIt) {
  const tests::TemporaryDirectory folder;
  for (const Foreign& one : {
           Foreign{"train.log", " iteration 1/ 9 | elapsed time per iteration (ms): 2000.0 | lm loss: 1.0 |\n",
                   "a training log", "plumbline compare PLAN {}"},
           Foreign{"nemo.txt", "trainer: {}\nmodel: {}\nglobal_step: 4 | train_step_timing in s: 7.1 |\n",
                   "a training log", "plumbline compare PLAN {}"},
           Foreign{"all.txt", "#       size  time   algbw   busbw #wrong\n", "output of nccl-tests",
                   "plumbline import nccl-tests {} -o measurements.csv"},
           Foreign{"node.xml", "<system version=\"2\">\n<cpu numaid=\"0\"/></system>\n", "a topology dump of NCCL",
                   "plumbline import nccl-topology {} -o cluster.toml"},
           Foreign{"trace.json", "{\"schemaVersion\": 1, \"traceEvents\": []}", "a trace",
                   "plumbline compare PLAN {0}, or import kineto {0} -o chunk.csv"},
           Foreign{
               "train.log.gz", "\x1f\x8b\b", "a compressed file",
               "gzip -dc {0} unpacks it; a trace is read as it is: plumbline compare PLAN {0}, or import kineto {0} "
               "-o chunk.csv"},
           Foreign{"launch.sh", "#!/bin/bash\ntorchrun pretrain_gpt.py --seq-length 4096\n", "a launch script",
                   "plumbline import megatron {} -o plan.toml"},
           Foreign{
               "rl.sh",
               "#!/bin/bash\nray job submit -- python3 train.py --actor-num-gpus-per-node 8 --rollout-batch-size 8\n",
               "a launch script of slime",
               "plumbline import megatron {} --set rollout.prompt_tokens=N --set rollout.answer_tokens=N --set "
               "rollout.answer_tokens_sd=N -o plan.toml"},
           Foreign{"swift.sh", "#!/bin/bash\nmegatron rlhf --rlhf_type grpo --model a\n",
                   "a launch script of ms-swift on Megatron",
                   "plumbline import megatron {} --set rollout.prompt_tokens=N --set rollout.answer_tokens=N --set "
                   "rollout.answer_tokens_sd=N -o plan.toml"},
           Foreign{"dpo.sh", "#!/bin/bash\nmegatron rlhf --rlhf_type dpo --model a\n",
                   "a launch script of ms-swift on Megatron", "plumbline import megatron {} -o plan.toml"},
           Foreign{"areal.yaml", "trial_name: a\ngconfig:\n  n_samples: 4\nactor:\n  backend: fsdp:d4\n",
                   "a configuration of AReaL", by_hand},
           Foreign{"omni.sh", "python3 -m verl_omni.trainer.main_flowgrpo actor_rollout_ref.model.path=a/b\n",
                   "a launch script of veRL-Omni, which trains on images and video",
                   "no command reads it: diffusion models are no models of plumbline"},
           Foreign{"skyrl.sh", "uv run -m skyrl_train.entrypoints.main_base trainer.policy.model.path=a/b\n",
                   "a launch script of SkyRL", by_hand},
           Foreign{"maxtext.sh",
                   "#!/bin/bash\npython3 -m MaxText.train b.yml base_output_directory=c per_device_batch_size=1\n",
                   "a launch script of MaxText", by_hand},
           Foreign{"maxtext.yml", "base_config: base.yml\nper_device_batch_size: 4\nremat_policy: minimal\n",
                   "a configuration of MaxText", by_hand},
           Foreign{"unsloth.py",
                   "from unsloth import FastLanguageModel\nmodel = FastLanguageModel.from_pretrained(1)\n",
                   "a training script of Unsloth", by_hand},
           Foreign{"sft.py", "from trl import SFTConfig, SFTTrainer\ntrainer = SFTTrainer(args=SFTConfig())\n",
                   "a training script of TRL", by_hand},
           Foreign{"grpo_fast.sh",
                   "#!/bin/bash\npython open_instruct/grpo_fast.py --model_name_or_path a --deepspeed_stage 3\n",
                   "a launch script of open-instruct", by_hand},
           Foreign{"lm.yaml", "model:\n  type: llama\ntrainer:\n  mp: p=f32,c=bfloat16\n  train_batch_size: 8\n",
                   "a configuration of Levanter", by_hand},
           Foreign{"ds.json", "{\"zero_optimization\": {\"stage\": 2}}", "a configuration of DeepSpeed",
                   "plumbline import deepspeed {} --gpus N --model NAME -o plan.toml"},
           Foreign{"config.json", "{\"model_type\": \"llama\"}", "a model",
                   "plumbline plan {0} --gpus N --cluster NAME, or import hf {0}"},
           Foreign{"fsdp.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n",
                   "a configuration of accelerate", "plumbline import accelerate {} -o plan.toml"},
           Foreign{"recipe.yaml", "trainer:\n  num_nodes: 8\nmodel:\n  config: {}\n", "a recipe of NeMo",
                   "plumbline import nemo {} -o plan.toml"},
           Foreign{"automodel.yaml", "step_scheduler:\n  local_batch_size: 1\nmodel: {}\n",
                   "a recipe of NeMo AutoModel", "plumbline import automodel {} --gpus N -o plan.toml"},
           Foreign{"run_grpo.sh", "#!/bin/bash\npython3 -m verl.trainer.main_ppo data.train_batch_size=8 --x\n",
                   "a launch script of verl", "plumbline import verl {} -o plan.toml"},
           Foreign{"run_dapo.sh",
                   "#!/bin/bash\npython3 -m recipe.dapo.main_dapo --config-name=a actor_rollout_ref.model.path=b\n",
                   "a launch script of verl", "plumbline import verl {} -o plan.toml"},
           Foreign{"sft.sh", "#!/bin/bash\ntorchrun src/train.py --model_name_or_path a --finetuning_type full\n",
                   "a launch script of LLaMA-Factory", "plumbline import llama-factory {} --gpus N -o plan.toml"},
           Foreign{"run_train.sh", "#!/bin/bash\ntorchrun -m torchtitan.train --module llama3 --config llama3_8b\n",
                   "a launch script of torchtitan",
                   "the config_registry.py of its --module is read, with its --config, and its options behind --: "
                   "plumbline import torchtitan"},
           Foreign{"run_train",
                   "TRAIN_FILE=${TRAIN_FILE:-\"torchtitan.train\"}\ntorchrun -m ${TRAIN_FILE} --module qwen3\n",
                   "a launch script of torchtitan",
                   "the config_registry.py of its --module is read, with its --config, and its options behind --: "
                   "plumbline import torchtitan"},
           Foreign{"registry.py",
                   "# torchrun -m torchtitan.train --module llama3\ndef llama3_8b():\n    return Trainer.Config()\n",
                   "a registry of torchtitan", "plumbline import torchtitan {} --config NAME -o plan.toml"},
           Foreign{"megatron.sh", "NPROC_PER_NODE=8 \\\nmegatron sft \\\n  --model Qwen/Qwen3-8B\n",
                   "a launch script of ms-swift on Megatron", "plumbline import megatron {} -o plan.toml"},
           Foreign{
               "sft_trl.sh", "accelerate launch sft.py --model_name_or_path a/b --per_device_train_batch_size 2\n",
               "a launch script of transformers' Trainer",
               "its file of DeepSpeed or accelerate is read: plumbline import deepspeed FILE --model NAME --gpus N, "
               "or import accelerate FILE; batch and sequence length are --set batch.micro_batch_size=N and "
               "batch.sequence_length=N"},
           Foreign{"hydra.yaml", "actor_rollout_ref:\n  model: {}\nalgorithm: {}\n", "a configuration of verl",
                   "plumbline import verl {} -o plan.toml"},
           Foreign{"llama.yaml", "parallelism:\n  dp: 1\ntokens:\n  batch_accumulation_per_replica: 1\n",
                   "a configuration of nanotron", "plumbline import nanotron {} -o plan.toml"},
           Foreign{"swift.sh", "#!/bin/bash\nswift sft --model a/b\n", "a launch script of ms-swift",
                   "plumbline import ms-swift {} -o plan.toml"},
           Foreign{"grpo.yaml", "policy:\n  train_global_batch_size: 512\n", "a configuration of NeMo-RL",
                   "plumbline import nemo-rl {} -o plan.toml"},
           Foreign{"ppo.sh", "python3 -m openrlhf.cli.train_ppo_ray --zero_stage 3\n", "a launch script of OpenRLHF",
                   "plumbline import openrlhf {} -o plan.toml"},
           Foreign{"config_registry.py", "def llama3_8b():\n    return Trainer.Config()\n", "a registry of torchtitan",
                   "plumbline import torchtitan {} --config NAME -o plan.toml"},
           Foreign{"perf.py", "from megatron.bridge import x\ndef f():\n    return x()\n",
                   "a recipe of Megatron-Bridge", "plumbline import nemo {} --config NAME -o plan.toml"},
           Foreign{"run_config.yaml", "_target_: megatron.bridge.training.config.ConfigContainer\n",
                   "a configuration of Megatron-Bridge", "plumbline import nemo {} --gpus N -o plan.toml"},
           Foreign{"sft.yaml", "model_name_or_path: a/b\nfinetuning_type: full\n", "a configuration of LLaMA-Factory",
                   "plumbline import llama-factory {} --gpus N -o plan.toml"},
           Foreign{"full.yml", "base_model: a/b\nsequence_len: 4096\n", "a configuration of axolotl",
                   "plumbline import axolotl {} --gpus N -o plan.toml"},
           Foreign{"swift.yaml", "model: a/b\nmax_length: 4096\n", "a configuration of ms-swift",
                   "plumbline import ms-swift {} --gpus N -o plan.toml"},
           Foreign{"mine.csv", "rank,slot,op,f_dir,f_stage,f_mb,b_dir,b_stage,b_mb\n", "the order of a schedule",
                   "--set schedule.kind=file:{} gives it to a plan"},
           Foreign{"result.json", "{\n  \"plumbline\": {\n    \"schema\": 1,\n", "a result",
                   "plumbline report {} -o page.html shows it"},
           Foreign{"train.toml", "[training]\nseq_len = 8192\n[activation_checkpoint]\nmode = \"full\"\n",
                   "a configuration of torchtitan", "plumbline import torchtitan {} -o plan.toml"},
       }) {
    const std::string path = folder.write(one.name, one.text).string();
    const auto done = refuse_foreign(path, "plan");
    ASSERT_FALSE(done) << one.name;
    EXPECT_EQ(done.error().file, path);
    EXPECT_EQ(done.error().message, std::string("is ") + one.what + ", not a plan");
    std::string command = one.command;
    for (const std::string_view place : {"{}", "{0}"})
      for (std::size_t at = 0; (at = command.find(place)) != std::string::npos;)
        command.replace(at, place.size(), path);
    EXPECT_EQ(done.error().hint, command);
  }
}

TEST(ForeignFile, OtherFilesAreLeftToTheirReader) {
  const tests::TemporaryDirectory folder;
  const auto left = [&](const char* name, const char* text) {
    return refuse_foreign(folder.write(name, text).string(), "plan").has_value();
  };
  EXPECT_TRUE(left("plan.toml", "# elapsed time per iteration (ms): 2000.0 |, algbw busbw\n[training]\n"));
  EXPECT_TRUE(left("plan", "[cluster]\ngpus = 8\n"));
  EXPECT_TRUE(left("run.txt", "grep \"elapsed time per iteration (ms)\" train.log\n"));
  EXPECT_TRUE(refuse_foreign((folder.path() / "nowhere").string(), "plan"));
}

// Arguments of these have names of Megatron's, too.
TEST(ForeignFile, OfProgramsThatNoCommandReads) {
  const tests::TemporaryDirectory folder;
  const auto refused = [&](const char* name, const char* text) {
    const auto done = refuse_unread(folder.write(name, text).string());
    return done ? "" : done.error().message;
  };
  EXPECT_EQ(refused("sft.sh", "deepspeed --module openrlhf.cli.train_sft --zero_stage 3\n"),
            "is a launch script of OpenRLHF");
  EXPECT_EQ(refused("7B_sft.py", "hybrid_zero_optimizer = dict()\nparallel = dict(\n"),
            "is a configuration of InternEvo");
  EXPECT_EQ(refused("fsdp.sbatch", "#!/bin/bash\ntorchrun train.py --max_context_width=4096 --hidden_width=4096\n"),
            "is a launch script of awsome-distributed-ai's FSDP example");
  EXPECT_EQ(refused("7b.yaml", "global_train_batch_size: 8\nfsdp_config: {}\n"), "is a configuration of llm-foundry");
  EXPECT_EQ(refused("grpo.yaml", "allocation_mode: sglang:d4+fsdp:d4\ncluster:\n  n_nodes: 1\n"),
            "is a configuration of AReaL");
  EXPECT_EQ(refused("full.yaml", "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\nmax_length: 1\n"),
            "is a configuration of torchtune");
  EXPECT_EQ(refused("moe.py", "from xtuner.v1.config import TrainerConfig\ntrainer = TrainerConfig(model_cfg=1)\n"),
            "is a configuration of XTuner");
  EXPECT_EQ(refused("launch.sh", "#!/bin/bash\ntorchrun pretrain_gpt.py --bf16\n"), "");
}

TEST(ForeignFile, IsWhatIsExpected) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("config.json", "{\"model_type\": \"llama\"}").string();
  EXPECT_TRUE(refuse_foreign(path, "model"));
  EXPECT_FALSE(refuse_foreign(path, "plan"));
  const std::string plan = folder.write("plan.toml", "[parallelism]\ntensor = 2\n[batch]\n").string();
  EXPECT_TRUE(refuse_foreign(plan, "plan"));
  EXPECT_FALSE(refuse_foreign(plan, "stack"));
}

TEST(ForeignFile, OfAnotherImporterNamesIt) {
  const tests::TemporaryDirectory folder;
  const std::string script = folder.write("launch.sh", "#!/bin/bash\ntorchrun pretrain_gpt.py --bf16\n").string();
  const std::string trace = folder.write("trace.json", "{\"traceEvents\": [").string();
  const auto message = [](const std::string& at, const std::string& path, const char* format) {
    return of_its_format({model::ErrorKind::input, "is cut", at}, path, format).message;
  };
  EXPECT_EQ(message(script, script, "nemo"), "is a launch script, not a file of 'import nemo'");
  EXPECT_EQ(message(script, script, "megatron"), "is cut");
  EXPECT_EQ(message(trace, trace, "kineto"), "is cut");
  EXPECT_EQ(message(trace, trace, "megatron"), "is a trace, not a file of 'import megatron'");
  EXPECT_EQ(message("--output", trace, "megatron"), "is cut");
  const std::string dapo =
      folder.write("dapo.sh", "#!/bin/bash\na.main_dapo --b actor_rollout_ref.model.path=c\n").string();
  EXPECT_EQ(message(dapo, dapo, "verl"), "is cut") << "what is wrong with a file of the format itself";
}

// Launch scripts that are executed: what they start is written down, and nothing of it runs.

class ExecutedScript : public testing::Test {
 protected:
  Execution run(const std::string& text, const std::vector<std::string>& arguments = {}, int deadline_s = 600) {
    ScriptExecution what;
    what.script = folder_.write("launch.sh", text).string();
    what.arguments = arguments;
    what.environment = given_;
    what.gpus_per_node = 4;
    what.deadline = std::chrono::seconds(deadline_s);
    const auto done = execute(what);
    EXPECT_TRUE(done) << to_string(done.error());
    return done.value_or(Execution());
  }
  // Returns each started command as one text.
  std::vector<std::string> started(const std::string& text, const std::vector<std::string>& arguments = {}) {
    std::vector<std::string> all;
    for (const auto& command : run(text, arguments).started) {
      std::string line;
      for (const auto& word : command) line += (line.empty() ? "" : " ") + word.text;
      all.push_back(line);
    }
    return all;
  }
  const tests::TemporaryDirectory folder_;
  model::megatron::Definitions given_ = {{"GIVEN", "7"}};
};

TEST_F(ExecutedScript, HasBashsOwnMeaning) {
  EXPECT_THAT(started("A=(--x 'a b' --y)\nP=\"in ${A[@]} out\"\nprintf -v N '%02d' 8\n"
                      "torchrun --nproc_per_node $N t.py $P ${GIVEN} $1\n",
                      {"first"}),
              ElementsAre("torchrun --nproc_per_node 08 t.py in --x a b --y out 7 first"));
  EXPECT_THAT(
      started("while getopts n: o; do N=$OPTARG; done\nexec python3 -m pkg.train --n $((N * 2))\n", {"-n", "4"}),
      ElementsAre("python3 -m pkg.train --n 8"));
  EXPECT_THAT(started("if [ ! -f src/pretrain_gpt.py ]; then exit 1; fi\ncd /no/such/folder || exit 1\n"
                      "export PATH=/usr/bin:/bin:$PATH\ntorchrun src/pretrain_gpt.py\n"),
              ElementsAre("torchrun src/pretrain_gpt.py"));
}

TEST_F(ExecutedScript, KeepsItsRecordersInEveryShell) {
  folder_.write("other.sh", "PATH=/usr/bin:/bin:$PATH\npython a.py $1\n");
  EXPECT_THAT(
      started("sh other.sh 1\ndash -c 'PATH=/bin:$PATH; python a.py 2'\n(PATH=/usr/bin:/bin; exec python a.py 3)\n"),
      ElementsAre("python a.py 1", "python a.py 2", "python a.py 3"));
}

// A PATH for one command leads to the recorders too, or the script ends with the reason.
TEST_F(ExecutedScript, KeepsItsRecordersBeforeThePathOfACommand) {
  EXPECT_THAT(started("PATH=/usr/bin:/bin python a.py 1\nenv PATH=/usr/bin:/bin python a.py 2\nenv -i python a.py 3\n"
                      "PATH=/usr/bin:/bin nohup python a.py 4\nnice bash -c 'PATH=/usr/bin:/bin python a.py 5'\n"
                      "env -i bash -c 'PATH=/usr/bin:/bin python a.py 6'\n"),
              ElementsAre("python a.py 1", "python a.py 2", "python a.py 3", "python a.py 4", "python a.py 5",
                          "python a.py 6"));
  const Execution done = run("PATH=/usr/bin:/bin exec python a.py\n");
  EXPECT_THAT(done.started, testing::IsEmpty());
  EXPECT_THAT(done.ending, testing::HasSubstr("a PATH for one command before exec or command"));
}

TEST_F(ExecutedScript, HasTheWordsOfItsLaunchers) {
  EXPECT_THAT(started("uv sync\nuv run --no-sync torchrun --nproc_per_node 8 a.py --x 1\n"),
              ElementsAre("uv run --no-sync torchrun --nproc_per_node 8 a.py --x 1"));
  EXPECT_THAT(started("C='python a.py --x 1'\nsrun -N 4 --ntasks-per-node=8 bash -c \"cd /x; $C\"\n"),
              ElementsAre("srun -N 4 --ntasks-per-node=8 python a.py --x 1"));
  EXPECT_THAT(started("docker run --rm --name train -v /a:/b image mpirun -np 16 python a.py | tee log\n"),
              ElementsAre("docker run --rm --name train -v /a:/b image mpirun -np 16 python a.py"));
  EXPECT_THAT(started("sbatch -p gpu <<EOF\n#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4\n"
                      "srun python a.py \\$SLURM_NNODES \\$SLURM_NTASKS $GIVEN\nEOF\n"),
              ElementsAre("sbatch --nodes=2 --ntasks-per-node=4 -p gpu srun python a.py 2 8 7"));
}

// The jobs of Ray, and PyTorch's count of GPUs, which need neither of both.
TEST_F(ExecutedScript, HasTheGpusOfAHostAndTheCommandOfAJob) {
  EXPECT_THAT(started("N=$(python -c 'import torch; print(torch.cuda.device_count())')\nray start --head\n"
                      "ray job submit --address=http://h -- python3 train.py --gpus $N\n"),
              ElementsAre("ray job submit --address=http://h -- python3 train.py --gpus 4"));
}

TEST_F(ExecutedScript, IsABatchWhereItHasSlurmsHeader) {
  const Execution done =
      run("#!/bin/bash\n#SBATCH --nodes=3\nHOST=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n"
          "torchrun --nproc_per_node $(nvidia-smi -L | wc -l) --nnodes $SLURM_NNODES a.py --host $HOST &\nwait\n");
  ASSERT_EQ(done.started.size(), 1u);
  std::vector<std::string> words;
  for (const auto& word : done.started[0]) words.push_back(word.text);
  EXPECT_THAT(words, ElementsAre("sbatch", "--nodes=3", "torchrun", "--nproc_per_node", "4", "--nnodes", "3", "a.py",
                                 "--host", "node1"));
  EXPECT_EQ(done.variables.at("SLURM_NNODES"), "3");
  EXPECT_THAT(done.answered, ElementsAre("scontrol", "nvidia-smi"));
}

TEST_F(ExecutedScript, HasGivenVariablesOverSlurmsHeader) {
  given_ = {{"SLURM_NNODES", "5"}};
  EXPECT_THAT(
      started("#!/bin/bash\n#SBATCH --nodes=3 --ntasks-per-node=2\nsrun python a.py $SLURM_NNODES $SLURM_NTASKS\n"),
      ElementsAre("sbatch --nodes=3 --ntasks-per-node=2 --nodes=5 srun python a.py 5 10"));
}

TEST_F(ExecutedScript, ChangesNoFilesElsewhere) {
  const auto kept = folder_.write("kept/file", "text");
  const auto made = folder_.path() / "made";
  const Execution done = run("set -e\nrm -rf " + kept.parent_path().string() + "\nmkdir -p " + made.string() +
                             "\nmkdir -p logs\necho x | tee logs/a > /dev/null\nmv logs/a b\ngit clone u\n[ \"$(cat "
                             "b)\" = x ] && torchrun a.py\n");
  EXPECT_TRUE(std::filesystem::exists(kept));
  EXPECT_FALSE(std::filesystem::exists(made));
  EXPECT_THAT(done.skipped, ElementsAre("rm", "mkdir", "git"));
  EXPECT_EQ(done.started.size(), 1u);
}

TEST_F(ExecutedScript, ChangesNoFilesElsewhereByOptions) {
  const auto made = folder_.path() / "made";
  std::filesystem::create_directory(made);
  const std::string to = made.string();
  const Execution done =
      run("echo x > a\ndd if=a of=" + to + "/dd\ncp --target-directory=" + to + " a\ncp -t " + to + " a\ncp -at" + to +
          " a\ninstall -d " + to + "/b c\nrsync host:a .\ndd if=a of=b status=none\n[ -f b ] && torchrun a.py\n");
  EXPECT_TRUE(std::filesystem::is_empty(made));
  EXPECT_THAT(done.skipped, ElementsAre("dd", "cp", "install", "rsync"));
  EXPECT_EQ(done.started.size(), 1u);
}

TEST_F(ExecutedScript, SourcesAndStartsWhatLiesNextToIt) {
  folder_.write("common/values.sh", "TP=8\n");
  folder_.write("common/train.sh", "torchrun a.py --tp $TP $1\n");
  EXPECT_THAT(started(". ./common/values.sh\nexport TP\nbash common/train.sh in\n"
                      "bash \"$(cd \"$(dirname \"$0\")\" && pwd)\"/common/train.sh there\n"),
              ElementsAre("torchrun a.py --tp 8 in", "torchrun a.py --tp 8 there"));
}

// An interruption ends all that the script started: this process sends it to itself from the script.
TEST_F(ExecutedScript, IsEndedWhereThisProcessIsInterrupted) {
  std::signal(SIGINT, SIG_DFL);  // ignored in the background job of a shell
  handle_signals();
  ScriptExecution what;
  what.script = folder_.write("launch.sh", "kill -INT $PPID\nwhile true; do :; done\n").string();
  what.deadline = std::chrono::seconds(600);
  const auto done = execute(what);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, model::ErrorKind::interrupted);
}

TEST_F(ExecutedScript, IsOneGroupOfProcesses) {
  EXPECT_THAT(started("G=\"cut -d' ' -f5 /proc/self/stat\"\n"
                      "[ \"$(setsid -w sh -c \"$G\")\" = \"$(sh -c \"$G\")\" ] && torchrun a.py\n"),
              ElementsAre("torchrun a.py"));
  EXPECT_THAT(started("set -m\ncut -d' ' -f5 /proc/self/stat > a &\nwait\ncut -d' ' -f5 /proc/self/stat > b\n"
                      "[ \"$(cat a)\" = \"$(cat b)\" ] && torchrun a.py\n"),
              ElementsAre("torchrun a.py"));
}

TEST_F(ExecutedScript, IsEndedAtItsDeadline) {
  EXPECT_EQ(run("while true; do :; done\n", {}, 1).ending, "was ended after 1 s");
  EXPECT_EQ(run("echo no >&2\nexit 3\n").ending, "ended with status 3: no");
  EXPECT_THAT(run("true\n").started, testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::cli
