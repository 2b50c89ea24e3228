#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/schedule/schedule.h"
#include "reports/text/plan/schedule_report.h"

namespace plumbline::model {
namespace {

const ComparedSchedule& row_of(const std::vector<ComparedSchedule>& rows, const std::string& kind) {
  const auto found = std::ranges::find(rows, kind, &ComparedSchedule::kind);
  if (found == rows.end()) throw std::out_of_range(kind);
  return *found;
}

std::vector<ComparedSchedule> compare(const ScheduleShape& shape, const CostTable& costs) {
  const auto rows = compare_schedules(shape, costs);
  if (!rows) throw std::runtime_error(to_string(rows.error()));
  return *rows;
}

constexpr ScheduleShape four_by_eight{.ranks = 4, .micro_batches = 8, .virtual_stages = 2};

// A rank computes 8 x (F + B) = 24 in every schedule, however many chunks that is: the makespan less its idle time.
TEST(ScheduleComparison, EveryScheduleHasTheSameWork) {
  std::size_t possible = 0;
  for (const ComparedSchedule& row : compare(four_by_eight, {})) {
    if (row.infeasible) continue;
    ++possible;
    EXPECT_NEAR(row.makespan * (1 - row.average_bubble), 24, 1e-9) << row.kind;
    EXPECT_GE(row.makespan, row.lower_bound * (1 - 1e-9)) << row.kind;
    EXPECT_GT(row.lower_bound, 24 * (1 - 1e-9)) << row.kind;
  }
  EXPECT_EQ(possible, schedule_kinds().size());
}

// 1F1B: (M + P - 1)(F + B) = 33, of which 9 are idle. Of the transfers, 2 (P - 1) M / P + 2 (P - 2) = 16 are exposed;
// the first rank holds P micro-batches. Two chunks a rank halve the fill: 24 + 9 / 2.
TEST(ScheduleComparison, NumbersOfKnownSchedules) {
  CostTable costs;
  costs.uniform.p2p = 0.25;
  const auto rows = compare(four_by_eight, costs);
  const ComparedSchedule& plain = row_of(rows, "1f1b");
  EXPECT_NEAR(plain.makespan, 33 + 16 * 0.25, 1e-9);
  EXPECT_NEAR(plain.exposed_p2p.value(), 16, 1e-9);
  EXPECT_NEAR(plain.average_bubble, 13.0 / 37, 1e-9);
  EXPECT_EQ(plain.chunks, 1);
  EXPECT_EQ(plain.peak_activations, 4);
  EXPECT_EQ(plain.parameter_copies, 1);

  const auto free_transfers = compare(four_by_eight, {});
  const ComparedSchedule& interleaved = row_of(free_transfers, "interleaved");
  EXPECT_NEAR(interleaved.makespan, 24 + 4.5, 1e-9);
  EXPECT_EQ(interleaved.chunks, 2);
  EXPECT_FALSE(interleaved.exposed_p2p) << "no transfer takes time";
}

// Six chunks for two ranks with three chunks each: each stage is cut into three equal parts.
TEST(ScheduleComparison, CutsStagesIntoEqualParts) {
  CostTable costs;
  costs.uniform.p2p = 0.5;
  costs.stages = {ScheduleCosts{.F = 3, .B = 6, .I = 3, .W = 3, .FB = 9}, ScheduleCosts{.F = 6, .FB = 12}};
  const CostTable cut = cut_costs(costs, 2, 6);
  ASSERT_EQ(cut.stages.size(), 6U);
  EXPECT_EQ(cut.stages[2].F, 1);
  EXPECT_EQ(cut.stages[2].FB, 3);
  EXPECT_EQ(cut.stages[3].F, 2);
  EXPECT_EQ(cut.stages[5].FB, 4);
  EXPECT_EQ(cut.uniform.p2p, 0.5) << "a transfer has the same activations";
}

TEST(ScheduleComparison, NeedsAStageForEachRank) {
  CostTable costs;
  costs.file = "stages.toml";
  costs.stages = {ScheduleCosts{}, ScheduleCosts{}};
  const auto rows = compare_schedules(four_by_eight, costs);
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().kind, ErrorKind::input);
  EXPECT_EQ(to_string(rows.error()).find("stages.toml: stage: lists 2 stages, the comparison needs one"), 0U);
}

// GPipe takes M + P - 1 slots, of which P - 1 are idle on each rank: 3 of 7 at 4 micro-batches, 3 of 11 at 8.
TEST(ScheduleComparison, IsDrawnOverMicroBatches) {
  std::vector<ComparedSchedule> rows;
  for (const std::int32_t number : {4, 8}) {
    const auto compared = compare_schedules({.ranks = 4, .micro_batches = number}, {});
    ASSERT_TRUE(compared);
    rows.insert(rows.end(), compared->begin(), compared->end());
  }
  EXPECT_EQ(rows.front().micro_batches, 4);
  EXPECT_EQ(rows.back().micro_batches, 8);
  EXPECT_NEAR(rows.front().average_bubble, 3.0 / 7, 1e-12);
  const std::string svg = reports::comparison_svg(rows, {.ranks = 4}, {});
  EXPECT_NE(svg.find("Pipeline schedules of 4 ranks"), std::string::npos);
  EXPECT_NE(svg.find("zb-h1"), std::string::npos);
  EXPECT_EQ(reports::comparison_csv({rows.front()}).find("kind,possible,chunks_per_rank,"), 0U);
  EXPECT_TRUE(reports::comparison_csv({rows.front()}).ends_with(",4\n"));
}

}  // namespace
}  // namespace plumbline::model
