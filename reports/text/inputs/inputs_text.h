// A model, a cluster, a cost profile or a software stack as text: the inputs of a prediction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/reliability/reliability.h"
#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/cost/collective_cost.h"
#include "model/plan/plan_key_table.h"
#include "model/profile/cluster.h"
#include "model/profile/constant_rules.h"
#include "model/profile/stack.h"
#include "model/routing/rank_rows.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::reports {

// Returns dimensions, layers by kind, parameters, training FLOPs per token at a sequence length (at most the number of
// learned positions), and cache per token.
std::string model_text(const model::Architecture& architecture, std::int64_t sequence_length);
// Returns the numbers of the same: quantity, value, unit.
std::string model_csv(const model::Architecture& architecture, std::int64_t sequence_length);

// Returns a drawing of node and fabric and a table of links, at most 100 columns wide.
std::string topology_drawing(const topologies::Topology& topology, const topologies::Fabric& fabric);

// Returns node, links, NICs, fabric and device: every constant with unit, kind and source.
std::string topology_text(const model::ClusterShape& cluster);

// Returns every constant by name with value, unit, kind, uncertainty and source, and the number of each kind.
std::string profile_text(const model::Profile& profile);

// Returns the constants of a stack as those of a profile, its settings, and what the software has.
std::string stack_text(const model::Stack& stack);

// Returns a table of stacks: name, numbers of constants and settings, description.
std::string stacks_text(const std::vector<model::Stack>& stacks);
std::string stacks_csv(const std::vector<model::Stack>& stacks);

// Returns a row for each constant. Below those of a stack there is one for each setting and each list of what the
// software has, whose name begins with "has "; their unit is empty.
std::string constants_csv(const std::vector<model::Parameter>& constants);
std::string stack_csv(const model::Stack& stack);
// Returns the constants of a cluster, of its device and of what it costs.
std::vector<model::Parameter> constants_of(const model::ClusterShape& cluster);

// Returns how uneven experts and ranks are, and the steps in which biases balance them.
std::string routing_text(const model::RoutingStatistics& routing, const std::string& plan);

// Returns every constant of rates of failures, and the mean time between failures on some numbers of GPUs.
std::string reliability_text(const calibrate::Reliability& reliability);

// Returns a table of keys of a plan by section; of a single key everything there is about it with examples of its use.
std::string keys_text(const std::vector<model::PlanKey>& keys);

// Returns a page of Markdown with a table of keys for each section: docs/keys.md.
std::string keys_markdown(const std::vector<model::PlanKey>& keys);

// Returns the keys as CSV, a line each.
std::string keys_csv(const std::vector<model::PlanKey>& keys);

// Returns a table of constants that a profile may have; of a single one everything there is about it with an example.
std::string constant_rules_text(const std::vector<model::ConstantRule>& rules);

// Returns the constants as CSV, a line each.
std::string constant_rules_csv(const std::vector<model::ConstantRule>& rules);

struct CollectivesOptions {  // the collective and the buffer sizes of the table
  model::Collective collective = model::Collective::all_reduce;
  std::int64_t least = 8, most = std::int64_t{8} << 30;  // bytes; doubled from row to row
};

// Returns a table over all GPUs of the cluster, below comments with its constants. A single GPU is an input error.
model::Result<std::string> collectives_text(const model::ClusterShape& cluster, const model::Profile& profile,
                                            const CollectivesOptions& options);
// Returns the same rows as CSV, with the time in seconds.
model::Result<std::string> collectives_csv(const model::ClusterShape& cluster, const model::Profile& profile,
                                           const CollectivesOptions& options);

}  // namespace plumbline::reports
