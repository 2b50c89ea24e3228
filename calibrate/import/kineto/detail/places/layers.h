// The times of a trace that belong to a layer, by the names of annotations or by the calls of modules.
#pragma once

#include <vector>

#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

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

}  // namespace plumbline::calibrate
