// What a trace states about the work on its GPUs: the steps, what kernels are for, the shapes of GEMMs, why streams
// wait, where work lies in the step. Work is given as indices into Trace::work, by start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

// A named span on a track: a thread, or a stream of a device.
struct Range {
  std::int64_t start_ns = 0, end_ns = 0;
  std::int64_t track = 0;
  std::size_t value = 0;  // what the caller attaches to it
};

// A moment on a track at which the range of a piece of work is wanted.
struct Moment {
  std::int64_t track = 0, time_ns = 0;
  std::size_t asker = 0;
};

inline constexpr std::size_t no_range = static_cast<std::size_t>(-1);

// Returns the value of the innermost range around each asker's moment, no_range where there is none or no moment. Of
// two ranges that start together, the longer is the outer one.
std::vector<std::size_t> innermost(std::vector<Range> ranges, std::vector<Moment> moments, std::size_t askers);

// Returns the call that launched each piece of work (indices into trace.work), as a moment on its thread; work without
// a call has none.
std::vector<Moment> launch_moments(const Trace& trace, const std::vector<std::size_t>& work);

// Returns when each piece of work started, as a moment on its stream.
std::vector<Moment> start_moments(const Trace& trace, const std::vector<std::size_t>& work);

// Returns the track of a stream.
std::int64_t stream_track(int device, int stream);

// The innermost operation with a sequence number around a launch, and the step of the backward around it, as indices
// into Trace::operations; no_range where there is none.
struct Recorded {
  std::size_t operation = no_range, evaluation = no_range;
  bool forward = false;  // the operation is no step or function of a backward

  bool recomputed() const { return forward && evaluation != no_range; }
};

// Returns what was recorded around the launch of each piece of work, given as indices into trace.work.
std::vector<Recorded> recorded_operations(const Trace& trace, const std::vector<std::size_t>& work);

// The evidence for a phase or a layer, the best last.
enum class PlacedBy : std::uint8_t { none, autograd, annotation };

// The place of a piece of GPU work in a step.
struct Place {
  std::string_view phase;   // "F", "B", "I", "W"; empty: unknown
  int layer = -1;           // within its chunk, in model order; -1: unknown
  int pass = -1;            // how-manieth pass of a chunk in this direction, from 0; -1: unknown
  bool recomputed = false;  // a forward that runs again in the backward
  bool optimizer = false;
  std::uint32_t section = 0;  // name of the annotation with the phase; 0: none
  PlacedBy phase_by = PlacedBy::none, layer_by = PlacedBy::none;
};

// Places of pieces of work, given as indices into trace.work, all of one device.
using Places = std::vector<Place>;

// Returns the places that annotations state. Of phases only annotations that match `classes` count, in order of
// preference: the innermost one around the launch on the launching thread; one of the GPU around the work's start on
// its stream; the innermost one around the launch on another thread (autograd runs a backward on its own thread while
// the annotated one waits). Occurrences of a part of a layer, attn(F), count layers; those of whole passes count
// passes. Ranges that name a layer (below) give it, around the launch, else on the stream.
Places annotated_places(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes);

// Adds layers by calls of modules around the launch, where no annotation names a layer. Adds phases by autograd:
// launches within autograd::engine::evaluate_function are backward and have the layer of the forward operator with
// their sequence number; other operators that autograd records are forward.
void place_by_autograd(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                       Places& places);

// Ranges whose value is the number of a layer, for work of each direction. One range may give two layers, of a forward
// and of a backward that overlap: "layer_3f-layer_2b".
struct LayerRanges {
  std::vector<Range> forward, backward;
};

// Returns the ranges of annotations that name a layer: by a number, or as one that is counted within the pass around
// it. A hook of FSDP before a layer's pass extends to the end of that behind it. thread_layers has the annotations of
// threads, stream_layers those that the trace repeats on the streams of the GPU.
LayerRanges thread_layers(const Trace& trace, const KernelClasses& classes);
LayerRanges stream_layers(const Trace& trace, const KernelClasses& classes);

// Returns the calls of the modules that are layers: the class with several instances whose calls take the longest.
std::vector<Range> module_layers(const Trace& trace);

struct TraceStep {
  std::int64_t number = 0;        // N of ProfilerStep#N; else counted from 0
  std::int64_t length_ns = 0;     // from its first kernel to the end of its last
  std::vector<std::size_t> work;  // indices into trace.work, by start
};

struct TraceSteps {
  std::vector<TraceStep> found;  // by number; empty: the trace shows none, or its work cannot be divided
  bool annotated = false;        // by ProfilerStep#N, else by optimizers
};

// Returns the steps of the given work: by the annotations ProfilerStep#N around launches (around the start where there
// is no launch), else from the end of one optimizer to the end of the next. `class_names` has the class of each piece.
TraceSteps steps_of(const Trace& trace, const std::vector<std::size_t>& work,
                    const std::vector<std::string_view>& class_names);

// Returns the index of the step that is asked for, or of the one of median length among those with at least half of the
// usual work. There must be one. Input error: a number that is not there.
model::Result<std::size_t> choose_step(const std::string& path, const TraceSteps& steps,
                                       std::optional<std::int64_t> asked);

// Whether this work is a step from its beginning to its end: the file is complete, and the work takes at least nine
// tenths of the annotation ProfilerStep#N, of any where no number is given.
bool is_whole_step(const Trace& trace, const std::vector<std::size_t>& work, std::optional<std::int64_t> number);

// Gives elementwise kernels, reductions, copies, casts and kernels without a class that of the chain of operators (file
// of classes) that launched them. What a backward launches has the class of its forward operator's chain, found by the
// sequence number of autograd; what an optimizer launches is of the class "optimizer". `class_names` has the class of
// each piece of work, given as indices into trace.work, by start; the new ones are texts of `classes`.
void name_purposes(const Trace& trace, const std::vector<std::size_t>& work, const KernelClasses& classes,
                   const Places& places, std::vector<std::string_view>& class_names);

// m, n and k of D[m,n] = A[m,k] B[k,n], and how many of them: batches.
struct GemmShape {
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
};

// Returns the shape that an operator with these "Input Dims" multiplies, "[[4096, 7168], [7168, 512]]"; nullopt where
// its operands are no matrices. Of addmm and baddbmm the first input is added; those whose name has "inear" take B
// transposed; those whose name has "grouped" divide the rows of A among the groups.
std::optional<GemmShape> gemm_shape(std::string_view operation, std::string_view dims);

// Returns the shape of the innermost operator around the launch of each piece of work that `multiplies`. Of several
// that one operator launched, as a GEMM and the sum over its parts, the first has it.
std::vector<std::optional<GemmShape>> gemm_shapes(const Trace& trace, const std::vector<std::size_t>& work,
                                                  const std::vector<bool>& multiplies);

// A pause of a stream before a piece of work that is longer than a launch gap.
struct Wait {
  std::int64_t length_ns = 0;  // 0: none
  std::string_view cause;      // "host", "communication", "dependency"; empty: unknown
};

// Returns the wait before each piece of work (indices into trace.work, by start). It is for the host where the launch
// came when the stream had already been idle; else for the work of another stream that ended last before it started,
// communication where `communicates` has that piece, within the launch gap. Without a launch and such work it is
// unknown.
std::vector<Wait> waits_of(const Trace& trace, const std::vector<std::size_t>& work,
                           const std::vector<bool>& communicates);

}  // namespace plumbline::calibrate
