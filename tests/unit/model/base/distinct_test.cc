#include "model/base/distinct.h"

#include <gtest/gtest.h>

#include <string>

namespace plumbline::model {
namespace {

TEST(Distinct, KeepsTheOrderOfFirstRows) {
  struct Row {
    std::string set;
    int value;
  };
  const std::vector<Row> rows = {{"b", 1}, {"a", 2}, {"b", 3}};
  EXPECT_EQ(distinct(rows, &Row::set), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(distinct(rows, [](const Row& row) { return row.value % 2; }), (std::vector<int>{1, 0}));
}

}  // namespace
}  // namespace plumbline::model
