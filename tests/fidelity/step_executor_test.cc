// The executor compared with exact results: closed forms of the schedules without network, the schedule evaluation with
// transfers that take latency only, and hand-derived cases of shared links.
#include "sim/step/step_executor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"
#include "tests/support/uniform_program.h"

namespace plumbline::sim {
namespace {

using model::ScheduleCosts;
using tests::uniform_input;
using tests::uniform_program;

constexpr double picosecond_rounding = 1e-9;  // relative; durations are rounded to picoseconds

struct Case {
  const model::ScheduleKind* kind = nullptr;
  model::ScheduleShape shape;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const model::ScheduleKind* kind : model::schedule_kinds())
    for (const std::int32_t ranks : {1, 2, 3, 4, 6, 8, 16})
      for (const std::int32_t micro_batches : {1, 3, 4, 2 * ranks, 3 * ranks, 4 * ranks, 120}) {
        const model::ScheduleShape shape{.ranks = ranks, .micro_batches = micro_batches};
        if (kind->check(shape)) all.push_back({kind, shape});
      }
  return all;
}

std::string name_of(const Case& c) {
  return std::string(c.kind->name()) + " P=" + std::to_string(c.shape.ranks) +
         " M=" + std::to_string(c.shape.micro_batches);
}

// Seconds: round ones, those of about an H800's chunks, and whole numbers.
const std::vector<ScheduleCosts> cost_grid = {{.F = 0.05, .B = 0.1, .I = 0.06, .W = 0.04, .FB = 0.13},
                                              {.F = 0.0613, .B = 0.0947, .I = 0.0851, .W = 0.0259, .FB = 0.1273},
                                              {.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3}};

double pipeline_end(const Case& c, const ScheduleCosts& costs, double latency, double seconds) {
  const model::StepProgram program = uniform_program(c.kind->build(c.shape));
  return execute(uniform_input(program, costs, latency, seconds)).value().pipeline_end;
}

// With latency alone no link is ever busy, as in the evaluation, with eager and batched sends alike.
TEST(StepExecutor, WithLatencyItIsTheEvaluation) {
  for (const Case& c : cases()) {
    for (ScheduleCosts costs : cost_grid) {
      for (const double share : {0.0, 0.01, 0.3, 2.0}) {  // in units of a forward chunk
        SCOPED_TRACE(name_of(c) + ", transfer of " + std::to_string(share) + " F");
        costs.p2p = share * costs.F;
        const model::Schedule schedule = c.kind->build(c.shape);
        const double expected = model::evaluate(schedule, costs, schedule.point_to_point).value().makespan;
        EXPECT_NEAR(pipeline_end(c, costs, costs.p2p, 0), expected, picosecond_rounding * expected);
      }
    }
  }
}

// In the evaluation every transfer has the link to itself. GPipe's transfers do: all go in one direction, one per op,
// and an op takes longer than a transfer. 1F1B's activation and gradient can coincide at their receiver, and a batch of
// DualPipe has two transfers over one link: these wait for each other.
TEST(StepExecutor, BusyLinksOnlyEverDelay) {
  for (const Case& c : cases()) {
    for (ScheduleCosts costs : cost_grid) {
      SCOPED_TRACE(name_of(c));
      costs.p2p = 0.3 * costs.F;
      const model::Schedule schedule = c.kind->build(c.shape);
      const double expected = model::evaluate(schedule, costs, schedule.point_to_point).value().makespan;
      const double end = pipeline_end(c, costs, 0, costs.p2p);
      EXPECT_GE(end, expected * (1 - picosecond_rounding));
      if (c.kind->name() == "gpipe") {
        EXPECT_NEAR(end, expected, picosecond_rounding * expected);
      }
    }
  }
}

model::ScheduleOp forward(std::int32_t stage, std::int32_t micro_batch) {
  return {.type = model::OpType::F, .f_dir = 0, .f_stage = stage, .f_mb = micro_batch};
}
model::ScheduleOp backward(std::int32_t stage, std::int32_t micro_batch) {
  return {.type = model::OpType::B, .b_dir = 0, .b_stage = stage, .b_mb = micro_batch};
}

model::Schedule by_hand(std::vector<std::vector<model::ScheduleOp>> ranks) {
  model::Schedule schedule;
  schedule.kind = "by hand";
  schedule.stages = static_cast<std::int32_t>(ranks.size());
  schedule.shape = {.ranks = schedule.stages};
  schedule.ranks = std::move(ranks);
  return schedule;
}

TEST(StepExecutor, MessagesOfOneDirectionQueue) {
  const model::StepProgram program =
      uniform_program(by_hand({{forward(0, 0), forward(0, 1), backward(0, 0), backward(0, 1)},
                               {forward(1, 0), forward(1, 1), backward(1, 0), backward(1, 1)}}));
  const ScheduleCosts costs{.F = 1, .B = 2};
  // Rank 0: F0 0..1, F1 1..2; messages 1..1.8, 2..2.8. Rank 1: F0 1.8..2.8, F1 2.8..3.8, B0 3.8..5.8,
  // B1 5.8..7.8. Gradients 5.8..6.6 and 7.8..8.6. Rank 0: B0 6.6..8.6, B1 8.6..10.6.
  EXPECT_NEAR(execute(uniform_input(program, costs, 0, 0.8)).value().pipeline_end, 10.6, 1e-9);
  // A slow link sets the pace: transfers 1..4 and 4..7 of 3 s each; rank 1: F0 4..5, F1 7..8, B0 8..10, B1 10..12;
  // gradients 10..13 and 13..16; rank 0: B1 16..18.
  EXPECT_NEAR(execute(uniform_input(program, costs, 0, 3)).value().pipeline_end, 18, 1e-9);
}

TEST(StepExecutor, AnActivationAndAGradientShareTheReceiversLink) {
  // Three ranks, F = 1, B = 2, transfers of 0.8. Rank 2: F0 from 3.6 to 4.6, B0 to 6.6: its gradient moves 6.6..7.4.
  // Rank 0 computes six forwards; the k-th ends at k, so the sixth's activation moves 6..6.8 on rank 1's receiving link
  // and the gradient waits for it: 6.8..7.6.
  const model::StepProgram program = uniform_program(by_hand(
      {{forward(0, 0), forward(0, 1), forward(0, 2), forward(0, 3), forward(0, 4), forward(0, 5), backward(0, 0)},
       {forward(1, 0), backward(1, 0), forward(1, 1), forward(1, 2), forward(1, 3), forward(1, 4), forward(1, 5)},
       {forward(2, 0), backward(2, 0), forward(2, 1), forward(2, 2), forward(2, 3), forward(2, 4), forward(2, 5)}}));
  // Rank 1: F0 1.8..2.8, B0 7.6..9.6; rank 0: B0 10.4..12.4. Rank 1 then runs five forwards until 14.6, and
  // rank 2 its last one from 15.4 to 16.4.
  const Execution run = execute(uniform_input(program, {.F = 1, .B = 2}, 0, 0.8)).value();
  EXPECT_NEAR(run.ranks[0].end, 12.4, 1e-9);
  EXPECT_NEAR(run.ranks[1].end, 14.6, 1e-9);
  EXPECT_NEAR(run.ranks[2].end, 16.4, 1e-9);
}

TEST(StepExecutor, CountsSlotsAndTheirTimes) {
  const Case c{model::find_schedule("1f1b").value(), {.ranks = 4, .micro_batches = 8}};
  const model::StepProgram program = uniform_program(c.kind->build(c.shape));
  const Execution run = execute(uniform_input(program, {.F = 1, .B = 2})).value();
  for (const RankTimes& rank : run.ranks) {
    EXPECT_EQ(rank.slot_counts[0], 8);
    EXPECT_EQ(rank.slot_counts[1], 8);
    EXPECT_NEAR(rank.slot_seconds[0], 8, 1e-9);
    EXPECT_NEAR(rank.slot_seconds[1], 16, 1e-9);
    for (const double exposed : rank.exposed) EXPECT_NEAR(exposed, 0, 1e-9);
  }
  // The last rank begins after three forwards and never waits; rank 0 ends three backwards later.
  EXPECT_NEAR(run.ranks[0].end, (8 + 3) * 3.0, 1e-9);
  EXPECT_NEAR(run.ranks[3].end, 3 * 1.0 + 8 * 3.0, 1e-9);
  EXPECT_NEAR(run.template_seconds[0], 1, 1e-12);
  EXPECT_NEAR(run.template_seconds[1], 2, 1e-12);
}

using DataParallelCollectives = model::DataParallelCollectives;

// Each stage has one unit, which is reduced after the last slot of its rank.
model::StepProgram reducing_program() {
  const Case c{model::find_schedule("1f1b").value(), {.ranks = 2, .micro_batches = 2}};
  model::StepProgram program = uniform_program(c.kind->build(c.shape));
  for (std::int32_t rank = 0; rank < 2; ++rank)
    program.data_parallel.push_back({{DataParallelCollectives::Kind::reduce, rank, 0, {3, -1}, {}}});
  program.gather_after_update = true;
  return program;
}

TEST(StepExecutor, TheOptimizerFollowsItsGradients) {
  const model::StepProgram program = reducing_program();
  ExecutionInput input = uniform_input(program, {.F = 1, .B = 2});
  input.optimizers = {{.units = {{.reduce = 1, .gather = 0.5}}, .agree = 0.5, .update = 0.25},
                      {.units = {{.reduce = 5}}, .agree = 0.5, .update = 1}};
  // Rank 1: F0 1..2, B0 2..4, F1 4..5, B1 5..7. Rank 0: B1 7..9. Stage 1 reduces from 7 to 12, stage 0 from 9 to
  // 10. Clipping needs both, so updates begin at 12.5: rank 0 until 12.75, gathered at 13.25, rank 1 until 13.5.
  EXPECT_NEAR(execute(input).value().pipeline_end, 9, 1e-9);
  EXPECT_NEAR(execute(input).value().exposed_reduce, 3, 1e-9);
  EXPECT_NEAR(execute(input).value().step_end, 13.5, 1e-9);
  // Without clipping, rank 1 updates from 12 to 13.
  for (OptimizerTiming& timing : input.optimizers) timing.agree = 0;
  EXPECT_NEAR(execute(input).value().step_end, 13, 1e-9);
  // A step of local updates: rank 0 from 9 to 9.25 and gathered at 9.75, rank 1 from 7 to 8.
  input.synchronize = false;
  EXPECT_NEAR(execute(input).value().step_end, 9.75, 1e-9);
}

TEST(StepExecutor, CopiesToTheHostFollowTheReductions) {
  const model::StepProgram program = reducing_program();
  ExecutionInput input = uniform_input(program, {.F = 1, .B = 2});
  input.optimizers = {{.units = {{.reduce = 1, .copy = 4}}, .update = 2, .to_device = 0.5}, {.units = {{.reduce = 5}}}};
  // Stage 0 is reduced at 10, on the host at 14, updated there at 16, back at 16.5.
  EXPECT_NEAR(execute(input).value().step_end, 16.5, 1e-9);
}

// One rank, two micro-batches: F0 B0 F1 B1, 1 and 2 seconds.
model::StepProgram lone_program(std::vector<DataParallelCollectives> data_parallel) {
  const Case c{model::find_schedule("1f1b").value(), {.ranks = 1, .micro_batches = 2}};
  model::StepProgram program = uniform_program(c.kind->build(c.shape));
  program.data_parallel = {std::move(data_parallel)};
  return program;
}

TEST(StepExecutor, ASegmentWaitsForItsParameters) {
  using enum DataParallelCollectives::Kind;
  // The unit is gathered with the step, and again once F0 has ended, while B0 waits.
  const model::StepProgram program = lone_program({{gather, 0, 0, {}, {0, 0}}, {gather, 0, 0, {0, 0}, {1, 0}}});
  ExecutionInput input = uniform_input(program, {.F = 1, .B = 2});
  input.optimizers = {{.units = {{.gather = 0.5}}}};
  const Execution run = execute(input).value();
  EXPECT_NEAR(run.step_end, 6 + 2 * 0.5, 1e-9);
  EXPECT_NEAR(run.ranks[0].gather_wait, 2 * 0.5, 1e-9);
  EXPECT_NEAR(run.ranks[0].exposed[0] + run.ranks[0].exposed[1], 2 * 0.5, 1e-9);
}

TEST(StepExecutor, CollectivesOfARankRunOneAfterTheOther) {
  using enum DataParallelCollectives::Kind;
  // The reduction runs from 1 to 4, overlapped with B0 until 3. The gather that F1 needs follows it, until 4.5.
  const model::StepProgram program = lone_program({{reduce, 0, 0, {0, 0}, {}}, {gather, 0, 1, {0, -1}, {2, -1}}});
  ExecutionInput input = uniform_input(program, {.F = 1, .B = 2});
  input.optimizers = {{.units = {{.reduce = 3}, {.gather = 0.5}}}};
  EXPECT_NEAR(execute(input).value().step_end, 4.5 + 3, 1e-9);
}

TEST(StepExecutor, ComputeIsSlowerWithACollective) {
  const model::StepProgram program = lone_program({{DataParallelCollectives::Kind::reduce, 0, 0, {0, 0}, {}}});
  ExecutionInput input = uniform_input(program, {.F = 1, .B = 2});
  input.template_times[1][0].compute[static_cast<std::size_t>(model::CoRunner::collective)] = 4;
  input.optimizers = {{.units = {{.reduce = 1}}}};
  // From 1 to 2 B0 does a quarter of its work, the rest takes 1.5 s; F1 and B1 follow.
  EXPECT_NEAR(execute(input).value().step_end, 3.5 + 3, 1e-9);
}

TEST(StepExecutor, ACollectiveIsSlowerWithCompute) {
  const model::StepProgram program = lone_program({{DataParallelCollectives::Kind::reduce, 0, 0, {0, 0}, {}}});
  ExecutionInput input = uniform_input(program, {.F = 1, .B = 2});
  input.optimizers = {{.units = {{.reduce = 3}}}};
  input.collective_slowdown = 2;
  // From 1 to 6, while B0, F1 and B1 compute, 2.5 s of the reduction are done. The rest has its full rate.
  EXPECT_NEAR(execute(input).value().step_end, 6.5, 1e-9);
}

TEST(StepExecutor, ADeadlockNamesWhoWaitsForWhom) {
  // Rank 0 needs the gradient before it has sent the activation from which it is computed.
  const model::StepProgram program =
      uniform_program(by_hand({{backward(0, 0), forward(0, 0)}, {forward(1, 0), backward(1, 0)}}));
  const auto run = execute(uniform_input(program, {}));
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, model::ErrorKind::infeasible);
  EXPECT_NE(run.error().message.find("rank 0 waits before its op 0 to receive from rank 1"), std::string::npos)
      << run.error().message;
  EXPECT_NE(run.error().message.find("rank 1 waits before its op 0 to receive from rank 0"), std::string::npos)
      << run.error().message;
}

}  // namespace
}  // namespace plumbline::sim
