// Streaming gzip without a time stamp: equal input gives equal bytes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::reports {

class Gzip {
 public:
  using Sink = std::function<bool(std::string_view piece)>;

  explicit Gzip(Sink sink);
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  // Both return false when the sink refused a piece; finish() writes the trailer and must be the last call.
  bool write(std::string_view data);
  bool finish();

 private:
  struct State;
  bool deflate_all(std::string_view data, int flush);

  Sink sink_;
  std::unique_ptr<State> state_;
};

// A timeline as a Chrome trace (JSON), which Perfetto, chrome://tracing and Holistic Trace Analysis open.
// docs/traces.md lists what it holds; reports/schema/trace.schema.json is its JSON Schema.
//
// There is one process per rank, with a track for the step, one for the slots and one per stream. Several timelines
// (predicted and measured) have a process each for every rank, one below the other. The slots have a track of their
// own: a slot spans streams, and the phases of the next one may start before it ends. Slices of one track therefore
// nest or are disjoint. ts and dur are microseconds with three exact decimals: both ends of a span are cut to whole
// nanoseconds, the viewer's own clock, because the viewer drops a slice that rounding would move past the end of its
// parent.

// Takes the output piece by piece, in order; returns false to stop, for example when the disk is full.
using Sink = std::function<bool(std::string_view piece)>;

// A timeline of a trace.
struct TraceSubject {
  std::string label;  // before the ranks' names: "predicted" makes "predicted rank 3 (stages 3, 12)"; may be empty
  const model::Timeline* timeline = nullptr;
  std::vector<std::string> rank_names;  // by rank; ranks beyond the list are named "rank N"
  std::string fidelity;                 // as in model::StepResult; empty: not known
  std::string plan;                     // as TOML; empty: not known
};

struct TraceOptions {
  std::string revision;             // of the program
  bool gzip = false;                // without a time stamp, so that equal timelines give equal files
  std::vector<std::int32_t> ranks;  // those that are written; empty: all
};

// Writes timelines, which all begin at 0: processes in the order of ranks, those of one rank in the order of
// `subjects`. A rank without spans has no process. Returns false when the sink stopped it. Memory stays bounded.
bool write_trace(const std::vector<TraceSubject>& subjects, const TraceOptions& options, const Sink& sink);

}  // namespace plumbline::reports
