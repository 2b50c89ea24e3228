// The timeline of kernels that a profiler recorded: comparison rows, launch gaps, pairs of layers, and phases.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "model/result/timeline.h"

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

}  // namespace plumbline::calibrate
