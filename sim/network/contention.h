// What all expert groups together take from each other, tabulated from SimGrid: loops on which nothing is shared, and
// the closed form, multiply by it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

struct Inputs;

// Of each pipeline rank's expert group, at least 1: seconds of its exchange over the network when those of all ranks
// begin together, over seconds alone. An upper bound for a step, in which they do not always meet.
using Contention = std::vector<double>;

class ContentionTable {
 public:
  // Simulates what the inputs need and the table lacks: nothing where ranks lie in a row on a fabric that is not
  // oversubscribed, or where there is no wiring. On the thread that may use SimGrid, while no SimGridNetwork is alive.
  // Errors: of fabric, placement and SimGridNetwork.
  model::Result<void> add(const Inputs& inputs);

  // nullptr where nothing was needed. Safe from several threads while nobody adds.
  const Contention* find(const Inputs& inputs) const;

 private:
  std::map<std::string, Contention> known_;  // by pattern, placement and wiring; bytes cancel out
};

}  // namespace plumbline::sim
