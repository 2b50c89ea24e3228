// Results compared: as text, as JSON, as a picture and as one trace.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/match/trace_comparison.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/comparison.h"
#include "reports/trace/trace.h"

namespace plumbline::reports {

std::string subject_letter(std::size_t index);  // A, B, ... Z, 27, 28, ...

// Returns the subjects, their figures in columns, where the step times differ, and predictions next to measurements.
// `color` (bold headings) is for terminals only.
std::string result_comparison_text(const model::ResultComparison& comparison, bool color);

std::string result_comparison_json(const model::ResultComparison& comparison);
// Returns the tables one after the other: the first column is the list of the JSON output that a row is of.
std::string result_comparison_csv(const model::ResultComparison& comparison);

// Returns an SVG document with a waterfall for each difference.
std::string result_comparison_svg(const model::ResultComparison& comparison);

// Returns what a trace of all subjects consists of, with references to the comparison. A predicted and a measured step
// are labelled "predicted rank 0 (...)" and "measured rank 0"; others by the subjects' names. An input error names the
// subject that has no timeline.
model::Result<std::vector<TraceSubject>> trace_subjects(const model::ResultComparison& comparison);
// Returns those of the subjects that have a timeline.
std::vector<TraceSubject> recorded_subjects(const model::ResultComparison& comparison);

// Traces compared with predictions, in every form.

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
