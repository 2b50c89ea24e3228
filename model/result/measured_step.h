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

struct MeasuredMemory {
  double peak_bytes = 0;   // of the fullest GPU
  double share_below = 0;  // of the predicted peaks
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
};

}  // namespace plumbline::model
