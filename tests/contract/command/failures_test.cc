#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>  // kill is POSIX
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "real/executor/training/checkpoint.h"
#include "tests/support/command.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_directory.h"

// What ends the command from outside, an output that takes nothing or an input that no parser should see, is an error
// with a reason and exit code 1, never a lost answer or a crash.
namespace plumbline::tests {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* shipped_plan = "llama-3-8b-64xh800";

// Runs the command with stdout redirected; `redirection` is that of a shell.
CommandResult with_stdout(const std::string& redirection, const std::string& arguments) {
  const TemporaryDirectory scratch;
  const std::string errors = (scratch.path() / "errors").string();
  std::ofstream(errors).close();
  const int code = run_shell(plumbline_program() + " " + arguments + " 2> " + errors + " " + redirection);
  return {code, "", model::read_text_file(errors).value()};
}

TEST(Failures, AnAnswerThatStdoutDoesNotTakeIsAnError) {
  const std::string plan = shipped_plan;
  for (const std::string& arguments :
       {"simulate " + plan + " --fidelity closed-form", "simulate " + plan + " --print-plan", "memory " + plan,
        "compare " + plan + " " + plan + " --fidelity closed-form",
        "sweep " + plan + " --fidelity closed-form --over overlap.communication_sms=0..4:2",
        std::string("schedule 1f1b --ranks 4 --micro-batches 8"), std::string("show profile h800"),
        std::string("show topology h100-dgx"), std::string("--help"), std::string("--version")}) {
    for (const std::string& redirection : {std::string("> /dev/full"), std::string(">&-")}) {
      const CommandResult result = with_stdout(redirection, arguments);
      EXPECT_EQ(result.exit_code, 1) << arguments << " " << redirection;
      EXPECT_NE(result.errors.find("cannot write 'stdout'"), std::string::npos) << arguments << ": " << result.errors;
      EXPECT_EQ(result.errors.find("stdout"), result.errors.rfind("stdout")) << arguments << ": " << result.errors;
    }
  }
}

// An output that is opened while a standard stream is closed must not get its number, and with it the text.
TEST(Failures, OutputsAreWholeWhereStreamsAreClosed) {
  const TemporaryDirectory folder;
  const fs::path usual = folder.path() / "usual.json", answer = folder.path() / "answer.json";
  // A profile of another GPU, about which stderr has a warning.
  const std::string arguments =
      std::string("simulate ") + shipped_plan + " --fidelity closed-form --set cluster.profile=gb200-datasheet --json ";
  ASSERT_EQ(with_stdout("> /dev/null", arguments + usual.string()).exit_code, 0);
  for (const auto& [redirection, code] : {std::pair("> /dev/null 2>&-", 0), {">&- 2>&-", 1}, {"<&- >&- 2>&-", 1}}) {
    EXPECT_EQ(with_stdout(redirection, arguments + answer.string()).exit_code, code) << redirection;
    EXPECT_EQ(model::read_text_file(answer.string()).value(), model::read_text_file(usual.string()).value());
  }
}

TEST(Failures, StdoutTakesOneOutputOfAnyVerb) {
  for (const std::string& arguments :
       {std::string("simulate ") + shipped_plan + " --fidelity closed-form --json - --csv -",
        std::string("validate h800-deepep --json - --csv -"),
        std::string("show routing deepseek-v3-2048xh800") + " --json - --expert-loads -"}) {
    const CommandResult result = plumbline(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_EQ(result.output, "") << arguments;
    EXPECT_NE(result.errors.find("only one output can go to stdout"), std::string::npos) << result.errors;
  }
}

// A variable of a script that is not set gives an empty name.
TEST(Failures, AnOutputWithoutANameIsAnError) {
  for (const std::string output : {"--json", "--csv", "--html"}) {
    const CommandResult result =
        plumbline(std::string("simulate ") + shipped_plan + " --fidelity closed-form " + output + " ''");
    EXPECT_EQ(result.exit_code, 1) << output;
    EXPECT_NE(result.errors.find(output + ": names no file"), std::string::npos) << result.errors;
  }
}

TEST(Failures, APlanThatIsNoTextFileIsNamed) {
  const TemporaryDirectory folder;
  const std::string utf16 = folder.write("utf16.toml", std::string("\xFF\xFE[\0", 4)).string();
  for (const auto& [plan, message] : {std::pair(folder.path().string(), "is a folder, not a plan"),
                                      {std::string("/dev/null"), "is a pipe or a device, not a plan"},
                                      {utf16, "is UTF-16, not UTF-8"}}) {
    for (const char* verb : {"simulate ", "plan "}) {
      const CommandResult result = plumbline(verb + plan);
      EXPECT_EQ(result.exit_code, 1) << verb << plan;
      EXPECT_NE(result.errors.find(plan + ": " + message), std::string::npos) << result.errors;
    }
  }
}

TEST(Failures, AnErrorThatStderrDoesNotTakeIsOneAllTheSame) {
  EXPECT_EQ(with_stdout("> /dev/null 2> /dev/full", "simulate no-such-plan").exit_code, 1);
  EXPECT_EQ(with_stdout("> /dev/full 2> /dev/full", "show keys").exit_code, 1);
  // A training goes on without its log.
  EXPECT_EQ(with_stdout("> /dev/null 2> /dev/full", "run " + small_training_plan() + " --steps 2").exit_code, 0);
}

TEST(Failures, DeepInputsAreRefusedUnderAnyName) {
  const TemporaryDirectory folder;
  const auto write = [&](const std::string& name, const std::string& begin, const std::string& part,
                         const std::string& end) {
    std::ofstream file(folder.path() / name);
    file << begin;
    for (int i = 0; i < 100'000; ++i) file << part;
    file << end;
    return (folder.path() / name).string();
  };
  const std::string keys = write("plan", "", "a . ", "b = 1\n");
  const std::string lists = write("config", "{\"hidden_size\": ", "[", "");
  const std::string elements = write("topology", "<system>", "<pci>", "");
  for (const std::string& arguments :
       {"simulate " + keys, "show model " + lists, "compare " + lists + " " + shipped_plan,
        "import nccl-topology " + elements + " -o -"}) {
    const CommandResult result = with_stdout("> /dev/null", arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_EQ(result.errors.rfind("plumbline: ", 0), 0U) << arguments << ": " << result.errors;
  }
}

// A user who may start no more processes has no threads either; root gives itself to one who has none.
TEST(Failures, WithoutThreadsTheAnswerIsTheSame) {
  const std::string user = std::to_string(64'000 + ::getpid() % 1000);  // other runs of the tests have other ones
  const std::string nobody = "setpriv --reuid=" + user + " --regid=" + user + " --clear-groups ";
  if (run_shell(nobody + "test -x " + plumbline_program() + " 2> /dev/null") != 0)
    GTEST_SKIP() << "needs root, setpriv and a folder that others may read";
  const TemporaryDirectory folder;
  const std::string search = " plan llama-3-8b --gpus 8 --cluster h100-dgx --threads 4 ";
  const auto answer = [&](const std::string& command, const std::string& name) {
    // A slow machine reports on stderr how far it is.
    const std::string path = (folder.path() / name).string(), errors = path + ".errors";
    EXPECT_EQ(run_shell(command + " > " + path + " 2> " + errors), 0) << model::read_text_file(errors).value();
    return model::read_text_file(path).value();
  };
  const std::string usual = answer(plumbline_program() + search, "usual");
  EXPECT_EQ(answer("prlimit --nproc=1 " + nobody + plumbline_program() + search, "alone"), usual);
}

TEST(Failures, TooLittleMemoryIsNamed) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  if (run_shell("prlimit --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "needs prlimit";
  const TemporaryDirectory folder;
  const std::string errors = (folder.path() / "errors").string();
  // 100 MiB: enough to load the program, and less than its threads take.
  EXPECT_EQ(run_shell("prlimit --as=104857600 " + plumbline_program() + " show model 2> " + errors), 1);
  EXPECT_NE(model::read_text_file(errors).value().find("memory is limited to 100 MiB (ulimit -v "), std::string::npos);
}

TEST(Failures, AFileThatCannotBeReadIsNamed) {
  const CommandResult result = with_stdout("> /dev/null", "simulate /proc/self/mem");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("/proc/self/mem"), std::string::npos) << result.errors;
}

TEST(Failures, AFolderThatHoldsNoDataIsNamed) {
  const TemporaryDirectory other;
  const auto show = [](const std::string& value) { return plumbline("show model", "PLUMBLINE_DATA=" + value); };
  EXPECT_EQ(show("").exit_code, 0);
  for (const auto& [value, problem] : {std::pair(std::string("/nonexistent"), "' is no folder"),
                                       {other.path().string(), "' has no folder topologies/"}}) {
    const CommandResult result = show(value);
    EXPECT_EQ(result.exit_code, 1) << value << result.errors;
    EXPECT_NE(result.errors.find("PLUMBLINE_DATA: '" + value + problem), std::string::npos) << result.errors;
  }
}

TEST(Failures, StepsOfReinforcementLearningAreNotComparedByClasses) {
  const CommandResult result =
      plumbline("compare dapo-qwen3-32b-128xh100 --cluster h200-hgx --fidelity closed-form --no-interval --by-class");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("--by-class: it is of training steps"), std::string::npos) << result.errors;
}

TEST(Failures, AnOutputIsNoInputUnderAnotherName) {
  const TemporaryDirectory folder;
  const std::string plan = (folder.path() / "plan.toml").string(), other = (folder.path() / "other.toml").string();
  ASSERT_EQ(with_stdout("> " + plan, std::string("simulate ") + shipped_plan + " --print-plan").exit_code, 0);
  fs::create_hard_link(plan, other);
  const std::string before = model::read_text_file(plan).value();
  const CommandResult result =
      with_stdout("> /dev/null", "simulate " + plan + " --fidelity closed-form --json " + other);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("would overwrite the input"), std::string::npos) << result.errors;
  EXPECT_EQ(model::read_text_file(plan).value(), before);
}

// SIGINT and SIGTERM end a verb early: what is done so far is kept and reported, and the exit code is that of the
// signal.

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
