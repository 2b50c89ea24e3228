// Training that is stopped and continued gives the same bits as uninterrupted training: losses and every byte of the
// checkpoints, however the plan divides the model.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "real/host/run.h"
#include "tests/support/folder_contents.h"
#include "tests/support/real/real_training.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::tests {
namespace {

namespace fs = std::filesystem;

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
