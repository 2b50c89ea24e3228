#include "real/executor/training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "real/executor/training/loss_scale.h"
#include "real/executor/training/prefetch.h"
#include "real/executor/training/text.h"
#include "tests/support/real/training.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

using Loads = model::Result<std::vector<LayerLoad>>;
using Tokens = std::vector<std::int32_t>;
using Trained = model::Result<TrainingResult>;
using model::to_string;
using testing::ElementsAre;
using tests::on_ranks;

// The result of a training, and the calls of its step.
struct TrainedRank {
  Trained result;
  std::vector<float> weights;
  std::vector<StepNumbers> numbers;
  std::vector<StepFigures> figures;
};

std::unique_ptr<TextSource> text_of_16() {
  return synthetic_text({.vocabulary = 16, .sequence_length = 32, .seed = 5}).value();
}

TrainingOptions options_for(std::int64_t steps) {
  return {.steps = steps, .batch = {.global_batch_size = 4}, .layers = 2, .experts = 4};
}

std::vector<TrainedRank> train_on(std::int32_t ranks, const TrainingOptions& options,
                                  const tests::TinyStepOptions& tiny = {}) {
  const auto text = text_of_16();
  return on_ranks<TrainedRank>(ranks, [&](Communicator& communicator) {
    tests::TinyStep step(communicator, tiny);
    TrainedRank run;
    run.result =
        train(step, communicator, *text, options, [&](const StepFigures& figures) { run.figures.push_back(figures); });
    run.weights = step.weights();
    run.numbers = step.numbers();
    return run;
  });
}

TrainedRank train_alone(const TrainingOptions& options, const tests::TinyStepOptions& tiny = {}) {
  return train_on(1, options, tiny).front();
}

TEST(Trainer, TheLossFalls) {
  const TrainedRank run = train_alone(options_for(60));
  ASSERT_TRUE(run.result) << to_string(run.result.error());
  ASSERT_EQ(run.result->losses.size(), 60U);
  EXPECT_NEAR(run.result->losses.front(), std::log(16), 1e-6);  // all tokens are equal before the first update
  EXPECT_LT(run.result->losses.back(), 2.2);
  EXPECT_EQ(run.result->progress.step, 60);
  EXPECT_EQ(run.result->timeline.end_ps, 60);
}

TEST(Trainer, ReportsEachStepToTheObserver) {
  const TrainedRank run = train_alone(options_for(3));
  ASSERT_EQ(run.figures.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const StepFigures& figures = run.figures[i];
    EXPECT_EQ(figures.step, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(figures.loss, run.result->losses[i]);
    EXPECT_GT(figures.gradient_norm, 0);
    EXPECT_EQ(figures.seconds, 0.5);
    EXPECT_EQ(figures.tokens_per_second, 4 * 32 / 0.5);
    EXPECT_EQ(figures.loss_scale, 1);
    EXPECT_FALSE(figures.skipped);
    ASSERT_EQ(figures.loads.size(), 1U);
    EXPECT_EQ(figures.loads[0].layer, 1);
  }
  // The gradient is the mean over the four micro-batches of the step.
  EXPECT_EQ(run.numbers[0].loss_scale, 0.25);
  EXPECT_EQ(run.numbers[2].step, 3);
  EXPECT_EQ(run.numbers[2].learning_rate, -1);
}

TEST(Trainer, PassesTheLearningRateOn) {
  TrainingOptions options = options_for(1);
  options.learning_rate = 0.125;
  EXPECT_EQ(train_alone(options).numbers[0].learning_rate, 0.125);
}

TEST(Trainer, EveryDivisionOfTheBatchTrainsTheSame) {
  const TrainedRank alone = train_alone(options_for(10));
  for (const TrainedRank& run : train_on(4, options_for(10))) {
    ASSERT_TRUE(run.result) << to_string(run.result.error());
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(run.result->losses[i], alone.result->losses[i], 1e-6);
    EXPECT_EQ(run.result->loads[0].rows, alone.result->loads[0].rows);
  }
  TrainingOptions larger = options_for(10);
  larger.batch.micro_batch_size = 2;
  for (const TrainedRank& run : train_on(2, larger, {.micro_batch_size = 2}))
    for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(run.result->losses[i], alone.result->losses[i], 1e-6);
}

TEST(Trainer, WithoutAThreadItIsTheSame) {
  TrainingOptions options = options_for(5);
  const TrainedRank threaded = train_alone(options);
  options.prefetch_thread = false;
  EXPECT_EQ(train_alone(options).weights, threaded.weights);
}

// Checkpoints are saved at 4, 8 and 11; a training killed after 8 and continued has the bits of an uninterrupted one.
TEST(Trainer, AContinuedTrainingIsTheSameToTheLastBit) {
  TrainingOptions options = options_for(11);
  options.balance_speed = 0.01;
  options.fp16 = true;
  options.loss_scale = {.start = 1024, .interval = 3};
  const tests::TinyStepOptions tiny{.overflow_above = 3000};
  const auto through = train_on(2, options, tiny);

  const tests::TemporaryDirectory folder;
  options.checkpoint = {.folder = folder.path().string(), .fingerprint = "plan"};
  options.checkpoint_interval = 4;
  tests::TinyStepOptions killed = tiny;
  killed.fails_in = 10;
  for (const TrainedRank& run : train_on(2, options, killed)) EXPECT_FALSE(run.result);
  EXPECT_THAT(complete_checkpoints(folder.path().string()), ElementsAre(4, 8));

  options.resume = true;
  const auto continued = train_on(2, options, tiny);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const TrainingResult& result = *continued[rank].result;
    EXPECT_EQ(result.first_step, 9);
    ASSERT_EQ(result.losses.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(result.losses[i], through[rank].result->losses[8 + i]);
    EXPECT_EQ(continued[rank].weights, through[rank].weights);
    EXPECT_EQ(continued[rank].numbers.back().step, through[rank].numbers.back().step);
    EXPECT_EQ(continued[rank].numbers.back().loss_scale, through[rank].numbers.back().loss_scale);
    EXPECT_EQ(result.loads[0].rows, through[rank].result->loads[0].rows);
  }
  EXPECT_THAT(complete_checkpoints(folder.path().string()), ElementsAre(8, 11));
  // All steps are done, and no checkpoint is saved again.
  const TrainedRank done = train_on(2, options, tiny).front();
  ASSERT_TRUE(done.result);
  EXPECT_TRUE(done.result->losses.empty());
  EXPECT_EQ(done.result->progress.step, 11);
}

// The third step of one rank is the fifth or sixth call of both.
TEST(Trainer, StopsOnAllRanksAfterTheStepInWhichOneIsAskedTo) {
  const auto through = train_on(2, options_for(5));
  const tests::TemporaryDirectory folder;
  TrainingOptions options = options_for(5);
  options.checkpoint = {.folder = folder.path().string(), .fingerprint = "plan"};
  std::atomic<int> calls = 0;
  options.stopped = [&] { return ++calls == 5; };
  for (const TrainedRank& run : train_on(2, options)) {
    EXPECT_EQ(run.result->progress.step, 3);
    EXPECT_EQ(run.result->losses.size(), 3U);
  }
  EXPECT_THAT(complete_checkpoints(folder.path().string()), ElementsAre(3));
  options.stopped = nullptr;
  options.resume = true;
  const auto continued = train_on(2, options);
  for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_EQ(continued[rank].weights, through[rank].weights);
}

TEST(Trainer, TwoRunsShareNoFolder) {
  const tests::TemporaryDirectory folder;
  TrainingOptions options = options_for(2);
  options.checkpoint.folder = folder.path().string();
  {
    const auto lock = CheckpointLock::take(options.checkpoint.folder);
    ASSERT_TRUE(lock);
    for (const TrainedRank& run : train_on(2, options)) EXPECT_FALSE(run.result);
    EXPECT_EQ(to_string(train_alone(options).result.error()),
              options.checkpoint.folder +
                  ": another run writes its checkpoints there (wait for that one, or use another folder)");
  }
  EXPECT_TRUE(train_alone(options).result);
}

TEST(Trainer, AnewOnlyWhereNoCheckpointIs) {
  const tests::TemporaryDirectory folder;
  TrainingOptions options = options_for(2);
  options.checkpoint.folder = folder.path().string();
  ASSERT_TRUE(train_alone(options).result);
  EXPECT_EQ(latest_checkpoint(folder.path().string()), 2);
  for (const TrainedRank& run : train_on(2, options))
    EXPECT_EQ(to_string(run.result.error()), folder.path().string() +
                                                 ": has a checkpoint of step 2 already (resume from it, or use another "
                                                 "folder)");
}

TEST(Trainer, StopsAtALossThatIsNoNumber) {
  const tests::TemporaryDirectory folder;
  TrainingOptions options = options_for(9);
  options.checkpoint.folder = folder.path().string();
  options.checkpoint_interval = 2;
  for (const TrainedRank& run : train_on(2, options, {.loss_is_no_number_in = 6})) {
    ASSERT_FALSE(run.result);
    EXPECT_EQ(run.result.error().kind, model::ErrorKind::infeasible);
    EXPECT_EQ(run.result.error().message, "loss is not a number in step 6");
    EXPECT_EQ(run.figures.size(), 5U);
  }
  EXPECT_EQ(latest_checkpoint(folder.path().string()), 4);
}

TEST(Trainer, StopsAtAnInfiniteGradient) {
  EXPECT_EQ(train_alone(options_for(9), {.norm_is_infinite_in = 3}).result.error().message,
            "gradient norm is infinite in step 3");
  // An overflow is skipped in FP16 only.
  EXPECT_EQ(train_alone(options_for(9), {.overflow_above = 0.5}).result.error().message,
            "gradients overflow in step 1");
}

TEST(Trainer, LowersTheLossScaleUntilNothingOverflows) {
  TrainingOptions options = options_for(8);
  options.fp16 = true;
  options.loss_scale.interval = 4;
  const TrainedRank run = train_alone(options, {.overflow_above = 20000});
  ASSERT_TRUE(run.result) << to_string(run.result.error());
  // 65536 and 32768 overflow; four steps later 32768 is tried again.
  std::vector<double> scales;
  std::vector<bool> skipped;
  std::vector<std::int64_t> updates;
  for (const StepFigures& figures : run.figures) {
    scales.push_back(figures.loss_scale);
    skipped.push_back(figures.skipped);
  }
  for (const StepNumbers& numbers : run.numbers) updates.push_back(numbers.step);
  EXPECT_THAT(scales, ElementsAre(65536, 32768, 16384, 16384, 16384, 16384, 32768, 16384));
  EXPECT_THAT(skipped, ElementsAre(true, true, false, false, false, false, true, false));
  // A skipped step does not count for the optimizer's bias correction, but its text has been read.
  EXPECT_THAT(updates, ElementsAre(1, 1, 1, 2, 3, 4, 5, 5));
  EXPECT_EQ(run.result->skipped, 3);
  EXPECT_EQ(run.result->progress.updates, 5);
  EXPECT_EQ(run.result->progress.sequences, 32);
  EXPECT_EQ(run.numbers[2].loss_scale, 16384.0 / 4);
}

TEST(Trainer, StopsWhenNoLossScaleHelps) {
  TrainingOptions options = options_for(20);
  options.fp16 = true;
  options.loss_scale.start = 4;
  EXPECT_EQ(train_alone(options, {.overflow_above = 0.5}).result.error().message,
            "gradients overflow in step 3 although the loss scale is at its lowest");
}

// A text that ends after two sequences of one rank's share.
class Short final : public TextSource {
 public:
  std::int64_t sequence_length() const override { return 2; }
  model::Result<std::vector<std::int32_t>> sequence(std::int64_t index) const override {
    if (index == 6) return tl::unexpected(model::Error{.message = "sequence 6 cannot be read"});
    return std::vector<std::int32_t>{1, 2, 3};
  }
};

TEST(Trainer, AnErrorOfOneRankEndsAll) {
  const Short text;
  const auto results = on_ranks<Trained>(2, [&](Communicator& communicator) {
    tests::TinyStep step(communicator, {});
    return train(step, communicator, text, options_for(9));
  });
  // Sequence 6 is the second rank's in the second step.
  EXPECT_EQ(results[0].error().message, "rank 1: sequence 6 cannot be read");
  EXPECT_EQ(results[1].error().message, "sequence 6 cannot be read");
}

TEST(LossScale, DoublesAfterAnIntervalWithoutOverflow) {
  LossScale scale({.start = 8, .interval = 3, .highest = 16});
  const auto good = [&](int steps) {
    for (int i = 0; i < steps; ++i) scale.keep_or_grow();
    return scale.factor();
  };
  EXPECT_EQ(good(2), 8);
  EXPECT_TRUE(scale.shrink());  // the interval restarts
  EXPECT_EQ(good(2), 4);
  EXPECT_EQ(good(1), 8);
  EXPECT_EQ(good(3), 16);
  EXPECT_EQ(good(6), 16);  // the upper limit
}

TEST(LossScale, OfOtherFormatsIsOne) {
  LossScale scale;
  for (int i = 0; i < 5000; ++i) scale.keep_or_grow();
  EXPECT_EQ(scale.factor(), 1);
  EXPECT_FALSE(scale.shrink());
}

TEST(ExpertBalance, SumsTheLoadsOfAllRanks) {
  // Rank 0 holds layers 0 and 2, rank 1 layer 2, rank 2 the prediction module.
  const std::vector<std::vector<ExpertLoad>> own = {
      {{.layer = 2, .rows = {1, 3}}, {.layer = 0, .rows = {5, 5}}},
      {{.layer = 2, .rows = {1, 11}}},
      {{.layer = -1, .rows = {0, 4}}},
  };
  const auto results = on_ranks<Loads>(3, [&](Communicator& communicator) {
    return sum_loads(own[static_cast<std::size_t>(communicator.rank())], 3, 2, communicator);
  });
  for (const Loads& loads : results) {
    ASSERT_TRUE(loads);
    ASSERT_EQ(loads->size(), 3U);
    EXPECT_EQ((*loads)[0].layer, 0);
    EXPECT_EQ((*loads)[0].max_violation, 0);
    EXPECT_EQ((*loads)[0].variation, 0);
    EXPECT_EQ((*loads)[1].layer, 2);
    EXPECT_EQ((*loads)[1].rows, (std::vector<double>{2, 14}));
    EXPECT_DOUBLE_EQ((*loads)[1].max_violation, 14.0 / 8 - 1);
    EXPECT_DOUBLE_EQ((*loads)[1].variation, 6.0 / 8);  // both are 6 away from the mean of 8
    EXPECT_EQ((*loads)[2].layer, -1);
    EXPECT_DOUBLE_EQ((*loads)[2].max_violation, 1);
  }
}

TEST(ExpertBalance, RefusesLoadsOfAnotherModel) {
  const auto loads = [](const ExpertLoad& load) {
    return on_ranks<Loads>(1, [&](Communicator& communicator) { return sum_loads({load}, 3, 2, communicator); })[0];
  };
  EXPECT_EQ(loads({.layer = 3, .rows = {1, 1}}).error().message,
            "loads of 2 experts of layer 3, where the model has 3 layers of 2 experts");
  EXPECT_FALSE(loads({.layer = 0, .rows = {1, 1, 1}}));
}

TEST(ExpertBalance, MovesBiasesByTheSpeedTowardsTheMean) {
  const LayerLoad load{.rows = {10, 2, 6, 6}};
  const std::vector<float> bias = moved_bias({0.5F, 0.5F, 0.5F, -1.0F}, load, 0.25);
  EXPECT_EQ(bias, (std::vector<float>{0.25F, 0.75F, 0.5F, -1.0F}));  // experts at the mean keep their bias
}

TEST(ExpertBalance, LeavesLayersOfOtherRanksAlone) {
  const auto bias_after = [](std::int64_t layer) {
    return on_ranks<std::vector<float>>(1, [&](Communicator& communicator) {
      tests::TinyStep step(communicator, {.experts = 2});
      update_biases(step, {{.layer = 1, .rows = {1, 1}}}, {{.layer = layer, .rows = {9, 1}}}, 0.5);
      return step.router_bias(1);
    })[0];
  };
  EXPECT_EQ(bias_after(0), (std::vector<float>{0, 0}));
  EXPECT_EQ(bias_after(1), (std::vector<float>{-0.5, 0.5}));
}

std::unique_ptr<TextSource> text_of(const TextOptions& options) {
  auto text = synthetic_text(options);
  EXPECT_TRUE(text) << to_string(text.error());
  return std::move(*text);
}

TEST(SyntheticText, SequencesArePureFunctionsOfSeedAndNumber) {
  const TextOptions options{.vocabulary = 1000, .sequence_length = 64, .seed = 7};
  const auto a = text_of(options), b = text_of(options);
  const Tokens third = a->sequence(3).value();
  EXPECT_EQ(third.size(), 65U);
  EXPECT_NE(a->sequence(4).value(), third);
  EXPECT_EQ(a->sequence(3).value(), third);
  EXPECT_EQ(b->sequence(3).value(), third);
  EXPECT_NE(text_of({.vocabulary = 1000, .sequence_length = 64, .seed = 8})->sequence(3).value(), third);
}

TEST(SyntheticText, UsesTheVocabularyOfTheModel) {
  for (const std::int64_t vocabulary : {2, 50, 129280}) {
    const auto text = text_of({.vocabulary = vocabulary, .sequence_length = 4096});
    std::int32_t largest = 0;
    for (std::int64_t i = 0; i < 8; ++i) {
      const Tokens tokens = text->sequence(i).value();
      EXPECT_GE(*std::min_element(tokens.begin(), tokens.end()), 0);
      largest = std::max(largest, *std::max_element(tokens.begin(), tokens.end()));
    }
    EXPECT_LT(largest, vocabulary);
    EXPECT_GE(largest, vocabulary / 2);
  }
}

// Returns the entropy in nats of what follows each key.
template <class Key>
double entropy(const std::map<Key, std::map<std::int32_t, double>>& counts) {
  double sum = 0, total = 0;
  for (const auto& [key, followers] : counts) {
    double n = 0;
    for (const auto& [token, count] : followers) n += count;
    for (const auto& [token, count] : followers) sum -= count * std::log(count / n);
    total += n;
  }
  return sum / total;
}

TEST(SyntheticText, HasFrequenciesAndSuccessorsToLearn) {
  const auto text = text_of({.vocabulary = 256, .sequence_length = 1024});
  std::map<int, std::map<std::int32_t, double>> alone;
  std::map<std::int32_t, std::map<std::int32_t, double>> behind;
  for (std::int64_t i = 0; i < 500; ++i) {
    const Tokens tokens = text->sequence(i).value();
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      alone[0][tokens[t + 1]] += 1;
      behind[tokens[t]][tokens[t + 1]] += 1;
    }
  }
  EXPECT_LT(entropy(alone), std::log(256) - 0.5);
  // Known successors leave at most (ln 2) / 2 + (ln 4) / 4 + 2 (ln 8) / 8 = 1.21 nats, and an eighth of at most ln 256.
  EXPECT_LT(entropy(behind), 1.213 + std::log(256) / 8);
  EXPECT_LT(entropy(behind), entropy(alone) - 1);
}

TEST(SyntheticText, RefusesWhatCannotBeTrainedOn) {
  EXPECT_EQ(to_string(synthetic_text({.vocabulary = 1, .sequence_length = 8}).error()),
            "vocab_size: a vocabulary of 1 tokens cannot be trained on; 2 to 2^24 can");
  EXPECT_FALSE(synthetic_text({.vocabulary = (1 << 24) + 1, .sequence_length = 8}));
  EXPECT_FALSE(synthetic_text({.vocabulary = 8, .sequence_length = 0}));
}

TEST(FileText, ReadsEachWindowOncePerPassInTheOrderOfTheSeed) {
  const tests::TemporaryDirectory folder;
  std::string letters(61, ' ');
  std::iota(letters.begin(), letters.end(), static_cast<char>(-30));  // bytes above 127 too
  const std::string path = folder.write("text.txt", letters).string();
  const auto text = file_text(path, {.vocabulary = 256, .sequence_length = 4, .seed = 3}).value();
  std::vector<std::vector<std::int32_t>> passes(2);
  for (std::int64_t i = 0; i < 30; ++i) {
    const Tokens tokens = text->sequence(i).value();
    ASSERT_EQ(tokens.size(), 5U);
    const std::size_t first = letters.find(static_cast<char>(tokens[0]));
    for (std::size_t t = 0; t < 5; ++t) EXPECT_EQ(tokens[t], static_cast<unsigned char>(letters[first + t]));
    passes[static_cast<std::size_t>(i / 15)].push_back(static_cast<std::int32_t>(first));
  }
  EXPECT_NE(passes[0], passes[1]);
  for (auto& pass : passes) {
    EXPECT_FALSE(std::is_sorted(pass.begin(), pass.end()));
    std::sort(pass.begin(), pass.end());
    for (std::size_t w = 0; w < 15; ++w) EXPECT_EQ(pass[w], static_cast<std::int32_t>(4 * w));
  }
}

TEST(FileText, TheShortestTextHasOneWindow) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("text.txt", "abcde").string();
  const auto text = file_text(path, {.vocabulary = 300, .sequence_length = 4}).value();
  EXPECT_EQ(text->sequence(0).value(), (Tokens{'a', 'b', 'c', 'd', 'e'}));
  EXPECT_EQ(text->sequence(12345).value(), text->sequence(0).value());
}

TEST(FileText, GivesTheReason) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.write("text.txt", "abcd").string();
  EXPECT_EQ(to_string(file_text(path, {.vocabulary = 256, .sequence_length = 4}).error()),
            path +
                ": 4 bytes of text are less than one sequence of 4 tokens and its last label (use a longer text or a "
                "shorter batch.sequence_length)");
  EXPECT_EQ(file_text(path, {.vocabulary = 255, .sequence_length = 2}).error().key, "vocab_size");
  EXPECT_EQ(file_text(path + "x", {.vocabulary = 256, .sequence_length = 2}).error().message, "no such file");
}

// Counts up: sequence i of length n is i n, i n + 1 ... i n + n. Beyond `end` reading fails.
class Counting final : public TextSource {
 public:
  explicit Counting(std::int64_t end = 1 << 20) : end_(end) {}
  std::int64_t sequence_length() const override { return 3; }
  model::Result<Tokens> sequence(std::int64_t index) const override {
    if (index >= end_) return tl::unexpected(model::Error{.message = "the text has ended"});
    Tokens tokens(4);
    std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(3 * index));
    return tokens;
  }

 private:
  std::int64_t end_;
};

class PrefetcherTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, PrefetcherTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "OnAThread" : "Inline"; });

TEST_P(PrefetcherTest, GivesTheMicroBatchesOfStepAfterStep) {
  const Counting text;
  // Of a batch of 8 sequences this rank has those from 4 on, two at a time.
  const std::vector<MicroBatchPlace> places = {{.micro_batch = 0, .first_sequence = 4},
                                               {.micro_batch = 1, .first_sequence = 6}};
  Prefetcher prefetcher(text, places, {.micro_batch_size = 2, .global_batch_size = 8}, 80, GetParam());
  for (std::int64_t step = 0; step < 5; ++step) {
    const auto batches = prefetcher.next().value();
    ASSERT_EQ(batches.size(), 2U);
    for (std::size_t b = 0; b < 2; ++b) {
      EXPECT_EQ(batches[b].place.micro_batch, static_cast<std::int32_t>(b));
      ASSERT_EQ(batches[b].token_ids.size(), 6U);
      ASSERT_EQ(batches[b].labels.size(), 6U);
      for (std::size_t t = 0; t < 6; ++t) {
        const auto id = static_cast<float>(3 * (80 + 8 * step + places[b].first_sequence) + static_cast<int>(t));
        EXPECT_EQ(batches[b].token_ids[t], id);
        EXPECT_EQ(batches[b].labels[t], id + 1);
      }
    }
  }
}

TEST_P(PrefetcherTest, ReportsTheTextsErrorForTheStepThatItHits) {
  const Counting text(2);
  Prefetcher prefetcher(text, {{}}, {}, 0, GetParam());
  EXPECT_TRUE(prefetcher.next());
  EXPECT_TRUE(prefetcher.next());
  for (int i = 0; i < 2; ++i) {
    const auto ended = prefetcher.next();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().message, "the text has ended");
  }
}

TEST_P(PrefetcherTest, EndsAtAnyMoment) {
  const auto text = text_of({.vocabulary = 1000, .sequence_length = 2000});
  for (int steps = 0; steps < 3; ++steps) {
    for (int again = 0; again < 20; ++again) {
      Prefetcher prefetcher(*text, {{}}, {.micro_batch_size = 8, .global_batch_size = 8}, 0, GetParam());
      for (int step = 0; step < steps; ++step) EXPECT_TRUE(prefetcher.next());
    }
  }
}

}  // namespace
}  // namespace plumbline::real
