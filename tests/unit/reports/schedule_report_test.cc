#include "reports/text/plan/schedule_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "model/schedule/schedule.h"
#include "model/schedule/schedule_table.h"
#include "tests/support/temporary_directory.h"

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

CostedSchedule evaluated(const std::string& kind, const ScheduleShape& shape, const CostTable& costs) {
  const auto output = evaluate_schedule(*find_schedule(kind).value(), shape, costs);
  if (!output) throw std::runtime_error(to_string(output.error()));
  return *output;
}

ScheduleCosts stage(double F, double I, double W) { return {.F = F, .B = I + W, .I = I, .W = W, .FB = F + I + W}; }

// Of the four micro-batches the last two are direction 1's: rank 0 holds stage 0 of direction 0 (3 each) and stage 1
// of direction 1 (3 times factor 2 each).
TEST(ScheduleEvaluation, FactorsOfBothDirectionsFollowEachOther) {
  CostTable costs;
  costs.stages = {stage(1, 1, 1), stage(1, 1, 1)};
  costs.micro_batch_factors = {1, 1, 2, 2};
  const CostedSchedule output = evaluated("dualpipe", {.ranks = 2, .micro_batches = 4}, costs);
  EXPECT_DOUBLE_EQ(output.evaluation.busy[0], 2 * 3 + 2 * 6);
  EXPECT_DOUBLE_EQ(output.evaluation.busy[1], 2 * 3 + 2 * 6);
}

// FB = 6 is 3/4 of F + B = 8 in stage 0, FB = 3 all of F + B in stage 1: a pair of F 0 (2) and B 1 (2) takes 3.5, one
// of F 1 (1) and B 0 (6) takes 5.5.
TEST(ScheduleEvaluation, PairsShrinkAsTheirStagesDo) {
  CostTable costs;
  costs.stages = {{.F = 2, .B = 6, .I = 3, .W = 3, .FB = 6}, {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3}};
  const CostedSchedule output = evaluated("dualpipe", {.ranks = 2, .micro_batches = 4}, costs);
  std::size_t pairs = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto& ops = output.schedule.ranks[rank];
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (ops[i].type != OpType::FB) continue;
      ++pairs;
      EXPECT_NEAR(output.end[rank][i] - output.evaluation.start[rank][i], ops[i].f_stage == 0 ? 3.5 : 5.5, 1e-12);
    }
  }
  EXPECT_GT(pairs, 0U);
}

// The same costs can be given once for all stages or for each.
TEST(ScheduleEvaluation, EqualStagesAreTheUniformCosts) {
  CostTable uniform;
  uniform.uniform = {.F = 1.1, .B = 2.5, .I = 1.3, .W = 1.2, .FB = 3.2, .p2p = 0.1};
  for (const ScheduleKind* kind : schedule_kinds()) {
    const ScheduleShape shape{.ranks = 4, .micro_batches = 12};
    const auto expected = evaluate_schedule(*kind, shape, uniform);
    ASSERT_TRUE(expected) << kind->name();
    CostTable listed = uniform;
    listed.stages.assign(static_cast<std::size_t>(expected->schedule.stages), uniform.uniform);
    listed.micro_batch_factors.assign(12, 1);
    const auto output = evaluate_schedule(*kind, shape, listed);
    ASSERT_TRUE(output) << kind->name();
    EXPECT_NEAR(output->evaluation.makespan, expected->evaluation.makespan, 1e-9) << kind->name();
    EXPECT_NEAR(output->lower_bound, expected->lower_bound, 1e-9) << kind->name();
    EXPECT_LE(output->lower_bound, output->evaluation.makespan * (1 + 1e-12)) << kind->name();
  }
}

TEST(ScheduleEvaluation, ListsMustFitTheSchedule) {
  const auto refuse = [](const CostTable& costs, const std::string& text) {
    const auto output = evaluate_schedule(*find_schedule("1f1b").value(), {.ranks = 2, .micro_batches = 4}, costs);
    ASSERT_FALSE(output);
    EXPECT_EQ(output.error().kind, ErrorKind::input);
    EXPECT_EQ(to_string(output.error()), text);
  };
  CostTable costs;
  costs.file = "costs.toml";
  costs.stages = {stage(1, 1, 1)};
  refuse(costs, "costs.toml: stage: lists 1 stages, but 1f1b of this shape has 2");
  costs.stages.push_back(stage(1, 1, 1));
  costs.micro_batch_factors = {1, 1, 1};
  refuse(costs, "costs.toml: micro_batch_factors: lists 3 micro-batches, but there are 4");
}

Result<std::shared_ptr<const ScheduleKind>> read_back(const tests::TemporaryDirectory& folder, const std::string& csv) {
  return read_schedule_file(folder.write("mine.csv", csv).string());
}

// What is written is read back as the same order on the same ranks; only the mode of messages is not in the file.
TEST(ScheduleFile, IsTheScheduleThatWasWritten) {
  const tests::TemporaryDirectory folder;
  for (const ScheduleKind* kind : schedule_kinds())
    for (const std::int32_t chunks : {1, 2}) {
      const ScheduleShape shape{.ranks = 4, .micro_batches = 8, .virtual_stages = chunks};
      if (!kind->check(shape)) continue;
      const Schedule written = kind->build(shape);
      const auto file = read_back(folder, reports::schedule_csv(written));
      ASSERT_TRUE(file) << to_string(file.error());
      const ScheduleShape own = (*file)->outline({}).shape;
      EXPECT_TRUE((*file)->check({.ranks = 4, .micro_batches = 8, .virtual_stages = chunks})) << kind->name();
      EXPECT_EQ((*file)->check({.ranks = 4, .micro_batches = 9, .virtual_stages = chunks}).error().key,
                "micro_batches");
      EXPECT_EQ((*file)->check({4, 8, chunks, 5}).error().key, "micro_batch_group") << "a file has its own order";
      const Schedule read = (*file)->build(own);
      EXPECT_EQ(read.ranks, written.ranks) << kind->name();
      EXPECT_EQ(read.placement, written.placement) << kind->name();
      EXPECT_EQ(read.stages, written.stages) << kind->name();
      EXPECT_EQ(read.parameter_copies, written.parameter_copies) << kind->name();
      const CostTable costs;
      EXPECT_DOUBLE_EQ(evaluate_schedule(**file, own, costs)->evaluation.makespan,
                       evaluate_schedule(*kind, shape, costs)->evaluation.makespan);
    }
}

TEST(ScheduleFile, IsRefusedWithItsLine) {
  const tests::TemporaryDirectory folder;
  const std::string good =
      reports::schedule_csv(find_schedule("1f1b").value()->build({.ranks = 2, .micro_batches = 2}));
  const auto expect = [&](const std::string& from, const std::string& to, int line, const char* message) {
    std::string csv = good;
    csv.replace(csv.find(from), from.size(), to);
    const auto read = read_back(folder, csv);
    ASSERT_FALSE(read) << message;
    EXPECT_EQ(read.error().line, line) << message;
    EXPECT_NE(to_string(read.error()).find(message), std::string::npos) << to_string(read.error());
  };
  expect("rank,slot", "slot,rank", 1, "expected the header");
  expect("0,0,F,0,0,0,,,", "0,0,F,0,0,0,,", 2, "8 fields below a header of 9");
  expect("0,0,F,0,0,0,,,", "0,0,G,0,0,0,,,", 2, "unknown op 'G'");
  expect("0,0,F,0,0,0,,,", "0,0,F,0,0,x,,,", 2, "'x' is no f_mb of F");
  expect("0,0,F,0,0,0,,,", "0,0,F,0,0,,,,", 2, "'' is no f_mb of F");
  expect("0,0,F,0,0,0,,,", "0,0,F,0,0,0,0,0,0", 2, "'0' is no b_dir of F");
  expect("0,1,F", "0,2,F", 3, "slot 1 of rank 0 is expected");
  expect("0,1,F,0,0,1,,,", "0,1,F,0,0,0,,,", 3, "this F is there twice");
  expect("0,1,F,0,0,1,,,", "0,1,F,0,1,1,,,", 3, "stage 1 of direction 0 belongs on rank 1");
  expect("0,3,B,,,,0,0,1\n", "", 0, "no whole backward of stage 0, direction 0, micro-batch 1");
  const auto mirrored = read_back(folder, good.substr(0, good.find('\n') + 1) + "0,0,F,1,1,0,,,\n");
  ASSERT_FALSE(mirrored);
  EXPECT_NE(mirrored.error().message.find("2 stages in each of two directions"), std::string::npos);
  // The gradient of micro-batch 0 is needed before stage 1 has its activation.
  const std::string swapped = "0,0,B,,,,0,0,0\n0,1,F,0,0,0,,,\n1,0,F,0,1,0,,,\n1,1,B,,,,0,1,0\n";
  const auto stuck = read_back(folder, good.substr(0, good.find('\n') + 1) + swapped);
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().kind, ErrorKind::infeasible);
  EXPECT_NE(stuck.error().message.find("deadlocks: rank 0 before op 0 (B) waits for rank 0"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::model
