// Waves of requests behind one process that sends their tokens to clients, one after another, where it is slower than
// the engine.
#pragma once

#include <limits>

namespace plumbline::sim {

// Seconds, where nothing else is stated. All requests come together; each is followed by the next when its last token
// is sent. A step decodes those that have begun, and computes prompts of those that wait, which gives their first
// tokens.
struct WaveLoad {
  double requests = 1;                                       // in flight
  double waves = std::numeric_limits<double>::infinity();    // requests of all over those in flight
  double tokens = 1;                                         // of a request; one is made in each of its steps
  double prompts = 1;                                        // that a step computes at most; parts of them, too
  double step = 0, step_of_request = 0, step_of_prompt = 0;  // of a step, and more for each of both in it
  double ahead = 0;  // steps that are launched before the end of one: a prompt waits for them, too
  double late = 0;   // until a request is with the scheduler
  double send = 0;   // of a token
};

struct WaveTimes {               // means of a request
  double ttft = 0, latency = 0;  // until its first token and its last one are sent
};

// Replays the steps, requests that begin together as one. Of more waves than 12, or without end, those after the sixth
// stand for the further ones.
WaveTimes replay_waves(const WaveLoad& load);

}  // namespace plumbline::sim
