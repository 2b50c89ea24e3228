// Tests the transcripts themselves, with a shell script in place of the command.
#include "tests/golden/transcript.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

class TranscriptTest : public testing::Test {
 protected:
  TranscriptTest() {
    const auto command = directory_.write("bin/plumbline",
                                          "#!/bin/sh\n"
                                          "case $1 in\n"
                                          "  say) shift; echo \"$@\" ;;\n"
                                          "  fail) echo 'begun'; echo 'wrong input' >&2; exit 1 ;;\n"
                                          "esac\n");
    std::filesystem::permissions(command, std::filesystem::perms::owner_all);
    directory_.write("root/data.txt", "seven\n");
  }

  std::string replayed(const std::string& text) const {
    return replay(parse_transcript(text), directory_.path() / "root", directory_.path() / "bin");
  }

  TemporaryDirectory directory_;
};

TEST_F(TranscriptTest, ParsesIntroductionAndCommands) {
  const Transcript transcript = parse_transcript("About.\n\n$ plumbline say a\na\n\n$ plumbline fail\n[exit 1]\n");
  EXPECT_EQ(transcript.introduction, "About.\n\n");
  EXPECT_EQ(transcript.commands, (std::vector<std::string>{"plumbline say a", "plumbline fail"}));
}

TEST_F(TranscriptTest, WritesDownOutputErrorsAndExitCode) {
  EXPECT_EQ(replayed("About.\n\n$ plumbline fail\n$ plumbline say a 'b  c'\n"),
            "About.\n\n$ plumbline fail\nbegun\n! wrong input\n[exit 1]\n\n$ plumbline say a 'b  c'\na b  c\n");
}

TEST_F(TranscriptTest, RightTranscriptReplaysToItself) {
  const std::string text = "$ plumbline say a\na\n\n$ cat data.txt | tr s S\nSeven\n";
  EXPECT_EQ(replayed(text), text);
}

TEST_F(TranscriptTest, ChangedOutputIsNoticed) {
  EXPECT_EQ(replayed("$ plumbline say new\nold\n"), "$ plumbline say new\nnew\n");
}

TEST_F(TranscriptTest, CommandsShareAFolderWhoseNameIsHidden) {
  const std::string text = "$ plumbline say x > $OUT/a; plumbline say $OUT\n$OUT\n\n$ cat $OUT/a\nx\n";
  EXPECT_EQ(replayed(text), text);
}

TEST_F(TranscriptTest, MissingLineBreakIsSeen) {
  EXPECT_EQ(replayed("$ printf a\n"), "$ printf a\na\n(no line break at the end)\n");
}

TEST_F(TranscriptTest, HasNoProgressOfSlowMachines) {
  EXPECT_EQ(replayed("$ echo 'plumbline: 3 of 40 tasks are done' >&2; plumbline say a\n"),
            "$ echo 'plumbline: 3 of 40 tasks are done' >&2; plumbline say a\na\n");
}

TEST_F(TranscriptTest, OutputThatLooksLikeACommandIsRefused) {
  EXPECT_THROW(replayed("$ echo '$ plumbline'\n"), std::runtime_error);
}

}  // namespace
}  // namespace plumbline::tests
