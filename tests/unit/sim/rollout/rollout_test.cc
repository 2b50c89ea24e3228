#include "model/plan/rollout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/memory/memory.h"
#include "model/result/result.h"
#include "sim/interval/interval.h"
#include "sim/predict/simulate.h"
#include "sim/rollout/detail/rollout_forms.h"
#include "sim/rollout/rollout.h"
#include "sim/tasks/inputs_key.h"
#include "sim/whatif/sweep.h"
#include "tests/support/rollout_inputs.h"

namespace plumbline::sim {
namespace {

// Without a cap the mean and deviation of a log-normal are the stated ones; with it the mean stays.
TEST(AnswerLengths, KeepTheStatedMeanWhereLongOnesAreCut) {
  for (const double most : {1e9, 8000.0, 3000.0, 1100.0}) {
    const AnswerLengths lengths(1000, 800, most);
    EXPECT_NEAR(lengths.cut_mean(), 1000, 1e-6) << most;
    model::Random random(7);
    double sum = 0, squares = 0, cut = 0;
    constexpr int draws = 200'000;
    for (int i = 0; i < draws; ++i) {
      const double length = lengths.draw(random);
      EXPECT_LE(length, most);
      sum += length;
      squares += length * length;
      cut += length == most ? 1 : 0;
    }
    EXPECT_NEAR(sum / draws, 1000, 10) << most;
    EXPECT_NEAR(cut / draws, lengths.cut_share(), 0.01) << most;
    if (most > 1e6) {
      EXPECT_NEAR(std::sqrt(squares / draws - 1e6), 800, 40);
    }
  }
}

TEST(AnswerLengths, AreAllAlikeWithoutDeviationOrAtTheLongest) {
  model::Random random(1);
  EXPECT_EQ(AnswerLengths(1000, 0, 4000).draw(random), 1000);
  EXPECT_EQ(AnswerLengths(4000, 500, 4000).draw(random), 4000);
  EXPECT_EQ(AnswerLengths(1000, 0, 4000).cut_share(), 0);
  EXPECT_EQ(AnswerLengths(4000, 500, 4000).cut_share(), 1);
}

double one_second(double, double) { return 1; }

// 10 requests of 5 tokens, 4 at once, take three waves of 5 steps, and each waits once for a prompt of 0.5 s.
TEST(Drain, OfEqualLengthsIsInWaves) {
  const Drain drained = drain(std::vector<double>(10, 5), 4, 0.5, 1, one_second);
  EXPECT_DOUBLE_EQ(drained.seconds, 15 + 5);
  EXPECT_DOUBLE_EQ(drain(std::vector<double>(10, 6), 4, 0, 2, one_second).seconds, 9);  // two tokens a step
  EXPECT_DOUBLE_EQ(drain({}, 4, 1, 1, one_second).seconds, 0);
}

// A short request makes place for the next one: lengths 2, 10, 3, 5 on two places end at 2, 10, 5 and 10.
TEST(Drain, StartsARequestWhenOneEnds) { EXPECT_DOUBLE_EQ(drain({2, 10, 3, 5}, 2, 0, 1, one_second).seconds, 10); }

// The batch drains: ten at once, whose steps take as many seconds, then nine, and so on: 10 + 9 + ... + 1. After 9 of
// the ten have ended, the last one step is left.
TEST(Drain, StepsAreThoseOfTheRequestsThatAreLeft) {
  std::vector<double> lengths(10);
  std::iota(lengths.begin(), lengths.end(), 1);
  const auto by_batch = [](double batch, double) { return batch; };
  const Drain drained = drain(lengths, 100, 0, 1, by_batch);
  EXPECT_DOUBLE_EQ(drained.seconds, 55);
  EXPECT_DOUBLE_EQ(drained.nine_tenths, 54);
}

// Steps that take as many seconds as a request has tokens: of one with n tokens the sum is n^2 / 2. The second one
// begins at 0 again.
TEST(Drain, CountsTheTokensThatEachRequestHas) {
  const auto by_tokens = [](double, double answered) { return answered; };
  EXPECT_DOUBLE_EQ(drain({6, 4}, 1, 0, 1, by_tokens).seconds, 18 + 8);
  EXPECT_DOUBLE_EQ(drain({6, 6}, 2, 0, 1, by_tokens).seconds, 18);
}

struct Predicted {
  Inputs inputs;
  model::StepResult update;
  model::RolloutResult rollout;

  double part(const std::string& name) const {
    const auto found = std::ranges::find(rollout.parts, name, &model::RolloutPart::name);
    return found == rollout.parts.end() ? 0 : found->seconds;
  }
};

// With `rewarded` a model of the policy's size rewards the answers.
model::Result<Predicted> predicted_or_refused(const std::vector<std::string>& overrides, bool rewarded = false) {
  Inputs inputs = tests::rollout_inputs(overrides);
  if (rewarded) inputs.reward = std::make_shared<const model::Architecture>(inputs.architecture);
  auto simulation = TRY(simulate(inputs, Fidelity::closed_form, false));
  auto rollout = TRY(predict_rollout(inputs, simulation.result));
  return Predicted{std::move(inputs), std::move(simulation.result), std::move(rollout)};
}

Predicted predicted(const std::vector<std::string>& overrides = {}, bool rewarded = false) {
  auto found = predicted_or_refused(overrides, rewarded);
  EXPECT_TRUE(found) << to_string(found.error());
  return std::move(found.value());
}

double sum_of(const model::RolloutResult& rollout, const std::string& pool = "") {
  double sum = 0;
  for (const model::RolloutPart& part : rollout.parts)
    if (pool.empty() || part.pool == pool) sum += part.seconds;
  return sum;
}

const std::vector<std::string> on_two_pools = {"rollout.placement=split", "rollout.gpus=16"};
const std::vector<std::string> at_once = {"rollout.placement=asynchronous", "rollout.gpus=16"};

TEST(Rollout, PartsFollowEachOtherUnlessTheyAreAsynchronous) {
  for (const auto& overrides : {std::vector<std::string>(), on_two_pools}) {
    const Predicted p = predicted(overrides);
    EXPECT_NEAR(p.rollout.step_s, sum_of(p.rollout), 1e-9);
    EXPECT_GT(p.part("generation"), 0);
    EXPECT_GT(p.part("weights to the engines"), 0);
    EXPECT_GT(p.rollout.tail_s, 0);
    EXPECT_LT(p.rollout.tail_s, p.part("generation"));
  }
  const Predicted p = predicted(at_once);
  EXPECT_NEAR(p.rollout.step_s,
              sum_of(p.rollout, "all") + std::max(sum_of(p.rollout, "engines"), sum_of(p.rollout, "training")), 1e-9);
}

// The policy is trained on the samples' tokens alone: 512 samples of 2,000 tokens in two updates of 64 sequences of
// 8,192 tokens (62.5, rounded up to 16 ranks) fill 62.5 / 64 of what is not the optimizer.
TEST(Rollout, TrainsAsManyUpdatesAsItsEpochsHave) {
  const Predicted once = predicted(), twice = predicted({"rollout.epochs=2"});
  const double optimizer = once.update.step.optimizer_s.value();
  const double filled = optimizer + 62.5 / 64 * (once.update.step.time_s - optimizer);
  EXPECT_EQ(once.inputs.plan.batch.global_batch_size, 64);
  EXPECT_NEAR(once.part("training of the policy"), 2 * filled, 1e-9);
  EXPECT_NEAR(twice.part("training of the policy"), 4 * filled, 1e-9);
  EXPECT_EQ(twice.rollout.updates, 4);
  EXPECT_NEAR(twice.part("generation"), once.part("generation"), 1e-12);
}

// A forward pass computes a third of the FLOPs of a step, or a quarter with recomputation.
TEST(Rollout, PassesAreThoseOfTheAlgorithm) {
  const Predicted grpo = predicted(), ppo = predicted({"rollout.algorithm=ppo"});
  const Predicted dapo = predicted({"rollout.algorithm=dapo", "rollout.oversampling=1"});
  const double forward = grpo.part("old log-probabilities");
  EXPECT_GT(forward, 0.15 * grpo.part("training of the policy"));
  EXPECT_LT(forward, 0.35 * grpo.part("training of the policy"));
  EXPECT_EQ(grpo.part("reference log-probabilities"), forward);
  EXPECT_EQ(grpo.part("training of the critic"), 0);
  EXPECT_EQ(ppo.part("values of the critic"), forward);
  EXPECT_EQ(ppo.part("training of the critic"), ppo.part("training of the policy"));
  EXPECT_EQ(dapo.part("reference log-probabilities"), 0);
  EXPECT_EQ(predicted({"rollout.old_log_probs=false"}).part("old log-probabilities"), 0);
}

TEST(Rollout, MorePromptsThanAreTrainedOnAreOnlyGenerated) {
  const Predicted one = predicted(), three = predicted({"rollout.oversampling=3"});
  EXPECT_GT(three.part("generation"), one.part("generation"));
  EXPECT_EQ(three.part("training of the policy"), one.part("training of the policy"));
  EXPECT_NEAR(three.rollout.tokens_per_s * three.rollout.step_s, 64 * 8 * 2000, 1e-3);
}

// Lengths that vary have a tail; the same mean without one is generated faster.
TEST(Rollout, TheLongestAnswerSetsTheEndOfTheGeneration) {
  const Predicted varied = predicted(), alike = predicted({"rollout.answer_tokens_sd=0"});
  EXPECT_LT(alike.part("generation"), varied.part("generation"));
  EXPECT_NEAR(alike.rollout.longest_tokens, 1500, 1e-9);
  EXPECT_EQ(varied.rollout.longest_tokens, 6000);
  EXPECT_GT(varied.rollout.engines_idle, alike.rollout.engines_idle);
}

// Answers of several steps in flight hide the tails of each.
TEST(Rollout, StalenessHidesTheTail) {
  double longer = predicted(at_once).part("generation");
  for (const char* staleness : {"2", "4"}) {
    auto overrides = at_once;
    overrides.push_back(std::string("rollout.staleness=") + staleness);
    const double seconds = predicted(overrides).part("generation");
    EXPECT_LT(seconds, longer) << staleness;
    longer = seconds;
  }
}

TEST(Rollout, TwoPoolsWaitForEachOther) {
  const Predicted one = predicted(), split = predicted(on_two_pools);
  EXPECT_EQ(split.rollout.gpus, 32);
  EXPECT_EQ(split.part("states to the host and back"), 0);
  EXPECT_EQ(split.part("generation"), one.part("generation"));
  EXPECT_GT(split.part("weights to the engines"), one.part("weights to the engines"));
  const double step = split.rollout.step_s;
  EXPECT_NEAR(split.rollout.training_idle, split.part("generation") / step, 1e-9);
  EXPECT_GT(split.rollout.engines_idle, sum_of(split.rollout, "training") / step);
}

// A rule on as many answers as GPUs at once; a model of the policy's size as long as its log-probabilities, over all
// prompts that are answered.
TEST(Rollout, RewardsTakeTheirTime) {
  const Predicted p = predicted({"rollout.oversampling=2"}, true);
  EXPECT_NEAR(p.part("reward model"), 2 * p.part("old log-probabilities"), 1e-9);
  EXPECT_NEAR(predicted({"rollout.reward_s=0.25"}).part("rewards by rule"), 0.25 * 512 / 16, 1e-9);
}

// Both halves fit on a GPU one after another; what is not put into the host's memory leaves less to the engine.
TEST(Rollout, ColocatedHalvesShareTheMemory) {
  const Predicted away = predicted(), here = predicted({"rollout.offload=false"});
  EXPECT_TRUE(away.rollout.memory.fits);
  EXPECT_GT(away.rollout.memory.training_bytes, model::fullest_rank(away.update.memory)->least_bytes());
  EXPECT_GT(away.rollout.memory.host_bytes, 0);
  EXPECT_GT(away.part("states to the host and back"), 0);
  EXPECT_EQ(here.part("states to the host and back"), 0);
  EXPECT_LT(here.rollout.requests_at_once, away.rollout.requests_at_once);
  EXPECT_LE(here.rollout.memory.generation_bytes, here.rollout.memory.capacity_bytes);
  EXPECT_GT(predicted({"rollout.algorithm=ppo", "rollout.offload=false"}).rollout.memory.training_bytes,
            here.rollout.memory.training_bytes);
}

// Models that nothing changes have parameters alone, on each of the eight GPUs of a host. Next to adapters the
// reference model is the policy without them.
TEST(Rollout, HoldsTheModelsThatItRuns) {
  const auto on_host = [](const std::vector<std::string>& overrides, bool rewarded = false) {
    return predicted(overrides, rewarded).rollout.memory.host_bytes;
  };
  const Predicted policy = predicted();
  const model::RankMemory& rank = policy.update.memory.ranks.at(0);
  const double parameters = 8 * (rank.parameters_bytes - rank.gathered_bytes);
  EXPECT_GT(rank.gathered_bytes, 0) << "is there once, whichever model computes";
  const double plain = on_host({"rollout.reference=false"});
  EXPECT_NEAR(on_host({}) - plain, parameters, 1);
  EXPECT_NEAR(on_host({"rollout.reference=false"}, true) - plain, parameters, 1);
  EXPECT_EQ(on_host({"training.method=lora"}), on_host({"training.method=lora", "rollout.reference=false"}));
}

TEST(Rollout, RefusesEnginesThatCannotBe) {
  const auto refused = [](const std::vector<std::string>& overrides) {
    const auto found = predicted_or_refused(overrides);
    EXPECT_FALSE(found);
    return found ? model::Error{} : found.error();
  };
  EXPECT_EQ(refused({"rollout.placement=split", "rollout.gpus=12", "rollout.tensor=8"}).key, "rollout.gpus");
  EXPECT_EQ(refused({"rollout.tensor=3"}).key, "rollout.tensor");
  const model::Error longest =
      refused({"rollout.max_answer_tokens=600000", "batch.sequence_length=700000", "rollout.answer_tokens=1500"});
  EXPECT_EQ(longest.key, "rollout.max_answer_tokens") << to_string(longest);
}

// Updates that take twice as long in the middle make the step as much longer as their share of it is.
TEST(Rollout, TheIntervalHasWhatIsLeftOfBothHalves) {
  const auto interval_with = [](std::optional<Left> steps, std::optional<Left> decode) {
    Predicted p = predicted();
    Inputs engines = *p.inputs.engines;
    engines.left = decode;
    p.inputs.engines = std::make_shared<const Inputs>(std::move(engines));
    p.inputs.left = steps;
    p.update.rollout = p.rollout;
    const auto update = draw_interval(p.inputs, p.update, {.draws = 16, .parts = false});
    EXPECT_TRUE(add_rollout_interval(p.inputs, p.update, update->draws, {.draws = 16}));
    return *p.update.rollout->interval_s;
  };
  const Predicted p = predicted();
  const model::Quantiles plain = interval_with(std::nullopt, std::nullopt);
  EXPECT_LT(plain.p10, plain.p50);
  EXPECT_LT(plain.p50, plain.p90);
  EXPECT_NEAR(plain.p50, p.rollout.step_s, 0.15 * p.rollout.step_s);
  const Left doubled{.location = std::log(2)};
  EXPECT_NEAR(interval_with(doubled, std::nullopt).p50 - plain.p50, sum_of(p.rollout, "training"),
              0.15 * p.rollout.step_s);
  EXPECT_NEAR(interval_with(std::nullopt, doubled).p50 - plain.p50, sum_of(p.rollout, "engines"),
              0.15 * p.rollout.step_s);
  EXPECT_GT(interval_with(Left{.own = 0.3}, std::nullopt).half_width(), plain.half_width());
}

TEST(Rollout, IsWithoutAnIntervalWhereItsDrawsAreStopped) {
  Predicted p = predicted();
  p.update.rollout = p.rollout;
  const auto update = draw_interval(p.inputs, p.update, {.draws = 16, .parts = false});
  EXPECT_TRUE(add_rollout_interval(p.inputs, p.update, update->draws,
                                   {.draws = 16, .watch = {.stopped = [] { return true; }}}));
  EXPECT_FALSE(p.update.rollout->interval_s);
}

TEST(Rollout, ARunIsItsSteps) {
  const Predicted p = predicted({"rollout.steps=100"});
  ASSERT_TRUE(p.rollout.run);
  EXPECT_NEAR(p.rollout.run->days, 100 * p.rollout.step_s / 86400, 1e-9);
  EXPECT_NEAR(p.rollout.run->gpu_hours, 100 * p.rollout.step_s * 16 / 3600, 1e-6);
  ASSERT_TRUE(p.rollout.step_usd);
  EXPECT_NEAR(*p.rollout.run->cost_usd, 100 * *p.rollout.step_usd, 1e-6);
  EXPECT_FALSE(predicted().rollout.run);
  const Predicted lost = predicted({"rollout.steps=100", "run.goodput=0.5"});
  EXPECT_NEAR(lost.rollout.run->days, 2 * p.rollout.run->days, 1e-9);
  EXPECT_NEAR(*lost.rollout.run->cost_usd, 2 * *p.rollout.run->cost_usd, 1e-6);
}

// A point is the step of simulate; one whose engines cannot be has their error.
TEST(Rollout, IsAPointOfASweep) {
  const auto inputs = [](std::size_t point) {
    return model::Result<Inputs>(tests::rollout_inputs({point == 0 ? "rollout.tensor=2" : "rollout.tensor=3"}));
  };
  const auto points = sweep(2, inputs, {.fidelity = Fidelity::closed_form, .threads = 1}).value();
  ASSERT_TRUE(points[0]->result.rollout);
  const double alone = predicted({"rollout.tensor=2"}).rollout.step_s;
  EXPECT_NEAR(points[0]->result.rollout->step_s, alone, 1e-9 * alone);
  ASSERT_FALSE(points[1]);
  EXPECT_EQ(points[1].error().key, "rollout.tensor");
  EXPECT_NE(bytes_of(tests::rollout_inputs({})), bytes_of(tests::rollout_inputs({"rollout.tensor=2"})));
  Inputs rewarded = tests::rollout_inputs({});
  rewarded.reward = std::make_shared<const model::Architecture>(rewarded.architecture);
  EXPECT_NE(bytes_of(rewarded), bytes_of(tests::rollout_inputs({}))) << "results are kept by these";
}

// The update is there, with its memory.
TEST(Rollout, StatesWhyEnginesCannotBe) {
  const Inputs inputs = tests::rollout_inputs({"rollout.tensor=3"});
  model::StepResult update = simulate(inputs, Fidelity::closed_form, false)->result;
  ASSERT_TRUE(add_rollout(inputs, update, std::nullopt, {}));
  EXPECT_FALSE(update.rollout);
  ASSERT_TRUE(update.rollout_error);
  EXPECT_EQ(update.rollout_error->key, "rollout.tensor");
  EXPECT_FALSE(update.memory.ranks.empty());
}

// Degrees that are quickly searched, and a run.
const std::vector<std::string> searched = {
    "cluster.gpus=32",       "search.tensor=[1,2]",           "search.pipeline=[1]",         "search.context=[1]",
    "search.zero_stage=[3]", "search.micro_batch_size=[1,2]", "search.recompute=[\"full\"]", "rollout.steps=100"};

struct Asked {
  RolloutAnswer answer;
  model::Result<void> searched;
};

Asked divided_gpus(std::vector<std::string> overrides = {}, std::int64_t gpus = 32, const Watch& watch = {}) {
  Asked asked;
  ClusterOption option;
  overrides.insert(overrides.begin(), searched.begin(), searched.end());
  option.inputs = tests::rollout_inputs(overrides);
  const Inputs given = option.inputs;
  asked.answer.options.push_back(std::move(option));
  const auto load = [&given](const model::Plan& plan) -> model::Result<Inputs> {
    Inputs own = given;
    own.plan = plan;
    return tests::with_engines(std::move(own));
  };
  asked.searched = search_splits(asked.answer, 0, gpus, load, load, {}, watch);
  rank(asked.answer);
  return asked;
}

// The answer to the question as it is.
const Asked& asked_plainly() {
  static const Asked asked = divided_gpus();
  return asked;
}

// Three shares of four nodes, each with both placements, and all GPUs for both halves.
TEST(RolloutSearch, DividesWholeNodes) {
  const Asked& asked = asked_plainly();
  ASSERT_TRUE(asked.searched) << to_string(asked.searched.error());
  ASSERT_EQ(asked.answer.splits.size(), 7u);
  double before = 0;
  for (const RolloutSplit& split : asked.answer.splits) {
    ASSERT_TRUE(split.best) << split.placement << ' ' << split.engine_gpus << ": " << split.refusal;
    EXPECT_EQ(split.engine_gpus % 8, 0);
    EXPECT_EQ(split.best->plan.cluster.gpus, split.training_gpus);
    if (split.placement != "colocated") {
      EXPECT_EQ(split.training_gpus + split.engine_gpus, 32);
    }
    EXPECT_GE(split.best->cost.step_s, before);
    before = split.best->cost.step_s;
  }
}

// The step of a found plan is that of the plan by itself, and the batch is that of its data-parallel ranks.
TEST(RolloutSearch, FindsPlansThatArePredictedAlike) {
  const Asked& asked = asked_plainly();
  ASSERT_TRUE(asked.answer.found());
  for (const RolloutSplit& split : asked.answer.splits) {
    model::Plan plan = split.best->plan;
    EXPECT_EQ(static_cast<double>(plan.batch.global_batch_size), model::step_sequences(plan));
    ASSERT_TRUE(model::complete_rollout(plan)) << split.placement;
    Inputs own = asked.answer.options.front().inputs;
    own.plan = plan;
    own = tests::with_engines(std::move(own));
    const auto simulated = simulate_top_plans(own, {plan});
    ASSERT_TRUE(simulated.front());
    const auto rollout = predict_rollout(own, simulated.front()->result);
    ASSERT_TRUE(rollout) << to_string(rollout.error());
    EXPECT_NEAR(rollout->step_s, split.best->result.rollout->step_s, 1e-9 * rollout->step_s);
    EXPECT_EQ(split.best->cost.step_s, split.best->result.rollout->interval_s->p50) << "splits are in this order";
  }
}

// Its interval, too: what is left of an engine is drawn for the deployment, whatever was searched and is trained.
TEST(RolloutSearch, FindsPlansWhoseIntervalsAreDrawnAlike) {
  std::vector<std::string> overrides = searched;
  overrides.emplace_back("rollout.placement=colocated");
  const auto loaded = [](Inputs inputs) {
    inputs = tests::with_engines(std::move(inputs));
    Inputs engines = *inputs.engines;
    engines.left = Left{.own = 0.3};
    inputs.engines = std::make_shared<const Inputs>(std::move(engines));
    return inputs;
  };
  RolloutAnswer answer;
  ClusterOption& option = answer.options.emplace_back();
  option.inputs = loaded(tests::rollout_inputs(overrides));
  const Inputs given = option.inputs;
  const auto load = [&](const model::Plan& plan) -> model::Result<Inputs> {
    Inputs own = given;
    own.plan = plan;
    return loaded(std::move(own));
  };
  ASSERT_TRUE(search_splits(answer, 0, 32, load, load, {}, {}));
  rank(answer);
  ASSERT_TRUE(answer.found());
  const RankedPlan& best = *answer.splits.front().best;
  const Inputs own = load(best.plan).value();
  model::StepResult update = best.result;
  update.rollout.reset();
  const IntervalOptions options{.parts = false};
  const auto drawn = draw_interval(own, update, options);
  ASSERT_TRUE(drawn);
  ASSERT_TRUE(add_rollout(own, update, drawn->draws, options));
  EXPECT_EQ(update.rollout->step_s, best.result.rollout->step_s);
  EXPECT_EQ(*update.rollout->interval_s, *best.result.rollout->interval_s);
}

// Halves that wait for each other take longer than halves at once on the same GPUs.
TEST(RolloutSearch, AtOnceIsFasterThanOneAfterTheOther) {
  const Asked& asked = asked_plainly();
  const auto step = [&](const std::string& placement, std::int64_t engine_gpus) {
    for (const RolloutSplit& split : asked.answer.splits)
      if (split.placement == placement && split.engine_gpus == engine_gpus) return split.best->cost.step_s;
    return 0.0;
  };
  for (const std::int64_t engine_gpus : {8, 16, 24})
    EXPECT_LT(step("asynchronous", engine_gpus), step("split", engine_gpus));
}

TEST(RolloutSearch, KeepsWhatIsSet) {
  const Asked asked = divided_gpus({"rollout.placement=asynchronous", "rollout.gpus=16", "rollout.tensor=4",
                                    "rollout.staleness=2", "cluster.gpus=16"});
  ASSERT_EQ(asked.answer.splits.size(), 1u);
  const RolloutSplit& split = asked.answer.splits.front();
  ASSERT_TRUE(split.best) << split.refusal;
  EXPECT_EQ(split.placement, "asynchronous");
  EXPECT_EQ(split.engine_gpus, 16);
  EXPECT_EQ(split.best->plan.rollout.tensor, 4);
  EXPECT_EQ(split.best->plan.rollout.staleness, 2);
}

TEST(RolloutSearch, PutsWhatExceedsALimitLast) {
  RolloutAnswer answer = asked_plainly().answer;
  const double dearest = *answer.splits.back().best->cost.usd, cheapest = *answer.splits.front().best->cost.usd;
  ASSERT_LT(cheapest, dearest);
  answer.objective = Objective::cost;
  answer.limits.usd = (cheapest + dearest) / 2;
  rank(answer);
  EXPECT_TRUE(within(answer.splits.front().best->cost, answer.limits));
  EXPECT_FALSE(within(answer.splits.back().best->cost, answer.limits));
}

TEST(RolloutSearch, StatesWhyASplitHasNoPlan) {
  const Asked asked = divided_gpus({"rollout.tensor=3"});
  ASSERT_TRUE(asked.searched);
  for (const RolloutSplit& split : asked.answer.splits) {
    EXPECT_FALSE(split.best);
    EXPECT_FALSE(split.refusal.empty());
  }
  EXPECT_FALSE(asked.answer.found());
}

TEST(RolloutSearch, StatesThatNoGpuTrains) {
  const Asked asked = divided_gpus({"rollout.placement=split", "rollout.gpus=32"});
  ASSERT_TRUE(asked.searched) << to_string(asked.searched.error());
  ASSERT_EQ(asked.answer.splits.size(), 1u);
  EXPECT_EQ(asked.answer.splits.front().refusal, "rollout.gpus = 32 leaves none of 32 GPUs to the training");
}

TEST(RolloutSearch, EndsWhenItIsStopped) {
  const Asked asked = divided_gpus({}, 32, {[] { return true; }});
  EXPECT_FALSE(asked.answer.complete);
  EXPECT_TRUE(asked.answer.splits.empty());
  std::atomic<int> calls = 0;
  const auto later_on = [&] { return ++calls > 1; };  // while the updates of the first split are searched
  const Asked later = divided_gpus({}, 32, {later_on});
  EXPECT_FALSE(later.answer.complete);
  EXPECT_TRUE(later.answer.splits.empty()) << "no split is refused for want of time";
}

// The search of the only split is stopped: that it found no plan is no reason why there is none.
TEST(RolloutSearch, ASplitThatIsStoppedIsNotRefused) {
  std::atomic<int> asked_before = 0;
  const Asked asked = divided_gpus({"rollout.placement=colocated"}, 32, {[&] { return asked_before++ > 0; }});
  ASSERT_TRUE(asked.searched) << to_string(asked.searched.error());
  EXPECT_FALSE(asked.answer.complete);
  EXPECT_TRUE(asked.answer.splits.empty());
}

}  // namespace
}  // namespace plumbline::sim
