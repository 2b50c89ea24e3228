#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/whatif/range.h"

namespace plumbline::sim {
namespace {

using model::to_string;

std::vector<std::string> texts(const std::string& range) {
  const auto axis = parse_axis("a.key=" + range);
  EXPECT_TRUE(axis) << to_string(axis.error());
  std::vector<std::string> found;
  if (axis) {
    EXPECT_EQ(axis->key, "a.key");
    for (const SweepValue& value : axis->values) found.push_back(value.text);
  }
  return found;
}

using Texts = std::vector<std::string>;

TEST(SweepRange, IntegersIncludeBothEnds) {
  EXPECT_EQ(texts("0..3"), (Texts{"0", "1", "2", "3"}));
  EXPECT_EQ(texts("0..8:4"), (Texts{"0", "4", "8"}));
  EXPECT_EQ(texts("0..9:4"), (Texts{"0", "4", "8"}));  // 12 is beyond the end
  EXPECT_EQ(texts("5..5"), (Texts{"5"}));
  EXPECT_EQ(texts("-2..0"), (Texts{"-2", "-1", "0"}));
  EXPECT_EQ(texts("8..0:-4"), (Texts{"8", "4", "0"}));
}

TEST(SweepRange, FactorsMultiply) {
  EXPECT_EQ(texts("1..64:*2"), (Texts{"1", "2", "4", "8", "16", "32", "64"}));
  EXPECT_EQ(texts("3..20:*3"), (Texts{"3", "9"}));
  EXPECT_EQ(texts("1..2.25:*1.5"), (Texts{"1", "1.5", "2.25"}));
}

TEST(SweepRange, FractionsAreTheDecimalsThatOneWouldWriteDown) {
  // Added up as doubles, 0.1 + 0.1 + 0.1 is 0.30000000000000004 and the end of the second range would be missed.
  EXPECT_EQ(texts("0..0.3:0.1"), (Texts{"0", "0.1", "0.2", "0.3"}));
  EXPECT_EQ(texts("0..0.2:0.05"), (Texts{"0", "0.05", "0.1", "0.15", "0.2"}));
  EXPECT_EQ(texts("1e6..3e6:1e6"), (Texts{"1000000", "2000000", "3000000"}));
  EXPECT_EQ(texts("0.5..1.5:0.5"), (Texts{"0.5", "1", "1.5"}));
  EXPECT_DOUBLE_EQ(*parse_axis("k=0..0.3:0.1")->values[3].number, 0.3);
}

TEST(SweepRange, ListsHoldValuesWordsAndRanges) {
  EXPECT_EQ(texts("1,2,4"), (Texts{"1", "2", "4"}));
  EXPECT_EQ(texts("static, none ,dynamic"), (Texts{"static", "none", "dynamic"}));
  EXPECT_EQ(texts("h800-rail-fat-tree,h100-dgx"), (Texts{"h800-rail-fat-tree", "h100-dgx"}));
  EXPECT_EQ(texts("true,false"), (Texts{"true", "false"}));
  EXPECT_EQ(texts("0,8..16:4,32"), (Texts{"0", "8", "12", "16", "32"}));
  EXPECT_EQ(texts("../a.toml"), (Texts{"../a.toml"}));  // dots without numbers are a word
  EXPECT_EQ(texts("'a, b','c'"), (Texts{"'a, b'", "'c'"}));
}

TEST(SweepRange, TomlListsHoldListsForKeysThatTakeOne) {
  EXPECT_EQ(texts("[1, 2.5]"), (Texts{"1", "2.5"}));
  EXPECT_EQ(texts("[[3, 5], [4, 4]]"), (Texts{"[ 3, 5 ]", "[ 4, 4 ]"}));
  EXPECT_EQ(texts("[[\"mlp\"], []]"), (Texts{"[ \"mlp\" ]", "[]"}));
  EXPECT_FALSE(parse_axis("k=[[3, 5], [4, 4]]")->numeric());
  EXPECT_TRUE(parse_axis("k=[1, 2]")->numeric());
  EXPECT_FALSE(parse_axis("k=1,two")->numeric());
}

struct WrongRange {
  std::string text, says;
};

class WrongSweepRange : public testing::TestWithParam<WrongRange> {};

TEST_P(WrongSweepRange, IsAnInputErrorWithAReason) {
  const auto axis = parse_axis(GetParam().text);
  ASSERT_FALSE(axis);
  EXPECT_EQ(axis.error().kind, model::ErrorKind::input);
  EXPECT_EQ(axis.error().file, "--over");
  EXPECT_NE(to_string(axis.error()).find(GetParam().says), std::string::npos) << to_string(axis.error());
}

INSTANTIATE_TEST_SUITE_P(
    Texts, WrongSweepRange,
    testing::Values(WrongRange{"", "expected KEY=RANGE"}, WrongRange{"key", "expected KEY=RANGE"},
                    WrongRange{"=1", "expected KEY=RANGE"}, WrongRange{"k=", "a value is missing"},
                    WrongRange{"k=1,,2", "a value is missing"}, WrongRange{"k=1,2,", "a value is missing"},
                    WrongRange{"k=5..1", "leads away from the end"}, WrongRange{"k=1..5:-1", "leads away"},
                    WrongRange{"k=1..5:0", "a step of 0"}, WrongRange{"k=1..5:*1", "a factor above 1"},
                    WrongRange{"k=0..5:*2", "a start above 0"}, WrongRange{"k=0..0.2", "needs a step"},
                    WrongRange{"k=1..", "both ends must be numbers"}, WrongRange{"k=1..x", "both ends"},
                    WrongRange{"k=1..5:two", "'two' is not a number"}, WrongRange{"k=0..100000", "more than 100000"},
                    WrongRange{"k=0..9e300:1", "more than 100000"}, WrongRange{"k=4,5,4", "'4' is given twice"},
                    WrongRange{"k=[1, 2", "is not a TOML list"}, WrongRange{"k=[]", "the list is empty"},
                    WrongRange{"k=a,{b}", "neither a word nor a number"}));

SweepGrid grid_of(const std::vector<std::string>& over) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : over) axes.push_back(parse_axis(text).value());
  return SweepGrid::make(std::move(axes)).value();
}

TEST(SweepRange, EndsAreTheTwoValuesOfARangeWithoutAStep) {
  const SweepAxis ends = parse_ends("a.x=0.5..1e3").value();
  ASSERT_EQ(ends.values.size(), 2u);
  EXPECT_EQ(ends.values[0].text, "0.5");
  EXPECT_DOUBLE_EQ(ends.values[1].number.value(), 1000);
  EXPECT_EQ(parse_ends("a.x=1..3:1").value().values.size(), 3u);
  EXPECT_EQ(parse_ends("a.x=1..3,7").value().values.size(), 4u);
  EXPECT_EQ(parse_ends("a.x=u,v,w").value().values.size(), 3u);
  EXPECT_FALSE(parse_ends("a.x=3..1"));
  EXPECT_FALSE(parse_ends("a.x=1..b"));
  EXPECT_TRUE(is_span("a.x=1..3"));
  EXPECT_FALSE(is_span("a.x=1..3:1"));
  EXPECT_FALSE(is_span("a.x=1"));
}

TEST(SweepGrid, TheLastKeyIsTheFastest) {
  const SweepGrid grid = grid_of({"a.x=1,2", "b.y=u,v,w"});
  ASSERT_EQ(grid.size(), 6u);
  EXPECT_EQ(grid.changes(0), (Texts{"a.x=1", "b.y=u"}));
  EXPECT_EQ(grid.changes(1), (Texts{"a.x=1", "b.y=v"}));
  EXPECT_EQ(grid.changes(5), (Texts{"a.x=2", "b.y=w"}));
}

TEST(SweepGrid, LinesFollowTheLastNumericKeyByRisingValue) {
  const SweepGrid grid = grid_of({"a.x=2,1", "b.y=u,v"});
  EXPECT_EQ(grid.numeric_axis(), 0u);
  // Points: 0 (2, u), 1 (2, v), 2 (1, u), 3 (1, v).
  EXPECT_EQ(grid.lines(), (std::vector<std::vector<std::size_t>>{{2, 0}, {3, 1}}));
  EXPECT_EQ(grid.line_name(2), "y u");
  const SweepGrid words = grid_of({"b.y=u,v", "a.x=7"});  // a single number gives no line
  EXPECT_FALSE(words.numeric_axis());
  EXPECT_EQ(words.lines(), (std::vector<std::vector<std::size_t>>{{0, 1}}));
}

TEST(SweepGrid, NamesAreShortWhereTheyAreUnique) {
  const SweepGrid grid = grid_of({"a.x=1,2", "b.x=1,2", "b.y=1,2"});
  EXPECT_EQ(grid.short_name(0), "a.x");
  EXPECT_EQ(grid.short_name(1), "b.x");
  EXPECT_EQ(grid.short_name(2), "y");
}

TEST(SweepGrid, RefusesAKeyTwiceAndTooManyPoints) {
  const auto axis = [](const std::string& text) { return parse_axis(text).value(); };
  const auto twice = SweepGrid::make({axis("a.x=1"), axis("a.x=2")});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("swept twice"), std::string::npos);
  const auto many = SweepGrid::make({axis("a.x=1..1000"), axis("a.y=1..1000")});
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("more than 100000 points"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::sim
