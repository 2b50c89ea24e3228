#include "model/base/text.h"

#include <gtest/gtest.h>

namespace plumbline::model {
namespace {

TEST(Text, HasSmallLettersOfAsciiAlone) {
  EXPECT_EQ(lower_case("Qwen3_MoE-30B"), "qwen3_moe-30b");
  EXPECT_EQ(lower_case("\xC3\x84"), "\xC3\x84");  // a letter of two bytes in UTF-8, neither of which is ASCII
  EXPECT_EQ(lower_case(""), "");
}

TEST(Text, ContainsItsParts) {
  EXPECT_TRUE(contains("layers.0.q_proj", "q_"));
  EXPECT_TRUE(contains("a", ""));
  EXPECT_FALSE(contains("", "a"));
}

// Escape sequences move the cursor, set the window's title or answer as if typed: they begin with ESC, or with its C1
// forms U+0080 to U+009F. Letters, tabs and line ends stay.
TEST(Text, IsPrintableWithoutControlCharacters) {
  EXPECT_EQ(printable("a\tb\n\xC3\x84"), "a\tb\n\xC3\x84");
  EXPECT_EQ(printable("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
  EXPECT_EQ(printable("over\rwritten\x7f"), "over\\x0dwritten\\x7f");
  EXPECT_EQ(printable("\xC2\x9B[2J \xC2\xA0"), "\\x9b[2J \xC2\xA0");
  EXPECT_EQ(printable("\xC2"), "\xC2");
}

TEST(Text, IsAFieldOfACsvFile) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a, \"b\""), "\"a, \"\"b\"\"\"");
  EXPECT_EQ(csv_field(""), "");
}

}  // namespace
}  // namespace plumbline::model
