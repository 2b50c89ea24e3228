#include "sim/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "model/plan/layout.h"
#include "model/program/compile.h"
#include "model/schedule/evaluate.h"
#include "model/schedule/schedule_table.h"
#include "sim/interval/hypercube.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulate.h"
#include "sim/search/cluster_option.h"
#include "sim/search/detail/branch_bounds.h"
#include "sim/search/detail/branch_search.h"
#include "tests/support/search_inputs.h"

namespace plumbline::sim {
namespace {

// A search gives the result of trying every plan, accounts for every plan, and does not depend on its number of
// threads.

SearchResult found(const Inputs& inputs, SearchOptions options) {
  model::Result<SearchResult> result = search(inputs, options);
  EXPECT_TRUE(result) << to_string(result.error());
  return result ? std::move(*result) : SearchResult();
}

std::uint64_t removed(const SearchResult& result) {
  return std::accumulate(result.removed.begin(), result.removed.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Removed& rule) { return sum + rule.plans; });
}

class Searches : public testing::TestWithParam<std::size_t> {
 protected:
  tests::SmallSearch small_ = tests::small_searches()[GetParam()];
};

TEST_P(Searches, CutsLeaveTheSameListAsTryingEverything) {
  SearchOptions options;
  options.top = 5;
  const SearchResult cut = found(small_.inputs, options);
  options.exhaustive = true;
  const SearchResult all = found(small_.inputs, options);
  EXPECT_EQ(cut.space, all.space);
  EXPECT_EQ(removed(cut) + cut.evaluated, cut.space);
  EXPECT_EQ(removed(all) + all.evaluated, all.space);
  EXPECT_LT(2 * cut.evaluated, all.evaluated) << "the cuts should save something";
  ASSERT_GE(all.best.size(), options.top);
  ASSERT_GE(cut.best.size(), options.top);
  for (std::size_t i = 0; i < options.top; ++i) {
    EXPECT_EQ(cut.best[i].estimate.step.time_s, all.best[i].estimate.step.time_s) << i;
    EXPECT_EQ(model::to_toml(cut.best[i].plan), model::to_toml(all.best[i].plan)) << i;
    if (i > 0) {
      EXPECT_GE(cut.best[i].estimate.step.time_s, cut.best[i - 1].estimate.step.time_s);
    }
    EXPECT_TRUE(cut.best[i].estimate.fits);
  }
}

// What is left of measured peaks leaves the fastest plan at the edge.
TEST_P(Searches, RanksWhatFitsSurelyAndListsFasterPlansApart) {
  SearchOptions options;
  options.top = 5;
  const SearchResult plain = found(small_.inputs, options);
  EXPECT_TRUE(plain.edge.empty());
  Inputs inputs = small_.inputs;
  const double least = plain.best.front().estimate.peak.least_bytes * (1 - 1e-6);
  constexpr double deviation = 0.1;
  const double sure = normal_quantile(inputs.plan.search.min_fit) * deviation;
  inputs.memory_left =
      Left{.location = std::log(inputs.cluster.device.memory.value() / least) - sure, .own = deviation};
  const SearchResult cut = found(inputs, options);
  EXPECT_EQ(removed(cut) + cut.evaluated, cut.space);
  for (const Candidate& one : cut.best) EXPECT_LE(one.estimate.peak.least_bytes, least);
  ASSERT_FALSE(cut.edge.empty());
  EXPECT_EQ(model::to_toml(cut.edge.front().plan), model::to_toml(plain.best.front().plan));
  for (const Candidate& edge : cut.edge) {
    EXPECT_GT(edge.estimate.peak.least_bytes, least);
    EXPECT_TRUE(edge.estimate.fits);
  }
  options.exhaustive = true;
  const SearchResult all = found(inputs, options);
  const std::size_t rows = std::min(options.top, all.best.size());
  ASSERT_GE(cut.best.size(), rows);
  for (std::size_t i = 0; i < rows; ++i)
    EXPECT_EQ(model::to_toml(cut.best[i].plan), model::to_toml(all.best[i].plan)) << i;
}

TEST_P(Searches, ThreadsChangeNothing) {
  SearchOptions options;
  options.top = 4;
  options.threads = 1;
  const SearchResult one = found(small_.inputs, options);
  EXPECT_TRUE(one.complete);
  for (const unsigned threads : {2U, 4U}) {
    options.threads = threads;
    std::uint64_t last = 0;
    options.on_progress = [&](const SearchProgress& progress) {
      EXPECT_GE(progress.done, last);
      EXPECT_LE(progress.done, progress.total);
      last = progress.done;
    };
    const SearchResult more = found(small_.inputs, options);
    EXPECT_EQ(last, more.space);
    EXPECT_EQ(more.evaluated, one.evaluated);
    ASSERT_EQ(more.best.size(), one.best.size());
    for (std::size_t i = 0; i < one.best.size(); ++i) {
      EXPECT_EQ(model::to_toml(more.best[i].plan), model::to_toml(one.best[i].plan));
      EXPECT_EQ(more.best[i].estimate.step.time_s, one.best[i].estimate.step.time_s);
    }
    ASSERT_EQ(more.removed.size(), one.removed.size());
    for (std::size_t i = 0; i < one.removed.size(); ++i) {
      EXPECT_EQ(more.removed[i].rule, one.removed[i].rule);
      EXPECT_EQ(more.removed[i].plans, one.removed[i].plans);
      EXPECT_EQ(more.removed[i].example, one.removed[i].example);
    }
  }
}

// All combinations of values that the rules of the layout allow are the plans of the space, each once.
TEST_P(Searches, TheSpaceIsWhatTheLayoutAllows) {
  const Inputs& inputs = small_.inputs;
  const Space space(inputs);
  std::set<std::string> listed;
  std::uint64_t plans = 0;
  tests::for_each_plan(space, [&](const Branch&, const Point&, const model::Plan& plan) {
    ++plans;
    if (plans % 11 != 0) return;
    EXPECT_TRUE(model::make_layout(plan, inputs.architecture)) << describe(plan);
  });
  EXPECT_EQ(plans, space.size());
  tests::for_each_plan(space, [&](const Branch&, const Point& point, const model::Plan& plan) {
    if (point.split->word == "even" && point.recompute == &space.choices().recompute.front())
      listed.insert(model::to_toml(plan));
  });
  std::uint64_t allowed = 0;
  const Choices choices(inputs, Breadth::complete);
  model::Plan plan = inputs.plan;
  plan.search = {};
  plan.schedule.layers_per_stage = {.even = true};
  choices.recompute.front().apply(plan, 0);
  using model::Parallelism;
  const auto values = [&](std::int64_t Parallelism::*degree) {
    return std::ranges::find(choices.degrees, degree, &DegreeChoices::degree)->values;
  };
  const std::vector<std::int64_t> contexts = values(&Parallelism::context), experts = values(&Parallelism::expert);
  auto& degrees = plan.parallelism;
  for (degrees.tensor = 1; degrees.tensor <= 4; degrees.tensor *= 2)
    for (const bool sequence : {false, true})
      for (degrees.context = 1; degrees.context <= 2; ++degrees.context)
        for (const std::int64_t pipeline : choices.pipeline(degrees.tensor, degrees.context))
          for (const std::int64_t expert : experts)
            for (const std::int64_t size : choices.micro_batch_size)
              for (const std::int64_t zero : choices.zero_stage)
                for (const std::string& kind : choices.schedule(pipeline, expert))
                  for (const std::int64_t chunks : choices.virtual_stages(pipeline)) {
                    const bool vee = kind == "zb-v" || kind == "dualpipev";  // always two chunks
                    if (vee && chunks == 2) continue;
                    const auto modes = choices.sequence(degrees.tensor);
                    if (std::ranges::find(choices.tensor, degrees.tensor) == choices.tensor.end() ||
                        std::ranges::find(contexts, degrees.context) == contexts.end() ||
                        std::ranges::find(modes, sequence) == modes.end())
                      continue;
                    degrees.sequence = sequence;
                    degrees.pipeline = pipeline;
                    degrees.expert = expert;
                    degrees.zero_stage = zero;
                    plan.batch.micro_batch_size = size;
                    plan.schedule.kind = kind;
                    plan.schedule.virtual_stages = chunks;
                    const auto layout = model::make_layout(plan, inputs.architecture);
                    if (!layout) continue;
                    const bool shards = layout->dense_group > 1 ||
                                        (inputs.architecture.experts.routed_experts > 0 && layout->expert_group > 1);
                    if (!shards && zero != choices.zero_stage.front()) continue;  // one stands for all
                    for (const std::int64_t sms : choices.communication_sms(expert)) {
                      plan.overlap.communication_sms = sms;
                      ++allowed;
                      EXPECT_TRUE(listed.contains(model::to_toml(plan))) << describe(plan);
                    }
                  }
  EXPECT_EQ(allowed, listed.size());
  EXPECT_GT(allowed, 50U);
}

INSTANTIATE_TEST_SUITE_P(Small, Searches, testing::Range(std::size_t{0}, std::size_t{4}));

TEST(Search, KeepsTheFastestPlanOfEachShape) {
  const Inputs inputs = tests::small_searches()[2].inputs;
  const SearchResult result = found(inputs, {.top = 6});
  std::map<std::string, int> shapes;
  for (const Candidate& candidate : result.best) {
    const auto& plan = candidate.plan;
    const auto& d = plan.parallelism;
    std::string shape = plan.schedule.kind;
    for (const std::int64_t degree : {d.tensor, std::int64_t{d.sequence}, d.context, d.pipeline, d.zero_stage})
      shape += "," + std::to_string(degree);
    EXPECT_EQ(++shapes[shape], 1) << shape;
    EXPECT_EQ(plan.search.tensor.size(), 0U);
  }
}

TEST(Search, GivesTheReasonWhenNothingFits) {
  Inputs inputs = tests::small_searches()[0].inputs;
  inputs.cluster.device.memory = model::Bytes(1e9);
  const SearchResult result = found(inputs, {});
  EXPECT_TRUE(result.best.empty());
  EXPECT_EQ(result.evaluated, 0U);
  ASSERT_EQ(result.removed.size(), 1U);
  EXPECT_EQ(result.removed[0].plans, result.space);
  EXPECT_EQ(result.removed[0].rule, "memory: parameters, gradients and optimizer states alone exceed the GPU");
  EXPECT_NE(result.removed[0].example.find(" GB of 1.0 GB: "), std::string::npos) << result.removed[0].example;
}

// The reason is that of the combinations which the checks let through the furthest.
TEST(Search, AnEmptySpaceHasTheRuleThatRefusesMostOfIt) {
  using Change = void (*)(model::Plan&);
  const auto refusal = [](Change change) {
    Inputs inputs = tests::small_searches()[2].inputs;
    change(inputs.plan);
    const auto result = search(inputs, {});
    if (result) return std::string("searched");
    EXPECT_EQ(result.error().kind, model::ErrorKind::infeasible);
    return result.error().message;
  };
  EXPECT_NE(refusal([](model::Plan& plan) { plan.search.tensor = {3}; }).find("16 GPUs are not a multiple of tensor"),
            std::string::npos);
  EXPECT_NE(refusal([](model::Plan& plan) { plan.search.expert = {4}; }).find("parallelism.expert: "),
            std::string::npos);
  EXPECT_NE(
      refusal([](model::Plan& plan) { plan.search.split = {"given"}; }).find("search.split: none of them divides"),
      std::string::npos);
  EXPECT_NE(refusal([](model::Plan& plan) { plan.search.recompute = {"moe"}; }).find("search.recompute: "),
            std::string::npos);
  const auto no_half = [](model::Plan& plan) {  // of eight layers on as many stages
    plan.search.recompute = {"half"};
    plan.search.pipeline = {8};
  };
  EXPECT_NE(refusal(no_half).find("search.recompute: stages of one layer"), std::string::npos);
}

TEST(Search, StopsWhenAsked) {
  const Inputs inputs = tests::small_searches()[0].inputs;
  std::atomic<int> asked = 0;
  SearchOptions options;
  options.stopped = [&] { return ++asked > 200; };
  const SearchResult result = found(inputs, options);
  EXPECT_FALSE(result.complete);
  EXPECT_LT(removed(result) + result.evaluated, result.space);
  EXPECT_LT(asked, 1000);
}

// It is stopped as soon as it has found a plan.
TEST(Search, AfterAStopAFewPlansAreSimulatedAndANoteSaysSo) {
  ClusterOption option;
  option.inputs = tests::small_searches()[2].inputs;
  option.inputs.fabric = tests::wired_inputs(tests::llama_plan, "h800", {"cluster.gpus=16"}).fabric;
  option.gpus = option.inputs.plan.cluster.gpus;
  std::atomic<bool> enough = false;
  SearchOptions options;
  options.on_progress = [&](const SearchProgress& progress) { enough = enough || progress.best_step_s > 0; };
  options.stopped = [&] { return enough.load(); };
  const auto searched = search_option(option, options);
  ASSERT_TRUE(searched) << to_string(searched.error());
  EXPECT_FALSE(option.search.complete);
  EXPECT_GE(option.plans.size(), 1U);
  EXPECT_LE(option.plans.size(), 3U);
  ASSERT_FALSE(option.notes.empty());
  EXPECT_NE(option.notes.front().find("at most 3 plans are simulated"), std::string::npos) << option.notes.front();
}

TEST(Search, WrongInputIsAnError) {
  Inputs inputs = tests::small_searches()[0].inputs;
  inputs.profile = model::Profile();
  const auto result = search(inputs, {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, model::ErrorKind::input);
}

// The numbers listed for a plan are those that simulate() gives for it.
TEST(TopPlans, HaveTheNumbersOfTheSimulation) {
  Inputs inputs = tests::small_searches()[2].inputs;
  inputs.fabric = tests::wired_inputs(tests::llama_plan, "h800", {"cluster.gpus=16"}).fabric;
  const SearchResult result = found(inputs, {.top = 3});
  std::vector<model::Plan> plans;
  for (const Candidate& candidate : result.best) plans.push_back(candidate.plan);
  const auto finalists = simulate_top_plans(inputs, plans);
  ASSERT_EQ(finalists.size(), plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    inputs.plan = plans[i];
    const auto events = simulate_on_network(inputs, false);
    const auto closed = simulate(inputs, Fidelity::closed_form, false);
    ASSERT_TRUE(finalists[i] && events && closed);
    EXPECT_EQ(finalists[i]->result.step.time_s, events->result.step.time_s);
    EXPECT_EQ(result.best[i].estimate.step.time_s, closed->result.step.time_s);
    EXPECT_GT(finalists[i]->events, 0U);
  }
  const auto none = simulate_top_plans(inputs, plans, [] { return true; });
  EXPECT_FALSE(none.front());
}

// Every bound by which a search prunes is proven; here it is compared with every plan of small spaces.

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
