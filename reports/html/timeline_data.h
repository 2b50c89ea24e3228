// What only the pages of steps carry, next to the JSON of their result: timelines with every span, compact enough for
// hundreds of thousands of them.
#pragma once

#include <string>
#include <vector>

#include "reports/text/step/comparison.h"
#include "reports/trace/trace.h"

namespace plumbline::reports {

// Returns a JSON object with
//   timelines  of the subjects that have spans: label, names of ranks, spans, kernels and counters;
//   published  figures that others published, next to the predicted ones.
// `packed` of a timeline is base64 of gzip of integers: for each column the values of all spans, in the order of
// `columns`, then for each counter its times and the values of its series. Each integer is stored as its difference to
// the one before it in the same column, in LEB128 whose lowest bit is the sign. Times are whole nanoseconds; both ends
// of a span are cut, as in a trace.
std::string step_page_data(const std::vector<TraceSubject>& subjects, const std::vector<Comparison>& published);

}  // namespace plumbline::reports
