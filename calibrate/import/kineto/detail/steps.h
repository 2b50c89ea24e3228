// Divides the work of a trace into training steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/import/kineto/trace.h"
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

}  // namespace plumbline::calibrate
