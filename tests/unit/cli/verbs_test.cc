#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cli/answers.h"
#include "cli/detail/run.h"
#include "cli/import/detail/import.h"
#include "cli/inputs_reader.h"
#include "cli/make_profiles.h"
#include "model/base/text_file.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

// Checks which options of `plumbline run` may be combined.

std::string refused(const std::function<void(RunArguments&)>& change, const std::string& backend = "cuda") {
  RunArguments arguments;
  arguments.backend = backend;
  change(arguments);
  const auto valid = check_run_arguments(arguments);
  return valid ? "" : valid.error().key;
}

TEST(RunArguments, AreFineAsTheyAre) {
  const auto nothing = [](RunArguments&) {};
  EXPECT_EQ(refused(nothing), "");
  EXPECT_EQ(refused(nothing, "host"), "");
  EXPECT_EQ(refused(nothing, "tpu"), "--backend");
}

TEST(RunArguments, OfTheHostAreNotOfAGpu) {
  const std::pair<std::string, std::function<void(RunArguments&)>> options[] = {
      {"--clock", [](RunArguments& a) { a.clock = "cpu"; }},
      {"--cores", [](RunArguments& a) { a.cores = 2; }},
      {"--communication-cores", [](RunArguments& a) { a.communication_cores = 2; }},
      {"--accumulation", [](RunArguments& a) { a.accumulation = "fp16"; }}};
  for (const auto& [name, set] : options) {
    EXPECT_EQ(refused(set, "cuda"), name);
    EXPECT_EQ(refused(set, "host"), "") << name;
  }
}

TEST(RunArguments, OfAGpuAreNotOfTheHost) {
  const std::pair<std::string, std::function<void(RunArguments&)>> options[] = {
      {"--device", [](RunArguments& a) { a.device = 1; }},
      {"--sm-target", [](RunArguments& a) { a.target_sms = 112; }},
      {"--emulate", [](RunArguments& a) { a.emulated = 3; }},
      {"--lib-dir", [](RunArguments& a) { a.library_folders = {"/opt/nvidia"}; }},
      {"--kernels", [](RunArguments& a) { a.kernels = "kernels.json"; }}};
  for (const auto& [name, set] : options) {
    EXPECT_EQ(refused(set, "host"), name);
    EXPECT_EQ(refused(set, "cuda"), "") << name;
  }
}

TEST(RunArguments, OfAnEmulatedRankSaveAndBalanceNothing) {
  const auto saving = [](RunArguments& a) { a.emulated = 0, a.options.checkpoint = "saved"; };
  EXPECT_EQ(refused(saving), "--checkpoint");
  const auto balancing = [](RunArguments& a) { a.emulated = 0, a.options.balance_speed = 0.001; };
  EXPECT_EQ(refused(balancing), "--balance");
}

TEST(RunArguments, AreInRange) {
  EXPECT_EQ(refused([](RunArguments& a) { a.emulated = -1; }), "--emulate");
  EXPECT_EQ(refused([](RunArguments& a) { a.device = -1; }), "--device");
  EXPECT_EQ(refused([](RunArguments& a) { a.target_sms = 0; }), "--sm-target");
  EXPECT_EQ(refused([](RunArguments& a) { a.options.steps = 0; }), "--steps");
  EXPECT_EQ(refused([](RunArguments& a) { a.options.resume = true; }), "--resume");
}

// Deployments among the subjects of a comparison.

SubjectRequest without_intervals(std::vector<std::string> subjects) {
  SubjectRequest request;
  request.subjects = std::move(subjects);
  request.fidelity = sim::Fidelity::closed_form;
  return request;
}

TEST(ComparedDeployments, AreThoseOfServe) {
  SubjectRequest request = without_intervals({"llama-3-70b-8xh100"});
  request.clusters = {"h100-dgx", "h200-hgx"};
  const auto subjects = comparison_subjects(request);
  ASSERT_TRUE(subjects) << to_string(subjects.error());
  ASSERT_EQ(subjects->size(), 2U);
  InputsReader reader(Purpose::serving);
  const auto alone = predict_deployment(reader.load("llama-3-70b-8xh100", {}).value(), std::nullopt);
  ASSERT_TRUE(subjects->front().serving && subjects->back().serving);
  EXPECT_EQ(subjects->front().serving->tpot_s, alone->tpot_s);
  EXPECT_GT(subjects->front().result->memory.capacity_bytes, 0);
  // An H200 has 141 GB where an H100 has 80.
  EXPECT_GT(subjects->back().serving->most_concurrency, alone->most_concurrency);
}

TEST(ComparedDeployments, AreNotComparedWithSteps) {
  const auto subjects = comparison_subjects(without_intervals({"llama-3-70b-8xh100", "llama-3-8b-64xh800"}));
  ASSERT_FALSE(subjects);
  EXPECT_EQ(subjects.error().kind, model::ErrorKind::input);
  EXPECT_THAT(subjects.error().message, testing::HasSubstr("trains"));
}

model::Device gpu(std::vector<std::string> lacks) {
  model::Device device;
  device.name = "gpu";
  device.lacks = std::move(lacks);
  return device;
}

TEST(GpuKernels, AttentionIsUnfusedWhereNoFusedOneRuns) {
  model::Plan plan;
  plan.attention.kernel = "fused";
  EXPECT_TRUE(take_gpu_kernels(gpu({"cudnn", "flash3"}), {}, plan).empty());
  EXPECT_TRUE(take_gpu_kernels(gpu({"cudnn", "flash2"}), {"attention.kernel=\"fused\""}, plan).empty());
  EXPECT_EQ(plan.attention.kernel, "fused");
  EXPECT_EQ(take_gpu_kernels(gpu({"cudnn", "flash2"}), {}, plan).size(), 1U);
  EXPECT_EQ(plan.attention.kernel, "unfused");
}

TEST(MakeStack, TakesPlansAndTheirMeasuredSteps) {
  const tests::TemporaryDirectory folder;
  std::string rows = "plan,step_s\n";
  for (const char* seconds : {"8.1", "8.2", "8.3"}) rows += std::string("llama-3-8b-fsdp-64xh100,") + seconds + "\n";
  const std::string stack = (folder.path() / "mine.toml").string();
  const auto made = make_stack(folder.write("steps.csv", rows).string(), stack, "", "");
  ASSERT_TRUE(made) << model::to_string(made.error());
  EXPECT_NE(model::read_text_file(stack)->find("kind = \"fitted\""), std::string::npos);
}

TEST(MakeStack, NamesTheCellOfAPlanThatIsWrong) {
  const tests::TemporaryDirectory folder;
  const auto time = make_stack(folder.write("steps.csv", "plan,step_s\nllama-3-8b-64xh800,-1\n").string(), "-", "", "");
  ASSERT_FALSE(time);
  EXPECT_EQ(time.error().line, 2);
  EXPECT_EQ(time.error().key, "step_s");
  const auto column = make_stack(folder.write("other.csv", "plan\nllama-3-8b-64xh800\n").string(), "-", "", "");
  ASSERT_FALSE(column);
  EXPECT_EQ(column.error().key, "step_s");
}

}  // namespace
}  // namespace plumbline::cli
