#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"
#include "sim/analysis/bound.h"
#include "sim/step/step_end.h"

namespace plumbline::sim {
namespace {

// F = 1, B = 2; the last of four stages takes `last` times as long.
std::vector<double> class_seconds(const model::ScheduleTable& table, double last) {
  std::vector<double> seconds;
  for (const model::ScheduleTable::SlotClass& one : table.classes)
    seconds.push_back((one.type == model::OpType::F ? 1 : 2) * (std::max(one.f_stage, one.b_stage) == 3 ? last : 1));
  return seconds;
}

// 1F1B, P = 4, M = 8, F = 1, B = 2: every rank idles (P - 1)(F + B) = 9.
class Idle : public testing::Test {
 protected:
  const model::ScheduleKind& kind_ = *model::find_schedule("1f1b").value();
  const model::ScheduleTable table_ = model::make_schedule_table(kind_, {.ranks = 4, .micro_batches = 8}).value();
  const std::vector<double> seconds_ = class_seconds(table_, 1);
};

TEST_F(Idle, EqualStagesOnlyFillAndDrain) {
  const IdleTime idle = split_idle(table_, seconds_, 0, 0, 9);
  EXPECT_EQ(idle.point_to_point, 0);
  EXPECT_EQ(idle.uneven_stages, 0);
  EXPECT_EQ(idle.fill_and_drain, 9);
}

// A transfer of h occurs 3 times forth and 3 times back in fill and drain; in between the first rank also waits for
// gradients, and for the batches of its messages.
TEST_F(Idle, MessagesCountByWhatTheStepWouldBeWithoutThem) {
  const double hop = 0.1;
  double makespan = 0;
  model::run_table(
      table_, hop, [&](std::size_t i) { return seconds_[table_.ops[i].slot_class]; },
      [&](std::size_t, double, double end) { makespan = std::max(makespan, end); });
  const IdleTime idle = split_idle(table_, seconds_, hop, 0, makespan - 24);
  EXPECT_GE(idle.point_to_point, 6 * hop - 1e-12);
  EXPECT_NEAR(idle.fill_and_drain, 9, 1e-12);
  EXPECT_NEAR(idle.point_to_point + idle.bubble(), makespan - 24, 1e-12);
}

TEST_F(Idle, NoMoreIsFoundThanThereIs) {
  const IdleTime idle = split_idle(table_, seconds_, 0.1, 0, 0.05);
  EXPECT_EQ(idle.point_to_point, 0.05);
  EXPECT_EQ(idle.bubble(), 0);
}

// The last of four stages takes twice as long, and the others wait for it.
TEST(UnevenStages, TheOthersWait) {
  const model::ScheduleTable table =
      model::make_schedule_table(*model::find_schedule("1f1b").value(), {.ranks = 4, .micro_batches = 8}).value();
  const std::vector<double> seconds = class_seconds(table, 2);
  // Rank 0 works 24 of 3 F + 8 (2 F + 2 B) + 3 B = 3 + 48 + 6 = 57. Equal stages would take 5/4 each: 9 * 5/4 idle, and
  // 30 of work instead of 24.
  const IdleTime idle = split_idle(table, seconds, 0, 0, 33);
  EXPECT_NEAR(idle.fill_and_drain, 11.25, 1e-12);
  EXPECT_NEAR(idle.uneven_stages, 33 - 11.25, 1e-12);
}

// Two ranks end at 10 and 11 and check for 1; the agreement takes 2, a reduction ends at 12, a gather takes 3.
TEST(StepTail, TakesAwayOnePartAfterTheOther) {
  std::vector<RankWork> works(2);
  for (RankWork& work : works) work = {.check = 1, .agree = 2, .update = 4, .to_device = 0.5, .gather = 3};
  works[1].host_update = 4;
  works[0].host_update = 4;
  const std::vector<GradientsReady> ranks = {{10, 12, {}, {}}, {11, 0, {}, {}}};
  // 12 + 1 + 2 + 4 + 0.5 + 3
  ASSERT_DOUBLE_EQ(step_end(works, ranks, {}), 22.5);
  const StepTail tail = step_tail(works, ranks);
  EXPECT_DOUBLE_EQ(tail.gather, 3);
  EXPECT_DOUBLE_EQ(tail.host, 4.5);
  EXPECT_DOUBLE_EQ(tail.agree, 2);
  EXPECT_DOUBLE_EQ(tail.reduce, 1);  // checks end at 13 with it, at 12 without
  EXPECT_DOUBLE_EQ(tail.total(), 22.5 - 12);
}

}  // namespace
}  // namespace plumbline::sim
