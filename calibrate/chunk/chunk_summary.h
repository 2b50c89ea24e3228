// What a chunk amounts to, in the same words whether it was measured or predicted, so that the two can be
// laid side by side and a validation case can ask either for a figure.
//
// How time is counted: a kernel occupies its stream until the next kernel on it starts, when that is a launch
// gap (at most launch_gap_limit); longer pauses are waits for another stream or for the host. Predicted kernels
// include their launch gaps, so busy times, classes and products compare like with like. Where kernels of one class
// or product overlap on two streams, the time in which at least one runs counts once.
#pragma once

#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "model/base/error.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {

inline constexpr double launch_gap_limit = 10e-6;  // s

struct ChunkSummary {
  struct Span {
    std::string name;  // "attn(F)"
    int slot = 0;
    double start = 0, end = 0;
  };
  struct ClassTime {
    std::string row;  // of kernels.toml; "..., communication stream" for what is no communication but runs there
    double seconds = 0;
  };
  struct Product {              // a matrix product of a layer
    std::string name, kind;     // by its operator's name, "q_b"; fprop, dgrad, wgrad, recompute
    std::vector<double> slots;  // seconds in each slot that has it
    double mean() const;
  };

  double seconds = 0;                // from the first kernel to the last
  double compute_busy = 0;           // at least one compute kernel runs
  double communication_busy = 0;     // something runs on the communication stream
  double exposed_communication = 0;  // ... and no compute kernel
  int slots = 0;                     // pairs of layers; 0: not known
  std::vector<Span> spans;
  std::vector<double> periods;  // from the end of attn(B) to the next one's, slots 1..
  std::vector<ClassTime> classes;
  std::vector<Product> products;
};

ChunkSummary summarise(const Chunk& chunk, const KernelClasses& classes);
ChunkSummary summarise(const sim::ChunkRun& run);

// What the profiled rank had to do, as input of a prediction: its rows, from notes "rows=N", and with
// `measured_waits` its waits, from the two notify kernels of each layer and direction. What the measurement
// does not say is left to the prediction.
sim::ChunkRank rank_of(const Chunk& chunk, const KernelClasses& classes, bool measured_waits);

}  // namespace plumbline::calibrate
