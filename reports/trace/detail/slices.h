// The slices of a trace: where each lies, and what it states about its span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/result/timeline.h"
#include "reports/trace/detail/trace_output.h"

namespace plumbline::reports {

// Names of the tracks of a process, by number. The first has the step, the second the slots.
std::string_view track_name(std::size_t track);
std::size_t track_of(const model::Span& span);

// Both ends of a span, cut to whole nanoseconds.
struct SliceTime {
  std::int64_t start_ns = 0, end_ns = 0;
};
SliceTime slice_time(const model::Span& span);

// Adds the event of every slice of a timeline. Holistic Trace Analysis and others take slices with args.stream for
// kernels, names that begin with "ncclKernel" for communication, and "Memcpy" for copies.
class Slices {
 public:
  explicit Slices(const model::Timeline& timeline);  // must outlive the object

  void add(TraceOutput& output, const model::Span& span, std::int64_t process);

 private:
  const model::Timeline& timeline_;
  std::vector<std::string> names_, works_, stage_layers_;  // as JSON
  std::int64_t correlation_ = 0;                           // of kernels, counted
};

}  // namespace plumbline::reports
