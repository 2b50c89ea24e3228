// A measured chunk compared with its prediction, as text and as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "calibrate/chunk/chunk_comparison.h"
#include "model/plan/plan.h"

namespace plumbline::reports {

struct ChunkComparisonOutput {
  const calibrate::ChunkComparison& comparison;
  const model::Plan& plan;
  std::string plan_name, profile, chunk_path;
  std::size_t kernels = 0;  // of the measurement
};

std::string chunk_comparison_text(const ChunkComparisonOutput& output);
std::string chunk_comparison_json(const ChunkComparisonOutput& output);
// Returns the tables one after the other: the first column is the list of the JSON output that a row is of.
std::string chunk_comparison_csv(const ChunkComparisonOutput& output);

}  // namespace plumbline::reports
