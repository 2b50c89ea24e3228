#include "cli/inputs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "model/plan/layout.h"
#include "reports/text/plan/schedule_report.h"
#include "sim/predict/simulate.h"
#include "sim/tasks/inputs_key.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::cli {
namespace {

using testing::HasSubstr;
using tests::expect_error;

constexpr const char* served = R"([model]
config = "llama-3-8b"
[cluster]
topology = "h100-dgx"
gpus = 8
[stack]
name = "megatron-core-2025"
[inference]
chunked_prefill_tokens = 4096
)";

class ServingInputs : public testing::Test {
 protected:
  model::Result<sim::Inputs> load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    path_ = folder_.write("plan.toml", text).string();
    return InputsReader(Purpose::serving).load(path_, overrides);
  }
  const tests::TemporaryDirectory folder_;
  std::string path_;
};

TEST_F(ServingInputs, HaveTheEngineInPlaceOfTheTrainingStack) {
  const auto inputs = load(served, {"inference.engine=sglang"});
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  EXPECT_EQ(inputs->profile.stack(), "sglang");
  EXPECT_EQ(inputs->plan.stack.name, "sglang");
  EXPECT_TRUE(inputs->profile.find("serving.step"));
  EXPECT_FALSE(inputs->profile.find("host.synchronization"));  // of Megatron
  EXPECT_EQ(inputs->plan.inference.chunked_prefill_tokens, 4096);
  EXPECT_FALSE(inputs->left);
}

TEST_F(ServingInputs, HaveTheEngineAsItIsOnTheDevice) {
  const auto newer = load(served, {"inference.engine=vllm"});
  const auto older = load(served, {"inference.engine=vllm", "cluster.topology=a100-dgx"});
  ASSERT_TRUE(newer && older);
  EXPECT_EQ(newer->profile.stack(), "vllm");
  EXPECT_EQ(older->profile.stack(), "vllm-a100");
  EXPECT_EQ(older->profile.parameters()[older->profile.find("serving.most_requests").value()].value, 256);
  EXPECT_EQ(older->plan.inference.engine, "vllm");
}

// A name that nothing has is wrong where the plan or an option gives it.
TEST(Names, ThatNothingHasAreThoseOfTheirKey) {
  const tests::TemporaryDirectory folder;
  const auto miss = [&](const std::string& config, const std::string& topology, const std::string& profile,
                        const std::vector<std::string>& overrides) {
    const std::string text = "[model]\nconfig = \"" + config + "\"\n[cluster]\ntopology = \"" + topology +
                             "\"\nprofile = \"" + profile + "\"\ngpus = 8\n" +
                             "[batch]\nsequence_length = 8192\nmicro_batch_size = 1\nglobal_batch_size = 8\n";
    const auto inputs = InputsReader().load(folder.write("plan.toml", text).string(), overrides);
    EXPECT_FALSE(inputs) << text;
    return inputs ? model::Error{} : inputs.error();
  };
  const std::string plan = (folder.path() / "plan.toml").string();
  const auto expect_place = [](const model::Error& error, const std::string& file, int line, const std::string& key) {
    EXPECT_EQ(error.file, file) << to_string(error);
    EXPECT_EQ(error.line, line) << to_string(error);
    EXPECT_EQ(error.key, key) << to_string(error);
    EXPECT_THAT(error.message, HasSubstr("named 'nowhere'"));
  };
  expect_place(miss("nowhere", "h100-dgx", "h100", {}), plan, 2, "model.config");
  expect_place(miss("llama-3-8b", "nowhere", "h100", {}), plan, 4, "cluster.topology");
  expect_place(miss("llama-3-8b", "h100-dgx", "nowhere", {}), plan, 5, "cluster.profile");
  expect_place(miss("llama-3-8b", "h100-dgx", "h100", {"cluster.topology=nowhere"}), "--set", 0, "cluster.topology");
}

TEST_F(ServingInputs, NameAnUnknownEngine) {
  const auto unknown = load(served, {"inference.engine=vlm"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().key, "inference.engine");
  EXPECT_THAT(unknown.error().hint, testing::HasSubstr("did you mean 'vllm'?"));
  EXPECT_THAT(unknown.error().hint, testing::HasSubstr("sglang"));
  EXPECT_THAT(unknown.error().hint, testing::Not(testing::HasSubstr("megatron")));  // no engine
}

TEST_F(ServingInputs, NameAStackThatOnlyTrains) {
  const auto trains = load(served, {"inference.engine=megatron-core-2025"});
  ASSERT_FALSE(trains);
  EXPECT_EQ(trains.error().kind, model::ErrorKind::input);
  EXPECT_EQ(trains.error().key, "inference.engine");
  EXPECT_THAT(trains.error().hint, testing::HasSubstr("sglang"));
}

// A plan without [batch] is read to serve, one with it to train.
TEST_F(ServingInputs, AreThoseOfADeploymentAsStated) {
  const std::string path = folder_.write("plan.toml", served).string();
  InputsReader reader(Purpose::stated);
  const auto deployment = reader.load(path, {"inference.engine=sglang"});
  ASSERT_TRUE(deployment) << to_string(deployment.error());
  EXPECT_EQ(deployment->profile.stack(), "sglang");
  const auto trained =
      reader.load(path, {"batch.global_batch_size=64", "batch.micro_batch_size=1", "batch.sequence_length=4096"});
  ASSERT_TRUE(trained) << to_string(trained.error());
  EXPECT_EQ(trained->profile.stack(), "megatron-core-2025");
}

TEST_F(ServingInputs, OfAPlanThatTrainsHaveDefaults) {
  const auto inputs = InputsReader(Purpose::serving).load("llama-3-8b-64xh800", {});
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  EXPECT_TRUE(inputs->plan.inference.given);
  EXPECT_EQ(inputs->plan.stack.name, "generic");
  EXPECT_FALSE(InputsReader().load("llama-3-8b-64xh800", {})->plan.inference.given);
}

// Llama 3 70B was made for sequences of 8,192 tokens.
TEST(ShippedPlans, PromptsHavePositions) {
  InputsReader reader(Purpose::serving);
  EXPECT_TRUE(reader.load("llama-3-70b-8xh100", {"inference.input_tokens=8192"}));
  const auto longer = reader.load("llama-3-70b-8xh100", {"inference.input_tokens=8193"});
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().kind, model::ErrorKind::infeasible);
  EXPECT_EQ(longer.error().key, "inference.input_tokens");
  EXPECT_THAT(longer.error().hint, HasSubstr("at most 8192"));
  const auto guessed = reader.load("llama-3-70b-8xh100", {"inference.speculative_tokens=17"});
  ASSERT_FALSE(guessed);
  EXPECT_THAT(guessed.error().message, HasSubstr("at most 16"));
}

TEST(ShippedPlans, NameASmallModelThatDrafts) {
  InputsReader reader(Purpose::serving);
  const auto inputs =
      reader.load("llama-3-70b-8xh100", {"inference.speculative_tokens=3", "inference.draft=llama-3-8b"});
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  ASSERT_TRUE(inputs->draft);
  EXPECT_EQ(inputs->draft->layers, 32);
  EXPECT_FALSE(reader.load("llama-3-70b-8xh100", {"inference.speculative_tokens=3"})->draft) << "a head";
  EXPECT_FALSE(reader.load("llama-3-70b-8xh100", {"inference.draft=llama-3-8b"})->draft) << "nothing is drafted";
  const auto missing =
      reader.load("llama-3-70b-8xh100", {"inference.speculative_tokens=3", "inference.draft=llama-4-8b"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().key, "inference.draft");
}

TEST(ShippedPlans, OfRolloutsHaveTheDeploymentThatGenerates) {
  InputsReader reader;
  const auto inputs = reader.load("dapo-qwen3-32b-128xh100", {"rollout.reward_model=qwen3-8b"});
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  ASSERT_TRUE(inputs->engines);
  EXPECT_EQ(inputs->plan.stack.name, "pytorch-fsdp-eager");
  EXPECT_EQ(inputs->engines->plan.stack.name, "vllm");
  EXPECT_EQ(inputs->engines->profile.stack(), "vllm");
  EXPECT_EQ(inputs->engines->plan.parallelism.tensor, 4);
  EXPECT_EQ(inputs->engines->cluster.gpus, 128);
  EXPECT_FALSE(inputs->engines->engines);
  ASSERT_TRUE(inputs->reward);
  EXPECT_EQ(inputs->reward->layers, 36);
  EXPECT_FALSE(reader.load("dapo-qwen3-32b-128xh100", {})->reward) << "a rule";
  EXPECT_FALSE(reader.load("llama-3-8b-64xh800", {})->engines);
  const auto split = reader.load("dapo-qwen3-32b-128xh100", {"rollout.placement=split", "rollout.gpus=64"});
  ASSERT_TRUE(split) << to_string(split.error());
  EXPECT_EQ(split->cluster.gpus, 128);
  EXPECT_EQ(split->engines->cluster.gpus, 64);
  const auto missing = reader.load("dapo-qwen3-32b-128xh100", {"rollout.reward_model=qwen3-9b"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().key, "rollout.reward_model");
  const auto longer =
      reader.load("dapo-qwen3-32b-128xh100", {"rollout.max_answer_tokens=40705", "batch.sequence_length=45056"});
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().key, "rollout.max_answer_tokens");
  EXPECT_THAT(longer.error().hint, HasSubstr("at most 40704"));
}

// Campaigns are those of pretraining.
TEST(ShippedPlans, OfRolloutsHaveNoCampaign) {
  EXPECT_TRUE(InputsReader(Purpose::stated).load("dapo-qwen3-32b-128xh100", {})->engines) << "sweep and compare";
  const auto campaign = InputsReader().load("dapo-qwen3-32b-128xh100", {"run.goodput=campaign"});
  ASSERT_FALSE(campaign);
  EXPECT_EQ(campaign.error().key, "rollout");
}

TEST(ShippedPlans, ThatServeAreFoundByName) {
  const auto plan = find_plan("llama-3-70b-8xh100", {});
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_TRUE(plan->inference.given);
  const auto missing = find_plan("llama-3-70b-8xh200", {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().hint, testing::HasSubstr("did you mean 'llama-3-70b-8xh100'?"));
}

TEST_F(ServingInputs, TakeAnEngineFromAFileNextToThePlan) {
  folder_.write("ours.toml",
                "extends = \"vllm\"\nserving.step = { value = 50, unit = \"us\", kind = \"measured\", "
                "source = \"our trace\" }\n");
  const auto inputs = load(served, {"inference.engine=ours.toml"});
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  const auto wait = inputs->profile.find("serving.step");
  ASSERT_TRUE(wait);
  EXPECT_EQ(inputs->profile.parameters()[*wait].value, 50);
}

// The peak of the H100 in BF16 is 989 TFLOP/s on 132 SMs, and its memory has 3.35 TB/s.
TEST(OwnDevice, TakesConstantsByTheRatioOfDatasheets) {
  const tests::TemporaryDirectory folder;
  const auto entry = [](const char* key, double value, const char* unit) {
    return fmt::format("{} = {{ value = {}, unit = \"{}\", kind = \"datasheet\", source = \"s\" }}\n", key, value,
                       unit);
  };
  folder.write("mine.toml", "extends = \"h100-sxm\"\n" + entry("bf16_peak", 3 * 989, "TFLOP/s") +
                                entry("memory_bandwidth", 2 * 3.35, "TB/s"));
  const std::string path = folder.write("plan.toml", served).string();
  const auto load = [&](const std::string& profile) {
    return InputsReader(Purpose::serving).load(path, {"cluster.device=mine.toml", "cluster.profile=" + profile});
  };
  const auto inputs = load("scaled:h100");
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  const model::Profile measured = find_profile("h100").value();
  const auto ratio = [&](const char* name) {
    return inputs->profile.parameters()[inputs->profile.find(name).value()].value /
           measured.parameters()[measured.find(name).value()].value;
  };
  EXPECT_EQ(inputs->profile.name(), "scaled:h100");
  EXPECT_NEAR(ratio("gemm.bf16.k_time"), 1.0 / 3, 1e-9);
  EXPECT_NEAR(ratio("memory.default.bandwidth"), 2, 1e-9);
  EXPECT_NEAR(ratio("gemm.bf16.wave_overhead"), 1, 1e-9);
  folder.write("none.toml", "description = \"of no device\"\n");
  const auto unmeasured = load("scaled:none.toml");
  ASSERT_FALSE(unmeasured);
  expect_error(unmeasured.error(), model::ErrorKind::input, "--set", 0, "cluster.profile", "names no device");
}

// The program of a file is that of the schedule that was written.
TEST(ScheduleOfAFile, TakesTheTimeOfTheSameOrder) {
  const tests::TemporaryDirectory folder;
  const auto load = [](const std::string& kind) {
    return InputsReader().load("llama-3-8b-64xh800",
                               {"parallelism.pipeline=4", "batch.global_batch_size=128", "schedule.kind=" + kind});
  };
  const auto step = [&](const std::string& kind) {
    const auto inputs = load(kind);
    if (!inputs) throw std::runtime_error(to_string(inputs.error()));
    const auto layout = model::make_layout(inputs->plan, inputs->architecture);
    const auto schedule = model::schedule_kind(inputs->plan).value()->build(layout->schedule);
    folder.write("mine.csv", reports::schedule_csv(schedule));
    return sim::simulate(*inputs, sim::Fidelity::closed_form, false)->result.step.time_s;
  };
  const double own = step("zb-h1");
  const std::string file = "file:" + (folder.path() / "mine.csv").string();
  EXPECT_DOUBLE_EQ(step(file), own);
  const std::string key = sim::bytes_of(load(file).value());
  EXPECT_NE(step("gpipe"), own);
  EXPECT_NE(sim::bytes_of(load(file).value()), key) << "kept results are of an order, not of a path";
  for (const char* change : {"schedule.kind=file:mine.csv", "schedule.kind=\"file:mine.csv\"", "cluster.gpus=8"})
    EXPECT_FALSE(is_of_plan_alone(change)) << change;
  EXPECT_TRUE(is_of_plan_alone("schedule.kind=\"gpipe\""));
  const auto missing = InputsReader().load("llama-3-8b-64xh800", {"schedule.kind=file:none.csv"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().file, "none.csv");
  const auto unnamed = load("file:");
  ASSERT_FALSE(unnamed);
  EXPECT_EQ(unnamed.error().key, "schedule.kind");
  const auto other = InputsReader().load("llama-3-8b-64xh800", {"schedule.kind=" + file});
  EXPECT_TRUE(!other || !model::make_layout(other->plan, other->architecture));
}

}  // namespace
}  // namespace plumbline::cli
