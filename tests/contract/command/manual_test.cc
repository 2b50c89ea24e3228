// Completion in shells, man pages and the page of plan keys are made of what the command itself parses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "model/base/text_file.h"
#include "tests/support/command.h"
#include "tests/support/folders.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

// Runs a script of bash with the command in its path and returns what it prints.
std::string in_bash(const std::string& script) {
  const TemporaryDirectory scratch;
  const std::string file = scratch.write("script", script).string(), out = (scratch.path() / "out").string();
  EXPECT_EQ(run_shell("PATH=" + build_folder() + ":$PATH bash " + file + " > " + out + " 2>&1"), 0) << script;
  return model::read_text_file(out).value();
}

// Returns what bash offers for a line whose cursor is at its end.
std::string completed(const std::string& line) {
  return in_bash("source <(plumbline completion bash)\nCOMP_LINE='" + line +
                 "'\nCOMP_POINT=${#COMP_LINE}\n_plumbline\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n");
}

bool installed(const std::string& program) { return run_shell("command -v " + program + " > /dev/null") == 0; }

TEST(Completion, InBashOffersVerbsOptionsNamesKeysAndValues) {
  EXPECT_EQ(completed("plumbline sim"), "simulate\n");
  EXPECT_EQ(completed("plumbline simulate --fi"), "--fidelity\n");
  EXPECT_EQ(completed("plumbline simulate x --fidelity "), "closed-form\nstep\ncluster\n");
  EXPECT_EQ(completed("plumbline simulate deepseek-v3-2"), "deepseek-v3-2048xh800\n");
  EXPECT_EQ(completed("plumbline simulate x --set parallelism.zero"), "parallelism.zero_stage=\n");
  EXPECT_EQ(completed("plumbline simulate x --set recompute.policy=f"), "full\n");  // bash replaces what follows =
  EXPECT_EQ(completed("plumbline simulate x --set cluster.topology=h100-d"), "h100-dgx\n");
  EXPECT_EQ(completed("plumbline show topology h100-d"), "h100-dgx\n");
  EXPECT_EQ(completed("plumbline show key parallelism.fs"), "parallelism.fsdp\n");
  EXPECT_EQ(completed("plumbline import meg"), "megatron\n");
  EXPECT_EQ(completed("plumbline schedule dualpipev"), "dualpipev\n");
}

TEST(Completion, OffersFiles) {
  EXPECT_EQ(in_bash("cd $(mktemp -d)\nmkdir inner\ntouch inner/mine.toml\n"
                    "plumbline completion words -- simulate inner/m | cut -f1\n"),
            "inner/mine.toml\n");
}

TEST(Completion, ScriptsOfAllShellsParse) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const CommandResult script = plumbline("completion " + shell);
    EXPECT_EQ(script.exit_code, 0);
    const TemporaryDirectory scratch;
    const std::string file = scratch.write("script", script.output).string();
    EXPECT_TRUE(!installed(shell) || run_shell(shell + " -n " + file) == 0) << shell;
  }
}

TEST(ManPages, HaveNoWarnings) {
  if (!installed("man") || !installed("groff")) GTEST_SKIP() << "man is not installed";
  const TemporaryDirectory folder;
  ASSERT_EQ(plumbline("man -o " + folder.path().string()).exit_code, 0);
  std::size_t pages = 0;
  for (const auto& page : fs::directory_iterator(folder.path())) {
    EXPECT_EQ(in_bash("MANROFFSEQ= man --warnings -l " + page.path().string() + " 2>&1 > /dev/null\n"), "")
        << page.path();
    ++pages;
  }
  EXPECT_GT(pages, 15u);
}

TEST(KeysPage, IsWhatTheCommandWrites) {
  const auto page = model::read_text_file(source_folder() + "/docs/keys.md");
  EXPECT_EQ(page.value(), plumbline("show key --markdown").output)
      << "plumbline show key --markdown > docs/keys.md writes it";
}

TEST(Words, ThatAreUnknownAreWrongInputWithTheNearestName) {
  const auto refused = [](const std::string& arguments, const std::string& text) {
    const CommandResult result = plumbline(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments;
    EXPECT_THAT(result.errors, testing::HasSubstr(text)) << arguments;
    EXPECT_EQ(result.output, "") << arguments;
  };
  refused("simulat x", "unknown verb 'simulat' (did you mean 'simulate'? known: plan, simulate");
  refused("help simulat", "did you mean 'simulate'?");
  refused("simulate x --jsn y", "simulate: unknown option '--jsn' (did you mean '--json'? known: --help");
  refused("simulate x --without hots", "unknown value 'hots' (did you mean 'host'?");
  refused("plan llama-3-8b --gpus 1e3", "--gpus: '1e3' is no whole number (digits without a unit: 1024)");
  refused("schedule 1f1b --ranks 0 --micro-batches 4", "--ranks: Value 0 not in range 1 to 1000000000");
  refused("show topology h100-dgx --gpus 0", "--gpus: Value 0 not in range 1 to 1000000000");
  refused("schedule all --ranks 4 --micro-batches -3", "--micro-batches: '-3' is no number of micro-batches");
  refused("show kye", "cannot show 'kye' (did you mean 'key'?");
  refused("show key parallelism.tensr", "did you mean 'parallelism.tensor'?");
  refused("completion bsh", "did you mean 'bash'?");
}

TEST(Help, IsPrintedWithoutAVerbToo) {
  const CommandResult help = plumbline("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(plumbline("").output, help.output);
  EXPECT_EQ(plumbline("help").output, help.output);
  EXPECT_EQ(plumbline("").exit_code, 0);
  EXPECT_EQ(plumbline("help simulate").output, plumbline("simulate --help").output);
  EXPECT_EQ(plumbline("version").output, plumbline("--version").output);
}

TEST(Help, JoinsTheLinesOfAParagraph) {
  const std::string help = plumbline("sweep --help").output;
  EXPECT_THAT(help,
              testing::HasSubstr("\nRanges: 0..64:4 (both ends; without a step 1), 1..64:*2 (times 2), 0..0.2:0.05,\n"
                                 "lists 1,2,4 or fp8,bf16, and TOML lists [1, 2]; a key that takes a list: [[3,\n"));
  EXPECT_THAT(help, testing::HasSubstr("  mpirun -n 4 plumbline sweep deepseek-v3-2048xh800 --over \\\n"
                                       "      overlap.communication_sms=0..64 --resume points.db\n"));
}

TEST(Options, ThatWouldBeIgnoredAreRefused) {
  const std::string plan = "llama-3-8b-64xh800", serving = "llama-3-70b-8xh100";
  for (const auto& [arguments, option] : std::map<std::string, std::string>{
           {"simulate " + plan + " --no-interval --draws 32", "--draws"},
           {"simulate " + plan + " --no-interval --without host", "--without"},
           {"simulate " + plan + " --fidelity closed-form --every-link", "--every-link"},
           {"simulate " + plan + " --fidelity closed-form --degrade node0.nic0=0.5@0", "--degrade"},
           {"serve " + serving + " --no-interval --seed 2", "--seed"},
           {"plan " + serving + " --objective throughput --complete", "--complete"},
           {"compare " + plan + " --gpus 64,128 --rank 0", "--rank"},
           {"sweep " + plan + " --tornado --plateau 0.1", "--plateau"}}) {
    const CommandResult refused = plumbline(arguments);
    EXPECT_EQ(refused.exit_code, 1) << arguments;
    EXPECT_THAT(refused.errors, testing::HasSubstr(option)) << arguments;
  }
}

}  // namespace
}  // namespace plumbline::tests
