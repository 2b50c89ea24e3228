// Schedules of many ranks: the cost of ordering them grows with their ops, and no count ends at 16 bits.
#include <gtest/gtest.h>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"

namespace plumbline::model {
namespace {

// One micro-batch passes all ranks forwards and backwards: P (F + B), with F = 1 and B = 2.
TEST(WideSchedule, RanksAndOpsBeyond16BitsAreDistinct) {
  for (const char* name : {"gpipe", "1f1b"}) {
    const auto kind = find_schedule(name);
    ASSERT_TRUE(kind);
    const ScheduleShape shape{.ranks = 70'000, .micro_batches = 1};
    CostTable costs;
    costs.uniform = {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3, .p2p = 0};
    const auto output = evaluate_schedule(**kind, shape, costs);
    ASSERT_TRUE(output) << to_string(output.error());
    EXPECT_EQ(output->evaluation.makespan, 210'000) << name;
    EXPECT_EQ(output->lower_bound, 210'000) << name;
    EXPECT_EQ(output->evaluation.start.back().front(), 69'999) << name;
  }
}

// Of the chunks that a schedule may have, six million, a pipeline of six ranks has a million micro-batches, and
// one of two chunks a rank half of them.
TEST(WideSchedule, MoreThanCanBeHeldIsRefusedWithTheMost) {
  const auto hint = [](const char* name, const ScheduleShape& shape) {
    const auto allowed = find_schedule(name).value()->check(shape);
    return allowed ? "" : allowed.error().hint;
  };
  EXPECT_EQ(hint("gpipe", {.ranks = 6, .micro_batches = 1'000'000}), "");
  EXPECT_EQ(hint("gpipe", {.ranks = 6, .micro_batches = 1'000'001}), "use at most 1000000 micro-batches");
  EXPECT_EQ(hint("interleaved", {.ranks = 6, .micro_batches = 600'000, .virtual_stages = 2}),
            "use at most 500000 micro-batches");
  EXPECT_EQ(hint("gpipe", {.ranks = 6'000'001, .micro_batches = 1}), "use at most 6000000 ranks");
}

}  // namespace
}  // namespace plumbline::model
