// Results of an executed training besides the times of its step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace plumbline::reports
