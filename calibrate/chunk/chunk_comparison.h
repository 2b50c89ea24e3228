// A measured chunk beside the prediction of what a plan runs: totals, phases, classes, matrix products.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/chunk/chunk_summary.h"
#include "model/base/error.h"
#include "sim/predict/simulate.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {

enum class Waits { measured, predicted };

// Values in seconds; missing on the side that does not have it.
struct ComparedTime {
  std::string name;  // "attn(F)", "GEMM", "q_b"
  std::string kind;  // of a product
  int slot = -1;     // of a phase or period
  std::optional<double> predicted, measured;
  bool same_work = true;  // else the two are no prediction of each other

  std::optional<double> error() const;  // relative; of what both have and mean the same by
};

struct ChunkComparison {
  ChunkSummary predicted, measured;
  // Both have the same number of slots: then phases, periods and products are lined up, else only totals and classes,
  // without errors: they are of different work.
  bool same_slots = false;
  bool rows_given = false;   // the prediction took the rank's rows from the measurement
  bool waits_given = false;  // and its waits
  std::vector<ComparedTime> totals, spans, periods, classes, products;
};

ChunkComparison compare(ChunkSummary measured, ChunkSummary predicted);

// Predicts the chunk pair of a plan with what the measurement says about its rank, and compares. Infeasible when the
// plan has no overlapped pair.
model::Result<ChunkComparison> compare_chunk(const Chunk& chunk, const KernelClasses& classes,
                                             const sim::Inputs& inputs, Waits waits);

}  // namespace plumbline::calibrate
