// A timeline as a Chrome trace (JSON), which Perfetto and chrome://tracing open.
//
// One process per pipeline rank, one track per stream: compute, communication, weight gradient, pipeline. Several
// timelines (predicted and measured) lie side by side: for each rank a process of each, one below the other.
// The slots (depth 0 on the compute stream) have a track of their own, because a slot spans streams and the
// phases of the next one may start before it ends; slices of one track then nest or are disjoint.
// ts and dur are microseconds with three exact decimals: both ends of a span are cut to whole nanoseconds, the
// viewer's own clock, because it drops a slice that rounding would push over the end of its parent.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::reports {

// Takes the output piece by piece, in order; returns false to stop (say, when the disk is full).
using Sink = std::function<bool(std::string_view piece)>;

// Rank names label the processes ("rank 3 (stages 3, 12)"); ranks beyond the list are called "rank N".
// With gzip the bytes carry no time stamp, so equal timelines give equal files. Memory stays bounded.
// False when the sink stopped it.
bool write_trace(const model::Timeline& timeline, const std::vector<std::string>& rank_names, bool gzip,
                 const Sink& sink);

// The same, in memory.
std::string to_trace(const model::Timeline& timeline, const std::vector<std::string>& rank_names, bool gzip);

struct TraceSubject {
  std::string label;  // before the ranks' names: "predicted" makes "predicted rank 3 (stages 3, 12)"; may be empty
  const model::Timeline* timeline = nullptr;
  std::vector<std::string> rank_names;
};

// Processes in the order of ranks, those of one rank in the order of the subjects. All subjects begin at 0.
bool write_trace(const std::vector<TraceSubject>& subjects, bool gzip, const Sink& sink);
std::string to_trace(const std::vector<TraceSubject>& subjects, bool gzip);

}  // namespace plumbline::reports
