// A small model trained on a GPU compared with the same training on the host: gradients, losses in every format,
// checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "real/cuda/comm/communicator.h"
#include "real/executor/run.h"
#include "real/host/run.h"
#include "tests/gpu/gpu.h"
#include "tests/support/aligned_models.h"
#include "tests/support/folder_contents.h"
#include "tests/support/real/whole_training.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

using model::Precision;

// One has grouped queries and no experts; the other has latent attention, routed and shared experts and a prediction
// module.
constexpr const char* dense = "llama";
constexpr const char* mixture = "deepseek_v3";

model::Architecture architecture_of(const std::string& name) {
  const std::vector<TinyModel> models = aligned_models();
  return std::ranges::find(models, name, &TinyModel::name)->architecture;
}

// There are four sequences, one in each micro-batch.
model::Plan plan_of(Precision format, const std::string& schedule = "1f1b") {
  model::Plan plan = small_plan();
  plan.batch.sequence_length = aligned_sequence_length;
  plan.batch.global_batch_size = 4;
  plan.schedule.kind = schedule;
  plan.precision.gemm = plan.precision.dispatch = plan.precision.combine = format;
  if (format == Precision::fp8) plan.precision.combine = Precision::bf16;
  return plan;
}

constexpr double learning_rate = 1e-3;  // so small a model learns with it in some steps
constexpr std::int64_t steps = 20;

class GpuTraining : public GpuTest {
 protected:
  std::unique_ptr<real::Communicator> communicator() {
    return real::cuda::make_communicator(device(), *channel_, {}).value();
  }

  CourseOnRank on_gpu(const TrainingCourse& course) { return follow(course, device(), *communicator()); }

  // Compares one step's losses and gradients with the host's.
  void expect_equal_gradients(const std::string& model, const std::string& schedule) {
    const TrainingRequest request{plan_of(Precision::fp32, schedule), architecture_of(model)};
    const Trained host = train_all(request);
    ASSERT_EQ(host.error, "");
    std::string error;
    const TrainedRank gpu = train_on(request, device(), *communicator(), error);
    ASSERT_EQ(error, "");
    // Both are FP32 with sums in another order: 6e-8 a rounding, some hundred of them in each pass through the model.
    EXPECT_NEAR(gpu.steps[0].loss, host.loss(0), 1e-5 * host.loss(0)) << model << ", " << schedule;
    ASSERT_EQ(gpu.gradients.size(), host.ranks[0].gradients.size());
    EXPECT_LT(gradient_error(host.ranks[0], gpu), 1e-4) << model << ", " << schedule;
    EXPECT_NEAR(gpu.steps[0].gradient_norm, host.ranks[0].steps[0].gradient_norm,
                1e-4 * host.ranks[0].steps[0].gradient_norm);
  }

 private:
  std::unique_ptr<real::ControlChannel> channel_ = real::lone_channel();
};

TrainingCourse course_of(Precision format, const std::string& model = mixture) {
  TrainingCourse course{.plan = plan_of(format), .architecture = architecture_of(model)};
  course.options.steps = steps;
  course.options.learning_rate = learning_rate;
  return course;
}

// The host's loss falls to 0.38 of its start: some tokens are more frequent than others, which is learnt first.
void expect_learnt(const CourseOnRank& course) {
  ASSERT_TRUE(course.result) << to_string(course.result.error());
  ASSERT_EQ(course.result->losses.size(), static_cast<std::size_t>(steps));
  EXPECT_EQ(course.result->skipped, 0);
  EXPECT_LT(course.result->losses.back(), 0.6 * course.result->losses.front());
}

TEST_F(GpuTraining, GradientsOfADenseModelAreTheHosts) {
  for (const char* schedule : {"1f1b", "zb-h1"}) expect_equal_gradients(dense, schedule);
}

TEST_F(GpuTraining, GradientsOfAMixtureOfExpertsAreTheHosts) {
  for (const char* schedule : {"1f1b", "zb-h1"}) expect_equal_gradients(mixture, schedule);
}

// Rounding to 8 bits changes the host's losses by at most 0.6 %, and the GPU's other places of rounding by about as
// much. The tolerances are 2 % and, for tensors of 4 significant bits, 5 % of the last loss, 2.4.
constexpr double rounding_noise = 0.05, fp8_noise = 0.12;

TEST_F(GpuTraining, Bf16LearnsAsOnTheHost) {
  for (const char* model : {dense, mixture}) {
    const CourseOnRank gpu = on_gpu(course_of(Precision::bf16, model));
    expect_learnt(gpu);
    if (HasFatalFailure()) return;
    const CourseOnRank host = follow(course_of(Precision::bf16, model))[0];
    EXPECT_LT(largest_difference(gpu.result->losses, host.result->losses), rounding_noise) << model;
  }
}

TEST_F(GpuTraining, Fp8LearnsNearlyAsBf16) {
  const CourseOnRank fp8 = on_gpu(course_of(Precision::fp8)), bf16 = on_gpu(course_of(Precision::bf16));
  expect_learnt(fp8);
  expect_learnt(bf16);
  if (HasFatalFailure()) return;
  EXPECT_NE(fp8.result->losses, bf16.result->losses);
  EXPECT_LT(largest_difference(fp8.result->losses, bf16.result->losses), fp8_noise);
}

TEST_F(GpuTraining, Fp16LearnsWithItsLossScale) {
  const CourseOnRank gpu = on_gpu(course_of(Precision::fp16));
  expect_learnt(gpu);
  if (HasFatalFailure()) return;
  const CourseOnRank host = follow(course_of(Precision::fp16))[0];
  EXPECT_LT(largest_difference(gpu.result->losses, host.result->losses), rounding_noise);
}

TEST_F(GpuTraining, AnOverflowInFp16ChangesNothing) {
  constexpr double too_large = 0x1p40;
  TrainingCourse course = course_of(Precision::fp16);
  course.options.loss_scale = {.start = too_large, .highest = too_large};
  const auto after = [&](std::int64_t count) {
    course.options.steps = count;
    return on_gpu(course);
  };
  const CourseOnRank initial = after(0), one = after(1);
  ASSERT_TRUE(one.result) << to_string(one.result.error());
  EXPECT_TRUE(one.figures[0].skipped);
  EXPECT_EQ(one.result->progress.loss_scale.factor, too_large / 2);
  EXPECT_EQ(one.result->progress.updates, 0);
  EXPECT_EQ(one.state, initial.state);
}

TEST_F(GpuTraining, ParametersBeginAsOnTheHost) {
  TrainingCourse course = course_of(Precision::fp32);
  course.options.steps = 0;
  EXPECT_EQ(on_gpu(course).state, follow(course)[0].state);
}

class GpuCheckpoints : public GpuTraining {
 protected:
  static real::RunInput input_of(Precision format) {
    real::RunInput input{plan_of(format), architecture_of(mixture), {}};
    input.cluster.gpus = input.cluster.gpus_per_node = 1;
    return input;
  }
  static real::RunOptions options_of(std::int64_t count, const TemporaryDirectory& folder, bool resume) {
    real::RunOptions options;
    options.steps = count;
    options.learning_rate = learning_rate;
    options.balance_speed = 0.01;
    options.checkpoint = folder.path().string();
    options.resume = resume;
    return options;
  }
  real::TrainingResult run(Precision format, std::int64_t count, const TemporaryDirectory& folder, bool resume) {
    const auto alone = communicator();
    return real::run_rank(input_of(format), options_of(count, folder, resume), device(), *alone, {}).value().training;
  }
};

TEST_F(GpuCheckpoints, AContinuedTrainingIsTheOneThatNeverStopped) {
  for (const Precision format : {Precision::fp32, Precision::bf16, Precision::fp8}) {
    const TemporaryDirectory whole, parts;
    const std::vector<double> through = run(format, 6, whole, false).losses;
    std::vector<double> losses = run(format, 3, parts, false).losses;
    const real::TrainingResult second = run(format, 6, parts, true);
    EXPECT_EQ(second.first_step, 4);
    losses.insert(losses.end(), second.losses.begin(), second.losses.end());
    EXPECT_EQ(losses, through) << to_string(format);
    const auto expected = folder_contents(whole.path() / "step-00000006");
    const auto found = folder_contents(parts.path() / "step-00000006");
    EXPECT_EQ(expected.size(), 2U);
    for (const auto& [name, bytes] : expected)
      EXPECT_TRUE(found.at(name) == bytes) << name << ", " << to_string(format);
  }
}

// A checkpoint depends on the plan, not on the machine.
TEST_F(GpuCheckpoints, TheHostContinuesWhatAGpuBegan) {
  const TemporaryDirectory folder;
  run(Precision::fp32, 3, folder, false);
  const auto second = real::host::run_in_process(input_of(Precision::fp32), options_of(6, folder, true),
                                                 {.clock = real::host::ClockKind::cpu}, {});
  ASSERT_TRUE(second) << to_string(second.error());
  const TemporaryDirectory other;
  const std::vector<double> through = run(Precision::fp32, 6, other, false).losses;
  ASSERT_EQ(second->training.losses.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(second->training.losses[i], through[i + 3], 1e-3) << i;
}

}  // namespace
}  // namespace plumbline::tests
