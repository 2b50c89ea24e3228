// The file of records that outlives a killed program.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include "real/measure/kernel_case/case_sweep.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

const std::string device = "NVIDIA H200";

KernelCase gemm() { return parse_kernel_case("gemm name=a/b phase=F format=fp8_block m=128 n=256 k=512").value(); }

std::string measured(const KernelCase& what, const std::string& cache) {
  return fmt::format(
      R"({{"kind":"measurement","device":"{}","case":"{}","cache":"{}","variant":"burst","time_us":{{"p50":1}}}})"
      "\n",
      device, to_line(what), cache);
}

std::string failed(const KernelCase& what) {
  return fmt::format(R"({{"kind":"failure","device":"{}","case":"{}","reason":"why"}})"
                     "\n",
                     device, to_line(what));
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Journal, IsOfOneRunAtATime) {
  const tests::TemporaryDirectory folder;
  const std::string path = (folder.path() / "records.jsonl").string();
  const auto first = Journal::open(path, device);
  ASSERT_TRUE(first);
  const auto second = Journal::open(path, device);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another run measures into it"), std::string::npos);
}

TEST(MeasureJournal, ASecondRunContinuesAfterTheFirst) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.path() / "m.jsonl";
  const KernelCase failing = parse_kernel_case("copy bytes=64").value();
  {
    const auto journal = Journal::open(path, device);
    ASSERT_TRUE(journal) << to_string(journal.error());
    EXPECT_FALSE((*journal)->complete(gemm()));
    EXPECT_TRUE((*journal)->append(measured(gemm(), "hot")));
    EXPECT_FALSE((*journal)->complete(gemm()));  // the cold variant is missing
    EXPECT_TRUE((*journal)->append(measured(gemm(), "cold")));
    EXPECT_TRUE((*journal)->append(failed(failing)));
  }
  {
    const auto journal = Journal::open(path, device);
    ASSERT_TRUE(journal) << to_string(journal.error());
    EXPECT_EQ((*journal)->found(), 2u);
    EXPECT_TRUE((*journal)->complete(gemm()));
    EXPECT_TRUE((*journal)->failed(failing));
    EXPECT_FALSE((*journal)->complete(failing));
  }
  // The other device has no measurements yet.
  const auto other = Journal::open(path, "NVIDIA H100");
  ASSERT_TRUE(other) << to_string(other.error());
  EXPECT_EQ((*other)->found(), 0u);
  EXPECT_FALSE((*other)->complete(gemm()));
}

TEST(MeasureJournal, AnUnfinishedLastLineIsCutOff) {
  const tests::TemporaryDirectory folder;
  const std::string whole = measured(gemm(), "hot");
  const std::string torn = measured(gemm(), "cold").substr(0, 100);
  const auto path = folder.write("m.jsonl", whole + torn);
  const auto journal = Journal::open(path, device);
  ASSERT_TRUE(journal) << to_string(journal.error());
  EXPECT_EQ(read(path), whole);
  EXPECT_EQ((*journal)->found(), 1u);
  ASSERT_TRUE((*journal)->append("{\"next\":1}\n"));
  EXPECT_EQ(read(path), whole + "{\"next\":1}\n");
}

TEST(MeasureJournal, AKilledProgramLosesNothingThatWasWritten) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.path() / "m.jsonl";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = tests::start_child([&] {
    const auto journal = Journal::open(path, device);
    const bool written = journal && (*journal)->append(measured(gemm(), "hot"));
    const char signal = written ? 'y' : 'n';
    static_cast<void>(!write(ready[1], &signal, 1));
    pause();
  });
  close(ready[1]);  // else the end of the child would not end the wait for it
  char signal = 0;
  ASSERT_EQ(::read(ready[0], &signal, 1), 1);
  EXPECT_EQ(signal, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  const auto journal = Journal::open(path, device);
  ASSERT_TRUE(journal) << to_string(journal.error());
  EXPECT_TRUE((*journal)->has(subjects_of(gemm())[0]));
  EXPECT_FALSE((*journal)->has(subjects_of(gemm())[1]));
}

TEST(MeasureJournal, AFileThatCannotBeOpenedIsNamed) {
  const auto journal = Journal::open("/nowhere/m.jsonl", "x");
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().kind, model::ErrorKind::input);
  EXPECT_EQ(journal.error().file, "/nowhere/m.jsonl");
}

}  // namespace
}  // namespace plumbline::real
