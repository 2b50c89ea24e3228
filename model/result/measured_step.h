// A measured step next to its prediction.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plumbline::model {

// impossible: below the lower bound. Else slower than P90, faster than P10, or between them.
enum class MeasuredVerdict : std::uint8_t { as_predicted, slower, faster, impossible };

// A way in which FLOPs are counted, and the step that a measured rate means by it.
struct RateConvention {
  std::string name;  // "model FLOPs, causal attention, BF16 peak"
  double time_s = 0;
};

// What may have made a step longer, or shorter, than the middle of its prediction.
struct MeasuredCause {
  std::string name;
  double time_s = 0;     // of the step that it makes alone: at P90 (P10) of an uncertainty, or of the changed plan
  bool reaches = false;  // as far as the measured step
  std::string remedy;    // what would show it, in words; may be empty
};

// What a figure of memory counts: all of the device, what the allocator reserved, or tensors.
enum class MemoryCount : std::uint8_t { device, reserved, allocated };

struct MeasuredMemory {
  double peak_bytes = 0;   // of the fullest GPU, all of the device
  double share_below = 0;  // of the predicted peaks
  MemoryCount counted = MemoryCount::device;
  double added_bytes = 0;  // part of the peak that was not counted: as predicted
};

// How much of a training log a step is. Its lines may be means over several steps.
struct MeasuredLog {
  std::string format;                   // "Megatron-LM"
  std::int64_t steps = 0;               // lines whose median is taken
  std::int64_t warm_up = 0;             // lines before them, at least the first of several
  std::int64_t pauses = 0;              // lines among them that took longer or shorter than the others
  std::int64_t damaged = 0;             // lines that are cut, or have another inside
  double low = 1, high = 1;             // P10 and P90 of the steps over their median
  std::optional<double> tflops;         // of a GPU, as the log states it
  std::optional<RateConvention> count;  // of these FLOPs, closest to the step's time
};

struct MeasuredStep {
  std::string given;  // "230TFLOP/s"
  double time_s = 0;
  double share_below = 0;  // of the predicted steps, which are faster
  MeasuredVerdict verdict = MeasuredVerdict::as_predicted;
  // The one that comes closest to the prediction first, which time_s follows; none for times and tokens.
  std::vector<RateConvention> conventions;
  std::vector<MeasuredCause> causes;  // the largest first
  std::optional<MeasuredMemory> memory;
  std::optional<MeasuredLog> log;  // that it was read from
};

}  // namespace plumbline::model
