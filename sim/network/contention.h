// What all expert groups together take from each other, tabulated from SimGrid: loops on which nothing is shared, and
// the closed form, multiply by it.
#pragma once

#include <map>
#include <string>

#include "model/base/error.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

struct Inputs;

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
