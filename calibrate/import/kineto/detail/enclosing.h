// Finds which range of a trace encloses a moment on the same track, such as the operators that launched its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibrate/import/kineto/trace.h"

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

}  // namespace plumbline::calibrate
