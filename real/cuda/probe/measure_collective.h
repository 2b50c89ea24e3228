// Collectives between the ranks of a run; the communicator is made with the first of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "real/cuda/probe/measure.h"
#include "real/cuda/probe/world.h"

namespace plumbline::real::cuda {

class Collectives {
 public:
  explicit Collectives(World world);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // As the others of measure.h. All ranks measure the same cases in the same order. The bytes of the work are those
  // that the link of one rank carries, 0 for one rank.
  Status measure(const Case& what, const MeasureOptions& options, Toolbox& tools, std::vector<Measurement>& results);

 private:
  struct State;
  Status open(const std::vector<std::string>& folders);

  World world_;
  std::unique_ptr<State> state_;
};

}  // namespace plumbline::real::cuda
