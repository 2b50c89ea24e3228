#include "cli/case_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cli/process.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using model::ErrorKind;
using tests::expect_error;

class CaseFile : public testing::Test {
 protected:
  model::Result<std::string> read(const std::string& name, const std::string& text) {
    path_ = folder_.write(name, text).string();
    return read_case_file(path_);
  }
  void expect_refused(const std::string& name, const std::string& text, int line, const std::string& key,
                      const std::string& what) {
    const auto lines = read(name, text);
    ASSERT_FALSE(lines) << text;
    expect_error(lines.error(), ErrorKind::input, path_, line, key, what);
  }

  const tests::TemporaryDirectory folder_;
  std::string path_;
};

TEST_F(CaseFile, TurnsTablesIntoLines) {
  const auto lines = read("a.toml",
                          "[[case]]\nop = \"gemm\"\nk = 512\nm = 128\nn = 256\nphase = \"F\"\nformat = \"bf16\"\n"
                          "[[case]]\nop = \"launch\"\n");
  ASSERT_TRUE(lines) << to_string(lines.error());
  EXPECT_EQ(*lines, "gemm phase=F format=bf16 m=128 n=256 k=512\nlaunch\n");
}

TEST_F(CaseFile, LeavesLinesAsTheyAre) {
  const std::string text = "# two cases\nlaunch\n\ncopy bytes=1024  # small\n";
  const auto lines = read("a.cases", text);
  ASSERT_TRUE(lines) << to_string(lines.error());
  EXPECT_EQ(*lines, text);
}

TEST_F(CaseFile, ErrorsNameFileAndLine) {
  expect_refused("a.cases", "launch\nlift bytes=3\n", 2, "", "'lift' is no operation");
  expect_refused("a.toml", "[[case]]\nop = \"launch\"\n[[case]]\nop = \"copy\"\n", 3, "case", "copy needs bytes=");
  expect_refused("a.toml", "[[case]]\nbytes = 16\n", 1, "case.op", "a case without an operation");
  expect_refused("a.toml", "[[case]]\nop = \"copy\"\nbytes = 1.5\n", 3, "case.bytes", "a whole number or one word");
  expect_refused("a.toml", "[[case]]\nop = \"launch\"\nname = \"a b\"\n", 3, "case.name", "a whole number or one word");
  expect_refused("a.toml", "[[cases]]\nop = \"launch\"\n", 1, "cases", "unknown key");
  expect_refused("a.toml", "case = 3\n", 1, "case", "unknown key");
  expect_refused("a.toml", "[[case]\n", 1, "", "");
  expect_refused("a.toml", "# nothing\n", 0, "case", "holds no case");
  expect_refused("a.txt", "launch\n", 0, "", "ends in .toml or .cases");
}

TEST_F(CaseFile, TheShippedOneReads) {
  const auto lines = read_case_file(tests::shipped("real/cuda/cases/deepseek-v3.toml"));
  ASSERT_TRUE(lines) << to_string(lines.error());
  EXPECT_EQ(std::count(lines->begin(), lines->end(), '\n'), 12);
}

TEST(Process, PassesTheExitCodeThrough) {
  EXPECT_EQ(run_program("/bin/sh", {"-c", "exit 77"}).value(), 77);
  EXPECT_EQ(run_program("/bin/sh", {"-c", "exit 0"}).value(), 0);
  EXPECT_EQ(run_program("/bin/sh", {"-c", "kill -TERM $$"}).value(), 128 + 15);
}

TEST(Process, SaysWhatCannotRun) {
  const auto missing = run_program("/nowhere/probe", {});
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("cannot run /nowhere/probe"), std::string::npos);
  EXPECT_FALSE(find_program("no-such-program"));
}

}  // namespace
}  // namespace plumbline::cli
