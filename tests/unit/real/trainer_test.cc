#include "real/executor/training/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <vector>

#include "tests/support/real/training.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

using model::to_string;
using testing::ElementsAre;
using tests::on_ranks;
using Trained = model::Result<TrainingResult>;

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

}  // namespace
}  // namespace plumbline::real
