// Traces compared with predictions, in every form.
#pragma once

#include <cstddef>
#include <string>

#include "calibrate/chunk/chunk.h"
#include "calibrate/match/trace_comparison.h"
#include "model/plan/plan.h"
#include "reports/trace/trace.h"

namespace plumbline::reports {

// A trace of one GPU compared with the predicted step of its pipeline rank, in every form.
struct TraceComparisonOutput {
  const calibrate::TraceComparison& comparison;
  const model::Timeline& measured;
  const model::Plan& plan;
  std::string plan_name, profile, trace_path;
};

std::string trace_comparison_text(const TraceComparisonOutput& output);
std::string trace_comparison_json(const TraceComparisonOutput& output);

// Returns a row for each class, kind of exposed communication, phase, layer, GEMM and total, in seconds:
// table,name,kind,count,predicted_s,measured_s,error.
std::string trace_comparison_csv(const TraceComparisonOutput& output);

// Writes a Chrome trace of both (reports/trace/trace.h), in which measured kernels have the layers and micro-batches of
// their matches.
bool write_trace_comparison(const TraceComparisonOutput& output, const TraceOptions& options, const Sink& sink);

// A measured chunk compared with its prediction, as text and as JSON.
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
