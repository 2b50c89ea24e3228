// Generates tokens with a trained model: every request's prompt is prefilled, then tokens are decoded one by one from
// the keys and values of earlier ones. The ranks are those of an instance of [inference]: they share heads, experts and
// requests as a deployment's do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "real/executor/communicator.h"
#include "real/executor/device.h"
#include "real/executor/run.h"

namespace plumbline::real {

struct GenerateOptions {
  std::int64_t tokens = 0;  // to generate for each request; 0: none
  std::string checkpoint;   // folder of a training of the same model, of any division
  std::string prompt;       // of every request, its bytes are tokens; empty: passages of `text`
  std::string text;         // a file; empty: made-up text. Passages have inference.input_tokens tokens
  double temperature = 0;   // 0: the likeliest token
  std::uint64_t seed = 1;
};

struct Generation {
  std::int64_t trained_steps = 0;                           // of the checkpoint
  std::vector<std::vector<std::int32_t>> prompts, outputs;  // [request][token]
  double prefill_s = 0;                                     // of all prompts together, on the slowest rank
  std::vector<double> decode_s;                             // [step] likewise; one token of every request each
};

// Every rank calls it with the same input and options; rank 0 returns the generation, other ranks an empty one. Equal
// prompts, seeds and models give equal tokens, however many ranks divide the work, but for rounding between divisions.
// Infeasible where the plan needs what can only be simulated; input errors of the checkpoint and the text.
model::Result<Generation> generate(const RunInput& input, const GenerateOptions& options, Device& device,
                                   Communicator& communicator);

}  // namespace plumbline::real
