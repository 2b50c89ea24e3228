// The slowdown of the all-to-alls of all expert groups by each other, tabulated from SimGrid. The closed form, and
// loops that share no links, multiply by it.
#pragma once

#include <map>
#include <string>

#include "model/base/error.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

struct Inputs;

class ContentionTable {
 public:
  // Simulates what the inputs need and the table lacks. Nothing is needed without wiring, or where ranks are contiguous
  // on a fabric that is not oversubscribed. Call it on the thread that may use SimGrid, while no SimGridNetwork is
  // alive. Returns the errors of fabric, placement and SimGridNetwork.
  model::Result<void> add(const Inputs& inputs);

  // Returns nullptr where nothing was needed. Safe from several threads while add() does not run.
  const Contention* find(const Inputs& inputs) const;

 private:
  std::map<std::string, Contention> known_;  // by pattern, placement and wiring; bytes cancel out
};

}  // namespace plumbline::sim
