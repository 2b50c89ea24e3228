// Every bound by which a search prunes is proven; here it is compared with every plan of small spaces.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "sim/search/detail/branch_bounds.h"
#include "sim/search/detail/branch_search.h"
#include "tests/support/search_inputs.h"

namespace plumbline::sim {
namespace {

constexpr double above_rounding = 1 + 1e-9;

struct Bounds {
  double branch = 0, schedule = 0;
};

Bounds bounds_of(const Inputs& given, const model::Plan& plan, const Pipeline& pipeline, ScheduleTables& tables) {
  Inputs inputs = given;
  inputs.plan = plan;
  const model::Layout layout = model::make_layout(plan, inputs.architecture).value();
  const CostModels costs = cost_models(inputs, layout).value();
  BranchBlocks blocks(inputs, plan);
  BranchBounds bounds(blocks, costs);
  const auto schedule = tables.find(*pipeline.kind, pipeline.shape).value();
  const StageLists stages = stage_lists(plan, inputs.architecture, pipeline.stages);
  model::Plan nothing = plan;
  nothing.recompute.policy = "none";
  BranchBlocks least(inputs, nothing);
  return {BranchBounds(least, costs).branch(nothing),
          lower_bound(schedule->outline, bounds.slots(schedule->outline, stages), bounds.p2p())};
}

class SearchBounds : public testing::TestWithParam<std::size_t> {
 protected:
  tests::SmallSearch search_ = tests::small_searches()[GetParam()];
};

// The branch's bound leaves recomputation out, so it holds for every recomputation.
TEST_P(SearchBounds, HoldForTheClosedFormAndForEvents) {
  const Inputs& inputs = search_.inputs;
  const Space space(inputs);
  Predictor predictor(inputs);
  ScheduleTables tables;
  int plans = 0, simulated = 0;
  tests::for_each_plan(space, [&](const Branch&, const Point& point, const model::Plan& plan) {
    if (plans++ % 7 != 0) return;  // a prime, so that all values of all keys occur
    const auto estimate = predictor.closed_form(plan);
    ASSERT_TRUE(estimate) << to_string(estimate.error());
    const Bounds bounds = bounds_of(inputs, plan, *point.pipeline, tables);
    EXPECT_GT(bounds.schedule, 0);
    EXPECT_LE(bounds.branch, estimate->step.time_s * above_rounding) << describe(plan);
    EXPECT_LE(bounds.schedule, estimate->step.time_s * above_rounding) << describe(plan);
    if (plans % 41 != 1) return;
    Inputs one = inputs;
    one.plan = plan;
    const auto events = simulate(one, Fidelity::step, false);
    ASSERT_TRUE(events) << to_string(events.error());
    ++simulated;
    EXPECT_LE(bounds.branch, events->result.step.time_s * above_rounding) << describe(plan);
    EXPECT_LE(bounds.schedule, events->result.step.time_s * above_rounding) << describe(plan);
  });
  EXPECT_GT(plans, 300);
  EXPECT_GT(simulated, 1);
}

// Calls check(plan, the least of its states by the floor, its peak, predictor) for every fifth plan of the space.
template <class Check>
void for_floors(const Inputs& inputs, const Check& check) {
  const Space space(inputs);
  Predictor predictor(inputs);
  MemoryFloor floor(inputs);
  int plans = 0;
  tests::for_each_plan(space, [&](const Branch&, const Point& point, const model::Plan& plan) {
    if (plans++ % 5 != 0) return;
    const auto split = static_cast<std::size_t>(point.split - point.pipeline->splits.data());
    check(plan, floor.bytes(plan, *point.pipeline)[split], predictor.peak(plan).value(), predictor);
  });
  EXPECT_GT(plans, 300);
}

TEST_P(SearchBounds, StatesAreNeverMoreThanThePeak) {
  for_floors(search_.inputs,
             [](const model::Plan& plan, const MemoryFloor::Least& states, const Peak& exact, Predictor& predictor) {
               const Peak least = predictor.least_peak(plan).value();
               EXPECT_LE(least.bytes, exact.bytes * above_rounding) << describe(plan);
               EXPECT_GT(least.bytes, 0.1 * exact.bytes) << describe(plan);
               EXPECT_EQ(least.host_bytes, exact.host_bytes);
               EXPECT_LE(states.gpu, exact.bytes * above_rounding) << describe(plan);
               EXPECT_GT(states.gpu, 0.01 * exact.bytes) << describe(plan);
               EXPECT_EQ(states.host, 0);
               EXPECT_EQ(exact.bytes, predictor.closed_form(plan)->peak.bytes);
             });
}

// Every state lies on a host at least once, and the fullest of them has no less than the mean.
TEST_P(SearchBounds, OffloadedStatesAreNeverMoreThanTheFullestHostHolds) {
  Inputs inputs = search_.inputs;
  inputs.plan.offload.optimizer = true;
  for_floors(inputs, [](const model::Plan& plan, const MemoryFloor::Least& states, const Peak& exact, Predictor&) {
    EXPECT_GT(states.host, 0) << describe(plan);
    EXPECT_LE(states.host, exact.host_bytes * above_rounding) << describe(plan);
  });
}

INSTANTIATE_TEST_SUITE_P(Small, SearchBounds, testing::Range(std::size_t{0}, std::size_t{4}));

// Slot by slot: the bound from blocks is no more than the time of the whole slot on an otherwise idle GPU.
TEST(BlockTimes, AreNoMoreThanSlots) {
  for (const tests::SmallSearch& search : tests::small_searches())
    for (const char* policy : {"none", "full"}) {
      Inputs inputs = search.inputs;
      inputs.plan.recompute.policy = policy;
      inputs.plan.search = {};
      const model::Layout layout = model::make_layout(inputs.plan, inputs.architecture).value();
      const CostModels costs = cost_models(inputs, layout).value();
      BranchBlocks blocks(inputs, inputs.plan);
      BranchBounds bounds(blocks, costs);
      const auto spread = spread_of(inputs);
      model::StageLibrary library(model::plan_context(inputs.plan, inputs.architecture, layout, spread), inputs.plan);
      ExpertGroupMemo routing;
      TimedStages timed(library, costs, inputs.cluster.device, {0, {}, 0}, inputs.plan.parallelism.expert, routing);
      const StageLists stages = stage_lists(inputs.plan, inputs.architecture, layout.stages);
      model::ScheduleOutline outline(model::make_schedule_table(**model::find_schedule("1f1b"), {1, 1, 1, 0}).value());
      outline.classes.clear();
      const auto last = static_cast<std::int32_t>(layout.stages) - 1;
      for (const model::OpType type :
           {model::OpType::F, model::OpType::B, model::OpType::I, model::OpType::W, model::OpType::FB})
        for (std::int32_t f = 0; f <= last; ++f)
          for (std::int32_t b = 0; b <= last; ++b) {
            const bool forward = type == model::OpType::F || type == model::OpType::FB;
            outline.classes.push_back({type, forward ? f : -1, type == model::OpType::F ? -1 : b});
          }
      const std::vector<double> least = bounds.slots(outline, stages);
      for (std::size_t c = 0; c < least.size(); ++c) {
        const auto& one = outline.classes[c];
        const auto kind = [&](std::int32_t stage) {
          const auto index = static_cast<std::size_t>(stage);
          return stage < 0 ? -1 : library.kind(stages.kinds[static_cast<std::size_t>(stages.kind_of_stage[index])]);
        };
        const double slot = timed.run(library.slot(one.type, kind(one.f_stage), kind(one.b_stage))).seconds;
        EXPECT_LE(least[c], slot * above_rounding) << search.name << " " << to_string(one.type) << policy;
        EXPECT_GT(least[c], 0.6 * slot) << search.name << " " << to_string(one.type) << policy;
      }
    }
}

class UnevenCosts final : public model::ChunkCosts {
 public:
  UnevenCosts() : ChunkCosts(0.25) {}
  double of(const model::ScheduleOp& op) const override {
    const model::ScheduleCosts costs{1, 2.5, 1.25, 1.25, 3, 0};
    return costs.of(op.type) * (1 + 0.1 * std::max(op.f_stage, op.b_stage));
  }
};

// The bounds by slot class and by op are equal.
TEST(ScheduleBound, IsThatOfTheSchedule) {
  int compared = 0;
  for (const model::ScheduleKind* kind : model::schedule_kinds())
    for (const std::int32_t chunks : {1, 2}) {
      const model::ScheduleShape shape{4, 16, chunks, 0};
      if (!kind->check(shape)) continue;
      const model::ScheduleOutline outline(model::make_schedule_table(*kind, shape).value());
      const UnevenCosts costs;
      std::vector<double> classes;
      for (const auto& one : outline.classes)
        classes.push_back(costs.of({.type = one.type, .f_stage = one.f_stage, .b_stage = one.b_stage}));
      const double whole = model::lower_bound(kind->build(shape), costs);
      const double by_class = model::lower_bound(outline, classes, 0.25);
      EXPECT_LE(by_class, whole * above_rounding) << kind->name();
      EXPECT_LE(whole, by_class * above_rounding) << kind->name();
      ++compared;
    }
  EXPECT_GE(compared, 9);
}

}  // namespace
}  // namespace plumbline::sim
