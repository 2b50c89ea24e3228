#include "model/result/intervals.h"

#include <algorithm>

namespace plumbline::model {

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::start_ps);
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (interval.end_ps <= interval.start_ps) continue;
    if (result.empty() || interval.start_ps > result.back().end_ps) {
      result.push_back(interval);
    } else {
      result.back().end_ps = std::max(result.back().end_ps, interval.end_ps);
    }
  }
  return result;
}

double covered(const std::vector<Interval>& intervals) {
  std::int64_t sum = 0;
  for (const Interval& interval : merged(intervals)) sum += interval.end_ps - interval.start_ps;
  return static_cast<double>(sum) * 1e-12;
}

double covered_without(const std::vector<Interval>& these, const std::vector<Interval>& those) {
  std::vector<Interval> both = these;
  both.insert(both.end(), those.begin(), those.end());
  return covered(both) - covered(those);
}

}  // namespace plumbline::model
