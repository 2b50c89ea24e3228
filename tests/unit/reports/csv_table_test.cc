#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/text.h"
#include "reports/json/json.h"
#include "reports/text/table.h"
#include "tests/support/example_result.h"

namespace plumbline::reports {
namespace {

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

}  // namespace
}  // namespace plumbline::reports
