// The fastest plan found for each shape, and the limit that a plan must beat.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "sim/search/candidate.h"

namespace plumbline::sim {

// The identity of a row of the result: the numbers of [parallelism] in the order of the plan, then the schedule.
using Shape = std::vector<std::int64_t>;
Shape shape_of(const model::Plan& plan);

// The fastest plans of all shapes.
class Incumbents {
 public:
  explicit Incumbents(std::size_t top) : top_(top) {}

  // Keeps a plan and returns true if it is faster than the one of its shape; the first of equal ones stays.
  bool add(const Shape& shape, const Candidate& candidate);

  // Returns seconds: a slower plan of the shape is neither among the `top` fastest shapes nor the fastest of its own.
  double limit(const Shape& shape) const;
  // Returns the limit for shapes without a plan.
  double limit() const { return limit_; }
  // Returns at most `most` plans by step time; of equal ones the smaller shape is first.
  std::vector<Candidate> ranked(std::size_t most) const;

 private:
  std::size_t top_;
  double limit_ = std::numeric_limits<double>::infinity();   // step of the `top`-th best shape
  std::map<Shape, std::shared_ptr<const Candidate>> known_;  // every branch starts with a copy
};

// Those that surely fit in memory, and faster ones at the edge.
struct FoundSoFar {
  Incumbents sure, edge;

  bool add(const Shape& shape, const Candidate& candidate, bool surely) {
    if (surely) return sure.add(shape, candidate);
    return candidate.estimate.step.time_s < limit(shape, surely) && edge.add(shape, candidate);
  }
  double limit(const Shape& shape, bool surely) const {
    return surely ? sure.limit(shape) : std::min(sure.limit(shape), edge.limit(shape));
  }
};

}  // namespace plumbline::sim
