#include "tests/support/real/real_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "real/host/run.h"
#include "tests/support/folder_contents.h"
#include "tests/support/real/whole_training.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;
using model::Precision;

// Executed training learns in every format, needs the loss scale and FP32 sums in FP16, and evens out the load of
// experts. Training that is continued gives what uninterrupted training gives.

model::Plan in_format(Precision format) {
  model::Plan plan = small_plan();
  plan.precision.gemm = plan.precision.dispatch = plan.precision.combine = format;
  plan.precision.gradients = plan.precision.master_weights = plan.precision.optimizer_moments = Precision::fp32;
  return plan;
}

// With this learning rate so small a model learns within some dozens of steps.
constexpr double fast = 1e-2;

real::TrainingResult trained(TrainingCourse course, std::int64_t steps) {
  course.options.steps = steps;
  course.options.learning_rate = fast;
  return follow(course)[0].result.value();
}

double mean_of_last(const std::vector<double>& values, std::ptrdiff_t count) {
  return std::accumulate(values.end() - count, values.end(), 0.0) / static_cast<double>(count);
}

// Returns the entropy of the text's single tokens in nats: the loss of a model that has the frequency of each token and
// ignores the context.
double unigram_entropy(const model::Architecture& architecture, const model::Plan& plan) {
  const auto text = real::synthetic_text({architecture.vocabulary, plan.batch.sequence_length}).value();
  std::vector<double> counts(static_cast<std::size_t>(architecture.vocabulary));
  constexpr int sequences = 4000;
  for (int i = 0; i < sequences; ++i) {
    const std::vector<std::int32_t> ids = text->sequence(i).value();
    for (const std::int32_t id : ids) ++counts[static_cast<std::size_t>(id)];
  }
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  double entropy = 0;
  for (const double count : counts) entropy -= count > 0 ? count / total * std::log(count / total) : 0;
  return entropy;
}

TEST(RealTraining, LearnsWhatFollowsWhat) {
  const TrainingCourse course;
  const real::TrainingResult result = trained(course, 150);
  const double entropy = unigram_entropy(course.architecture, course.plan);
  EXPECT_GT(result.losses.front(), std::log(64));  // worse than chance
  const double reached = mean_of_last(result.losses, 10);
  EXPECT_LT(reached, entropy - 0.3) << "unigram entropy " << entropy;
}

// Rounding to 8 or 11 bits adds noise to every gradient. The curves differ, but by no more than the steps of one curve.
TEST(RealTraining, SixteenBitsLearnAsWellAs32) {
  const real::TrainingResult fp32 = trained({}, 50);
  for (const Precision format : {Precision::bf16, Precision::fp16}) {
    const real::TrainingResult result = trained({.plan = in_format(format)}, 50);
    EXPECT_NE(result.losses, fp32.losses) << to_string(format);
    EXPECT_EQ(result.skipped, 0) << to_string(format);
    EXPECT_LT(largest_difference(result.losses, fp32.losses), 0.1) << to_string(format);
  }
}

// A stored value is rounded once and a sum of n terms n times, each time by up to half a unit in its last place. Sums
// over 128 tokens should thus have some sqrt(128) = 11 times the error where nothing else adds noise. The test asks for
// half of the factor that is measured.
TEST(RealTraining, SumsInFp16SpoilGradients) {
  const auto gradients = [](Precision format, model::DataType accumulation, double scale = 1024) {
    TrainingRequest request{.plan = in_format(format), .loss_scale = scale};
    request.plan.batch.sequence_length = 128;  // length of the sums
    request.plan.batch.global_batch_size = 2;
    request.device.accumulation = accumulation;
    const Trained trained = train_all(request);
    EXPECT_EQ(trained.error, "");
    return trained.ranks[0];
  };
  const TrainedRank exact = gradients(Precision::fp32, model::DataType::fp32);
  const double stored = gradient_error(exact, gradients(Precision::fp16, model::DataType::fp32));
  const double summed = gradient_error(exact, gradients(Precision::fp16, model::DataType::fp16));
  EXPECT_GT(summed, 2 * stored);
  // The loss scale is needed because gradients of single tokens lie below FP16's smallest normal number, 6e-5.
  EXPECT_GT(gradient_error(exact, gradients(Precision::fp16, model::DataType::fp32, 1)), 2 * stored);
}

TEST(RealTraining, AnOverflowSkipsTheStepAndHalvesTheScale) {
  TrainingCourse course{.plan = in_format(Precision::fp16)};
  course.plan.cluster.gpus = 2;
  course.plan.parallelism.zero_stage = 1;
  const auto after = [&](std::int64_t steps, double scale) {
    course.options.steps = steps;
    course.options.loss_scale = {.start = scale, .highest = scale};
    return follow(course);
  };
  constexpr double too_large = 0x1p30;
  const auto initial = after(0, too_large), one = after(1, too_large);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(one[rank].result) << to_string(one[rank].result.error());
    EXPECT_TRUE(one[rank].figures[0].skipped);
    EXPECT_TRUE(std::isfinite(one[rank].figures[0].loss));
    EXPECT_EQ(one[rank].result->progress.loss_scale.factor, too_large / 2);
    EXPECT_EQ(one[rank].result->progress.updates, 0);
    EXPECT_EQ(one[rank].state, initial[rank].state);
  }
  // The scale is halved until the gradients fit, and training goes on from there.
  const auto many = after(30, too_large);
  const std::vector<real::StepFigures>& figures = many[0].figures;
  const auto first = std::ranges::find(figures, false, &real::StepFigures::skipped);
  ASSERT_NE(first, figures.end());
  for (auto step = figures.begin(); step < first; ++step)
    EXPECT_EQ(step->loss_scale, too_large * std::exp2(-static_cast<double>(step - figures.begin())));
  EXPECT_NE(many[0].state, initial[0].state);
  EXPECT_EQ(many[0].result->progress.updates, 30 - many[0].result->skipped);
}

TEST(RealTraining, BiasesEvenOutTheExperts) {
  const auto largest_load = [](double speed) {
    TrainingCourse course;
    course.options = {.steps = 60, .learning_rate = 1e-3, .balance_speed = speed};
    const CourseOnRank done = follow(course)[0];
    double sum = 0;
    int count = 0;
    for (std::size_t step = 40; step < 60; ++step)
      for (const real::LayerLoad& load : done.figures[step].loads) {
        sum += load.max_violation;
        ++count;
      }
    return sum / count;
  };
  const double left = largest_load(0), balanced = largest_load(0.01);
  EXPECT_LT(balanced, 0.7 * left);
}

TEST(RealTraining, BiasesAreEqualWhereverALayerIs) {
  TrainingCourse course;
  course.options = {.steps = 5, .learning_rate = 1e-3, .balance_speed = 0.01};
  const auto whole = follow(course)[0].router_bias;
  ASSERT_EQ(whole.size(), 3U);
  course.plan.cluster.gpus = 4;
  course.plan.parallelism.pipeline = 2;
  course.plan.parallelism.expert = 2;
  course.plan.parallelism.zero_stage = 1;
  course.plan.schedule.kind = "dualpipe";
  for (const CourseOnRank& rank : follow(course)) {
    ASSERT_TRUE(rank.result) << to_string(rank.result.error());
    // Every rank holds both stages.
    EXPECT_EQ(rank.router_bias, whole);
  }
}

// Training that is stopped and continued gives the same bits as uninterrupted training: losses and every byte of the
// checkpoints, however the plan divides the model.

struct Case {
  std::string name;
  std::string schedule = "1f1b";
  std::int64_t pipeline = 1, data = 1, expert = 1, zero_stage = 0;
  model::Precision format = model::Precision::fp32;
  friend void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }
};

real::RunInput input_of(const Case& value) {
  real::RunInput input{small_plan(), small_moe(), {}};
  input.plan.schedule.kind = value.schedule;
  input.plan.parallelism.pipeline = value.pipeline;
  input.plan.parallelism.expert = value.expert;
  input.plan.parallelism.zero_stage = value.zero_stage;
  input.plan.cluster.gpus = value.pipeline * value.data;
  input.plan.precision.gemm = input.plan.precision.dispatch = input.plan.precision.combine = value.format;
  input.cluster.gpus = input.cluster.gpus_per_node = input.plan.cluster.gpus;
  return input;
}

real::RunResult run(const Case& value, std::int64_t steps, const fs::path& folder, bool resume) {
  real::RunOptions options;
  options.steps = steps;
  options.balance_speed = 0.01;
  options.checkpoint = folder.string();
  options.resume = resume;
  return real::host::run_in_process(input_of(value), options, {.clock = real::host::ClockKind::cpu}, {}).value();
}

class ResumedTraining : public testing::TestWithParam<Case> {};

TEST_P(ResumedTraining, IsTheOneThatNeverStopped) {
  const TemporaryDirectory whole, parts;
  const real::RunResult through = run(GetParam(), 6, whole.path(), false);
  const real::RunResult first = run(GetParam(), 3, parts.path(), false);
  const real::RunResult second = run(GetParam(), 6, parts.path(), true);
  EXPECT_EQ(second.training.first_step, 4);
  std::vector<double> losses = first.training.losses;
  losses.insert(losses.end(), second.training.losses.begin(), second.training.losses.end());
  EXPECT_EQ(losses, through.training.losses);
  EXPECT_LT(losses.back(), losses.front());
  const model::Memory& memory = through.step.result.memory;
  EXPECT_TRUE(memory.measured);
  EXPECT_EQ(memory.ranks.size(), static_cast<std::size_t>(GetParam().pipeline));
  EXPECT_GT(memory.peak_bytes, 0);
  const auto expected = folder_contents(whole.path() / "step-00000006"),
             found = folder_contents(parts.path() / "step-00000006");
  EXPECT_EQ(expected.size(), static_cast<std::size_t>(GetParam().pipeline * GetParam().data + 1));
  for (const auto& [name, bytes] : expected) EXPECT_TRUE(found.at(name) == bytes) << name;
  // The three steps did change the checkpoint.
  EXPECT_NE(folder_contents(parts.path() / "step-00000003").at("rank-00000.bin"), expected.at("rank-00000.bin"));
  // Only FP16 counts the steps since its loss scale last changed.
  EXPECT_EQ(second.training.progress.loss_scale.good_steps, GetParam().format == model::Precision::fp16 ? 6 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Plans, ResumedTraining,
    testing::Values(Case{"one_rank"}, Case{"pp2_dualpipe_zero1", "dualpipe", 2, 1, 1, 1}, Case{"dp2", "1f1b", 1, 2},
                    Case{"dp2_zero1", "1f1b", 1, 2, 1, 1}, Case{"ep2", "1f1b", 1, 2, 2},
                    Case{"pp2_zb_h1_bf16", "zb-h1", 2, 1, 1, 0, model::Precision::bf16},
                    Case{"pp2_ep2_dualpipe_zero1_fp16", "dualpipe", 2, 2, 2, 1, model::Precision::fp16}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace plumbline::tests
