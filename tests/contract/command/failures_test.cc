// What ends the command from outside, an output that takes nothing or an input that no parser should see, is an error
// with a reason and exit code 1, never a lost answer or a crash.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/support/command.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

constexpr const char* example = "llama-3-8b-64xh800";

// Runs the command with stdout redirected; `redirection` is that of a shell.
CommandResult with_stdout(const std::string& redirection, const std::string& arguments) {
  const TemporaryDirectory scratch;
  const std::string errors = (scratch.path() / "errors").string();
  std::ofstream(errors).close();
  const int code = run_shell(plumbline_program() + " " + arguments + " 2> " + errors + " " + redirection);
  return {code, "", model::read_text_file(errors).value()};
}

TEST(Failures, AnAnswerThatStdoutDoesNotTakeIsAnError) {
  const std::string plan = example;
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
      std::string("simulate ") + example + " --fidelity closed-form --set cluster.profile=gb200-datasheet --json ";
  ASSERT_EQ(with_stdout("> /dev/null", arguments + usual.string()).exit_code, 0);
  for (const auto& [redirection, code] : {std::pair("> /dev/null 2>&-", 0), {">&- 2>&-", 1}, {"<&- >&- 2>&-", 1}}) {
    EXPECT_EQ(with_stdout(redirection, arguments + answer.string()).exit_code, code) << redirection;
    EXPECT_EQ(model::read_text_file(answer.string()).value(), model::read_text_file(usual.string()).value());
  }
}

TEST(Failures, StdoutTakesOneOutputOfAnyVerb) {
  for (const std::string& arguments :
       {std::string("simulate ") + example + " --fidelity closed-form --json - --csv -",
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
        plumbline(std::string("simulate ") + example + " --fidelity closed-form " + output + " ''");
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
  for (const std::string& arguments : {"simulate " + keys, "show model " + lists, "compare " + lists + " " + example,
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

TEST(Failures, AFileThatCannotBeReadIsNamed) {
  const CommandResult result = with_stdout("> /dev/null", "simulate /proc/self/mem");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("/proc/self/mem"), std::string::npos) << result.errors;
}

TEST(Failures, AFolderOfDataThatIsNotThereIsNamed) {
  for (const auto& [value, code] : {std::pair("/nonexistent", 1), {"", 0}}) {
    const CommandResult result = plumbline("show model", std::string("PLUMBLINE_DATA=") + value);
    EXPECT_EQ(result.exit_code, code) << value << result.errors;
    EXPECT_EQ(result.errors.find("PLUMBLINE_DATA: '/nonexistent' is no folder") != std::string::npos, code == 1);
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
  ASSERT_EQ(with_stdout("> " + plan, std::string("simulate ") + example + " --print-plan").exit_code, 0);
  fs::create_hard_link(plan, other);
  const std::string before = model::read_text_file(plan).value();
  const CommandResult result =
      with_stdout("> /dev/null", "simulate " + plan + " --fidelity closed-form --json " + other);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.errors.find("would overwrite the input"), std::string::npos) << result.errors;
  EXPECT_EQ(model::read_text_file(plan).value(), before);
}

}  // namespace
}  // namespace plumbline::tests
