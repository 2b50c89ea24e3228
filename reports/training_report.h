// Results of an executed training besides the times of its step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "model/result/result.h"

namespace plumbline::reports {

struct TrainingReport {
  struct Load {                // of one layer's experts, in the last step
    std::int64_t layer = 0;    // of the model; -1: the prediction module
    double max_violation = 0;  // largest load over the mean, less 1
    double variation = 0;      // standard deviation over the mean
    std::vector<double> rows;  // [expert]
  };
  std::string clock;                                    // wall | cpu | simulated | gpu
  std::string date;                                     // when it ended, UTC: "2026-11-23T10:30:00Z"
  std::optional<std::int64_t> emulated_rank;            // the pipeline rank that ran, with stand-ins for the others
  std::optional<double> issue_s;                        // CPU time in which the host issues an operator
  std::optional<std::int64_t> device_memory_bytes;      // the highest use after a step, including libraries
  std::vector<std::string> notes;                       // remarks without which the figures could be misread
  std::int64_t first_step = 1;                          // the others follow
  std::vector<double> losses, gradient_norms, seconds;  // [step]
  std::vector<double> measured_seconds;                 // of the steps that count: all but the first
  std::int64_t skipped = 0;                             // steps whose gradients overflowed
  std::vector<Load> loads;
};

// Results of executed generation: the tokens, and the measured times next to the predicted ones.

struct GenerationReport {
  std::string clock;  // wall | cpu | profile
  std::string date;   // when it ended, UTC: "2026-11-23T10:30:00Z"
  std::int64_t trained_steps = 0, gpus = 1;
  double temperature = 0;
  std::uint64_t seed = 1;
  bool are_bytes = false;                                   // tokens are bytes of a text
  std::vector<std::vector<std::int32_t>> prompts, outputs;  // [request][token]
  double prefill_s = 0;                                     // of all prompts together
  double tpot_s = 0;                                        // of the median decode step
  std::vector<double> decode_s;                             // [step]
  std::optional<model::ServingResult> predicted;            // of the same lengths and requests
  std::string unpredicted;                                  // why there is none

  double requests() const { return static_cast<double>(outputs.size()); }
  double prompt_tokens() const { return static_cast<double>(prompts.front().size()); }
  double prefill_tokens_per_s_per_gpu() const {
    return requests() * prompt_tokens() / prefill_s / static_cast<double>(gpus);
  }
};

// Returns the document with `serving` as `plumbline serve` has it, of what was measured, with `predicted` inside, and
// `generation` with the tokens.
std::string generation_json(const GenerationReport& report, const model::Plan& plan);
std::string generation_text(const GenerationReport& report);

}  // namespace plumbline::reports
