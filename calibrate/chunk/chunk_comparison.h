// A measured kernel trace next to the prediction of the overlapped pair of chunks that a plan runs.
#pragma once

#include <vector>

#include "model/base/error.h"
#include "model/result/timeline_comparison.h"
#include "sim/predict/simulate.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {

enum class Waits { measured, predicted };  // the source of the rank's waits in the prediction

struct ChunkComparison {
  model::TimelineComparison times;
  bool rows_given = false;   // the prediction took the rank's rows from the measurement
  bool waits_given = false;  // and its waits
  // Seconds at the four barriers of each pair of layers: predicted for the mean rank of a group whose rows vary as the
  // plan states, and measured on one rank. Empty where the two do not run the same layers.
  std::vector<sim::ChunkModel::Barriers> barriers;
  std::vector<double> measured_barriers;
};

// Predicts the chunk pair of a plan, with rows (and waits) of its rank from the measurement, and compares the two.
// Infeasible when the plan has no overlapped pair.
model::Result<ChunkComparison> compare_chunk(const model::Timeline& measured, const sim::Inputs& inputs, Waits waits);

// Returns the load of the profiled rank as input of a prediction: its rows, from notes "rows=N", and with
// `measured_waits` its waits, from the two notify kernels of each layer and direction. What the measurement lacks is
// predicted.
sim::ChunkRank rank_of(const model::Timeline& measured, bool measured_waits);

}  // namespace plumbline::calibrate
