#include "calibrate/validation_case.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "calibrate/metric.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using model::ErrorKind;
using model::OpType;

const std::string head =
    "name = \"a case\"\n"
    "plan = \"a-plan\"\n"
    "profiles = [\"low\", \"high\"]\n"
    "naive = { mfu = 0.4, source = \"assumed\" }\n";
const std::string figure =
    "[[figure]]\n"
    "metric = \"step.time_s\"\n"
    "name = \"step time\"\n"
    "unit = \"ms\"\n"
    "value = 2000\n"
    "scale = 1000\n"
    "tolerance = 0.1\n"
    "source = \"a paper\"\n";

class CaseFile : public testing::Test {
 protected:
  const tests::TemporaryDirectory folder_;
  std::string path_ = (folder_.path() / "case.toml").string();

  model::Result<ValidationCase> load(const std::string& text) const {
    folder_.write("case.toml", text);
    return load_case(path_);
  }
  void expect(const std::string& text, int line, const std::string& key, const std::string& message) const {
    const auto loaded = load(text);
    ASSERT_FALSE(loaded.has_value());
    tests::expect_error(loaded.error(), ErrorKind::input, path_, line, key, message);
  }
  static std::string with(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  }
};

TEST_F(CaseFile, IsReadAsWritten) {
  const auto loaded = load(head + figure);
  ASSERT_TRUE(loaded.has_value()) << to_string(loaded.error());
  EXPECT_EQ(loaded->name, "a case");
  EXPECT_EQ(loaded->plan, "a-plan");
  EXPECT_EQ(loaded->profiles, (std::vector<std::string>{"low", "high"}));
  EXPECT_EQ(loaded->naive_mfu, 0.4);
  ASSERT_EQ(loaded->figures.size(), 1u);
  EXPECT_EQ(loaded->figures[0].value, 2000);
  EXPECT_EQ(loaded->figures[0].tolerance, 0.1);
  EXPECT_EQ(loaded->figures[0].source, "a paper");
}

TEST_F(CaseFile, ErrorsNameTheirPlace) {
  expect(with(head, "plan =", "plam =") + figure, 0, "plan", "required key is missing");
  expect(head + "tolerence = 1\n" + figure, 5, "tolerence", "unknown key");
  expect(head, 0, "figure", "required key is missing");
  expect(head + with(figure, "step.time_s", "step.tims"), 6, "figure.metric", "did you mean 'step.time_s'?");
  expect(head + with(figure, "step.time_s", "step.mfu + step.bubble"), 6, "figure.metric",
         "unknown metric 'step.bubble'");
  expect(head + with(figure, "2000", "\"2000\""), 9, "figure.value", "expected a number above 0");
  expect(head + with(figure, "tolerance", "tolerence"), 11, "figure.tolerence", "did you mean 'tolerance'?");
  expect(with(head, "[\"low\", \"high\"]", "[]") + figure, 3, "profiles", "list of strings");
  expect(with(head, "mfu = 0.4, ", "") + figure, 4, "naive.mfu", "required key is missing");
  expect(head + "figure = 3\n", 5, "figure", "list of tables");
  expect(head + "x = = 1\n" + figure, 5, "", "");
}

TEST(CaseMetric, ReadsScalesAndSums) {
  model::StepResult result;
  result.step.time_s = 2.5;
  result.step.slots_s[static_cast<std::size_t>(OpType::B)] = 1.0;
  Figure milliseconds{"step.time_s", "", "ms", 1, 1000, {}, ""};
  EXPECT_EQ(predicted(milliseconds, result), 2500);
  EXPECT_EQ(metric_value("step.slots_s.B", result), 1.0);
  // What nobody computed is nothing, and so is a sum with it.
  EXPECT_EQ(metric_value("step.slots_s.B + step.slots_s.I", result), std::nullopt);
  result.step.slots_s[static_cast<std::size_t>(OpType::I)] = 0.5;
  EXPECT_EQ(metric_value("step.slots_s.B+step.slots_s.I", result), 1.5);
  EXPECT_EQ(metric_value("run.gpu_hours", result), std::nullopt);
}

TEST(Baseline, IsAConstantShareOfThePeak) {
  model::Plan plan;
  plan.cluster.gpus = 8;
  plan.batch.sequence_length = 4096;
  plan.batch.global_batch_size = 10;
  model::ClusterShape cluster;
  cluster.device.bf16_peak = model::FlopsPerSecond(1e15);
  const auto llama = model::load_architecture(tests::shipped("examples/models/llama-3-8b.json")).value();
  const model::StepResult naive = naive_result(plan, llama, cluster, 0.5);
  // 51.4744 GFLOP per token (six per activated matrix parameter and attention over 4096 keys) * 40960 tokens over
  // eight GPUs at half of 1 PFLOP/s: matrices 32 * 218,103,808 + 128256 * 4096, attention 32 * 6 * 4096 * 32 * 256.
  const double per_token = 6 * (32 * 218103808.0 + 128256.0 * 4096) + 32 * 6.0 * 4096 * 32 * 256;
  EXPECT_NEAR(naive.step.time_s, per_token * 40960 / (8 * 0.5e15), 1e-9);
  EXPECT_EQ(baseline({"step.time_s", "", "s", 1, 1, {}, ""}, naive), naive.step.time_s);
  EXPECT_EQ(baseline({"step.mfu", "", "", 1, 1, {}, ""}, naive), std::nullopt);
  EXPECT_EQ(baseline({"step.slots_s.F", "", "s", 1, 1, {}, ""}, naive), std::nullopt);
}

TEST(ShippedCases, AreRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tests::shipped("calibrate/cases"))) {
    const auto loaded = load_case(entry.path().string());
    EXPECT_TRUE(loaded.has_value()) << to_string(loaded.error());
    ++count;
  }
  EXPECT_GE(count, 2);
}

}  // namespace
}  // namespace plumbline::calibrate
