// What a trace states about the work on its GPUs: the steps, what kernels are for, the shapes of GEMMs, why streams
// wait. Work is given as indices into Trace::work, by start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/detail/places/places.h"
#include "calibrate/import/kineto/import.h"
#include "model/base/error.h"

namespace plumbline::calibrate {

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
