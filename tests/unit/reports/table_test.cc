#include "reports/text/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace plumbline::reports {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Table, AlignsColumnsAndTrimsLineEnds) {
  Table table({{"name"}, {"value", Align::right}, {"unit"}});
  table.add({"step time", "19.93", "s"});
  table.add({"mfu", "4"});
  table.add_rule();
  table.add({"total", "100.00", "%"});
  EXPECT_EQ(table.to_string(),
            "  name        value  unit\n"
            "  ---------  ------  ----\n"
            "  step time   19.93  s\n"
            "  mfu             4\n"
            "  ---------  ------  ----\n"
            "  total      100.00  %\n");
}

TEST(Table, CountsCodePointsNotBytes) {
  // "µs" and "Gauß" have one two-byte code point each: 2 and 4 columns, not 3 and 5.
  EXPECT_EQ(code_points("µs"), 2u);
  EXPECT_EQ(code_points("Gauß"), 4u);
  Table table({{"a"}, {"b", Align::right}}, 0);
  table.add({"µs", "1"});
  table.add({"ms", "2"});
  const auto lines = lines_of(table.to_string());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2], "µs  1");
  EXPECT_EQ(lines[3], "ms  2");
}

TEST(Table, WrapsTheWidestTextColumnToFit) {
  Table table({{"quantity"}, {"value", Align::right}, {"source"}}, 2, 40);
  table.add({"step time", "1234567", "a long source that does not fit into forty columns"});
  const auto lines = lines_of(table.to_string());
  ASSERT_GT(lines.size(), 3u);
  for (const std::string& line : lines) EXPECT_LE(code_points(line), 40u) << line;
  EXPECT_NE(lines[2].find("1234567"), std::string::npos);
}

TEST(Table, NeverCutsNumbers) {
  Table table({{"a", Align::right}, {"b", Align::right}}, 0, 10);
  table.add({"123456789", "123456789"});
  EXPECT_NE(table.to_string().find("123456789  123456789"), std::string::npos);
}

TEST(Wrap, BreaksAtSpacesAndCutsLongWords) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("abcdefgh", 3), (std::vector<std::string>{"abc", "def", "gh"}));
  EXPECT_EQ(wrap("µµµµ", 2), (std::vector<std::string>{"µµ", "µµ"}));
  EXPECT_EQ(wrap("", 5), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace plumbline::reports
