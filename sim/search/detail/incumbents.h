// The fastest plan of every shape that was met, and what a plan must beat to matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "sim/search/candidate.h"

namespace plumbline::sim {

// What tells plans apart that are rows of their own: the numbers of [parallelism] in the order of the plan, then the
// schedule.
using Shape = std::vector<std::int64_t>;
Shape shape_of(const model::Plan& plan);

class Incumbents {
 public:
  explicit Incumbents(std::size_t top) : top_(top) {}

  // A plan is kept if it is faster than the one of its shape; of equals the first one stays.
  void add(const Shape& shape, const Candidate& candidate);
  // All of the other's, in their order.
  void add(const Incumbents& other);

  // No plan of the shape that takes longer can be among the `top` fastest shapes or be the fastest of its own.
  double limit(const Shape& shape) const;
  // The same for every shape.
  double limit() const { return limit_; }
  double best() const;  // 0: none yet
  // By step time; of equals the smaller shape first. At most `most`.
  std::vector<Candidate> ranked(std::size_t most) const;

 private:
  std::size_t top_;
  double limit_ = std::numeric_limits<double>::infinity();  // step of the `top`-th best shape
  std::map<Shape, Candidate> known_;
};

}  // namespace plumbline::sim
