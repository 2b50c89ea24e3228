// A schedule's table agrees with the schedule about the start of each op and what ranks hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {
namespace {

std::vector<ScheduleShape> shapes() {
  std::vector<ScheduleShape> all;
  for (const std::int32_t ranks : {1, 2, 3, 4, 8})
    for (const std::int32_t micro_batches : {1, 2, 4, 6, 16, 17, 24})
      for (const std::int32_t virtual_stages : {1, 2, 3}) all.push_back({ranks, micro_batches, virtual_stages, 0});
  return all;
}

// No two costs are in a simple ratio, so that every critical path has a different length.
constexpr ScheduleCosts uneven = {1.03, 2.11, 1.27, 0.91, 2.83, 0.17};

// Returns the most chunks held while an op runs, including the forward that it runs itself.
std::int32_t most_chunks(const ScheduleTable& table, const ScheduleTable::Rank& rank) {
  std::int32_t most = 0;
  for (const auto& moment : rank.moments) {
    std::int32_t held = std::accumulate(moment.forwards.begin(), moment.forwards.end(), 0);
    held = std::accumulate(moment.weights.begin(), moment.weights.end(), held);
    if (moment.slot_class >= 0 && table.classes[static_cast<std::size_t>(moment.slot_class)].f_stage >= 0) ++held;
    most = std::max(most, held);
  }
  return most;
}

template <class Check>
int for_all_tables(const Check& check) {
  int checked = 0;
  for (const ScheduleKind* kind : schedule_kinds()) {
    for (const ScheduleShape& shape : shapes()) {
      if (!kind->check(shape)) continue;
      SCOPED_TRACE(testing::Message() << kind->name() << " P " << shape.ranks << " M " << shape.micro_batches << " v "
                                      << shape.virtual_stages);
      check(*kind, kind->build(shape), make_schedule_table(*kind, shape).value());
      ++checked;
    }
  }
  return checked;
}

// Each op starts when the last of its inputs is there and no earlier, for any transfers and costs.
TEST(ScheduleTables, StartEachOpAfterWhatItNeeds) {
  const int checked = for_all_tables([](const ScheduleKind&, const Schedule& schedule, const ScheduleTable& table) {
    std::vector<double> ends(table.ops.size()), rank_end(table.ranks.size());
    double makespan = 0;
    std::uint32_t need = 0;
    run_table(
        table, uneven.p2p, [&](std::size_t i) { return uneven.of(table.ops[i].type); },
        [&](std::size_t i, double start, double end) {
          const auto& op = table.ops[i];
          double ready = rank_end[op.rank] + (op.posts ? uneven.p2p : 0);
          for (; need < op.needs_end; ++need)
            ready = std::max(ready, ends[table.needs[need] >> 1] + (table.needs[need] % 2 == 1 ? uneven.p2p : 0));
          EXPECT_EQ(start, ready);
          rank_end[op.rank] = ends[i] = end;
          makespan = std::max(makespan, end);
        });
    EXPECT_EQ(makespan, evaluate(schedule, uneven, schedule.point_to_point).value().makespan);
  });
  EXPECT_GT(checked, 200);
}

TEST(ScheduleTables, HoldAsManyChunksAsTheSchedule) {
  for_all_tables([](const ScheduleKind&, const Schedule& schedule, const ScheduleTable& table) {
    const ScheduleEvaluation run = evaluate(schedule, uneven, schedule.point_to_point).value();
    for (std::size_t rank = 0; rank < table.ranks.size(); ++rank)
      EXPECT_EQ(most_chunks(table, table.ranks[rank]), run.peak_activations[rank]) << "rank " << rank;
  });
}

TEST(ScheduleTables, ListEveryOpOfARankInProgramOrder) {
  for_all_tables([](const ScheduleKind&, const Schedule& schedule, const ScheduleTable& table) {
    for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
      const auto& ops = schedule.ranks[rank];
      ASSERT_EQ(table.ranks[rank].ops.size(), ops.size());
      for (std::size_t k = 0; k < ops.size(); ++k) {
        const auto& op = table.ops[table.ranks[rank].ops[k]];
        EXPECT_EQ(op.rank, rank);
        const auto& slot = table.classes[op.slot_class];
        EXPECT_EQ(op.type, ops[k].type);
        EXPECT_EQ(slot.f_stage, ops[k].f_stage);
        EXPECT_EQ(slot.b_stage, ops[k].b_stage);
      }
    }
  });
}

}  // namespace
}  // namespace plumbline::model
