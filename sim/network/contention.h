// The slowdown of the all-to-alls of all expert groups by each other, tabulated from SimGrid. The closed form, and
// loops that share no links, multiply by it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "model/base/error.h"
#include "model/base/memo.h"
#include "model/program/program.h"
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

// Remembers the links of steps on one fabric, so that plans that differ elsewhere compute its routes once. The owner
// passes it to each evaluation. Safe to use from several threads.
class LinksMemo {
 public:
  using Links = model::Result<std::shared_ptr<const StepLinks>>;
  // Returns StepLinks::make(), once for all plans with the same ranks and placement. All inputs must share a fabric.
  Links links(const Inputs& inputs, const model::RoutingSpread& spread);
  // Returns group_links() for the placement of the inputs' plan.
  GroupLinks group(const Inputs& inputs, const topologies::Fabric& fabric, const topologies::Placement& placement,
                   const GroupPattern& pattern);

 private:
  model::Memo<std::string, Links> known_;        // by what their routes depend on, as bytes
  model::Memo<std::string, GroupLinks> groups_;  // likewise
};

// Returns the links of the inputs' plan. They come from the memo, if there is one, unless the inputs have contention or
// ask for every link.
model::Result<std::shared_ptr<const StepLinks>> links_of(const Inputs& inputs, const model::RoutingSpread& spread);

}  // namespace plumbline::sim
