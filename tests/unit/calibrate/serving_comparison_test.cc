// Cases over published deployments: their files, the plans of rows, and errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "calibrate/validate/serving/serving_case.h"
#include "sim/serving/serving.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

const std::string columns =
    "id,set,model,hardware,phase,engine,gpus,tensor,attention_data,expert,weights,kv_cache,concurrency,input_tokens,"
    "output_tokens,step_ms,tpot_ms,tokens_per_s_per_gpu,plan,missing\n";
const std::string serving_case_text = R"(name = "ours"
deployments = ["rows"]
[[hardware]]
name = "H100"
topology = "h100-dgx"
profile = "h100"
[[model]]
name = "Llama"
config = "models/llama-3-8b.json"
[[demand]]
name = "all"
figure = "TPOT"
sets = ["a"]
limit = 0.5
aim = 1e-9
)";

class ServingCases : public testing::Test {
 protected:
  const tests::TemporaryDirectory folder_;

  ServingCase load(const std::string& text = serving_case_text) const {
    return load_serving_case(folder_.write("case.toml", text).string()).value();
  }
  std::vector<PublishedServing> rows(const std::string& text) const {
    return read_published_serving(folder_.write("rows.csv", columns + text).string()).value();
  }
  static model::Result<sim::Inputs> inputs(const model::Plan& plan, const std::string& profile,
                                           const std::string& /* held_out */) {
    return tests::inputs_of_plan(plan, profile);
  }
  static model::ServingResult predicted(const PublishedServing& row, const ServingCase& definition) {
    const ServingPlan plan = serving_plan(row, definition).value();
    return sim::predict_serving(inputs(plan.plan, plan.profile, "").value()).value();
  }
};

TEST_F(ServingCases, AreDistinguishedFromOtherCases) {
  EXPECT_TRUE(is_serving_case(folder_.write("case.toml", serving_case_text).string()));
  EXPECT_FALSE(is_serving_case(tests::shipped("calibrate/cases/components.toml")));
  EXPECT_FALSE(is_serving_case("no-such-file.toml"));
  std::string wrong = serving_case_text;
  wrong.replace(wrong.find("TPOT"), 4, "last");
  const std::string path = folder_.write("wrong.toml", wrong).string();
  const auto refused = load_serving_case(path);
  ASSERT_FALSE(refused);
  tests::expect_error(refused.error(), model::ErrorKind::input, path, 12, "demand.figure", "unknown figure 'last'");
}

TEST_F(ServingCases, RowsStateConstants) {
  const auto read = rows(
      "r1,a,Llama,H100,mixed,vllm,1,1,1,1,bf16,,64,1024,256,,10,1000,profile.serving.graphs.most=384,\n"
      "r2,a,Llama,H100,mixed,vllm,1,1,1,1,bf16,,64,1024,256,,10,1000,profile.serving.graphs.most,\n");
  const auto constants = serving_plan(read[0], load())->constants;
  ASSERT_EQ(constants.size(), 1u);
  EXPECT_EQ(constants[0].name, "serving.graphs.most");
  EXPECT_EQ(constants[0].value, 384);
  const auto refused = serving_plan(read[1], load());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "'profile.serving.graphs.most' has no number");
}

// Rows are compared with their own constants: an error about one names the row and what the row states.
TEST_F(ServingCases, ErrorsAboutConstantsNameTheRow) {
  const auto read =
      rows("r1,a,Llama,H100,mixed,vllm,1,1,1,1,bf16,,64,1024,256,,10,1000,profile.gemm.bf16.k_tim=1e-9,\n");
  const ServingComparison compared = compare_serving(load(), read, inputs);
  ASSERT_TRUE(compared.rows[0].error);
  const model::Error& error = *compared.rows[0].error;
  EXPECT_EQ(error.key, "r1");
  EXPECT_EQ(error.message, "profile.gemm.bf16.k_tim: unknown constant");
  EXPECT_NE(error.hint.find("gemm.bf16.k_time"), std::string::npos) << error.hint;
}

TEST_F(ServingCases, RowsHaveTheirPlans) {
  const auto read = rows(
      "r1,a,Llama,H100,mixed,vllm,2,2,1,1,bf16,,64,1024,256,,10,1000,inference.chunked_prefill_tokens=2048,\n"
      "r2,a,Llama,H100,average decode,vllm,1,1,1,1,fp8,fp8,8,1000,100,5,,,,changing load\n"
      "r3,a,Llama,H100,offline,vllm,1,1,1,1,bf16,bf16,,1024,256,,,9000,,\n"
      "r4,a,Llama,H100,mixed,vllm,1,1,1,1,bf16,bf16,,,256,,,9000,,\n"
      "r5,a,Llama,H100,unlike mixed,vllm,1,1,1,1,bf16,bf16,8,1024,256,,10,,,cached prompts\n");
  const ServingCase definition = load();
  const model::Plan mixed = serving_plan(read[0], definition)->plan;
  EXPECT_EQ(mixed.parallelism.tensor, 2);
  EXPECT_EQ(mixed.inference.engine, "vllm");
  EXPECT_EQ(mixed.inference.concurrency, 64);
  EXPECT_EQ(mixed.inference.chunked_prefill_tokens, 2048);
  EXPECT_EQ(mixed.inference.arrivals, "steady");
  const model::Plan decode = serving_plan(read[1], definition)->plan;
  EXPECT_TRUE(read[1].average);
  EXPECT_EQ(decode.inference.kv_cache, "fp8");
  EXPECT_EQ(decode.inference.arrivals, "waves") << "all requests of the row decode";
  EXPECT_EQ(serving_plan(read[2], definition)->plan.inference.concurrency, 0);
  EXPECT_EQ(read[3].lacking(), (std::vector<std::string>{"concurrency", "input_tokens"}));
  EXPECT_FALSE(read[3].average);
  EXPECT_TRUE(read[4].average) << "a ratio";
  EXPECT_EQ(read[4].phase, ServingPhase::mixed);
  const std::string path =
      folder_.write("wrong.csv", columns + "r,a,Llama,H100,both,vllm,1,1,1,1,bf16,,1,1,1,,1,,,\n").string();
  const auto refused = read_published_serving(path);
  ASSERT_FALSE(refused);
  tests::expect_error(refused.error(), model::ErrorKind::input, path, 2, "phase", "'both' is none of prefill");
}

// A row that states what is predicted has no error, one that states half of it one of 100 %. The second tensor degree
// is published twice as slow as it is predicted: its ratio is off by half, and the order of both turns.
TEST_F(ServingCases, ErrorsAreThoseOfThePredictions) {
  const ServingCase definition = load();
  const std::string one = "r1,a,Llama,H100,mixed,vllm,1,1,1,1,bf16,,16,1024,256,,10,1000,,\n";
  const std::string two = "r2,a,Llama,H100,mixed,vllm,2,2,1,1,bf16,,16,1024,256,,10,,,\n";
  auto read = rows(one + two + "r3,b,Other,H100,mixed,vllm,1,1,1,1,bf16,,16,1024,256,,10,,,\n");
  const model::ServingResult first = predicted(read[0], definition), second = predicted(read[1], definition);
  read[0].tpot_s = first.tpot_s;
  read[0].tokens_per_s_per_gpu = first.output_tokens_per_s_per_gpu / 2;
  read[1].tpot_s = 2 * second.tpot_s;
  const ServingComparison compared = compare_serving(definition, read, inputs);
  ASSERT_EQ(compared.rows[0].figures.size(), 2U);
  EXPECT_NEAR(compared.rows[0].figures[0].error(), 0, 1e-12);
  EXPECT_NEAR(compared.rows[0].figures[1].error(), 1, 1e-12);
  EXPECT_LT(compared.rows[0].figures[0].roofline, first.tpot_s);
  EXPECT_NEAR(compared.rows[1].figures[0].error(), -0.5, 1e-12);
  ASSERT_TRUE(compared.rows[2].error);
  EXPECT_EQ(compared.rows[2].error->key, "r3");
  ASSERT_EQ(compared.ratios.size(), 1U);
  EXPECT_EQ(compared.ratios[0].rows, 1U);
  EXPECT_NEAR(compared.ratios[0].median_error, 0.5, 1e-12);
  ASSERT_EQ(compared.demands.size(), 1U);
  EXPECT_TRUE(compared.demands[0].holds());
  EXPECT_FALSE(compared.demands[0].reaches_aim());
  ASSERT_EQ(compared.orders.size(), 1U);
  EXPECT_EQ(compared.orders[0].rows, 2U);
  EXPECT_TRUE(compared.splits.empty()) << "one output length";
}

// A prompt waits for others: the first token is not that of a request alone.
TEST_F(ServingCases, FirstTokensAreComparedAtTheLoad) {
  const ServingCase definition = load();
  auto read = rows("r1,a,Llama,H100,mixed,vllm,1,1,1,1,bf16,,64,1024,256,,10,,,\n");
  const model::ServingResult loaded = predicted(read[0], definition);
  read[0].ttft_s = loaded.ttft_s / 2;
  const ServingComparison compared = compare_serving(definition, read, inputs);
  ASSERT_EQ(compared.rows[0].figures.size(), 2U);
  const ComparedFigure& first = compared.rows[0].figures[1];
  EXPECT_EQ(first.name, "TTFT");
  EXPECT_NEAR(first.error(), 1, 1e-12);
  EXPECT_LT(first.roofline, loaded.ttft_unloaded_s);
  EXPECT_GT(loaded.ttft_s, loaded.ttft_unloaded_s);
  ASSERT_EQ(compared.summaries.size(), 2U);
  EXPECT_EQ(compared.summaries[1].figure, "TTFT");
}

// A published decode 2 ms longer and prompts 0.4 s of a request shorter than predicted cancel at 200 tokens, where the
// TPOT is right: 2 ms = 0.4 s / 200.
TEST_F(ServingCases, TimesPerTokenAreSplitIntoDecodeAndPrompts) {
  const ServingCase definition = load();
  const std::string start = "a,Llama,H100,mixed,vllm,1,1,1,1,bf16,,16,1024,", end = ",,10,,,\n";
  auto read = rows("r1," + start + "100" + end + "r2," + start + "200" + end + "r3," + start + "400" + end +
                   "r4,b,Llama,H100,mixed,sglang,1,1,1,1,bf16,,16,1024,100,,10,,,cached prompts\n");
  const auto output = [](const PublishedServing& row) { return static_cast<double>(row.numbers.at("output_tokens")); };
  double most = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double tpot = predicted(read[i], definition).tpot_s;
    read[i].tpot_s = tpot + 2e-3 - 0.4 / output(read[i]);
    most = std::max(most, tpot);
  }
  const ServingComparison compared = compare_serving(definition, read, inputs);
  EXPECT_NEAR(compared.rows[1].figures[0].error(), 0, 1e-12);
  ASSERT_EQ(compared.splits.size(), 1U);
  const TokenTimeSplit& split = compared.splits[0];
  EXPECT_EQ(split.decode.rows, 1U);
  EXPECT_LT(split.decode.bias, -2e-3 / (most + 2e-3));  // 2 ms of a decode that is shorter than any TPOT
  EXPECT_NEAR(split.prompts.bias, 0.4 / 100 / *read[0].tpot_s, 1e-9);
  ASSERT_EQ(compared.engines.size(), 2U);
  EXPECT_EQ(compared.engines[0].engine, "sglang");
  EXPECT_EQ(compared.engines[0].rows, 0U);
  EXPECT_EQ(compared.engines[1].rows, 3U);
  EXPECT_EQ(compared.engines[1].sets, (std::vector<std::string>{"a"}));
}

}  // namespace
}  // namespace plumbline::calibrate
