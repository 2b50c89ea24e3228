// The peak of a rank's memory under a draw, and its interval.
#pragma once

#include <optional>
#include <vector>

#include "model/result/prediction_interval.h"
#include "model/result/result.h"
#include "sim/interval/left.h"
#include "sim/interval/step_draws.h"
#include "sim/interval/uncertainty.h"

namespace plumbline::sim {

struct PeakDraw {
  double bytes = 0;        // of the fullest rank
  double least_bytes = 0;  // the part of the device's that the allocator cannot give back
  // Tensors, below which no peak of segments or of the device is.
  double tensors_bytes = 0;
};

// Returns the peak of the fullest rank under a change, from the memory of a prediction with the inputs as they are:
// ranks hold the rows of the fullest rank of their expert group instead of the mean ones, contexts and connections are
// scaled, and what the allocator holds unused moves within its range, which no device limits.
PeakDraw drawn_peak(const Inputs& inputs, const model::Memory& memory, const InputChange& change,
                    PeakOf part = PeakOf::device);

// Sets peak_bytes and fits_probability from the draws and the residual of measured peaks. An allocator gives back what
// it holds unused before it fails: a draw fits where its least bytes do, whatever its peak on a larger device. Of
// `memory` the capacities and the bytes on hosts count.
void set_memory(const std::vector<PeakDraw>& draws, const std::optional<Left>& left, const model::Memory& memory,
                model::PredictionInterval& interval);

}  // namespace plumbline::sim
