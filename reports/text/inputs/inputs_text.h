// A model, a cluster or a cost profile as people read it: what goes into a prediction.
#pragma once

#include <cstdint>
#include <string>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/cost/collective_cost.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::reports {

// Dimensions, layers by kind, parameters, training FLOPs per token at a sequence length (at most as long as the model
// has learned positions), cache per token.
std::string model_text(const model::Architecture& architecture, std::int64_t sequence_length);

// Node, fabric and table of links as a drawing of at most 100 columns.
std::string topology_drawing(const topologies::Topology& topology, const topologies::Fabric& fabric);

// Node, links, NICs, fabric and device: every constant with unit, kind and source.
std::string topology_text(const model::ClusterShape& cluster);

// Every constant by name with value, unit, kind, uncertainty and source, and how many there are of each kind.
std::string profile_text(const model::Profile& profile);

struct CollectivesOptions {
  model::Collective collective = model::Collective::all_reduce;
  std::int64_t least = 8, most = std::int64_t{8} << 30;  // bytes; doubled from row to row
};

// A table over all GPUs of the cluster, its comments first: what the times rest on. One GPU alone is an input error.
model::Result<std::string> collectives_text(const model::ClusterShape& cluster, const model::Profile& profile,
                                            const CollectivesOptions& options);

// An SVG document (light or dark as the viewer is), from the cores at the top to the GPUs of one node.
std::string topology_svg(const topologies::Topology& topology, const topologies::Fabric& fabric);

}  // namespace plumbline::reports
