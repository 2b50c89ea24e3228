#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/interval/interval.h"
#include "sim/serving/pool_model.h"
#include "sim/serving/serving.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

// Eight H100 that serve an 8 B model with four times as many requests as a GPU each, by an engine.
Inputs serving_inputs(const std::string& engine, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all = {"cluster.topology=h100-dgx",  "cluster.gpus=8",         "parallelism.pipeline=1",
                                  "inference.engine=" + engine, "inference.weights=bf16", "inference.concurrency=32"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  Inputs inputs = tests::step_inputs(tests::llama_plan, "h100", all);
  const std::string stacks = tests::frozen("stacks");
  inputs.profile =
      model::with_stack(inputs.profile, model::load_stack(stacks + "/" + engine + ".toml", stacks, "").value());
  return inputs;
}

model::ServingInterval interval(const Inputs& inputs, const IntervalOptions& options = {.draws = serving_draws}) {
  const auto result = ServingPredictor(inputs).predict(inputs.plan);
  EXPECT_TRUE(result) << to_string(result.error());
  const auto found = serving_interval_of(inputs, *result, options);
  EXPECT_TRUE(found) << to_string(found.error());
  return *found;
}

// 60 GB of weights, 4 of libraries, and 1 GB for a request. One standard deviation of the libraries is half
// as much again: with two GB to spare they fit in all cases below it.
TEST(ServingFit, IsThatOfARequestInTheShareOfTheEngine) {
  const Inputs inputs = serving_inputs("generic");
  const double context = mean_request(inputs.plan).context;
  model::ServingPool pool;
  pool.weights_bytes = 60e9;
  pool.reserve_bytes = 4e9;
  const auto fits = [&](double usable) {
    pool.kv_bytes = usable - 64e9;
    pool.kv_capacity_tokens = pool.kv_bytes / 1e9 * context;
    model::ServingResult result;
    result.pools = {pool};
    add_fit(inputs, result);
    return result.fits_probability.value();
  };
  EXPECT_NEAR(fits(67e9), 0.8413, 0.02);
  EXPECT_NEAR(fits(65e9), 0.5, 0.02);
  EXPECT_EQ(fits(90e9), 1);
  EXPECT_EQ(fits(60e9), 0);
}

double share_of(const model::ServingInterval& interval, const std::string& source) {
  const auto part = std::ranges::find(interval.parts, source, &model::IntervalPart::source);
  return part == interval.parts.end() ? 0 : part->share;
}

TEST(ServingInterval, IsTheSameForAnyNumberOfThreads) {
  const Inputs inputs = serving_inputs("vllm");
  const model::ServingInterval one = interval(inputs, {.draws = 32, .threads = 1});
  const model::ServingInterval three = interval(inputs, {.draws = 32, .threads = 3});
  EXPECT_EQ(one.tpot_s, three.tpot_s);
  EXPECT_EQ(one.usd_per_million_output_tokens, three.usd_per_million_output_tokens);
}

TEST(ServingInterval, HoldsTheAnswerAndGoesWithItsPrice) {
  const Inputs inputs = serving_inputs("vllm");
  const auto result = ServingPredictor(inputs).predict(inputs.plan).value();
  const model::ServingInterval found = interval(inputs);
  EXPECT_TRUE(found.tpot_s->contains(result.tpot_s));
  EXPECT_TRUE(found.output_tokens_per_s_per_gpu->contains(result.output_tokens_per_s_per_gpu));
  EXPECT_TRUE(found.usd_per_million_output_tokens->contains(*result.usd_per_million_output_tokens));
}

TEST(ServingInterval, KeepsTheDeploymentWhereItIsStopped) {
  const Inputs inputs = serving_inputs("vllm");
  bool kept = false;  // before a draw is begun
  const Watch watch{[] { return true; }, [&](std::size_t, std::size_t) { kept = true; }};
  const auto result = predict_serving_within(inputs, 0.5, {.draws = serving_draws, .watch = watch});
  ASSERT_TRUE(result);
  EXPECT_TRUE(kept);
  EXPECT_FALSE(result->interval);
}

// Eight of ten lie within exp(1.28 * 0.5) of the middle, where what is left has deviations of 0.3 and 0.4.
TEST(ServingInterval, WhatIsLeftWidensItAndMovesNoMiddle) {
  Inputs inputs = serving_inputs("vllm");
  const model::ServingInterval narrow = interval(inputs);
  inputs.left = inputs.rate_left = Left{.common = 0.3, .own = 0.4};
  inputs.ttft_left = Left{.own = 1};
  const model::ServingInterval wide = interval(inputs);
  EXPECT_NEAR(wide.tpot_s->p50 / narrow.tpot_s->p50, 1, 0.05);
  EXPECT_NEAR(wide.ttft_s->p50 / narrow.ttft_s->p50, 1, 0.05);
  EXPECT_GT(wide.tpot_s->p90 / wide.tpot_s->p10, std::exp(2 * model::normal_p90 * 0.5));
  EXPECT_GT(wide.output_tokens_per_s_per_gpu->p90 / wide.output_tokens_per_s_per_gpu->p10,
            std::exp(2 * model::normal_p90 * 0.5));
  EXPECT_GT(wide.ttft_s->p90 / wide.ttft_s->p50, 0.95 * std::exp(model::normal_p90));
  EXPECT_GT(share_of(wide, "what is left"), 0.5);
  EXPECT_EQ(share_of(narrow, "what is left"), 0);
  const model::ServingInterval known = interval(inputs, {.draws = serving_draws, .without = {"what is left"}});
  EXPECT_EQ(*known.tpot_s, *narrow.tpot_s);
  EXPECT_EQ(*known.ttft_s, *narrow.ttft_s);
}

// What is left of the time to the first token lengthens and shortens it, but no token is there before its own pass.
TEST(ServingInterval, FirstTokensComeAfterTheirOwnPass) {
  Inputs inputs = serving_inputs("vllm");
  inputs.ttft_left = Left{.own = 1};
  const model::ServingInterval wide = interval(inputs);
  EXPECT_GE(wide.ttft_s->p10, wide.ttft_unloaded_s->p10);
  EXPECT_GE(wide.ttft_s->p50, wide.ttft_unloaded_s->p50);
  EXPECT_GT(wide.ttft_s->p90, 2 * wide.ttft_unloaded_s->p90);
  const auto result = ServingPredictor(inputs).predict(inputs.plan).value();
  const auto probability = [&](double most) {
    inputs.plan.inference.max_ttft_s = most;
    const IntervalOptions options{.draws = serving_draws, .parts = false};
    return serving_interval_of(inputs, result, options).value().limits_probability.value();
  };
  EXPECT_EQ(probability(wide.ttft_unloaded_s->p10 / 2), 0);
  EXPECT_NEAR(probability(wide.ttft_s->p90), 0.9, 1e-6);
}

// Tokens per second times the time per token is the number of requests that decode.
TEST(ServingInterval, NoMoreRequestsDecodeThanAreInFlight) {
  Inputs inputs = serving_inputs("vllm");
  const auto result = ServingPredictor(inputs).predict(inputs.plan).value();
  const double gpus = result.output_tokens_per_s / result.output_tokens_per_s_per_gpu;
  const auto in_flight = [&](double rate, double tpot) { return rate * gpus * tpot; };
  for (const auto& [tpot, rate] : {std::pair(0.5, 0.1), {0.1, 0.5}}) {
    inputs.left = Left{.own = tpot};
    inputs.rate_left = Left{.own = rate};
    const DrawnServing drawn = draw_serving_interval(inputs, result, {.draws = serving_draws, .parts = false}).value();
    const model::Quantiles &rates = *drawn.interval.output_tokens_per_s_per_gpu, &tpots = *drawn.interval.tpot_s;
    EXPECT_LE(in_flight(rates.p10, tpots.p90), 1.01 * result.concurrency);
    EXPECT_LE(in_flight(rates.p90, tpots.p10), 1.01 * result.concurrency);
    for (std::size_t i = 0; i < drawn.rate_ratio.size(); ++i)
      EXPECT_LE(
          in_flight(result.output_tokens_per_s_per_gpu * drawn.rate_ratio[i], result.tpot_s * drawn.tpot_ratio[i]),
          result.concurrency * (1 + 1e-9));
  }
}

// Limits hold in a share of the draws, which have what is left: tokens that are slow have a low rate in the same draw.
TEST(ServingInterval, DrawsHaveWhatIsLeft) {
  Inputs inputs = serving_inputs("vllm");
  const auto result = ServingPredictor(inputs).predict(inputs.plan).value();
  const IntervalOptions options{.draws = serving_draws, .parts = false};
  const DrawnServing narrow = draw_serving_interval(inputs, result, options).value();
  inputs.left = inputs.rate_left = Left{.common = 0.5};
  const DrawnServing wide = draw_serving_interval(inputs, result, options).value();
  EXPECT_EQ(wide.drawn.tpot, narrow.drawn.tpot);
  const double high = model::quantile_of(wide.tpot_ratio, 0.9);
  EXPECT_GT(high, 1.2 * model::quantile_of(narrow.tpot_ratio, 0.9));
  EXPECT_NEAR(std::log(high), std::log(wide.interval.tpot_s->p90 / result.tpot_s), 0.15);
  EXPECT_EQ(wide.ttft.ratio, narrow.ttft.ratio);
  for (std::size_t i = 0; i < wide.tpot_ratio.size(); ++i)
    EXPECT_NEAR(wide.tpot_ratio[i] * wide.rate_ratio[i], narrow.tpot_ratio[i] * narrow.rate_ratio[i], 1e-9);
}

// The largest batch that keeps a limit in so many of the draws; more certainty leaves fewer requests.
TEST(ServingInterval, LimitsHoldInAShareOfTheDraws) {
  const Inputs inputs = serving_inputs("vllm", {"inference.concurrency=0", "inference.max_tpot_s=0.02"});
  const IntervalOptions options{.draws = 64};
  const auto half = predict_serving_within(inputs, 0.5, options), most = predict_serving_within(inputs, 0.9, options);
  ASSERT_TRUE(half) << to_string(half.error());
  ASSERT_TRUE(most) << to_string(most.error());
  EXPECT_NEAR(*half->interval->limits_probability, 0.5, 0.1);
  EXPECT_NEAR(*most->interval->limits_probability, 0.9, 0.06);
  EXPECT_LT(most->concurrency, half->concurrency);
  EXPECT_NEAR(half->interval->tpot_s->p50, 0.02, 0.001);
  EXPECT_NEAR(most->interval->tpot_s->p90, 0.02, 0.001);
  EXPECT_LE(most->interval->tpot_s->p90, 0.02 * (1 + 1e-9));
  EXPECT_FALSE(interval(serving_inputs("vllm"), options).limits_probability);
}

// How wide draws are depends on the requests in flight: of those that keep a limit the most are taken, not those that
// the first margin leaves. A quarter more of them would not keep it.
TEST(ServingInterval, AMarginIsThatOfTheRequestsThatItLeaves) {
  Inputs inputs = serving_inputs("vllm", {"inference.concurrency=0", "inference.max_tpot_s=0.02"});
  const IntervalOptions options{.draws = 64, .parts = false};
  const auto within = [&](double confidence) {
    return serving_within(inputs, ServingPredictor(inputs), confidence, options).value().predict(inputs.plan).value();
  };
  const auto share = [&](model::ServingResult result, double requests) {
    Inputs stated = inputs;
    stated.plan.inference.concurrency = static_cast<std::int64_t>(requests);
    result = ServingPredictor(stated).predict(stated.plan).value();
    return *serving_interval_of(stated, result, options)->limits_probability;
  };
  for (const double confidence : {0.5, 0.8, 0.95}) {
    const model::ServingResult found = within(confidence);
    EXPECT_GE(share(found, found.concurrency), confidence * (1 - 1e-6));
    EXPECT_LT(share(found, 1.25 * found.concurrency), confidence);
  }
}

// A limit that nearly all cases keep takes no requests from another one.
TEST(ServingInterval, OnlyALimitThatBindsCostsRequests) {
  const auto requests = [](const std::vector<std::string>& limits) {
    std::vector<std::string> overrides = {"inference.concurrency=0"};
    overrides.insert(overrides.end(), limits.begin(), limits.end());
    Inputs inputs = serving_inputs("vllm", overrides);
    inputs.ttft_left = Left{.own = 1};
    return predict_serving_within(inputs, 0.9, {.draws = 64, .parts = false}).value();
  };
  const auto one = requests({"inference.max_tpot_s=0.02"});
  const auto both = requests({"inference.max_tpot_s=0.02", "inference.max_ttft_s=60"});
  EXPECT_NEAR(both.concurrency / one.concurrency, 1, 0.02);
  EXPECT_GE(*both.interval->limits_probability, 0.9 - 1e-6);
}

// A limit that one request keeps as its components add up, but not in nine of ten draws.
TEST(ServingInterval, LimitsThatNoRequestKeepsInItsDrawsAreRefused) {
  const Inputs alone = serving_inputs("vllm", {"inference.concurrency=1"});
  const double tpot = ServingPredictor(alone).predict(alone.plan).value().tpot_s;
  const Inputs inputs =
      serving_inputs("vllm", {"inference.concurrency=0", "inference.max_tpot_s=" + std::to_string(1.001 * tpot)});
  const auto serving = serving_within(inputs, ServingPredictor(inputs), 0.9, {.draws = 32});
  ASSERT_TRUE(serving) << to_string(serving.error());
  EXPECT_GT(serving->margin().tpot, 1.001);
  const auto refused = serving->predict(inputs.plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().key, "inference.max_tpot_s");
}

TEST(ServingInterval, TimesOfADrawKeepTheirLimitsTogether) {
  DrawnServing drawn;
  for (int i = 1; i <= 9; ++i) {
    drawn.tpot.ratio.push_back(i);
    drawn.ttft.ratio.push_back(10 - i);  // the shorter the one, the longer the other
  }
  model::Plan plan;
  plan.inference.max_tpot_s = 1;
  const auto margins = [&](const ServingMargin& slack) { return margins_of(plan, drawn, slack, 0.5); };
  EXPECT_EQ(margins({}).front().tpot, 5);
  EXPECT_EQ(margins({}).front().ttft, 1);
  plan.inference.max_ttft_s = 1;
  const auto within = [&](const ServingMargin& most) {
    int count = 0;
    for (int i = 1; i <= 9; ++i) count += i <= most.tpot && 10 - i <= most.ttft ? 1 : 0;
    return count;
  };
  for (const ServingMargin& margin : margins({})) EXPECT_EQ(within(margin), 5);
  const ServingMargin slack = margins({.ttft = 9, .tpot = 1}).back();
  EXPECT_EQ(slack.ttft, 9);
  EXPECT_NEAR(slack.tpot, 5, 1e-6);
}

// A range of an engine of 15 to 30 % is 12 to 23 % of a standard deviation, and wider than that of a named one.
TEST(ServingInterval, AnEngineWithoutANameIsTheMostUncertain) {
  const model::ServingInterval generic = interval(serving_inputs("generic")), named = interval(serving_inputs("vllm"));
  EXPECT_GT(generic.tpot_s->half_width(), 0.15);
  EXPECT_GT(generic.tpot_s->half_width(), named.tpot_s->half_width());
  EXPECT_GT(share_of(generic, "engine"), share_of(named, "engine"));
  EXPECT_EQ(share_of(interval(serving_inputs("generic"), {.without = {"engine"}}), "engine"), 0);
}

TEST(ServingInterval, TheLoadOfExpertsIsUncertainUnlessStated) {
  const auto qwen = [](const std::string& stated) {
    std::vector<std::string> overrides = {"model.config=models/qwen3-30b-a3b.json", "parallelism.expert=8",
                                          "inference.attention_data=8"};
    if (!stated.empty()) overrides.push_back("inference." + stated);
    return interval(serving_inputs("vllm", overrides));
  };
  EXPECT_GT(share_of(qwen(""), "expert load"), 0);
  EXPECT_EQ(share_of(qwen("expert_imbalance=1.2"), "expert load"), 0);
  EXPECT_EQ(share_of(qwen("expert_skew=0.5"), "expert load"), 0);
}

// A head's first token is accepted in 0.65 to 0.73 of the cases: three tokens yield 2.30 to 2.60 a step, so that the
// time per token is uncertain by some 6 % of that alone.
TEST(ServingInterval, AcceptanceIsUncertainUnlessStated) {
  const auto drafted = [](const std::vector<std::string>& stated) {
    std::vector<std::string> overrides = {"inference.speculative_tokens=3"};
    overrides.insert(overrides.end(), stated.begin(), stated.end());
    return interval(serving_inputs("vllm", overrides));
  };
  EXPECT_GT(share_of(drafted({}), "acceptance"), 0);
  EXPECT_EQ(share_of(drafted({"inference.acceptance=0.7"}), "acceptance"), 0);
  EXPECT_EQ(share_of(interval(serving_inputs("vllm")), "acceptance"), 0);
}

TEST(ServingInterval, ThatIsStoppedLeavesTheDeployment) {
  const Inputs inputs = serving_inputs("generic", {"inference.max_tpot_s=0.1"});
  IntervalOptions options{.draws = 32, .threads = 1, .watch = {.stopped = [] { return true; }}};
  const auto alone = ServingPredictor(inputs).predict(inputs.plan),
             stopped = predict_serving_within(inputs, 0.9, options);
  ASSERT_TRUE(stopped) << to_string(stopped.error());
  EXPECT_EQ(stopped->tpot_s, alone->tpot_s);
  EXPECT_FALSE(stopped->interval);
  std::size_t asked = 0, draws = 0;
  // It is asked before the numbers of each uncertainty, of which there are more than two.
  options.watch = {[&] { return ++asked > 2; }, [&](std::size_t done, std::size_t) { draws = done; }};
  EXPECT_FALSE(predict_serving_within(inputs, 0.9, options)->interval);
  EXPECT_EQ(draws, 0u);
  options.watch = {[&] { return draws >= 20; }, [&](std::size_t done, std::size_t) { draws = done; }};
  const model::ServingInterval some = interval(inputs, options);
  EXPECT_LT(some.tpot_s->p10, some.tpot_s->p90);
  EXPECT_TRUE(some.parts.empty());
}

}  // namespace
}  // namespace plumbline::sim
