#include "reports/text/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <sstream>

#include "model/base/text.h"
#include "reports/json/json.h"
#include "tests/support/example_result.h"

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

// A name of a foreign file must not steer the terminal. Columns are as wide as what is printed: "\x1b" and "\x07" are
// four columns each, so that the cell has 1 + 4 + 4 + 4.
TEST(Table, PrintsControlCharactersAsTheirCodes) {
  Table table({{"name\x1b[2J"}, {"b"}}, 0);
  table.add({"a\x1b]0;x\x07", "1"});
  EXPECT_EQ(table.to_string(),
            "name\\x1b[2J    b\n"
            "-------------  -\n"
            "a\\x1b]0;x\\x07  1\n");
  EXPECT_EQ(wrapped("a\x1b[2J", 2), "  a\\x1b[2J\n");
  EXPECT_EQ(hanging("a\x1b[2J", 4), "a\\x1b[2J\n");
  EXPECT_EQ(heading("a\x1b[2J", {.color = false}), "\na\\x1b[2J\n");
  EXPECT_EQ(bold("a\x1b[2J", {.color = true}), "\x1b[1ma\\x1b[2J\x1b[0m");
}

TEST(Table, WrapsTheWidestTextColumnToFit) {
  Table table({{"quantity"}, {"value", Align::right}, {"source"}});
  table.add({"step time", "1234567",
             "a long source that does not fit into the eighty columns of a terminal, with other columns"});
  const auto lines = lines_of(table.to_string());
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_LE(code_points(line), terminal_width) << line;
  EXPECT_NE(lines[2].find("1234567"), std::string::npos);
}

TEST(Table, WrapsTitlesOfNumbers) {
  Table table(std::vector<Column>(9, {"ten in all", Align::right}), 0);
  table.add(std::vector<std::string>(9, "1"));
  // Nine columns of 10 and eight gaps of 2 are 106; "ten in" and "all" below each other are 9 * 6 + 16 = 70.
  const auto lines = lines_of(table.to_string());
  ASSERT_EQ(lines.size(), 4u);
  for (const std::string& line : lines) EXPECT_LE(code_points(line), terminal_width) << line;
}

// 4 columns of 26 with gaps of 2 are 110; three of them are 82, so that every block has two, and the first column
// again.
TEST(Table, ContinuesBelowItselfAndNeverCutsNumbers) {
  const std::string number(26, '7');
  Table table({{"a"}, {"b", Align::right}, {"c", Align::right}, {"d", Align::right}, {"e", Align::right}}, 0);
  table.add({"x", number, number, number, number});
  const auto lines = lines_of(table.to_string());
  ASSERT_EQ(lines.size(), 7u);  // titles, rule, row; an empty line; the same
  EXPECT_EQ(lines[2], "x  " + number + "  " + number);
  EXPECT_EQ(lines[3], "");
  EXPECT_EQ(lines[4].front(), 'a');
  EXPECT_EQ(lines[6], "x  " + number + "  " + number);
}

TEST(Table, BeginsNoBlockForALastColumnWithoutText) {
  const std::string number(39, '7');
  Table table({{"a", Align::right}, {"b", Align::right}, {""}}, 0);
  table.add({number, number, ""});
  EXPECT_EQ(lines_of(table.to_string()).size(), 3u);  // titles, rule, row, of 80 without a gap for the last column
  table.add({number, number, "over"});
  EXPECT_EQ(lines_of(table.to_string()).size(), 9u);
}

TEST(Table, IsAsWideAsItIsWhereAsked) {
  ::setenv("PLUMBLINE_WIDE", "1", 1);
  Table table("source");
  table.add({std::string(200, 'x')});
  const auto lines = lines_of(table.to_string());
  ::unsetenv("PLUMBLINE_WIDE");
  EXPECT_EQ(lines.back().size(), 202u);
}

TEST(Numbers, WhatRoundsToZeroHasNoMinus) {
  EXPECT_EQ(fixed(-0.04, 1), "0.0");
  EXPECT_EQ(fixed(-0.06, 1), "-0.1");
  EXPECT_EQ(days_text(55.25), "55.2");
  EXPECT_EQ(days_text(0.058), "0.058");
  EXPECT_EQ(days_text(std::numeric_limits<double>::infinity()), "never");
  EXPECT_EQ(fixed(-std::numeric_limits<double>::infinity(), 1), "-inf");
  EXPECT_EQ(signed_percent(-0.0004), "+0.0 %");
  EXPECT_EQ(signed_percent(-0.001), "-0.1 %");
  EXPECT_EQ(signed_tight_percent(0.012), "+1.2%");
  EXPECT_EQ(signed_seconds(-0.004, 2), "+0.00 s");
  EXPECT_EQ(signed_seconds(-0.006, 2), "-0.01 s");
}

TEST(Numbers, DollarsAreGroupedFromAThousandOn) {
  EXPECT_EQ(dollars(0.35149, 3), "$0.351");
  EXPECT_EQ(dollars(999.5, 2), "$999.50");
  EXPECT_EQ(dollars(1738.89, 3), "$1,739");
}

TEST(Wrap, BreaksAtSpacesAndCutsLongWords) {
  EXPECT_EQ(wrap("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrap("abcdefgh", 3), (std::vector<std::string>{"abc", "def", "gh"}));
  EXPECT_EQ(wrap("µµµµ", 2), (std::vector<std::string>{"µµ", "µµ"}));
  EXPECT_EQ(wrap("", 5), (std::vector<std::string>{""}));
}

TEST(Wrap, LaterLinesHangBehindTheIndent) {
  const std::string first(40, 'a'), second(30, 'b');
  EXPECT_EQ(hanging(first + " " + second, 20), first + "\n" + std::string(20, ' ') + second + "\n");
  EXPECT_EQ(hanging(first + " " + second, 20, " \\"), first + " \\\n" + std::string(20, ' ') + second + "\n");
  EXPECT_EQ(hanging("short", 20, " \\"), "short\n");
}

TEST(CsvTable, QuotesWhatRfc4180Asks) {
  CsvTable table({"name", "note"});
  table.row("a,b", "says \"c\"");
  table.row("two\nlines", "plain text");
  EXPECT_EQ(table.text(), "name,note\n\"a,b\",\"says \"\"c\"\"\"\n\"two\nlines\",plain text\n");
}

TEST(CsvTable, KeepsNumbersAndLeavesOutWhatWasNotComputed) {
  CsvTable table({"a", "b", "c", "d", "e"});
  table.row(0.1, std::optional<double>(), true, 7, std::nan(""));
  EXPECT_EQ(table.text(), "a,b,c,d,e\n0.1,,true,7,\n");
}

TEST(RowsAsCsv, AreTheListOfTheJson) {
  const std::string csv = memory_csv(support::example_result().memory);
  const auto lines = model::lines_of(csv);
  EXPECT_THAT(std::string(lines[0]), testing::StartsWith("stage,stages,parameters_bytes,gradients_bytes,"));
  EXPECT_THAT(std::string(lines[1]), testing::StartsWith("0,\"[0,15]\",12000000000.0,20000000000.0,"));
  EXPECT_EQ(lines.size(), 1U + support::example_ranks);
}

TEST(RowsAsCsv, LeaveNullEmpty) {
  model::RoutingStatistics routing;
  routing.experts = {0.25, 1.5};
  routing.balance = {{10, {0.125, 0.5}}};
  EXPECT_EQ(routing_csv(routing),
            "of,step,variation,max_violation\nexperts,,0.25,1.5\nranks,,0.0,0.0\nbalance,10,0.125,0.5\n");
}

// Text of users within pages and pictures.

TEST(EscapedHtml, HasNoMarkupAndOnlyCharactersOfXml) {
  EXPECT_EQ(escape_html("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape_html("tab\tline\n"), "tab\tline\n");
  EXPECT_EQ(escape_html("bell\a escape\x1b[31m"), "bell\uFFFD escape\uFFFD[31m");
  EXPECT_EQ(escape_html("größer"), "größer");
}

}  // namespace
}  // namespace plumbline::reports
