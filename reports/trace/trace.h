// A timeline as a Chrome trace (JSON), which Perfetto and chrome://tracing open.
//
// There is one process per pipeline rank, with one track per stream: compute, communication, weight gradient, pipeline.
// Several timelines (predicted and measured) have a process each for every rank, one below the other. The slots (depth
// 0 on the compute stream) have a track of their own: a slot spans streams, and the phases of the next one may start
// before it ends. Slices of one track therefore nest or are disjoint. ts and dur are microseconds with three exact
// decimals: both ends of a span are cut to whole nanoseconds, the viewer's own clock, because the viewer drops a slice
// that rounding would move past the end of its parent.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::reports {

// Takes the output piece by piece, in order; returns false to stop, for example when the disk is full.
using Sink = std::function<bool(std::string_view piece)>;

// Writes the trace; returns false when the sink stopped it. Rank names label the processes ("rank 3 (stages 3, 12)");
// ranks beyond the list are named "rank N". With gzip the bytes have no time stamp, so that equal timelines give equal
// files. Memory stays bounded.
bool write_trace(const model::Timeline& timeline, const std::vector<std::string>& rank_names, bool gzip,
                 const Sink& sink);

// Returns the same trace in memory.
std::string to_trace(const model::Timeline& timeline, const std::vector<std::string>& rank_names, bool gzip);

// A timeline among several in one trace.
struct TraceSubject {
  std::string label;  // before the ranks' names: "predicted" makes "predicted rank 3 (stages 3, 12)"; may be empty
  const model::Timeline* timeline = nullptr;
  std::vector<std::string> rank_names;
};

// Writes several timelines: processes in the order of ranks, those of one rank in the order of `subjects`. All
// timelines begin at 0.
bool write_trace(const std::vector<TraceSubject>& subjects, bool gzip, const Sink& sink);
std::string to_trace(const std::vector<TraceSubject>& subjects, bool gzip);

}  // namespace plumbline::reports
