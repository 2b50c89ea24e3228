#include "calibrate/validate/validation_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/component_case.h"
#include "calibrate/validate/detail/case_rows.h"
#include "calibrate/validate/serving/serving_case.h"
#include "calibrate/validate/step_case.h"
#include "model/architecture/load_architecture.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

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
    return load_case(path_, files());
  }
  static CaseFiles files() {
    const auto find = [](const std::string&, const std::string& name) {
      return model::Result<std::string>(tests::shipped("calibrate/published/" + name + ".csv"));
    };
    return {find, tests::shipped("calibrate/kernels.toml")};
  }
  void expect(const std::string& text, int line, const std::string& key, const std::string& message) const {
    const auto loaded = load(text);
    ASSERT_FALSE(loaded.has_value());
    tests::expect_error(loaded.error(), model::ErrorKind::input, path_, line, key, message);
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

const std::string chunk = "chunk = \"h800_dualpipe_chunk\"\nsource = \"a profile\"\n";
const std::string spans =
    "[[figure]]\n"
    "metric = \"chunk.span_s.{attn(F),mlp(B)}.{1,2}\"\n"
    "name = \"{1}, slot {2}\"\n"
    "group = \"phases\"\n"
    "unit = \"ms\"\n"
    "scale = 1000\n"
    "tolerance = 0.05\n";

TEST_F(CaseFile, TakesValuesFromItsChunk) {
  const auto loaded = load(head + chunk + spans);
  ASSERT_TRUE(loaded.has_value()) << to_string(loaded.error());
  ASSERT_EQ(loaded->figures.size(), 4u);
  // Spans of the published profile: attn(F) 4.393 and 4.567 ms, mlp(B) 5.467 and 5.467 ms in slots 1 and 2.
  EXPECT_EQ(loaded->figures[1].name, "attn(F), slot 2");
  EXPECT_EQ(loaded->figures[1].metric, "chunk.span_s.attn(F).2");
  EXPECT_NEAR(loaded->figures[1].value, 4.567, 1e-9);
  EXPECT_NEAR(loaded->figures[2].value, 5.467, 1e-9);
  EXPECT_EQ(loaded->figures[2].source, "a profile");
  ASSERT_TRUE(loaded->chunk_rank.has_value());
  EXPECT_EQ(loaded->chunk_rank->slots.at(0).forward_rows, 31104);
  EXPECT_TRUE(needs_of(*loaded).chunk);
  EXPECT_FALSE(needs_of(*loaded).step || needs_of(*loaded).kernels);

  const auto pair = load(head + chunk + with(figure, "value = 2000", "published = \"chunk.time_s\""));
  ASSERT_TRUE(pair.has_value()) << to_string(pair.error());
  EXPECT_NEAR(pair->figures[0].value, 129.01, 0.01);
}

TEST_F(CaseFile, ErrorsAboutChunksNameTheirPlace) {
  const std::string before = head + chunk;  // six lines
  expect(head + spans, 6, "figure.metric", "names no chunk");
  expect(before + with(spans, "span_s", "spam_s"), 8, "figure.metric", "did you mean 'chunk.span_s'?");
  expect(before + with(spans, "{1,2}", "{1,9}"), 8, "figure.metric", "has no chunk.span_s.attn(F).9");
  expect(before + with(spans, "{1,2}", "{1,2"), 8, "figure.metric", "braces");
  expect(before + with(spans, "name =", "nam =") + "", 9, "figure.nam", "did you mean 'name'?");
  expect(before + with(spans, "tolerance = 0.05", "tolerance = 0.05\nat_most = 3"), 13, "figure.tolerance", "one of");
  expect(head + with(figure, "value = 2000", "published = \"chunk.time_s\""), 6, "figure.metric", "names no chunk");
  expect(before + spans + "[[aggregate]]\nname = \"m\"\nover = \"phase\"\nstatistic = \"rms_error\"\ntolerance = 1\n",
         14, "aggregate.over", "did you mean 'phases'?");
  expect(before + spans + "[[aggregate]]\nname = \"m\"\nover = \"phases\"\nstatistic = \"mean\"\ntolerance = 1\n", 14,
         "aggregate.statistic", "rms_error");
  const auto foreign = load(with(before, "h800_dualpipe_chunk", "gemm") + spans);
  ASSERT_FALSE(foreign.has_value());
  EXPECT_EQ(foreign.error().file, tests::shipped("calibrate/published/gemm.csv"));  // whose columns are no chunk's
}

const std::string row =
    "[[figure]]\n"
    "metric = \"gemm_s\"\n"
    "row = \"{gemm0013,gemm0019}\"\n"
    "unit = \"us\"\n"
    "scale = 1e6\n";

TEST_F(CaseFile, TakesGemmsFromItsTable) {
  const auto loaded = load(head + "table = \"gemm\"\n" + row);
  ASSERT_TRUE(loaded.has_value()) << to_string(loaded.error());
  ASSERT_EQ(loaded->figures.size(), 2u);
  EXPECT_EQ(loaded->figures[0].name, "4096x2112x7168");
  EXPECT_NEAR(loaded->figures[0].value, 117.22, 1e-9);
  EXPECT_EQ(loaded->figures[1].name, "4 of 8192x4096x7168");
  EXPECT_EQ(std::get<GemmQuestion>(*loaded->figures[1].question).flops(), 2.0 * 4 * 8192 * 4096 * 7168);
  expect(head + "table = \"gemm\"\n" + with(row, "gemm0013", "gemm013"), 8, "figure.row", "did you mean 'gemm0013'?");
  expect(head + row, 7, "figure.row", "no row 'gemm0013'");
  expect(head + "table = \"gemm\"\n" + row + "value = 3\n", 11, "figure.value", "has the value already");
}

const std::string all_to_all =
    "[[figure]]\n"
    "metric = \"combine_rate\"\n"
    "row = \"{ep008,ep010}\"\n"
    "unit = \"GB/s\"\n"
    "scale = 1e-9\n";

TEST_F(CaseFile, TakesAllToAllsFromItsTable) {
  const auto loaded = load(head + "table = \"deepep\"\n" + all_to_all + figure);
  ASSERT_TRUE(loaded.has_value()) << to_string(loaded.error());
  ASSERT_EQ(loaded->figures.size(), 3u);
  // The figure is as printed over NVLink. Over RDMA it is the part that leaves the node: 57 GB/s times 3/4.
  EXPECT_EQ(loaded->figures[0].name, "combine, 8 ranks");
  EXPECT_NEAR(loaded->figures[0].value, 158, 1e-9);
  EXPECT_EQ(loaded->figures[0].all_to_all->link, AllToAllQuestion::Link::nvlink);
  EXPECT_NEAR(loaded->figures[1].value, 42.8, 1e-9);
  EXPECT_EQ(loaded->figures[1].all_to_all->link, AllToAllQuestion::Link::nic);
  EXPECT_EQ(loaded->figures[1].all_to_all->direction, AllToAllQuestion::Direction::combine);
  EXPECT_EQ(loaded->figures[1].all_to_all->ranks, 32);
  EXPECT_TRUE(needs_of(*loaded).all_to_alls && needs_of(*loaded).step);
  EXPECT_FALSE(needs_of(*loaded).kernels);
}

TEST_F(CaseFile, ErrorsAboutAllToAllsNameTheirPlace) {
  const std::string before = head + "table = \"deepep\"\n";  // five lines
  expect(before + with(all_to_all, "ep008", "ep08"), 8, "figure.row", "did you mean 'ep008'?");
  expect(before + with(all_to_all, "ep008", "ep033"), 8, "figure.row", "no row 'ep033'");  // low latency
  expect(before + all_to_all + "value = 3\n", 11, "figure.value", "has the value already");
  expect(before + with(with(all_to_all, "row", "name"), "{ep008,ep010}", "x\"\nvalue = 3\nsource = \"y"), 7,
         "figure.metric", "does not fit");
  const auto other = load(head + "table = \"gemm\"\n" + all_to_all);
  ASSERT_FALSE(other.has_value());
  tests::expect_error(other.error(), model::ErrorKind::input, tests::shipped("calibrate/published/gemm.csv"), 3,
                      "kernel_mode", "the column is missing");
}

TEST_F(CaseFile, AsksForSingleKernels) {
  const std::string gemm =
      with(figure, "step.time_s", "gemm_s") + "gemm = { m = 64, n = 32, k = 16, type = \"bf16\" }\n";
  const auto loaded = load(head + gemm);
  ASSERT_TRUE(loaded.has_value()) << to_string(loaded.error());
  EXPECT_EQ(std::get<GemmQuestion>(*loaded->figures[0].question).type, model::Precision::bf16);
  expect(head + with(gemm, "bf16", "bf17"), 13, "figure.gemm.type", "");
  expect(head + with(gemm, "m = 64", "m = 0"), 13, "figure.gemm.m", "whole number above 0");
  expect(head + with(gemm, "gemm_s", "step.time_s"), 6, "figure.metric", "does not fit");
  expect(head + with(figure, "step.time_s", "gemm_s"), 6, "figure.metric", "does not fit");
  const std::string slower = with(figure, "step.time_s", "memory_factor") +
                             "memory_factor = { class = \"cast\", held = 112, beside = \"gemm\" }\n";
  EXPECT_TRUE(load(head + slower).has_value());
  expect(head + with(slower, "\"cast\"", "\"copy\""), 13, "figure.memory_factor", "known: cast, norm, norm_gradient");
}

TEST(Alternatives, StandForAllCombinations) {
  const auto all = alternatives("a.{b,c}.{1,2}").value();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1].text, "a.b.2");
  EXPECT_EQ(all[2].choices, (std::vector<std::string>{"c", "1"}));
  EXPECT_EQ(with_choices("{2} of {1}, {1}", {"x", "y"}), "y of x, x");
  EXPECT_EQ(alternatives("plain").value().size(), 1u);
  for (const char* broken : {"a{", "a}", "a{b{c}}", "a{}", "}{"})
    EXPECT_FALSE(alternatives(broken).has_value()) << broken;
  std::string many;
  for (int i = 0; i < 20; ++i) many += "{1,2}";  // a million
  EXPECT_FALSE(alternatives(many).has_value());
}

TEST(Demands, AreRelativeAbsoluteOrABound) {
  Figure demanded{"step.time_s", "", "s", 10, 1, {}, ""};
  EXPECT_EQ(demanded.within(10), std::nullopt);
  demanded.tolerance = 0.1;
  EXPECT_EQ(demanded.within(10.9), true);
  EXPECT_EQ(demanded.within(11.1), false);
  EXPECT_EQ(demanded.within(std::nullopt), false);
  demanded.tolerance.reset();
  demanded.absolute_tolerance = 1.5;
  EXPECT_EQ(demanded.within(8.6), true);
  EXPECT_EQ(demanded.within(8.4), false);
  demanded.absolute_tolerance.reset();
  demanded.at_most = 4;
  EXPECT_EQ(demanded.within(0), true);
  EXPECT_EQ(demanded.within(4.1), false);
  EXPECT_EQ(demanded.within(-0.1), false);
}

TEST(AggregateOfErrors, MedianAndRootMeanSquare) {
  Aggregate aggregate;
  EXPECT_EQ(aggregate.of({}), std::nullopt);
  EXPECT_EQ(aggregate.of({-0.3, 0.1, 0.2}), 0.2);
  EXPECT_DOUBLE_EQ(aggregate.of({-0.3, 0.1, 0.2, 0.4}).value(), 0.25);
  aggregate.statistic = Aggregate::Statistic::rms_error;
  EXPECT_DOUBLE_EQ(aggregate.of({0.3, -0.4}).value(), std::sqrt(0.125));
}

// One 128 x 128 tile more than the GPU has SMs takes a second wave; kernels of 20 SMs run on 20.
TEST(SingleKernel, AsksTheCostFunction) {
  const auto inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  const auto kernels = SingleKernels::make(inputs.profile, inputs.cluster.device).value();
  const auto seconds = [&](std::int64_t tiles, std::int64_t sms) {
    return kernels.answer(GemmQuestion{1, 128 * tiles, 128, 7168, model::Precision::fp8, sms});
  };
  EXPECT_EQ(seconds(132, 0), seconds(132, 132));
  EXPECT_LE(seconds(100, 112), seconds(112, 112));
  EXPECT_GT(seconds(113, 112), 1.5 * seconds(112, 112));
  const double cast = kernels.answer(SlowdownQuestion{"cast", "gemm", 112});
  EXPECT_GT(cast, 4);                  // a GEMM's block leaves little of its SM free
  EXPECT_LE(cast, 132.0 / 20 + 1e-9);  // 20 SMs are free of it
}

TEST(CaseMetric, ReadsScalesAndSums) {
  model::StepResult result;
  result.step.time_s = 2.5;
  result.step.slots_s[static_cast<std::size_t>(model::OpType::B)] = 1.0;
  Figure milliseconds{"step.time_s", "", "ms", 1, 1000, {}, ""};
  EXPECT_EQ(predicted(milliseconds, {.step = &result}), 2500);
  EXPECT_EQ(predicted(milliseconds, {}), std::nullopt);
  EXPECT_EQ(metric_value("step.slots_s.B", result), 1.0);
  // A value that was not computed is missing, and so is a sum with it.
  EXPECT_EQ(metric_value("step.slots_s.B + step.slots_s.I", result), std::nullopt);
  result.step.slots_s[static_cast<std::size_t>(model::OpType::I)] = 0.5;
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
  const Naive naive = naive_prediction(plan, llama, cluster, 0.5);
  // 51.4744 GFLOP per token (six per activated matrix parameter and attention over 4096 keys) * 40960 tokens over
  // eight GPUs at half of 1 PFLOP/s: matrices 32 * 218,103,808 + 128256 * 4096, attention 32 * 6 * 4096 * 32 * 256.
  const double per_token = 6 * (32 * 218103808.0 + 128256.0 * 4096) + 32 * 6.0 * 4096 * 32 * 256;
  EXPECT_NEAR(naive.step.step.time_s, per_token * 40960 / (8 * 0.5e15), 1e-9);
  EXPECT_EQ(baseline({"step.time_s", "", "s", 1, 1, {}, ""}, naive), naive.step.step.time_s);
  Figure gemm{"gemm_s", "", "us", 1, 1e6, {}, ""};
  gemm.question = GemmQuestion{1, 1000, 1000, 500, model::Precision::fp8, 0};
  EXPECT_NEAR(baseline(gemm, naive).value(), 2, 1e-9);  // 1 GFLOP at half of 1 PFLOP/s
  EXPECT_EQ(baseline({"step.mfu", "", "", 1, 1, {}, ""}, naive), std::nullopt);
  EXPECT_EQ(baseline({"step.slots_s.F", "", "s", 1, 1, {}, ""}, naive), std::nullopt);
}

TEST_F(CaseFile, ShippedOnesAreRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(tests::shipped("calibrate/cases"))) {
    const std::string path = entry.path().string();
    if (is_step_case(path) || is_component_case(path) || is_serving_case(path)) continue;
    const auto loaded = load_case(entry.path().string(), files());
    EXPECT_TRUE(loaded.has_value()) << to_string(loaded.error());
    ++count;
  }
  EXPECT_GE(count, 4);
}

}  // namespace
}  // namespace plumbline::calibrate
