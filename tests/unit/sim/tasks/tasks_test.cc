#include "sim/tasks/tasks.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace plumbline::sim {
namespace {

TEST(LocalTasks, ReturnsResultsInTheOrderOfTasks) {
  std::set<std::size_t> done;
  const TaskSet squares{
      .key = "squares",
      .count = 100,
      .run = [](std::size_t task) -> model::Result<std::string> { return std::to_string(task * task); },
      .done =
          [&](std::size_t task, const std::string& result) {
            EXPECT_EQ(result, std::to_string(task * task));
            EXPECT_TRUE(done.insert(task).second);
          }};
  const auto results = local_tasks().run(squares).value();
  ASSERT_EQ(results.size(), 100u);
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], std::to_string(i * i));
  EXPECT_EQ(done.size(), 100u);
}

TEST(LocalTasks, TheFirstTaskThatFailedGivesTheError) {
  const auto fails = [](std::size_t task) -> model::Result<std::string> {
    if (task % 7 == 6) return model::infeasible("", "task " + std::to_string(task));
    return "";
  };
  const auto results = local_tasks().run({.key = "fails", .count = 100, .run = fails});
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().message, "task 6");
}

TEST(LocalTasks, NoTasksHaveNoResults) { EXPECT_TRUE(local_tasks().run({}).value().empty()); }

}  // namespace
}  // namespace plumbline::sim
