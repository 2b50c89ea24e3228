// The program of a plan and its cost functions, for tests that look inside a step.
#pragma once

#include <algorithm>

#include "model/layout.h"
#include "model/routing.h"
#include "sim/segment_time.h"
#include "sim/simulate.h"

namespace plumbline::tests {

inline model::StepProgram program_of(const sim::Inputs& inputs) {
  const model::Layout layout = model::make_layout(inputs.plan, inputs.architecture).value();
  return model::compile(inputs.plan, inputs.architecture, layout).value();
}

inline sim::CostModels costs_of(const sim::Inputs& inputs) {
  const model::MixtureOfExperts& experts = inputs.architecture.experts;
  const std::int64_t ranks = inputs.plan.parallelism.expert;
  const std::int64_t sms = inputs.plan.overlap.communication_sms;
  const std::int64_t groups = inputs.plan.routing.max_nodes_per_token.value_or(experts.groups_per_token);
  const model::RoutingSpread spread = model::routing_spread(experts, std::min(groups, experts.groups), ranks,
                                                            std::min(ranks, inputs.cluster.gpus_per_node));
  return {model::KernelCost::make(inputs.profile, inputs.cluster.device.sms).value(),
          model::ExchangeCost::make(inputs.profile, inputs.cluster, spread, ranks, sms).value(),
          inputs.cluster.device.sms, sms};
}

}  // namespace plumbline::tests
