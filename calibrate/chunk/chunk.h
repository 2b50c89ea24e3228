// The timeline of kernels that a profiler recorded: comparison rows, launch gaps, pairs of layers, and phases.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/result/comparison.h"
#include "model/result/timeline.h"
#include "sim/predict/simulate.h"
#include "sim/step/chunk.h"

namespace plumbline::calibrate {

inline constexpr double launch_gap_limit = 10e-6;  // s

// The longest start time, and the longest duration, that a kernel trace may hold: 46 days.
inline constexpr std::int64_t longest_trace_ps = 4'000'000'000'000'000'000;

// A kernel as a profiler recorded it.
struct TracedKernel {
  std::int64_t start_ps = 0, duration_ps = 0;  // since the first kernel of the trace; at most longest_trace_ps each
  std::int32_t layer = -1;                     // 0-based within the chunk, in model order; -1: unknown
  // Class, phase, note, queue and grid are as recorded; kernel_timeline() fills in the rest.
  model::Kernel kernel;
};

// Returns the timeline of one GPU; its kernels keep their order. A queue whose time is mostly communication is a
// communication stream, every other one a compute stream. A pause of at most launch_gap_limit before the next kernel of
// a queue is a launch gap; longer ones are waits for another stream or for the host. Phases come from annotations
// (section=attn(F)), else from DualPipe's order of phases on the busiest compute and the busiest communication queue;
// there are none when neither applies. A note "ex_gateup:g_dgrad:34688x7168x4096" makes a kernel a GEMM.
model::Timeline kernel_timeline(std::vector<TracedKernel> kernels, const KernelClasses& classes);

// Returns the span of each of Timeline::kernels, in their order.
std::vector<const model::Span*> kernel_spans(const model::Timeline& timeline);

// Returns the seconds in which no kernel runs, between the first and the last, by what the kernel waited for that ends
// them: "host", "communication", "dependency" (work of another stream), "unknown", as its note has it (wait=), else
// "launch gaps".
std::map<std::string, double> idle_seconds(const model::Timeline& timeline);

// Returns the value of a word "key=value" of a note; empty when the note lacks the key.
std::string_view note_value(std::string_view note, std::string_view key);

// A kernel trace as a file: every kernel that one GPU ran during some chunks of a training step. The file is a CSV with
// the header index,stream,class,phase,layer,start_us,dur_us,grid_ctas,note. Lines that start with '#' are comments
// (calibrate/published/h800_dualpipe_chunk.csv, docs/measuring.md).

// Reads a kernel trace; the kernels keep the order of the file. Input errors name file, line and column: a missing
// file, a header with unknown or missing columns (their order is free), bad numbers, negative times, indices out of
// order, no kernel.
model::Result<model::Timeline> read_chunk(const std::string& path, const KernelClasses& classes);

// Parses a kernel trace from text; `path` only appears in errors.
model::Result<model::Timeline> parse_chunk(std::string_view text, const std::string& path,
                                           const KernelClasses& classes);

// Returns whether a text has the header of a kernel trace.
bool is_chunk(std::string_view text);

// Returns the value of a comment "# KEY: VALUE" up to a comma or parenthesis, as `import kineto` writes them: "device",
// "rank", "world size", "step". It is empty where no line has it.
std::string chunk_comment(std::string_view text, std::string_view key);

// Returns the median pause between kernels of a trace as a record of its device; nullopt where there is none.
std::optional<Measurement> launch_gap_record(const model::Timeline& timeline, const std::string& device);

// Parses a kernel trace as measurements: one record of the median pause between kernels (op "launch"). Kernels state no
// shape, so nothing else can be fitted to them, which is a note. The device is that of the line "# device: NAME", as
// `import kineto` writes it. Input errors are those of parse_chunk, and a missing device.
model::Result<Measurements> parse_chunk_records(std::string_view text, const std::string& path,
                                                const KernelClasses& classes);

// Returns the CSV, with `comments` first, each on a line of its own behind "# ". Times are in microseconds with up to
// three digits (whole nanoseconds), so that what read_chunk returned is written unchanged. Cells are not quoted: commas
// and quotes in a note become spaces.
std::string to_csv(const model::Timeline& timeline, const std::vector<std::string>& comments);

// A measured kernel trace next to the prediction of the overlapped pair of chunks that a plan runs.

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
