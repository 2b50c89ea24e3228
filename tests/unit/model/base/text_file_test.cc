// Reading of input files: what no parser of ours should meet is refused before it does.
#include "model/base/text_file.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/temporary_directory.h"

namespace plumbline::model {
namespace {

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

bool too_deep(const std::string& text) { return !check_nesting(text, "file"); }

TEST(Nesting, BracketsAndDottedKeysAreBoundedWhateverTheFileIsCalled) {
  EXPECT_TRUE(too_deep(repeated("[", 100000)));
  EXPECT_TRUE(too_deep(repeated("{\"a\":", 100000)));
  EXPECT_TRUE(too_deep(repeated("a.", 100000) + "b = 1"));
  EXPECT_TRUE(too_deep("[ " + repeated("a . ", 100000) + "b ]"));
  EXPECT_FALSE(too_deep(repeated("[", 60) + repeated("]", 60)));
}

TEST(Nesting, NothingHidesBehindQuotesAndComments) {
  EXPECT_TRUE(too_deep("'\"'." + repeated("a.", 1000) + "b = 1"));
  EXPECT_TRUE(too_deep("x = 'a\\'\n" + repeated("a.", 1000) + "b = 1"));
  EXPECT_TRUE(too_deep("x = {a = \"\"\"text\"\"\"\", " + repeated("a.", 1000) + "b = 1}"));
  EXPECT_TRUE(too_deep("# don't\n" + repeated("a.", 1000) + "b = 1"));
}

TEST(Nesting, TextMayHaveAnyBracketsAndDots) {
  EXPECT_FALSE(too_deep("x = '" + repeated("[", 1000) + "'"));
  EXPECT_FALSE(too_deep("x = \"\\\"" + repeated("[", 1000) + "\""));
  EXPECT_FALSE(too_deep("x = \"\"\"" + repeated("[\n\"", 1000) + "\"\"\""));
  EXPECT_FALSE(too_deep("# " + repeated("[.", 1000)));
  EXPECT_FALSE(too_deep("x = [" + repeated("1.5,", 1000) + "]"));
}

TEST(Nesting, TheErrorNamesTheLine) {
  const auto checked = check_nesting("a = 1\nb = " + repeated("[", 100), "plan.toml");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().file, "plan.toml");
  EXPECT_EQ(checked.error().line, 2);
}

TEST(ReadTextFile, ItsTextBeginsBehindAByteOrderMark) {
  const tests::TemporaryDirectory folder;
  EXPECT_EQ(read_text_file(folder.write("mine.csv", "\xEF\xBB\xBFrank,slot\n").string()), "rank,slot\n");
}

TEST(ReadTextFile, IsInUtf8) {
  const tests::TemporaryDirectory folder;
  const auto refused_line = [&](const std::string& text) {
    const auto read = read_text_file(folder.write("any.csv", text).string());
    return read ? 0 : read.error().line;
  };
  EXPECT_EQ(refused_line("caf\xC3\xA9\n\xE2\x96\x88\n\xF0\x9F\x98\x80"), 0);
  EXPECT_EQ(refused_line("a\ncaf\xE9\n"), 2);  // as in Latin-1
  EXPECT_EQ(refused_line("a\nb\n\xE2\x96"), 3);
  EXPECT_EQ(read_file(folder.write("any.log", "\xE9").string()), "\xE9");
}

TEST(ReadTextFile, AReadErrorNamesTheFile) {
  const auto text = read_text_file("/proc/self/mem");  // opens, and cannot be read at its start
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().file, "/proc/self/mem");
}

}  // namespace
}  // namespace plumbline::model
