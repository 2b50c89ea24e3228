// Sets of time intervals: when a stream, or a class of kernels, runs.
#pragma once

#include <vector>

namespace plumbline::calibrate {

struct Interval {
  double start = 0, end = 0;  // seconds
};

// The same times as intervals that neither touch nor overlap, in order.
std::vector<Interval> merged(std::vector<Interval> intervals);

// Seconds in at least one of the intervals.
double covered(const std::vector<Interval>& intervals);

// Seconds in at least one interval of `these` and in none of `those`.
double covered_without(const std::vector<Interval>& these, const std::vector<Interval>& those);

}  // namespace plumbline::calibrate
