// Tests `plumbline run` under mpirun: ranks that are processes give the same bits as ranks that are threads, and all
// processes of a job end, whichever of them fails.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "real/executor/training/checkpoint.h"
#include "tests/support/command.h"
#include "tests/support/text_parts.h"

namespace plumbline::tests {
namespace {

using nlohmann::json;

std::string mpirun(int ranks) {
  std::string words = PLUMBLINE_MPIRUN;
  const std::string number = "RANKS";  // the command has it in place of the number
  return words.replace(words.find(number), number.size(), std::to_string(ranks));
}

class RunUnderMpi : public testing::TestWithParam<std::pair<int, std::string>> {};

TEST_P(RunUnderMpi, TrainsTheSame) {
  const auto& [ranks, changes] = GetParam();
  const std::string arguments = "run " + small_training_plan() + " --steps 4 --balance 0.01 --json - " + changes;
  const CommandResult threads = plumbline(arguments), processes = plumbline(arguments, mpirun(ranks));
  ASSERT_EQ(threads.exit_code, 0) << threads.errors;
  ASSERT_EQ(processes.exit_code, 0) << processes.errors;
  const json expected = json::parse(threads.output), found = json::parse(processes.output);
  EXPECT_EQ(found["training"]["loss"], expected["training"]["loss"]);
  EXPECT_EQ(found["training"]["loss"].size(), 4U);
  EXPECT_EQ(found["training"]["gradient_norm"], expected["training"]["gradient_norm"]);
  EXPECT_EQ(found["training"]["expert_load"], expected["training"]["expert_load"]);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, RunUnderMpi,
    testing::Values(std::pair(2, std::string()),
                    std::pair(4, std::string("--set cluster.gpus=4 --set parallelism.expert=2 "
                                             "--set batch.global_batch_size=16")),
                    std::pair(4, std::string("--set cluster.gpus=4 --set parallelism.expert=2 --set schedule.kind=1f1b "
                                             "--set precision.gemm=bf16"))));

TEST(MpiJob, AsksForAsManyProcessesAsThePlanHasRanks) {
  for (const int ranks : {3, 4}) {
    const CommandResult result = plumbline("run " + small_training_plan(), mpirun(ranks));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(count(result.errors, "the plan has 2 ranks, but " + std::to_string(ranks) + " were started"), 1U);
    EXPECT_EQ(count(result.errors, "mpirun -n 2"), 1U) << result.errors;
  }
  const CommandResult fewer = plumbline("run " + small_training_plan() + " --set cluster.gpus=4", mpirun(2));
  EXPECT_EQ(fewer.exit_code, 2);
  EXPECT_EQ(count(fewer.errors, "start as many processes as the plan has ranks: mpirun -n 4"), 1U) << fewer.errors;
}

TEST(MpiJob, AnErrorOfAllIsReportedOnce) {
  const CommandResult failed = plumbline("run " + small_training_plan() + " --steps 9 --learning-rate 1e30", mpirun(2));
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_EQ(count(failed.errors, " in step 2 (try a lower learning rate"), 1U) << failed.errors;
  const CommandResult wrong = plumbline("run " + small_training_plan() + " --text nowhere.txt", mpirun(2));
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_EQ(count(wrong.errors, "nowhere.txt: no such file"), 1U) << wrong.errors;
  const CommandResult unknown = plumbline("run " + small_training_plan() + " --stebs 3", mpirun(2));
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_EQ(count(unknown.errors, "--stebs"), 1U) << unknown.errors;
}

// Only rank 0 opens the TensorBoard log.
TEST(MpiJob, AnErrorOfOneEndsTheOthers) {
  const TemporaryDirectory folder;
  const std::string file = folder.write("file", "").string();
  const CommandResult result =
      plumbline("run " + small_training_plan() + " --steps 100000 --tensorboard " + file, mpirun(2));
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.errors.find("plumbline: rank 0: " + file), std::string::npos) << result.errors;
}

TEST(MpiJob, AKilledRankEndsTheJobAndLeavesWhatWasSaved) {
  const TemporaryDirectory folder;
  const std::string saved = (folder.path() / "saved").string(), errors = (folder.path() / "errors").string();
  // Each process writes its process id before it becomes plumbline.
  const std::string numbers = (folder.path() / "rank-").string();
  Background job(
      {"sh", "-c",
       "exec " + mpirun(2) + " sh -c 'echo $$ > " + numbers + "$OMPI_COMM_WORLD_RANK; exec " + plumbline_program() +
           " run " + small_training_plan() + " --steps 100000 --checkpoint " + saved + " --checkpoint-every 1'"},
      errors);
  ASSERT_TRUE(job.runs_until([&] { return real::latest_checkpoint(saved).value_or(0) >= 3; }))
      << model::read_text_file(errors).value();
  if (!std::filesystem::exists(numbers + "1")) GTEST_SKIP() << "this MPI sets no OMPI_COMM_WORLD_RANK";
  ::kill(std::stoi(model::read_text_file(numbers + "1").value()), SIGKILL);
  const int status = job.wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0);
  const std::string said = model::read_text_file(errors).value();
  EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
  const std::int64_t reached = real::latest_checkpoint(saved).value();
  EXPECT_GE(reached, 3);
  const CommandResult resumed = plumbline("run " + small_training_plan() + " --json - --resume --checkpoint " + saved +
                                          " --steps " + std::to_string(reached + 2));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(json::parse(resumed.output)["training"]["loss"].size(), 2U);
}

}  // namespace
}  // namespace plumbline::tests
