#include "real/cuda/kernels/arithmetic/router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "model/base/random.h"
#include "real/cuda/kernels/arithmetic/tokens.h"

namespace plumbline::real::cuda {
namespace {

// The choice of experts by a warp of the GPU, whose lanes are threads here, or by one lane alone, compared with double
// precision.

constexpr int queue_count = 4;
constexpr int held = 4;
constexpr int experts = queue_count * held;

// Lanes run in lockstep where they read each other's values.
class ThreadQueues {
 public:
  struct Shared {
    std::barrier<> barrier{queue_count};
    double numbers[queue_count] = {};
    std::uint64_t keys[queue_count] = {};
  };
  ThreadQueues(Shared& shared, int index) : shared_(&shared), index_(index) {}
  int index() const { return index_; }
  static constexpr int count() { return queue_count; }
  std::uint64_t largest(std::uint64_t key) const {
    shared_->keys[index_] = key;
    shared_->barrier.arrive_and_wait();
    const std::uint64_t most = *std::max_element(shared_->keys, shared_->keys + queue_count);
    shared_->barrier.arrive_and_wait();
    return most;
  }
  float largest(float value) const {
    const std::vector<double> all = gather(value);
    return static_cast<float>(*std::max_element(all.begin(), all.end()));
  }
  float sum(float value) const {
    const std::vector<double> all = gather(value);
    return static_cast<float>(std::accumulate(all.begin(), all.end(), 0.0));
  }
  template <class Value>
  Value from(Value value, int queue) const {
    return static_cast<Value>(gather(value)[static_cast<std::size_t>(queue)]);
  }

 private:
  std::vector<double> gather(double value) const {
    shared_->numbers[index_] = value;
    shared_->barrier.arrive_and_wait();
    std::vector<double> all(shared_->numbers, shared_->numbers + queue_count);
    shared_->barrier.arrive_and_wait();
    return all;
  }
  Shared* shared_;
  int index_;
};

struct OneQueue {
  static constexpr int index() { return 0; }
  static constexpr int count() { return 1; }
  template <class Value>
  Value largest(Value value) const {
    return value;
  }
  float sum(float value) const { return value; }
  template <class Value>
  Value from(Value value, int) const {
    return value;
  }
};

struct Choice {
  std::vector<int> chosen;
  std::vector<double> weights;
  std::vector<double> d_logits;
};

// --- Double precision ---

std::vector<double> scores_of(const RouterRule& rule, const std::vector<float>& logits) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (rule.sigmoid) {
    for (double& score : scores) score = 1 / (1 + std::exp(-score));
    return scores;
  }
  for (double& score : scores) score = std::exp(score);
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  for (double& score : scores) score /= sum;
  return scores;
}

// Returns the places of the largest values; of equal ones the first.
std::vector<int> largest_places(const std::vector<double>& values, int count) {
  std::vector<int> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](int a, int b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  places.resize(static_cast<std::size_t>(count));
  return places;
}

Choice expected(const RouterRule& rule, const std::vector<float>& logits, const std::vector<float>& bias,
                const std::vector<float>& d_weights) {
  const std::vector<double> scores = scores_of(rule, logits);
  const auto n = static_cast<int>(scores.size()), width = n / rule.groups;
  std::vector<double> biased(scores.size()), sums(static_cast<std::size_t>(rule.groups));
  for (std::size_t e = 0; e < biased.size(); ++e) biased[e] = scores[e] + static_cast<double>(bias[e]);
  for (int group = 0; group < rule.groups; ++group) {
    std::vector<double> members(biased.begin() + group * width, biased.begin() + (group + 1) * width);
    std::sort(members.begin(), members.end(), std::greater<>());
    sums[static_cast<std::size_t>(group)] =
        std::accumulate(members.begin(), members.begin() + rule.group_score_experts, 0.0);
  }
  const std::vector<int> groups = largest_places(sums, rule.groups > 1 ? rule.groups_per_token : 1);
  for (int e = 0; e < n; ++e)
    if (rule.groups > 1 && std::find(groups.begin(), groups.end(), e / width) == groups.end())
      biased[static_cast<std::size_t>(e)] = -std::numeric_limits<double>::infinity();
  Choice choice{largest_places(biased, rule.experts_per_token), {}, std::vector<double>(scores.size())};
  double total = 0, inner = 0;
  for (std::size_t slot = 0; slot < choice.chosen.size(); ++slot) {
    const double score = scores[static_cast<std::size_t>(choice.chosen[slot])];
    total += score;
    inner += score * static_cast<double>(d_weights[slot]);
  }
  const double scaling = static_cast<double>(rule.scaling_factor);
  double of_softmax = 0;
  for (std::size_t slot = 0; slot < choice.chosen.size(); ++slot) {
    const auto e = static_cast<std::size_t>(choice.chosen[slot]);
    const double d = static_cast<double>(d_weights[slot]);
    choice.weights.push_back(scaling * scores[e] / (rule.normalize ? total : 1));
    choice.d_logits[e] = scaling * (rule.normalize ? (d - inner / total) / total : d);
    of_softmax += choice.d_logits[e] * scores[e];
  }
  for (std::size_t e = 0; e < scores.size(); ++e)
    choice.d_logits[e] =
        rule.sigmoid ? choice.d_logits[e] * scores[e] * (1 - scores[e]) : scores[e] * (choice.d_logits[e] - of_softmax);
  return choice;
}

// --- As the kernels do it ---

template <int kHeld, class Queues>
void choose(const RouterRule& rule, const Queues& queues, const std::vector<float>& logits,
            const std::vector<float>& bias, const std::vector<float>& d_weights, Choice& choice) {
  float scores[kHeld], gradient[kHeld];
  for (int i = 0; i < kHeld; ++i) {
    const int expert = queues.index() + i * queues.count();
    scores[i] = expert < rule.experts ? logits[static_cast<std::size_t>(expert)] : 0.0F;
  }
  router_scores(rule, queues, scores);
  std::vector<int> chosen;
  std::vector<float> of_chosen;
  const float total = choose_experts(rule, queues, scores, bias.data(), [&](int slot, int expert, float score) {
    ASSERT_EQ(slot, static_cast<int>(chosen.size()));
    chosen.push_back(expert);
    of_chosen.push_back(score);
  });
  router_gradient(
      rule, queues, scores, [&](int slot) { return chosen[static_cast<std::size_t>(slot)]; },
      [&](int slot) { return d_weights[static_cast<std::size_t>(slot)]; }, gradient);
  for (int i = 0; i < kHeld; ++i)
    if (const int expert = queues.index() + i * queues.count(); expert < rule.experts)
      choice.d_logits[static_cast<std::size_t>(expert)] = static_cast<double>(gradient[i]);
  if (queues.index() != 0) return;
  choice.chosen = chosen;
  for (const float score : of_chosen) choice.weights.push_back(static_cast<double>(score * router_factor(rule, total)));
}

Choice by_threads(const RouterRule& rule, const std::vector<float>& logits, const std::vector<float>& bias,
                  const std::vector<float>& d_weights) {
  Choice choice{{}, {}, std::vector<double>(logits.size())};
  ThreadQueues::Shared shared;
  std::vector<std::jthread> threads;
  for (int queue = 0; queue < queue_count; ++queue)
    threads.emplace_back(
        [&, queue] { choose<held>(rule, ThreadQueues(shared, queue), logits, bias, d_weights, choice); });
  threads.clear();
  return choice;
}

void expect_same(const Choice& is, const Choice& should) {
  EXPECT_EQ(is.chosen, should.chosen);
  ASSERT_EQ(is.weights.size(), should.weights.size());
  for (std::size_t i = 0; i < is.weights.size(); ++i) EXPECT_NEAR(is.weights[i], should.weights[i], 1e-5);
  for (std::size_t e = 0; e < is.d_logits.size(); ++e) EXPECT_NEAR(is.d_logits[e], should.d_logits[e], 1e-5) << e;
}

std::vector<RouterRule> rules(int n) {
  return {{n, 3, 1, 1, 1, false, false, 1.0F},
          {n, 3, 1, 1, 1, true, true, 2.5F},
          {n, 4, 4, 2, 2, true, true, 2.5F},
          {n, 4, 4, 2, 1, false, true, 1.0F},
          {n, 2, 2, 1, 3, true, false, 1.5F}};
}

std::vector<float> random_numbers(int n, model::Random& random) {
  std::vector<float> numbers;
  for (int i = 0; i < n; ++i) numbers.push_back(static_cast<float>(random.normal()));
  return numbers;
}

TEST(CudaRouter, ChoosesAndWeighsAsDoublePrecisionDoes) {
  model::Random random(1);
  for (const int n : {experts, 12})
    for (const RouterRule& rule : rules(n))
      for (int token = 0; token < 8; ++token) {
        const std::vector<float> logits = random_numbers(n, random), d_weights = random_numbers(4, random);
        std::vector<float> bias = random_numbers(n, random);
        for (float& b : bias) b *= 0.1F;
        expect_same(by_threads(rule, logits, bias, d_weights), expected(rule, logits, bias, d_weights));
      }
}

TEST(CudaRouter, TiesGoToTheLowerIndex) {
  model::Random random(2);
  const std::vector<float> few = {-1.0F, -0.4F, 0.1F, 0.7F};
  const std::vector<float> bias(64), d_weights = {1, -2, 3, 4};
  for (const RouterRule& rule : rules(64))
    for (int token = 0; token < 200; ++token) {
      std::vector<float> logits;
      for (int e = 0; e < 64; ++e) logits.push_back(few[static_cast<std::size_t>(random.uniform() * 4) % 4]);
      Choice choice{{}, {}, std::vector<double>(64)};
      choose<64>(rule, OneQueue(), logits, bias, d_weights, choice);
      expect_same(choice, expected(rule, logits, bias, d_weights));
    }
}

TEST(CudaRouter, EqualScoresChooseTheFirstExpertsOfTheFirstGroups) {
  const RouterRule rule{256, 8, 8, 4, 2, true, true, 2.5F};
  Choice choice{{}, {}, std::vector<double>(256)};
  choose<256>(rule, OneQueue(), std::vector<float>(256), std::vector<float>(256), std::vector<float>(8), choice);
  EXPECT_EQ(choice.chosen, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  for (const double weight : choice.weights) EXPECT_NEAR(weight, 2.5 / 8, 1e-6);
}

TEST(CudaRouter, BiasChoosesButDoesNotWeigh) {
  const RouterRule rule{4, 1, 1, 1, 1, true, false, 1.0F};
  Choice choice{{}, {}, std::vector<double>(4)};
  choose<4>(rule, OneQueue(), {2, 0, 0, 0}, {0, 0, 5, 0}, {1}, choice);
  EXPECT_EQ(choice.chosen, (std::vector<int>{2}));
  EXPECT_NEAR(choice.weights[0], 0.5, 1e-6);
}

TEST(CudaRouter, KeysOrderAsTheirValuesAndNotANumberIsLast) {
  const std::vector<float> ascending = {-INFINITY, -3.5F, -1e-30F, 0.0F, 1e-30F, 2.0F, INFINITY};
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i) {
    EXPECT_LT(choice_key(ascending[i], 0), choice_key(ascending[i + 1], 9));
    EXPECT_EQ(key_value(choice_key(ascending[i], 7)), ascending[i]);
    EXPECT_EQ(key_index(choice_key(ascending[i], 7)), 7);
  }
  EXPECT_GT(choice_key(1.0F, 3), choice_key(1.0F, 4));
  EXPECT_EQ(choice_key(-0.0F, 1), choice_key(0.0F, 1));
  EXPECT_EQ(choice_key(std::nanf(""), 1), choice_key(-INFINITY, 1));
  EXPECT_GT(choice_key(-INFINITY, 1023), no_choice);
}

// Tokens, labels and losses of the GPU kernels compared with double precision.

TEST(CudaTokens, LogSumsOfPartsAreThoseOfTheWhole) {
  model::Random random(4);
  for (const double shift : {0.0, 200.0, -3000.0}) {
    LogSum parts[5];
    double expected = 0;
    for (int vector = 0; vector < 100; ++vector) {
      float values[8];
      for (float& value : values) {
        value = static_cast<float>(4 * random.normal() + shift);
        expected += std::exp(static_cast<double>(value) - shift);
      }
      parts[vector % 4].add(values);  // the last part stays empty
    }
    LogSum sum;
    for (const LogSum& part : parts) sum.add(part);
    EXPECT_NEAR(static_cast<double>(sum.value()) - shift, std::log(expected), 1e-6 * std::abs(shift) + 1e-5);
  }
}

TEST(CudaTokens, ColumnsThatAreMissingAddNothing) {
  const float missing[2] = {-FLT_MAX, -FLT_MAX}, values[2] = {-5.0F, -6.0F};
  LogSum padded, sum;
  padded.add(missing);
  padded.add(values);
  sum.add(missing);
  sum.add(padded);
  EXPECT_NEAR(static_cast<double>(sum.value()), std::log(std::exp(-5.0) + std::exp(-6.0)), 1e-5);
}

TEST(CudaTokens, LastTokensOfASequenceAndThoseWithoutALabelCarryNoLoss) {
  const std::vector<std::int32_t> ids = {5, -1, 7, 9, 4, 4, 4, 4};
  Labels labels{ids.data(), 1, 4, 0};
  std::vector<bool> carry;
  for (std::int64_t token = 0; token < 8; ++token) carry.push_back(labels.carry_loss(token));
  EXPECT_EQ(carry, (std::vector<bool>{true, false, true, false, true, true, true, false}));
}

TEST(CudaTokens, OfADividedVocabularyOneRankHasTheLabel) {
  const std::vector<std::int32_t> ids = {0, 7, 8, 15, 16};
  for (std::int64_t token = 0; token < 5; ++token) {
    int found = 0;
    for (const std::int64_t rank : {0, 1, 2}) {
      const Labels labels{ids.data(), 0, 5, rank * 8};
      if (const std::int64_t column = labels.column(token, 8); column >= 0) {
        ++found;
        EXPECT_EQ(rank * 8 + column, ids[static_cast<std::size_t>(token)]);
      }
    }
    EXPECT_EQ(found, 1) << token;
  }
}

TEST(CudaTokens, ShiftedTokensStayInTheirSequence) {
  std::vector<std::int64_t> sources;
  for (std::int64_t token = 0; token < 8; ++token) sources.push_back(shifted_token(token, 2, 4));
  EXPECT_EQ(sources, (std::vector<std::int64_t>{2, 3, 3, 3, 6, 7, 7, 7}));
}

TEST(CudaTokens, PlacesByIdAreAStableOrder) {
  const std::vector<std::int32_t> ids = {4, 2, 4, 9, 2, 4};
  std::vector<std::int64_t> order(ids.size());
  for (std::size_t token = 0; token < ids.size(); ++token) {
    std::size_t before = 0;
    for (std::size_t other = 0; other < ids.size(); ++other)
      before +=
          stands_before(ids[other], static_cast<std::int64_t>(other), ids[token], static_cast<std::int64_t>(token)) ? 1
                                                                                                                    : 0;
    order[before] = static_cast<std::int64_t>(token);
  }
  EXPECT_EQ(order, (std::vector<std::int64_t>{1, 4, 0, 2, 5, 3}));
}

TEST(CudaTokens, GradientsAreMeansOverTheLabelledTokens) {
  EXPECT_EQ(gradient_scale(3.0, 4), 0.75F);
  EXPECT_EQ(gradient_scale(3.0, 0), 3.0F);
}

}  // namespace
}  // namespace plumbline::real::cuda
