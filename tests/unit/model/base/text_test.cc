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

}  // namespace
}  // namespace plumbline::model
