// SIGINT and SIGTERM end a verb early: what is done so far is kept and reported, and the exit code is that of the
// signal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>  // kill is POSIX
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "real/executor/training/checkpoint.h"
#include "tests/support/command.h"
#include "tests/support/folders.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int of_signals = 128;

std::string read(const fs::path& path) { return model::read_file(path.string()).value(); }

// Sends the signal as soon as `ready` holds; returns the exit code.
template <class Ready>
int exit_after(Background& process, int signal, const Ready& ready) {
  EXPECT_TRUE(process.runs_until(ready));
  process.send(signal);
  const int status = process.wait();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Returns whether the file of --resume has some results, which are in its log first.
bool has_some(const fs::path& results) {
  constexpr std::uintmax_t some = 8 * 4096;  // bytes
  std::error_code missing;
  const std::uintmax_t bytes = fs::file_size(results.string() + "-wal", missing);
  return !missing && bytes > some;
}

TEST(Signals, ATrainingStopsAfterItsStepAndGoesOnExactly) {
  const TemporaryDirectory folder;
  const std::string stopped = (folder.path() / "stopped").string(), whole = (folder.path() / "whole").string();
  const fs::path answer = folder.path() / "answer.json", errors = folder.path() / "errors";
  Background training({plumbline_program(), "run", small_training_plan(), "--steps", "100000", "--checkpoint", stopped,
                       "--json", answer.string()},
                      errors.string());
  EXPECT_EQ(exit_after(training, SIGTERM,
                       [&] { return fs::exists(errors) && read(errors).find("step ") != std::string::npos; }),
            of_signals + SIGTERM);
  const auto reached = real::latest_checkpoint(stopped);
  ASSERT_TRUE(reached) << read(errors);
  EXPECT_EQ(json::parse(read(answer))["training"]["loss"].size(), static_cast<std::size_t>(*reached));
  EXPECT_NE(read(errors).find("stopped after step " + std::to_string(*reached) + " of 100000: " + stopped),
            std::string::npos)
      << read(errors);
  const std::string steps = "run " + small_training_plan() + " --steps " + std::to_string(*reached + 2);
  ASSERT_EQ(plumbline(steps + " --resume --checkpoint " + stopped).exit_code, 0);
  ASSERT_EQ(plumbline(steps + " --checkpoint " + whole).exit_code, 0);
  std::string newest = std::to_string(*reached + 2);
  newest = "step-" + std::string(8 - newest.size(), '0') + newest;
  for (const char* file : {"manifest.json", "rank-00000.bin", "rank-00001.bin"})
    EXPECT_TRUE(read(fs::path(stopped) / newest / file) == read(fs::path(whole) / newest / file)) << file;
}

TEST(Signals, ASweepWritesThePointsThatItHasAndGoesOn) {
  const TemporaryDirectory folder;
  const fs::path results = folder.path() / "results.db";
  const fs::path answer = folder.path() / "answer.json", errors = folder.path() / "errors";
  const std::string plan = source_folder() + "/examples/host-dualpipe.toml";
  const std::string over = "batch.global_batch_size=4..512:4";
  // On one core, since many would have finished it before the signal comes.
  Background sweep(
      {"taskset", "--cpu-list", std::to_string(::sched_getcpu()), plumbline_program(), "sweep", plan, "--over", over,
       "--over", "cluster.gpus=2,4", "--json", answer.string(), "--resume", results.string()},
      errors.string());
  EXPECT_EQ(exit_after(sweep, SIGINT, [&] { return has_some(results); }), of_signals + SIGINT);
  const json partial = json::parse(read(answer));
  EXPECT_EQ(partial["complete"], false);
  EXPECT_NE(read(errors).find("the answer is incomplete; a later run with --resume goes on"), std::string::npos);
  std::size_t simulated = 0;
  for (const json& point : partial["points"])
    if (point["feasible"] == true) ++simulated;
  EXPECT_GT(simulated, 0U);
  const std::string arguments = "sweep " + plan + " --over " + over + " --over cluster.gpus=2,4 --json - ";
  const CommandResult resumed = plumbline(arguments + "--resume " + results.string()), alone = plumbline(arguments);
  EXPECT_EQ(json::parse(resumed.output)["complete"], true);
  EXPECT_EQ(resumed.output, alone.output);
}

// The interval between checkpoints is given, so that all that is stored is of the campaign itself.
TEST(Signals, ACampaignWritesTheRunsThatItHas) {
  const TemporaryDirectory folder;
  const fs::path results = folder.path() / "results.db";
  const fs::path answer = folder.path() / "answer.json", errors = folder.path() / "errors";
  Background campaign(
      {plumbline_program(), "campaign", "deepseek-v3-2048xh800", "--no-interval", "--seeds", "1000000", "--set",
       "campaign.checkpoint_interval_s=1800", "--json", answer.string(), "--resume", results.string()},
      errors.string());
  EXPECT_EQ(exit_after(campaign, SIGTERM, [&] { return has_some(results); }), of_signals + SIGTERM);
  const json partial = json::parse(read(answer))["campaign"];
  EXPECT_EQ(partial["complete"], false);
  EXPECT_GT(partial["seeds"], 0);
  EXPECT_EQ(partial["days_of_seed"].size(), partial["seeds"].get<std::size_t>());
  EXPECT_GT(partial["days"]["p50"], 0);
  EXPECT_NE(read(errors).find("of 1000000 campaigns: the answer is incomplete; a later run with --resume goes on"),
            std::string::npos)
      << read(errors);
}

// What has no answer yet ends as a program without handlers would: here while it reads its input.
TEST(Signals, AVerbWithoutAnAnswerEndsByTheSignal) {
  const TemporaryDirectory folder;
  const fs::path input = folder.path() / "input.json", answer = folder.path() / "answer.json";
  ASSERT_EQ(::mkfifo(input.c_str(), S_IRUSR | S_IWUSR), 0);
  Background comparison({plumbline_program(), "compare", input.string(), "host-dualpipe", "--json", answer.string()});
  int writer = -1;  // can be opened once the verb reads
  const auto reads = [&] { return (writer = ::open(input.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; };
  EXPECT_EQ(exit_after(comparison, SIGTERM, reads), -SIGTERM);
  ::close(writer);
  EXPECT_FALSE(fs::exists(answer));
}

// A file of measurements is replaced once there is a sample, and the exit code is that of the signal also then.
TEST(Signals, AMeasurementWithoutSamplesLeavesItsFile) {
  const TemporaryDirectory folder;
  const fs::path records = folder.write("records.jsonl", "as before\n");
  Background measurement({plumbline_program(), "measure", "--backend", "host", "-o", records.string()});
  const auto start = std::chrono::steady_clock::now();
  const auto ready = [&] { return std::chrono::steady_clock::now() - start > std::chrono::milliseconds(300); };
  const int code = exit_after(measurement, SIGINT, ready);
  const bool kept = code == of_signals + SIGINT;
  EXPECT_TRUE(kept || code == -SIGINT) << code;
  EXPECT_EQ(read(records) == "as before\n", !kept);
  EXPECT_EQ(read(records).find("\"kind\":\"measurement\"") != std::string::npos, kept);
}

// A launch script that is executed ends with what it started, and nothing is written.
TEST(Signals, AnExecutedScriptEndsWithItsProcesses) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const TemporaryDirectory folder;
    const fs::path started = folder.path() / "started", plan = folder.path() / "plan.toml";
    const auto script = folder.write("launch.sh", "echo $$ >" + started.string() + "\nwhile true; do :; done\n");
    Background execution({plumbline_program(), "import", "megatron", "--execute", script.string(), "--deadline",
                          std::to_string(deadline_s), "-o", plan.string()});
    const auto ready = [&] { return fs::exists(started) && read(started).ends_with('\n'); };
    EXPECT_EQ(exit_after(execution, signal, ready), of_signals + signal);
    EXPECT_NE(::kill(std::stoi(read(started)), 0), 0);
    EXPECT_FALSE(fs::exists(plan));
  }
}

}  // namespace
}  // namespace plumbline::tests
