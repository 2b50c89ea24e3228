// Sets of time intervals: when a stream, or a class of kernels, runs.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::model {

struct Interval {
  std::int64_t start_ps = 0, end_ps = 0;
};

// Returns the same times as sorted intervals that neither touch nor overlap.
std::vector<Interval> merged(std::vector<Interval> intervals);

// Returns the seconds in at least one of the intervals.
double covered(const std::vector<Interval>& intervals);

// Returns the seconds in at least one interval of `these` and in none of `those`.
double covered_without(const std::vector<Interval>& these, const std::vector<Interval>& those);

}  // namespace plumbline::model
