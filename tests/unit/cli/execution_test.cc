// Launch scripts that are executed: what they start is written down, and nothing of it runs.
#include "cli/import/detail/execution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using model::megatron::Execution;
using testing::ElementsAre;

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
