#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "real/cuda/backend.h"
#include "real/executor/training/checkpoint.h"
#include "tests/support/command.h"
#include "tests/support/event_file.h"
#include "tests/support/free_port.h"

// Tests `plumbline run` from a user's side: the files it writes during training, its exit when training fails, and the
// files left when it is killed.
namespace plumbline::tests {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;
using nlohmann::json;

json run(const std::string& arguments) {
  const CommandResult result = plumbline("run " + small_training_plan() + " --json - " + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return result.exit_code == 0 ? json::parse(result.output) : json();
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[fs::relative(entry.path(), folder).string()] = model::read_file(entry.path().string()).value();
  return files;
}

TEST(RunCommand, ContinuesAsIfItHadNeverStopped) {
  const TemporaryDirectory folder;
  const std::string whole = (folder.path() / "whole").string(), parts = (folder.path() / "parts").string();
  const json through = run("--steps 6 --balance 0.01 --checkpoint " + whole);
  const json first = run("--steps 3 --balance 0.01 --checkpoint " + parts);
  const json second = run("--steps 6 --balance 0.01 --resume --checkpoint " + parts);
  std::vector<double> losses = first["training"]["loss"];
  for (const double loss : second["training"]["loss"]) losses.push_back(loss);
  EXPECT_EQ(losses, through["training"]["loss"].get<std::vector<double>>());
  EXPECT_EQ(losses.size(), 6U);
  const auto expected = contents(whole + "/step-00000006");
  EXPECT_EQ(expected.size(), 3U);  // those of two ranks and the manifest
  EXPECT_TRUE(contents(parts + "/step-00000006") == expected);
}

// The update of the third step makes values overflow in the fourth.
TEST(RunCommand, StopsWhereTrainingFailsAndLeavesTheCheckpoint) {
  const TemporaryDirectory folder;
  const std::string saved = (folder.path() / "saved").string();
  run("--steps 2 --checkpoint " + saved);
  const auto before = contents(saved);
  const CommandResult failed =
      plumbline("run " + small_training_plan() + " --steps 9 --learning-rate 1e30 --resume --checkpoint " + saved);
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_NE(failed.errors.find(" in step 4 (try a lower learning rate"), std::string::npos) << failed.errors;
  EXPECT_EQ(failed.output, "");
  EXPECT_TRUE(contents(saved) == before);
}

// FP16 overflows at every loss scale, because the update of the first step has spoilt the model.
TEST(RunCommand, StopsInFp16TooWhereTheLossIsNoNumber) {
  const TemporaryDirectory folder;
  const std::string saved = (folder.path() / "saved").string();
  const CommandResult failed = plumbline(
      "run " + small_training_plan() +
      " --set precision.gemm=fp16 --steps 9 --learning-rate 1e5 --checkpoint-every 1 " + "--checkpoint " + saved);
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_NE(failed.errors.find("loss is not a number in step 2 (try"), std::string::npos) << failed.errors;
  EXPECT_EQ(real::latest_checkpoint(saved), 1);
}

TEST(RunCommand, LosesNothingThatWasSavedWhenKilled) {
  const TemporaryDirectory folder;
  const std::string killed = (folder.path() / "killed").string(), whole = (folder.path() / "whole").string();
  std::int64_t reached = 0;
  {
    Background training({plumbline_program(), "run", small_training_plan(), "--steps", "100000", "--checkpoint", killed,
                         "--checkpoint-every", "1"});
    ASSERT_TRUE(training.runs_until([&] { return real::latest_checkpoint(killed).value_or(0) >= 5; }));
    training.send(SIGKILL);
    training.wait();
    reached = real::latest_checkpoint(killed).value();
  }
  EXPECT_GE(reached, 5);
  const std::string steps = "--steps " + std::to_string(reached + 2);
  const json resumed = run(steps + " --resume --checkpoint " + killed);
  EXPECT_EQ(resumed["training"]["loss"].size(), 2U);
  run(steps + " --checkpoint " + whole);
  std::string newest = std::to_string(reached + 2);
  newest = "/step-" + std::string(8 - newest.size(), '0') + newest;
  EXPECT_TRUE(contents(killed + newest) == contents(whole + newest));
  // No partly written file remains.
  for (const auto& entry : fs::directory_iterator(killed))
    EXPECT_TRUE(entry.path().filename().string().starts_with("step-")) << entry.path();
}

TEST(RunCommand, GeneratesWithWhatItTrained) {
  const TemporaryDirectory folder;
  const std::string saved = " --checkpoint " + (folder.path() / "saved").string();
  run("--steps 2" + saved);
  const std::string serving =
      " --set parallelism.pipeline=1 --set parallelism.expert=2 --set inference.engine=plumbline "
      "--set inference.attention_data=2 --set inference.concurrency=4 "
      "--set inference.input_tokens=6 --set inference.weights=fp32 --set inference.kv_cache=fp32";
  const json first = run("--generate 5 --temperature 1 --seed 3 --clock cpu" + saved + serving);
  const json second = run("--generate 5 --temperature 1 --seed 3" + saved + serving);
  EXPECT_EQ(first["generation"]["requests"].size(), 4U);
  EXPECT_EQ(first["generation"]["requests"], second["generation"]["requests"]);
  EXPECT_EQ(first["generation"]["requests"][0]["output"].size(), 5U);
  EXPECT_EQ(first["generation"]["decode_s"].size(), 4U);
  EXPECT_GT(first["serving"]["tpot_s"].get<double>(), 0);
  EXPECT_GT(first["serving"]["predicted"]["tpot_s"].get<double>(), 0);
  const CommandResult refused = plumbline("run " + small_training_plan() + " --generate 5");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.errors.find("--checkpoint DIR"), std::string::npos) << refused.errors;
}

TEST(RunCommand, WritesABoardOfEveryStep) {
  const TemporaryDirectory folder;
  const json result = run("--steps 4 --tensorboard " + folder.path().string());
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder.path())) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  const std::vector<std::string> records = records_of(files[0].string());
  ASSERT_EQ(records.size(), 5U);  // the version, and a record of each step
  for (std::size_t step = 1; step <= 4; ++step) {
    const auto event = fields_of(records[step]);
    EXPECT_EQ(event.find(2)->second.bits, step);
    std::map<std::string, double> scalars;
    std::map<std::string, std::multimap<std::uint64_t, Field>> histograms;
    const auto summary = fields_of(event.find(5)->second.bytes);
    for (auto [value, end] = summary.equal_range(1); value != end; ++value) {
      const auto fields = fields_of(value->second.bytes);
      const std::string name = fields.find(1)->second.bytes;
      if (const auto scalar = fields.find(2); scalar != fields.end())
        scalars[name] = std::bit_cast<float>(static_cast<std::uint32_t>(scalar->second.bits));
      if (const auto histogram = fields.find(5); histogram != fields.end())
        histograms[name] = fields_of(histogram->second.bytes);
    }
    EXPECT_EQ(scalars.at("loss"), static_cast<float>(result["training"]["loss"][step - 1].get<double>()));
    EXPECT_GT(scalars.at("gradient_norm"), 0);
    EXPECT_GT(scalars.at("time/step_s"), 0);
    EXPECT_NEAR(scalars.at("tokens_per_second") * scalars.at("time/step_s"), 8 * 16, 1e-3);
    EXPECT_GT(scalars.at("utilisation"), 0);
    EXPECT_LT(scalars.at("utilisation"), 1);
    EXPECT_EQ(scalars.at("loss_scale"), 1);
    for (const std::string layer : {"1", "2", "3"}) {
      EXPECT_GE(scalars.at("expert_load/layer_" + layer + "_max_violation"), 0);
      const auto& load = histograms.at("expert_load/layer_" + layer);
      EXPECT_EQ(load.find(3)->second.number(), 8);           // experts
      EXPECT_EQ(load.find(4)->second.number(), 8 * 16 * 2);  // two for each token
    }
  }
}

// Tests `plumbline run --backend cuda` and `plumbline measure` without a usable GPU: both name the reason and exit with
// the code by which scripts skip them. A machine with a GPU hides it here.

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

// `simulate --slow` from a user's side: what one slow GPU costs a whole cluster.

constexpr const char* whole_cluster =
    "simulate llama-3-8b-64xh800 --fidelity cluster --seeds 1 --no-interval --json - ";

TEST(SlowGpu, DelaysTheWholeStep) {
  const CommandResult with = plumbline(std::string(whole_cluster) + "--slow gpu17=0.5"),
                      without = plumbline(whole_cluster);
  ASSERT_EQ(with.exit_code, 0) << with.errors;
  const json slow = json::parse(with.output), even = json::parse(without.output);
  // Its stage computes for over three quarters of the step, so that half of its speed costs more than half a step more;
  // nothing takes more than twice as long.
  const double times = slow["step"]["time_s"].get<double>() / even["step"]["time_s"].get<double>();
  EXPECT_GT(times, 1.5);
  EXPECT_LT(times, 2);
  EXPECT_THAT(slow["cluster"]["priors"].dump(), HasSubstr("GPU 17"));
}

TEST(SlowGpu, IsOneOfTheCluster) {
  for (const char* wrong : {"gpu64=0.9", "17", "gpu17=0", "node1=0.9"}) {
    const CommandResult result = plumbline(std::string(whole_cluster) + "--slow " + wrong);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, HasSubstr("--slow: '" + std::string(wrong) + "'"));
  }
  EXPECT_THAT(plumbline("simulate llama-3-8b-64xh800 --slow gpu17=0.9").errors, HasSubstr("add --fidelity cluster"));
}

}  // namespace
}  // namespace plumbline::tests
