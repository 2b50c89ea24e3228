// Assigns a phase and a layer to the work of a trace, from its annotations.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

struct WorkPhase {
  const PhaseAnnotation* annotation = nullptr;  // of the classes given; nullptr: unknown
  std::uint32_t name = 0;                       // the annotation's name in Trace::names
  int layer = -1;  // index of this occurrence of the annotation, from 0; counted from the last when descending
};

// Returns the phase of each given piece of work (indices into trace.work, all of one device), in their order. Only
// annotations that match `classes` count. In order of preference: the innermost one around the launch on the launching
// thread; one of the GPU around the work's start on its stream; the innermost one around the launch on another thread
// (autograd runs a backward on its own thread while the annotated one waits).
std::vector<WorkPhase> phases_of(const Trace& trace, const std::vector<std::size_t>& work,
                                 const KernelClasses& classes);

}  // namespace plumbline::calibrate
