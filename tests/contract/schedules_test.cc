#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "model/schedule/evaluate.h"
#include "model/schedule/schedule.h"
#include "model/schedule/schedule_table.h"
#include "tests/support/step_inputs.h"

namespace plumbline::model {
namespace {

// Invariants of every registered schedule over a grid of shapes: each micro-batch passes each stage once per phase and
// in legal order, no deadlock occurs, and memory stays within the schedule's bound.

struct ScheduledPlan {
  const ScheduleKind* kind = nullptr;
  ScheduleShape shape;
};

// Returns every shape of the grid that a schedule accepts: one rank, fewer micro-batches than ranks, M = 2P, odd M,
// more; several chunks per rank and groups of micro-batches where the schedule has them.
std::vector<ScheduledPlan> cases() {
  std::vector<ScheduledPlan> all;
  for (const ScheduleKind* kind : schedule_kinds()) {
    for (const std::int32_t ranks : {1, 2, 3, 4, 6, 7, 8, 16}) {
      for (const std::int32_t micro_batches : {1, 2, 3, 5, 8, 2 * ranks, 2 * ranks + 1, 2 * ranks + 2, 4 * ranks, 60}) {
        for (const std::int32_t chunks : {1, 2, 4}) {
          for (const std::int32_t group : {0, 5}) {
            const ScheduleShape shape{
                .ranks = ranks, .micro_batches = micro_batches, .virtual_stages = chunks, .micro_batch_group = group};
            if (kind->check(shape)) all.push_back({kind, shape});
          }
        }
      }
    }
  }
  return all;
}

std::string name_of(const ScheduledPlan& c) {
  return std::string(c.kind->name()) + " P=" + std::to_string(c.shape.ranks) +
         " M=" + std::to_string(c.shape.micro_batches) + " v=" + std::to_string(c.shape.virtual_stages) +
         " N=" + std::to_string(c.shape.micro_batch_group);
}

class EveryShape : public testing::TestWithParam<const ScheduleKind*> {
 protected:
  template <class Check>
  static void for_each(Check check) {
    std::size_t seen = 0;
    for (const ScheduledPlan& c : cases()) {
      if (c.kind != GetParam()) continue;
      SCOPED_TRACE(name_of(c));
      check(c, c.kind->build(c.shape));
      ++seen;
    }
    EXPECT_GE(seen, 8u);
  }
};

struct Visit {
  std::size_t rank = 0;
  double start = 0, end = 0;
};
using Key = std::tuple<char, std::int32_t, std::int32_t, std::int32_t>;  // phase, direction, stage, micro-batch

// Returns the time of each phase of each micro-batch. A full backward is its input gradient and its weight gradient.
std::map<Key, Visit> visits(const Schedule& schedule, const ScheduleEvaluation& evaluation,
                            const ScheduleCosts& costs) {
  std::map<Key, Visit> all;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (std::size_t k = 0; k < schedule.ranks[rank].size(); ++k) {
      const ScheduleOp& op = schedule.ranks[rank][k];
      const double start = evaluation.start[rank][k];
      const Visit visit{rank, start, start + costs.of(op.type)};
      const auto add = [&](char phase, std::int32_t direction, std::int32_t stage, std::int32_t mb) {
        EXPECT_EQ(schedule.rank_of(direction, stage), static_cast<std::int32_t>(rank));
        EXPECT_TRUE(all.emplace(Key{phase, direction, stage, mb}, visit).second) << phase << " twice";
      };
      if (op.type == OpType::F || op.type == OpType::FB) add('F', op.f_dir, op.f_stage, op.f_mb);
      if (op.type != OpType::F && op.type != OpType::W) add('I', op.b_dir, op.b_stage, op.b_mb);
      if (op.type != OpType::F && op.type != OpType::I) add('W', op.b_dir, op.b_stage, op.b_mb);
    }
  }
  return all;
}

TEST_P(EveryShape, EachMicroBatchPassesEachStageOncePerPhaseInLegalOrder) {
  for_each([](const ScheduledPlan& c, const Schedule& schedule) {
    const ScheduleCosts costs{.F = 1, .B = 2.3, .I = 1.2, .W = 1.1, .FB = 3, .p2p = 0.1};
    const auto evaluation = evaluate(schedule, costs);
    ASSERT_TRUE(evaluation);
    const auto all = visits(schedule, *evaluation, costs);
    const std::int32_t per_direction = c.shape.micro_batches / schedule.directions;
    ASSERT_EQ(per_direction * schedule.directions, c.shape.micro_batches);
    // There is exactly one F, I and W for every (direction, stage, micro-batch).
    ASSERT_EQ(all.size(), static_cast<std::size_t>(3 * schedule.stages * c.shape.micro_batches));
    const double rounding = 1e-9;
    for (const auto& [key, visit] : all) {
      const auto [phase, direction, stage, mb] = key;
      EXPECT_LT(mb, per_direction);
      std::vector<Key> before;
      if (phase == 'F' && stage > 0) before.push_back({'F', direction, stage - 1, mb});
      if (phase == 'I') before.push_back({'F', direction, stage, mb});
      if (phase == 'I' && stage + 1 < schedule.stages) before.push_back({'I', direction, stage + 1, mb});
      for (const Key& key_before : before) {
        ASSERT_TRUE(all.contains(key_before));
        const Visit& earlier = all.at(key_before);
        const double hop = earlier.rank == visit.rank ? 0 : costs.p2p;
        EXPECT_GE(visit.start, earlier.end + hop - rounding);
      }
      // A full backward holds both gradients; a split one runs W after I.
      if (phase == 'W') {
        const Visit& input_gradient = all.at({'I', direction, stage, mb});
        EXPECT_TRUE(visit.start == input_gradient.start || visit.start >= input_gradient.end - rounding);
      }
    }
  });
}

TEST_P(EveryShape, NeverDeadlocks) {
  for_each([](const ScheduledPlan&, const Schedule& schedule) {
    for (const PointToPoint mode : {PointToPoint::eager, PointToPoint::batched}) {
      for (const double p2p : {0.0, 0.01, 5.0}) {
        const auto evaluation = evaluate(schedule, {.p2p = p2p}, mode);
        ASSERT_TRUE(evaluation) << to_string(evaluation.error());
      }
    }
  });
}

// With p2p = 0 blocking batches only add the wait for a slow partner. As each transfer then costs more, blocking sends
// are never faster than eager ones.
TEST_P(EveryShape, BlockingBatchesAreNeverFasterThanEagerSends) {
  for_each([](const ScheduledPlan&, const Schedule& schedule) {
    for (const double p2p : {0.0, 0.05, 1.0}) {
      const auto eager = evaluate(schedule, {.p2p = p2p}, PointToPoint::eager);
      const auto batched = evaluate(schedule, {.p2p = p2p}, PointToPoint::batched);
      ASSERT_TRUE(eager && batched);
      EXPECT_GE(batched->makespan, eager->makespan * (1 - 1e-12));
    }
  });
}

// Communicators match the messages of a pair of ranks by order, so both sides must list them alike. Schedules made for
// blocking batches list all in one order, others those of one kind between two adjacent stages.
TEST_P(EveryShape, BothEndsListTheMessagesOfAPairInTheSameOrder) {
  for_each([](const ScheduledPlan&, const Schedule& schedule) {
    using Id = std::array<std::int32_t, 4>;
    const bool one_channel = schedule.point_to_point == PointToPoint::batched;
    std::map<std::pair<std::pair<std::int32_t, std::int32_t>, Id>, std::vector<Id>> sent, received;
    for (const PointToPoint mode : {PointToPoint::eager, PointToPoint::batched}) {
      if (one_channel && mode == PointToPoint::eager) continue;
      const auto batches = point_to_point_batches(schedule, mode);
      ASSERT_EQ(batches.size(), schedule.ranks.size());
      for (std::int32_t rank = 0; rank < schedule.shape.ranks; ++rank) {
        const auto& of_rank = batches[static_cast<std::size_t>(rank)];
        ASSERT_EQ(of_rank.size(), schedule.ranks[static_cast<std::size_t>(rank)].size() + 1);
        for (const auto& batch : of_rank) {
          for (const Transfer& hop : batch) {
            ASSERT_NE(hop.peer, rank);
            const Id id{hop.forward ? 1 : 0, hop.direction, hop.stage, hop.micro_batch};
            const Id channel = one_channel ? Id{} : Id{hop.forward ? 1 : 0, hop.direction, hop.stage, 0};
            if (hop.send) sent[{{rank, hop.peer}, channel}].push_back(id);
            if (!hop.send) received[{{hop.peer, rank}, channel}].push_back(id);
          }
        }
      }
      EXPECT_EQ(sent, received);
    }
    // Every micro-batch sends an activation and a gradient wherever adjacent stages are on different ranks.
    std::size_t boundaries = 0, messages = 0;
    for (std::int32_t stage = 1; stage < schedule.stages; ++stage)
      if (schedule.rank_of(0, stage) != schedule.rank_of(0, stage - 1)) ++boundaries;
    for (const auto& [channel, ids] : sent) messages += ids.size();
    EXPECT_EQ(messages, (one_channel ? 2 : 4) * boundaries * static_cast<std::size_t>(schedule.shape.micro_batches));
  });
}

TEST_P(EveryShape, ActivationsStayWithinTheBound) {
  for_each([](const ScheduledPlan& c, const Schedule& schedule) {
    const auto evaluation = evaluate(schedule, {});
    ASSERT_TRUE(evaluation);
    for (std::int32_t rank = 0; rank < c.shape.ranks; ++rank) {
      const std::int32_t peak = evaluation->peak_activations[static_cast<std::size_t>(rank)];
      EXPECT_GE(peak, 1);
      EXPECT_LE(peak, c.kind->activation_bound(c.shape, rank));
    }
  });
}

TEST_P(EveryShape, ExactMakespanIsWhatTheClockGives) {
  for_each([](const ScheduledPlan& c, const Schedule& schedule) {
    const ScheduleCosts equal{.F = 1, .B = 2, .I = 1, .W = 1, .FB = 3, .p2p = 0};
    const ScheduleCosts uneven{.F = 1, .B = 2, .I = 1.1, .W = 0.9, .FB = 2.7, .p2p = 0};
    for (const ScheduleCosts& costs : {equal, uneven}) {
      const auto evaluation = evaluate(schedule, costs);
      ASSERT_TRUE(evaluation);
      if (const auto exact = c.kind->exact_makespan(c.shape, costs)) {
        EXPECT_NEAR(evaluation->makespan, *exact, 1e-9 * *exact);
      }
    }
    // Whole groups of P micro-batches, at least two, have a closed form at equal costs.
    const bool whole = c.shape.micro_batches % c.shape.ranks == 0 && c.shape.micro_batches >= 2 * c.shape.ranks;
    if (whole && c.shape.micro_batch_group == 0 && c.kind->name() != "interleaved-overlap") {
      EXPECT_TRUE(c.kind->exact_makespan(c.shape, equal));
    }
  });
}

TEST_P(EveryShape, EveryRankHoldsAsManyStagesAsThereAreParameterCopiesOfThem) {
  for_each([](const ScheduledPlan& c, const Schedule& schedule) {
    std::vector<std::int32_t> held(static_cast<std::size_t>(c.shape.ranks), 0);
    for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
      for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
        ++held.at(static_cast<std::size_t>(schedule.rank_of(direction, stage)));
    for (const std::int32_t stages : held)
      EXPECT_EQ(stages * c.shape.ranks, schedule.parameter_copies * schedule.stages);
  });
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryShape, testing::ValuesIn(schedule_kinds().begin(), schedule_kinds().end()),
                         [](const auto& param) {
                           std::string name = "kind_" + std::string(param.param->name());
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

ScheduleCosts random_costs() {
  const auto cost = [] { return *rc::gen::inRange(0, 1000) / 100.0; };
  ScheduleCosts costs{.F = cost(), .B = 0, .I = cost(), .W = cost(), .FB = cost(), .p2p = cost() / 10};
  costs.B = costs.I + costs.W;
  return costs;
}

ScheduledPlan random_scheduled_plan() { return *rc::gen::elementOf(cases()); }

RC_GTEST_PROP(SchedulesContract, MakespanIsAtLeastTheWorkOfEveryRank, ()) {
  const ScheduledPlan c = random_scheduled_plan();
  const ScheduleCosts costs = random_costs();
  for (const PointToPoint mode : {PointToPoint::eager, PointToPoint::batched}) {
    const auto evaluation = evaluate(c.kind->build(c.shape), costs, mode);
    RC_ASSERT(evaluation.has_value());
    for (std::size_t rank = 0; rank < evaluation->busy.size(); ++rank) {
      const double rounding = 1e-9 * (1 + evaluation->makespan);
      RC_ASSERT(evaluation->makespan >= evaluation->window[rank] - rounding);
      RC_ASSERT(evaluation->window[rank] >= evaluation->busy[rank] - rounding);
      RC_ASSERT(evaluation->idle[rank] >= -rounding);
    }
  }
}

RC_GTEST_PROP(SchedulesContract, NoMakespanBelowTheLowerBound, ()) {
  const ScheduledPlan c = random_scheduled_plan();
  const Schedule schedule = c.kind->build(c.shape);
  const ScheduleCosts costs = random_costs();
  std::vector<StageCost> stages;
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage) {
    const ScheduleCosts of_stage = random_costs();
    stages.push_back({of_stage.F, of_stage.B, of_stage.I, of_stage.W});
  }
  const StageCosts uneven(stages, costs.p2p, *rc::gen::inRange(50, 101) / 100.0);
  for (const PointToPoint mode : {PointToPoint::eager, PointToPoint::batched}) {
    const double uniform_makespan = evaluate(schedule, costs, mode).value().makespan;
    RC_ASSERT(lower_bound(schedule, UniformCosts(costs)) <= uniform_makespan * (1 + 1e-9) + 1e-9);
    const double uneven_makespan = evaluate(schedule, uneven, mode).value().makespan;
    RC_ASSERT(lower_bound(schedule, uneven) <= uneven_makespan * (1 + 1e-9) + 1e-9);
  }
}

RC_GTEST_PROP(SchedulesContract, MakespanGrowsWithEveryCost, ()) {
  const ScheduledPlan c = random_scheduled_plan();
  const Schedule schedule = c.kind->build(c.shape);
  const ScheduleCosts costs = random_costs();
  const double more = *rc::gen::inRange(1, 500) / 100.0;
  for (const PointToPoint mode : {PointToPoint::eager, PointToPoint::batched}) {
    const double before = evaluate(schedule, costs, mode)->makespan;
    for (double ScheduleCosts::*field : {&ScheduleCosts::F, &ScheduleCosts::B, &ScheduleCosts::I, &ScheduleCosts::W,
                                         &ScheduleCosts::FB, &ScheduleCosts::p2p}) {
      ScheduleCosts dearer = costs;
      dearer.*field += more;
      RC_ASSERT(evaluate(schedule, dearer, mode)->makespan >= before - 1e-9 * (1 + before));
    }
  }
}

TEST(SchedulesContract, NamesAreUniqueAndFound) {
  std::map<std::string_view, int> names;
  for (const ScheduleKind* kind : schedule_kinds()) {
    EXPECT_EQ(++names[kind->name()], 1);
    const auto found = find_schedule(kind->name());
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, kind);
  }
}

TEST(SchedulesContract, UnknownNameIsInputErrorWithTheNearest) {
  const auto found = find_schedule("dualpip");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::input);
  EXPECT_NE(found.error().hint.find("'dualpipe'"), std::string::npos);
}

TEST(SchedulesContract, NoScheduleWithoutRanksMicroBatchesOrChunksNorWithTooMany) {
  for (const ScheduleKind* kind : schedule_kinds()) {
    for (const ScheduleShape shape : {ScheduleShape{.ranks = 0}, ScheduleShape{.ranks = 4, .micro_batches = 0},
                                      ScheduleShape{.ranks = 4, .micro_batches = 8, .virtual_stages = 0},
                                      ScheduleShape{.ranks = 2'000'000'000, .micro_batches = 2'000'000'000}}) {
      const auto checked = kind->check(shape);
      ASSERT_FALSE(checked) << kind->name();
      EXPECT_EQ(checked.error().kind, ErrorKind::infeasible);
      EXPECT_FALSE(checked.error().message.empty());
    }
  }
}

// Each of two ranks waits first for the result of the other.
TEST(SchedulesContract, ADeadlockNamesWhoWaitsForWhom) {
  Schedule schedule;
  schedule.kind = "crossed";
  schedule.shape = {.ranks = 2, .micro_batches = 1};
  schedule.stages = 2;
  ScheduleOp forward0, forward1, backward0, backward1;
  forward0.f_dir = forward1.f_dir = backward0.b_dir = backward1.b_dir = 0;
  forward0.f_mb = forward1.f_mb = backward0.b_mb = backward1.b_mb = 0;
  forward0.f_stage = backward0.b_stage = 0;
  forward1.f_stage = backward1.b_stage = 1;
  backward0.type = backward1.type = OpType::B;
  schedule.ranks = {{backward0, forward0}, {forward1, backward1}};
  for (const PointToPoint mode : {PointToPoint::eager, PointToPoint::batched}) {
    const auto evaluation = evaluate(schedule, {}, mode);
    ASSERT_FALSE(evaluation);
    EXPECT_EQ(evaluation.error().kind, ErrorKind::infeasible);
    EXPECT_NE(evaluation.error().message.find("rank 0 before op 0 (B) waits for rank"), std::string::npos)
        << evaluation.error().message;
    EXPECT_NE(evaluation.error().message.find("rank 1 before op 0 (F) waits for rank 0"), std::string::npos)
        << evaluation.error().message;
  }
}

// A schedule's table agrees with the schedule about the start of each op and what ranks hold.

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

namespace plumbline::sim {
namespace {

// Every registered schedule simulates a whole step, for a mixture of experts and for a dense model.

// Returns two chunks per rank where a schedule accepts them, else one.
std::int32_t chunks_of(const model::ScheduleKind& kind, std::int32_t ranks) {
  return kind.check({.ranks = ranks, .micro_batches = 2 * ranks, .virtual_stages = 2}) ? 2 : 1;
}

// Returns the step time of each schedule, with layers spread evenly.
std::map<std::string, double> steps(const std::string& plan, std::int32_t ranks) {
  std::map<std::string, double> result;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) {
    const std::string name(kind->name());
    const std::int32_t chunks = chunks_of(*kind, ranks);
    const Inputs inputs = tests::step_inputs(
        plan, "h800",
        {"schedule.kind=" + name, "schedule.layers_per_stage=[]", "schedule.virtual_stages=" + std::to_string(chunks)});
    const auto simulation = simulate(inputs, Fidelity::step, false);
    EXPECT_TRUE(simulation) << name << ": " << (simulation ? "" : to_string(simulation.error()));
    if (!simulation) continue;
    EXPECT_GE(simulation->result.step.time_s, *simulation->result.bound_s) << name;
    result[name] = simulation->result.step.time_s;
  }
  return result;
}

TEST(SimulatedSchedules, MixtureOfExpertsIsFastestWithOverlappedPairs) {
  const auto times = steps(tests::deepseek_plan, 16);
  EXPECT_EQ(times.size(), model::schedule_kinds().size());
  EXPECT_LT(times.at("dualpipe"), times.at("1f1b"));
}

TEST(SimulatedSchedules, DenseModelGainsFromFewerBubbles) {
  const auto times = steps("deepseek-67b-512xh800", 8);
  EXPECT_EQ(times.size(), model::schedule_kinds().size());
  // The makespan is the same. Only the overlapped part of the gradients' reduction differs a little.
  EXPECT_NEAR(times.at("1f1b"), times.at("gpipe"), 0.01 * times.at("gpipe"));
  EXPECT_LT(times.at("interleaved"), times.at("1f1b"));
  EXPECT_LT(times.at("zb-h1"), times.at("1f1b"));
  EXPECT_LT(times.at("zb-h2"), times.at("zb-h1"));
}

// A middle stage runs 120 micro-batches of 69 ms forward and 97 ms backward, and 15 more to fill and drain: (120 + 15)
// * 0.166 = 22.4 s with the layers of the plan, equal in its middle stages. The last stage with two heads takes longer.
TEST(SimulatedSchedules, PlainOneForwardOneBackwardTakesTheTimeByArithmetic) {
  const Inputs inputs =
      tests::step_inputs(tests::deepseek_plan, "h800",
                         {"schedule.kind=1f1b", "schedule.layers_per_stage=[3,4,4,4,4,4,4,4,4,4,4,4,4,4,4,2]"});
  const double seconds = simulate(inputs, Fidelity::step, false).value().result.step.time_s;
  EXPECT_GT(seconds, 24);
  EXPECT_LT(seconds, 28);
}

// Two stages more than layers: the first stage holds the embedding alone, the last one the head.
TEST(SimulatedSchedules, StagesMayHoldNothingButEmbeddingOrHead) {
  constexpr std::int32_t ranks = 8;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) {
    const std::string name(kind->name());
    const std::int32_t chunks = chunks_of(*kind, ranks);
    const model::Schedule outline =
        kind->outline({.ranks = ranks, .micro_batches = 4 * ranks, .virtual_stages = chunks});
    Inputs inputs = tests::step_inputs("deepseek-67b-512xh800", "h800",
                                       {"schedule.kind=" + name, "schedule.virtual_stages=" + std::to_string(chunks)});
    inputs.architecture.layers = outline.stages - 2;
    for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
      const auto simulation = simulate(inputs, fidelity, false);
      ASSERT_TRUE(simulation) << name << ": " << to_string(simulation.error());
      EXPECT_GE(simulation->result.step.time_s, *simulation->result.bound_s) << name;
      EXPECT_GT(simulation->result.memory.peak_bytes, 0) << name;
    }
  }
}

}  // namespace
}  // namespace plumbline::sim
