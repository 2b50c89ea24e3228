// What a kernel trace amounts to, in the same words whether it was measured or predicted.
//
// How time is counted: a kernel occupies its stream with the launch gap behind it (Kernel::gap_ps). Predicted kernels
// include their launch gaps, so busy times, classes and products compare like with like. Where kernels of one class or
// product overlap on two streams, the time in which at least one runs counts once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::model {

struct TimelineSummary {
  struct Phase {
    std::string name;  // "attn(F)"
    std::int32_t slot = 0;
    double start = 0, end = 0;
  };
  struct ClassTime {
    std::string row;  // of Kernel::row; "..., communication stream" for what is no communication but runs there
    double seconds = 0;
  };
  struct Gemm {                 // a matrix product of a layer
    std::string name, kind;     // as Kernel has them
    std::vector<double> slots;  // seconds in each slot that has it
    double mean() const;
  };

  double seconds = 0;                // from the first kernel to the end of the trace
  double compute_busy = 0;           // at least one compute kernel runs
  double communication_busy = 0;     // something runs on the communication stream
  double exposed_communication = 0;  // ... and no compute kernel
  std::int32_t slots = 0;            // pairs of layers; 0: not known
  std::vector<Phase> phases;         // by start
  std::vector<double> periods;       // from the end of attn(B) to the next one's, slots 1..
  std::vector<ClassTime> classes;    // the longest first
  std::vector<Gemm> gemms;           // as they first ran

  double compute_share() const { return seconds > 0 ? compute_busy / seconds : 0; }
};

// Everything is empty for a timeline without a kernel trace.
TimelineSummary summarize(const Timeline& timeline);

// Whether kernels of a row are communication between ranks.
bool is_communication(std::string_view row);

}  // namespace plumbline::model
