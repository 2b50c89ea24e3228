// Files that an output replaces: what they had besides their content stays, and what is in the way is not followed.
#include "cli/outputs.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/progress.h"
#include "model/base/text_file.h"
#include "sim/tasks/tasks.h"
#include "sim/tasks/watch.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;

class ReplacedOutput : public testing::Test {
 protected:
  void present(const fs::path& path, const std::string& content) const { std::ofstream(path) << content; }
  std::string content(const fs::path& path) const { return model::read_text_file(path.string()).value_or("missing"); }

  const tests::TemporaryDirectory folder_;
  const fs::path target_ = folder_.path() / "result.json";
};

TEST_F(ReplacedOutput, KeepsItsMode) {
  present(target_, "old");
  fs::permissions(target_, fs::perms::owner_read | fs::perms::owner_write);
  ASSERT_TRUE(write_output(target_.string(), "new"));
  EXPECT_EQ(content(target_), "new");
  EXPECT_EQ(fs::status(target_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(ReplacedOutput, KeepsItsOtherNames) {
  present(target_, "an old and longer content");
  fs::create_hard_link(target_, folder_.path() / "other.json");
  ASSERT_TRUE(write_output(target_.string(), "new"));
  EXPECT_EQ(content(folder_.path() / "other.json"), "new");
  EXPECT_EQ(fs::hard_link_count(target_), 2u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 2) << "a temporary file is left";
}

TEST_F(ReplacedOutput, KeepsALinkWhoseTargetIsMissing) {
  fs::create_directory(folder_.path() / "runs");
  fs::create_symlink("runs/newest.json", target_);
  fs::create_symlink("1.json", folder_.path() / "runs/newest.json");
  ASSERT_TRUE(write_output(target_.string(), "new"));
  EXPECT_TRUE(fs::is_symlink(target_));
  EXPECT_EQ(fs::read_symlink(folder_.path() / "runs/newest.json"), "1.json");
  EXPECT_EQ(content(folder_.path() / "runs/1.json"), "new");
}

// Runs `action` in a process of its own, which has this one's memory; returns its status.
template <class Action>
int in_child(const Action& action) {
  const pid_t child = tests::start_child(action);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

// Names of temporaries are drawn: those of two containers, whose processes have equal numbers, differ.
TEST_F(ReplacedOutput, IsWholeWhereAnotherProcessWritesItMeanwhile) {
  const auto other = [&] { static_cast<void>(write_output(target_.string(), "another process's")); };
  const auto meanwhile = [&](const PieceSink& sink) {
    EXPECT_TRUE(sink("be"));
    EXPECT_EQ(in_child(other), 0);
    EXPECT_EQ(content(target_), "another process's");
    return sink("gun");
  };
  ASSERT_TRUE(write_output(target_.string(), meanwhile));
  EXPECT_EQ(content(target_), "begun");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "a temporary file is left";
}

TEST_F(ReplacedOutput, KeepsItsContentWhereASignalEndsTheProcess) {
  present(target_, "old");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = in_child([&] {
      ::signal(number, SIG_DFL);  // whatever started the tests may ignore it
      handle_signals();
      static_cast<void>(
          write_output(target_.string(), [&](const PieceSink& sink) { return sink("half") && ::raise(number) == 0; }));
    });
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), number);
    EXPECT_EQ(content(target_), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "a temporary file is left";
  }
}

// The first signal ends watched work at its next piece, the second one the process; so does one before there is a
// piece.
TEST(Interrupted, WorkEndsAtItsNextPiece) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const auto work = [number](int signals) {
      ::signal(number, SIG_DFL);  // whatever started the tests may ignore it
      handle_signals();
      Interrupt interrupt(Interrupt::Kept::nothing);
      WatchedBar bar("pieces", interrupt);
      int done = 0;
      const auto piece = [&](std::size_t) {
        if (++done == (signals == 0 ? 1 : 3))
          for (int i = 0; i < std::max(signals, 1); ++i) ::raise(number);
      };
      sim::on_threads(1, [&] { return sim::for_each_index(10, bar.watch(), piece), 0; });
      ::_exit(done == 3 ? interrupted_exit() : 1);
    };
    const int at_first = in_child([&] { work(0); }), once = in_child([&] { work(1); }),
              twice = in_child([&] { work(2); });
    EXPECT_TRUE(WIFSIGNALED(at_first)) << at_first;
    EXPECT_TRUE(WIFEXITED(once)) << once;
    EXPECT_EQ(WEXITSTATUS(once), 128 + number);
    EXPECT_TRUE(WIFSIGNALED(twice)) << twice;
    EXPECT_EQ(WTERMSIG(twice), number);
  }
}

TEST_F(ReplacedOutput, KeepsItsContentBeyondALimitOfFiles) {
  present(target_, "old");
  const int status = in_child([&] {
    handle_signals();
    constexpr rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto written = write_output(target_.string(), std::string(1 << 20, 'x'));
    ::_exit(written ? 1 : 0);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(content(target_), "old");
}

TEST_F(ReplacedOutput, KeepsItsContentWhenTheNewOneFails) {
  present(target_, "old");
  EXPECT_FALSE(write_output(target_.string(), [](const PieceSink& sink) { return sink("half") && false; }));
  EXPECT_EQ(content(target_), "old");
}

TEST_F(ReplacedOutput, OfAFolderNeverLeavesIt) {
  const tests::TemporaryDirectory elsewhere;
  const fs::path victim = elsewhere.path() / "victim";
  present(victim, "mine");
  fs::create_symlink(victim, folder_.path() / "page.1");
  fs::create_directory_symlink(elsewhere.path(), folder_.path() / "h100");
  fs::create_symlink(elsewhere.path() / "new.1", folder_.path() / "page.2");
  for (const char* name : {"page.1", "page.2", "h100/victim", "h100/new.csv"}) {
    const auto written = write_output_in(folder_.path().string(), name, "new");
    ASSERT_FALSE(written) << name;
    EXPECT_NE(written.error().message.find("a link leads to"), std::string::npos) << written.error().message;
  }
  EXPECT_EQ(content(victim), "mine");
  EXPECT_FALSE(fs::exists(elsewhere.path() / "new.csv"));
}

TEST_F(ReplacedOutput, OfAFolderMakesItsFoldersAndFollowsLinksWithinIt) {
  const fs::path made = folder_.path() / "new/";
  ASSERT_TRUE(write_output_in(made.string(), "h100/gemm.csv", "rows"));
  EXPECT_EQ(content(made / "h100/gemm.csv"), "rows");
  fs::create_directory_symlink("h100", made / "latest");
  ASSERT_TRUE(write_output_in(made.string(), "latest/gemm.csv", "new"));
  EXPECT_EQ(content(made / "h100/gemm.csv"), "new");
}

}  // namespace
}  // namespace plumbline::cli
