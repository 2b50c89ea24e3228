// What lies between an engine's scheduler and its clients: text becomes tokens before a prompt is computed, and tokens
// are sent one after another.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/serving/serving.h"
#include "tests/support/inputs.h"
#include "tests/support/serving_inputs.h"

namespace plumbline::sim {
namespace {

using model::ServingResult;
using tests::llama_node;
using tests::of_engine;

constexpr double token = 20e-6;  // seconds that a token of a prompt's text takes, where the engine takes some

ServingResult served(const std::vector<model::Parameter>& engine, const std::vector<std::string>& overrides) {
  const Inputs inputs = tests::engine_inputs(llama_node, "h100", engine, overrides);
  const auto result = ServingPredictor(inputs).predict(inputs.plan);
  if (!result) ADD_FAILURE() << to_string(result.error());
  return result.value_or(ServingResult{});
}

// 1,024 tokens of 20 us each, and 1 ms to send the first one of the answer.
TEST(ServingClient, ARequestAloneWaitsForItsTextAndForWhatIsSent) {
  const std::vector<model::Parameter> engine = {of_engine("tokenize", 20, "us"), of_engine("stream", 1, "ms")};
  const std::string one = "inference.concurrency=1";
  const ServingResult plain = served({}, {one}), client = served(engine, {one});
  EXPECT_NEAR(client.ttft_unloaded_s - plain.ttft_unloaded_s, 1024 * token + 1e-3, 1e-9);
  EXPECT_NEAR(client.ttft_s, client.ttft_unloaded_s, 1e-6 * client.ttft_s);
  EXPECT_NEAR(client.tpot_s, plain.tpot_s, 1e-4 * plain.tpot_s) << "the process that sends works next to the GPU";
  const ServingResult offline = served(engine, {one, "inference.stream_interval=0"});
  EXPECT_NEAR(offline.ttft_unloaded_s, plain.ttft_unloaded_s, 1e-9);
  const ServingResult cached = served(engine, {one, "inference.prefix_hit_rate=0.5"}),
                      unsent = served({}, {one, "inference.prefix_hit_rate=0.5"});
  EXPECT_NEAR(cached.ttft_unloaded_s - unsent.ttft_unloaded_s, 1024 * token + 1e-3, 1e-9) << "all of the text";
}

// The same of requests that arrive at random; those that decode become a little fewer.
TEST(ServingClient, FirstTokensAreAsMuchLaterUnderLoad) {
  const ServingResult plain = served({}, {}), client = served({of_engine("tokenize", 20, "us")}, {});
  EXPECT_NEAR(client.ttft_s - plain.ttft_s, 1024 * token, 0.05 * 1024 * token);
  EXPECT_NEAR(client.concurrency, client.output_tokens_per_s / 1024 * (client.ttft_s + 1024 * client.tpot_s), 1e-3);
}

// One process sends a token in 1 ms, 1,000 a second, which is longer than the engine takes for them and for the prompts
// between: these are computed while tokens are sent, and lengthen nothing.
TEST(ServingClient, PromptsAreComputedWhileTokensAreSent) {
  const ServingResult plain = served({}, {}), client = served({of_engine("stream", 1, "ms")}, {});
  ASSERT_LT(plain.tpot_s, 0.5 * 64e-3);
  EXPECT_NEAR(client.output_tokens_per_s, 1e3, 1e-6);
  EXPECT_NEAR(client.tpot_s, client.batch_per_gpu * 8 * 1e-3, 1e-12);
  EXPECT_EQ(client.bound_by, model::ServingBound::host);
  EXPECT_THAT(client.notes, testing::Contains(testing::HasSubstr("it takes 1000 us for each")));
  EXPECT_NE(plain.bound_by, model::ServingBound::host);
}

// 64 prompts of 1,024 tokens fill 8.03 steps, 7.97 of them a step, whose texts become tokens one after another: the
// mean of the next ones is with the scheduler 4.48 texts after a step. Until then steps without prompts begin, and
// meanwhile other groups end, of which each waits for as many steps: the i-th for what is left of the short ones, and
// else for those with prompts, in which those decode that do not wait.
TEST(ServingClient, GroupsOfAWaveQueueBehindTheFirstWhoseRequestsComeLate) {
  const auto waves = [](const std::string& one) {
    return served({of_engine("tokenize", 20, "us"), of_engine("steps_ahead", 1)}, {"inference.arrivals=waves", one});
  };
  const ServingResult one = waves("inference.requests=64"), ten = waves("inference.requests=640"),
                      endless = waves("inference.concurrency=64");
  const double prompts = (8192.0 - 32) / 1024, groups = 64 / prompts, late = 1024 * token * (prompts + 1) / 2;
  const double step = endless.decode_step_s;
  const double waits = 1 + late / step + 0.5;
  ASSERT_GT(waits, 3);
  ASSERT_LT(waits, groups);
  const double decoding = 64 / groups * (groups - waits * (1 - waits / (2 * groups)) - 1);
  const double later = 64 * 1024 / (8192 - decoding);
  double brief = 0;
  for (int group = 0; group < waits; ++group) brief += (waits - group) / later;
  const double full = (endless.ttft_s - brief * step) / (1 + waits - brief);
  EXPECT_NEAR(full, (one.ttft_s - late) / ((1 + groups) / 2), 0.05 * full);
  EXPECT_NEAR(1023 * endless.tpot_s + endless.ttft_s, later * full + (1024 + waits - later) * step, 1e-9);
  EXPECT_NEAR(ten.ttft_s, (one.ttft_s + 9 * endless.ttft_s) / 10, 1e-9);
}

// 64 requests of 1,024 tokens of 1 ms each leave one process in 65.5 s, which the engine makes in a few: a wave takes
// that, and what the process waits for the first prompts. First tokens wait for those of others that are still to be
// sent.
TEST(ServingClient, TokensOfAWaveQueueForTheProcessThatSendsThem) {
  const auto waves = [](const std::vector<model::Parameter>& engine, const std::string& one) {
    return served(engine, {"inference.arrivals=waves", one});
  };
  const std::vector<model::Parameter> slow = {of_engine("stream", 1, "ms")};
  const std::string one = "inference.requests=64", ten = "inference.requests=640", endless = "inference.concurrency=64";
  const auto period = [](const ServingResult& result) { return result.ttft_s + 1023 * result.tpot_s; };
  const double sent = 64 * 1024 * 1e-3;
  const ServingResult plain = waves({}, endless), all = waves(slow, endless);
  ASSERT_LT(period(plain), sent / 2);
  EXPECT_NEAR(period(all), sent, 0.03 * sent);
  EXPECT_NEAR(all.output_tokens_per_s, 1e3, 30);
  EXPECT_GT(all.ttft_s, 2 * plain.ttft_s);
  const ServingResult first = waves(slow, one), some = waves(slow, ten);
  EXPECT_GT(period(first), 0.97 * sent);
  EXPECT_LT(period(first), sent + 10 * plain.itl_worst_s);
  EXPECT_LT(first.ttft_s, some.ttft_s);
  const ServingResult offline = waves(slow, "inference.stream_interval=0");
  EXPECT_NEAR(offline.tpot_s, plain.tpot_s, 1e-12);
  EXPECT_NEAR(offline.ttft_s, plain.ttft_s, 1e-12);
}

// Where prompts have passes of their own, a wave begins when the one before it has ended: its first passes come later,
// and no time per token is longer.
TEST(ServingClient, WavesThatEndTogetherBeginLater) {
  const std::vector<std::string> plan = {"inference.arrivals=waves", "inference.chunked_prefill_tokens=0",
                                         "inference.concurrency=2"};
  const ServingResult plain = served({}, plan), client = served({of_engine("tokenize", 20, "us")}, plan);
  EXPECT_NEAR(client.ttft_s - plain.ttft_s, 1024 * token * 1.5, 1e-9) << "two texts, 1.5 in the mean";
  EXPECT_NEAR(client.tpot_s, plain.tpot_s, 1e-9);
}

}  // namespace
}  // namespace plumbline::sim
