// A timeline records what ran when: spans on tracks, for predicted and measured steps and for traces of kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plumbline::model {

// communication: dispatch and combine of expert tokens; collective: collectives of tensor and context groups; to_host
// and from_host: the two directions of the link to the host.
enum class Stream : std::uint8_t {
  compute,
  communication,
  weight_gradient,
  collective,
  to_host,
  from_host,
  pipeline,
  optimizer
};

inline bool on_host_link(Stream stream) { return stream == Stream::to_host || stream == Stream::from_host; }

// Values of Span::depth: a slot of the schedule (F, B, FB ...), a phase of it (attn(F) ...), a kernel.
inline constexpr std::uint8_t slot_depth = 0, phase_depth = 1, kernel_depth = 2;

// What a span computes. `both`: a slot that overlaps a forward and a backward chunk. Input gradients include weight
// gradients where those have no kernels of their own.
enum class Direction : std::uint8_t { none, forward, backward, input_gradient, weight_gradient, both };

struct Span {
  std::uint32_t name = 0;  // index into Timeline::names, e.g. "attn(F)"
  std::int32_t rank = 0;   // pipeline rank
  Stream stream = Stream::compute;
  std::int32_t layer = -1;  // model layer, in a kernel trace counted within the chunk; -1: none
  std::int32_t micro_batch = -1;
  std::int64_t start_ps = 0;  // picoseconds since the step began
  std::int64_t duration_ps = 0;
  std::uint8_t depth = 0;
  std::int32_t kernel = -1;      // index into Timeline::kernels, -1 when none
  std::int32_t layer_pair = -1;  // s where forward layer s overlaps with backward layer n - 1 - s, else -1
  Direction direction = Direction::none;
  std::int32_t stage = -1;  // pipeline stage, of a slot with two chunks the forward one's; -1: none, or unknown
  std::int32_t chunk = -1;  // the rank's model chunk (virtual stage) that is this stage; -1: as above
  std::int32_t overlapped_stage = -1, overlapped_micro_batch = -1;  // the backward chunk of a slot with two
  std::int32_t peer = -1;                                           // pipeline rank that a message goes to
  std::int32_t work = -1;                                           // index into Timeline::works, -1: none

  std::int64_t end_ps() const { return start_ps + duration_ps; }
  double seconds() const { return static_cast<double>(duration_ps) * 1e-12; }
};

// The data of a kernel beyond its span, from a profiler or a prediction. Spans of equal predicted kernels share it.
struct Kernel {
  std::string class_name;           // a class of calibrate/kernels.toml, or of operators: "gemm_fp8"
  std::string row;                  // the row of comparisons: "GEMM"
  std::string gemm, gemm_kind;      // a layer's GEMM, "q_b", and fprop, dgrad, wgrad or recompute; else empty
  std::string phase;                // "F", "B" backward, "I" input gradient, "W" weight gradient; empty: unknown
  std::string section;              // the phase span that it belongs to, "attn(F)"; empty: unknown
  std::string note;                 // for people: words separated by blanks, mostly key=value
  std::string key;                  // model::operator_key of a predicted kernel; empty: of no operator, or measured
  std::array<double, 4> extents{};  // m, n, k and groups of a GEMM, with D[m,n] summed over k; 0: not known
  double flops = 0, bytes = 0;      // of one execution; 0: not known
  std::int32_t queue = 0;           // the stream as the profiler numbers it
  std::int32_t grid = 0;            // CTAs launched; 0: not known, or a copy or memory set
  std::int64_t gap_ps = 0;          // launch gap after it, in which its stream is busy; not part of its span
};

// The work of a span, shared by those that repeat it.
struct SpanWork {
  std::string class_name;  // of operators, "gemm"; empty: of several classes
  double flops = 0;        // of GEMMs and causal attention; 0: none
  double bytes = 0;        // read and written in memory, or sent by the GPU; 0: not known
};

// Quantities of a rank over time. A sample holds until the next one.
struct Counter {
  static constexpr std::size_t most_series = 4;
  struct Sample {
    std::int64_t time_ps = 0;
    std::array<double, most_series> values{};  // of the first series.size() series
  };
  std::int32_t rank = 0;
  std::string name;                 // with its unit: "memory (bytes)"
  std::vector<std::string> series;  // "activations", "temporary", ...
  std::vector<Sample> samples;      // in order of time
};

struct Timeline {
  std::vector<std::string> names;
  std::vector<Span> spans;  // ordered by (rank, stream, depth, start)
  std::int32_t ranks = 0;
  std::int64_t end_ps = 0;
  std::vector<Kernel> kernels;   // filled for a kernel trace and for ranks recorded with all kernels
  std::int32_t layer_pairs = 0;  // in an overlapped pair of chunks of a kernel trace; 0: none, or unknown
  std::vector<SpanWork> works;
  std::vector<std::vector<std::int32_t>> stage_layers;  // model layers of each stage; empty: not known
  // Where ranks are GPUs of a cluster: the number of each, and how many a pipeline rank has. Empty: pipeline ranks.
  std::vector<std::int32_t> gpus;
  std::int32_t replicas = 1;
  std::vector<Counter> counters;

  const Kernel& kernel_of(const Span& span) const { return kernels[static_cast<std::size_t>(span.kernel)]; }
};

// Collects spans under their names.
class TimelineWriter {
 public:
  // Adds a copy of `place` with this name and depth, from start to end.
  void add(Span place, const std::string& name, std::uint8_t depth, std::int64_t start_ps, std::int64_t end_ps);
  // Adds a kernel of a trace in the same way.
  void add(Span place, const std::string& name, Kernel kernel, std::int64_t start_ps, std::int64_t end_ps);
  // Keeps the data of a kernel for spans to come, and returns its index.
  std::int32_t keep(Kernel kernel);
  // Returns the sorted timeline. It ends with its last span and has the ranks up to the highest one of a span.
  Timeline finish();

 private:
  Timeline timeline_;
  std::map<std::string, std::uint32_t> names_;
};

}  // namespace plumbline::model
