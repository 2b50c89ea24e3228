// From a plan, a model, a cluster and a profile to the result of one training step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "sim/network/contention.h"
#include "sim/network/links_memo.h"
#include "sim/predict/routing_memo.h"
#include "sim/predict/schedule_tables.h"
#include "topologies/fabric_shape.h"

namespace plumbline::sim {

enum class Fidelity { closed_form, step };
std::string_view to_string(Fidelity fidelity);
model::Result<Fidelity> parse_fidelity(std::string_view text);

struct Inputs {
  model::Plan plan;
  model::Architecture architecture;
  model::ClusterShape cluster;
  model::Profile profile;
  std::shared_ptr<RoutingMemo> routing = nullptr;  // shared between plans that are simulated together; may be null
  std::optional<topologies::FabricShape> fabric = std::nullopt;  // wiring; without it links are what the rates say
  // Of expert groups on shared links, where the loop lets nobody share; may be null. The SimGrid loop needs none.
  std::shared_ptr<const ContentionTable> contention = nullptr;
  std::shared_ptr<LinksMemo> links = nullptr;        // shared like `routing`, between plans on one fabric; may be null
  std::shared_ptr<ScheduleTables> tables = nullptr;  // the same, for searches
  bool every_link = false;  // all links of an expert group, not only those of the GPU that stands for it
};

struct Simulation {
  model::StepResult result;
  model::Timeline timeline;             // empty unless asked for
  std::vector<std::string> rank_names;  // "rank 3 (stages 3, 12)"
  std::uint64_t events = 0;
};

// closed_form puts the durations of chunks on a free GPU through the schedule's own recurrence, without events; step
// runs every slot of every pipeline rank. Both use the same chunks and costs.
// A plan that does not fit in memory is simulated all the same (result.memory.fits is false).
// On the heap loop: transfers run as if each were alone on its links.
model::Result<Simulation> simulate(const Inputs& inputs, Fidelity fidelity, bool record_timeline);

// A link of the fabric by name ("node3.gpu5.up"), from a time on.
struct NamedLinkChange {
  std::string link;
  double time = 0;    // s, from the start of the step
  double factor = 1;  // of its bandwidth; 0: it fails
};

// A step on the SimGrid loop: transfers that run at the same time share links. Needs inputs.fabric. Errors: those of
// simulate() and of SimGridNetwork; an unknown link; a link that failed under a transfer (infeasible).
model::Result<Simulation> simulate_on_network(const Inputs& inputs, bool record_timeline,
                                              const std::vector<NamedLinkChange>& changes = {});

}  // namespace plumbline::sim
