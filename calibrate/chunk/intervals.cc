#include "calibrate/chunk/intervals.h"

#include <algorithm>
#include <cstddef>

namespace plumbline::calibrate {

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start);
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (interval.end <= interval.start) continue;
    if (result.empty() || interval.start > result.back().end) {
      result.push_back(interval);
    } else {
      result.back().end = std::max(result.back().end, interval.end);
    }
  }
  return result;
}

double covered(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& interval : merged(intervals)) sum += interval.end - interval.start;
  return sum;
}

double covered_without(const std::vector<Interval>& these, const std::vector<Interval>& those) {
  std::vector<Interval> both = these;
  both.insert(both.end(), those.begin(), those.end());
  return covered(both) - covered(those);
}

}  // namespace plumbline::calibrate
