// The operators of autograd that launched the GPU work of a trace.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/trace.h"

namespace plumbline::calibrate {

// The innermost operation with a sequence number around a launch, and the step of the backward around it, as indices
// into Trace::operations; no_range where there is none.
struct Recorded {
  std::size_t operation = no_range, evaluation = no_range;
  bool forward = false;  // the operation is no step or function of a backward

  bool recomputed() const { return forward && evaluation != no_range; }
};

// Returns what was recorded around the launch of each piece of work, given as indices into trace.work.
std::vector<Recorded> recorded_operations(const Trace& trace, const std::vector<std::size_t>& work);

}  // namespace plumbline::calibrate
