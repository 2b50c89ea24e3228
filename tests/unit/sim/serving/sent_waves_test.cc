// By hand: steps of 2 s, and 4 more for each prompt.
#include "sim/serving/detail/sent_waves.h"

#include <gtest/gtest.h>

namespace plumbline::sim {
namespace {

// Three tokens after 6, 8 and 10 s. Of 1 s each is sent before the next; of 3 s the last leaves at 6 + 3 x 3.
TEST(SentWaves, TokensOfARequestQueueWhereStepsAreShorter) {
  WaveLoad load{.waves = 1, .tokens = 3, .step = 2, .step_of_prompt = 4};
  const auto times = [&](double send) {
    load.send = send;
    return replay_waves(load);
  };
  EXPECT_DOUBLE_EQ(times(0).ttft, 6);
  EXPECT_DOUBLE_EQ(times(0).latency, 10);
  EXPECT_DOUBLE_EQ(times(1).ttft, 7);
  EXPECT_DOUBLE_EQ(times(1).latency, 11);
  EXPECT_DOUBLE_EQ(times(3).ttft, 9);
  EXPECT_DOUBLE_EQ(times(3).latency, 15);
  load.late = 5;
  EXPECT_DOUBLE_EQ(times(3).ttft, 14);
  load.waves = 3;
  EXPECT_DOUBLE_EQ(times(3).latency, 20) << "each request comes when the one before is done";
}

// Four requests, two prompts a step, tokens of 6 s. Two tokens are made until 10 s and sent until 22; four until 20,
// sent until 46, and again until 70 and 94, when the first two requests have their four tokens; two until 106.
TEST(SentWaves, AWaveTakesWhatItsTokensTakeToBeSent) {
  WaveLoad load{.requests = 4, .waves = 1, .tokens = 4, .prompts = 2, .step = 2, .step_of_prompt = 4, .send = 6};
  EXPECT_DOUBLE_EQ(replay_waves(load).ttft, (10 + 9 + 22 + 15) / 2.0);
  EXPECT_DOUBLE_EQ(replay_waves(load).latency, (94 + 106) / 2.0);
  // The next two come at 94. Their first tokens, made until 104, wait until 106 and are sent until 118, their second
  // ones until 130. The last two come at 106 and have theirs made until 116, and sent, after those of that step's
  // start, until 154; then four are sent until 178, two until 190 and two until 202.
  load.waves = 2;
  EXPECT_DOUBLE_EQ(replay_waves(load).ttft, (19 + 37 + 115 - 94 + 145 - 106) / 4.0);
  EXPECT_DOUBLE_EQ(replay_waves(load).latency, (94 + 106 + 178 - 94 + 202 - 106) / 4.0);
}

// A step that is launched as the one before begins has no prompt that comes later.
TEST(SentWaves, StepsThatAreLaunchedAheadMissPrompts) {
  WaveLoad load{.requests = 2, .waves = 2, .tokens = 4, .prompts = 1, .step = 2, .step_of_prompt = 4};
  const WaveTimes plain = replay_waves(load);
  load.ahead = 1;
  EXPECT_GT(replay_waves(load).ttft, plain.ttft);
}

// In the long run a process that is always busy sends all tokens of a wave in a wave's time; parts of requests count.
TEST(SentWaves, WithoutEndASlowSenderSetsTheRate) {
  const WaveLoad load{.requests = 8, .tokens = 16, .prompts = 1.5, .step = 2, .step_of_prompt = 4, .send = 6};
  EXPECT_NEAR(replay_waves(load).latency, 8 * 16 * 6, 0.03 * 8 * 16 * 6);
  WaveLoad many = load;
  many.waves = 1e6;
  EXPECT_NEAR(replay_waves(many).latency, replay_waves(load).latency, 1e-3 * replay_waves(load).latency);
}

}  // namespace
}  // namespace plumbline::sim
