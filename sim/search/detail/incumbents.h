// The fastest plan found for each shape, and the limit that a plan must beat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "sim/search/candidate.h"

namespace plumbline::sim {

// The identity of a row of the result: the numbers of [parallelism] in the order of the plan, then the schedule.
using Shape = std::vector<std::int64_t>;
Shape shape_of(const model::Plan& plan);

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
  double limit_ = std::numeric_limits<double>::infinity();  // step of the `top`-th best shape
  std::map<Shape, Candidate> known_;
};

}  // namespace plumbline::sim
