// Tests `plumbline run --backend cuda` and `plumbline measure` without a usable GPU: both name the reason and exit with
// the code by which scripts skip them. A machine with a GPU hides it here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "real/cuda/backend.h"
#include "tests/support/command.h"
#include "tests/support/free_port.h"

namespace plumbline::tests {
namespace {

using testing::HasSubstr;

const std::string hidden = "CUDA_VISIBLE_DEVICES= ";
const auto names_the_reason = testing::AnyOf(HasSubstr("no driver: "), HasSubstr("driver too old: "),
                                             HasSubstr("stub library: "), HasSubstr("no device: "));

bool built() { return real::cuda::describe_gpu(0).presence != real::cuda::GpuPresence::not_built; }

TEST(RunGpu, NamesWhatIsMissing) {
  const CommandResult result = plumbline("run " + small_training_plan() + " --backend cuda --emulate 0", hidden);
  EXPECT_EQ(result.output, "");
  if (built()) {
    EXPECT_EQ(result.exit_code, 77);
    EXPECT_THAT(result.errors, names_the_reason);
  } else {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr("this build has no GPU backend"));
    EXPECT_THAT(result.errors, HasSubstr("PLUMBLINE_CUDA=ON"));
  }
}

// Two processes connect to each other and both end, as neither has a GPU. One of them reports the error for both.
TEST(RunGpu, NamesWhatEachRankLacks) {
  const TemporaryDirectory folder;
  const std::string errors = (folder.path() / "second").string();
  const std::string port = "PLUMBLINE_PORT=" + std::to_string(free_port());
  Background second({"env", "CUDA_VISIBLE_DEVICES=", port, "MASTER_ADDR=127.0.0.1", "WORLD_SIZE=2",
                     "PLUMBLINE_JOB_TOKEN=the-token-of-this-test", "RANK=1", plumbline_program(), "run",
                     small_training_plan(), "--backend", "cuda"},
                    errors);
  const CommandResult first = plumbline(
      "run " + small_training_plan() + " --backend cuda",
      hidden + port + " PLUMBLINE_JOB_TOKEN=the-token-of-this-test MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 RANK=0 ");
  EXPECT_EQ(first.exit_code, built() ? 77 : 2);
  EXPECT_THAT(first.errors, HasSubstr("rank 0: "));
  EXPECT_THAT(first.errors, HasSubstr("rank 1: "));
  EXPECT_EQ(WEXITSTATUS(second.wait()), first.exit_code);
  EXPECT_EQ(model::read_text_file(errors).value(), "");
}

TEST(MeasureGpu, NamesWhatIsMissing) {
  const TemporaryDirectory folder;
  const std::string out = (folder.path() / "records.jsonl").string();
  const CommandResult result = plumbline("measure --backend cuda -o " + out, hidden);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(result.exit_code, built() ? 77 : 2);
  if (built())
    EXPECT_THAT(result.errors, names_the_reason);
  else
    EXPECT_THAT(result.errors, HasSubstr("PLUMBLINE_CUDA=ON"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace plumbline::tests
