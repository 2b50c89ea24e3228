// The cost functions of one plan on one cluster under one profile.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/base/error.h"
#include "model/cost/communication_cost.h"
#include "model/cost/host_cost.h"
#include "model/cost/kernel_cost.h"
#include "model/cost/power_model.h"
#include "model/cost/sm_partition.h"
#include "model/plan/layout.h"
#include "model/profile/device_profile.h"
#include "sim/network/step_links.h"

namespace plumbline::sim {

struct Inputs;

struct CostModels {
  model::KernelCost kernels;
  model::CommunicationCost communication;
  model::HostCost host;
  model::SmPartition partition;
  std::shared_ptr<const StepLinks> links;  // where the inputs have wiring
  struct PlacedGroup {                     // a kind of groups of dense collectives
    std::int64_t ranks = 1, stride = 1;
    GroupLinks links;
  };
  std::vector<PlacedGroup> groups;  // where the inputs have wiring
  // The constants behind the costs; indices of constants are those of its parameters.
  std::shared_ptr<const model::DeviceProfile> profile;
  std::optional<model::PowerModel> power = std::nullopt;  // where the profile has one
  double collective_slowdown = 1;                         // factor on a reduction's or gather's time during compute
  double compute_slowdown = 1;  // factor on compute's time during a reduction or gather, besides its SMs
  // The bytes that kernels of their own move, over those of the unit's parameters: after each gather, before each
  // reduction, and to add up the gradients of a micro-batch, in a run of passes of sharded ones.
  double gather_passes = 0, reduce_passes = 0, fp32_reduce_passes = 0, accumulate_passes = 0, run_passes = 0;
  // Where tensor ranks divide the tokens: the bytes that kernels of their own move over those of all tokens, once they
  // are gathered, before they are reduced, and before input gradients are; the first two of several sequences only.
  // `added` are those that add up the results of a sum in pieces, once all pieces are there.
  struct {
    std::int64_t ranks = 1;
    double gathered = 0, reduced = 0, gradients = 0, added = 0;
  } sequences;
};

// Returns the kinds of groups of dense collectives that the plan has, those of one rank left out. With its GPUs,
// pipeline and placement they decide where the groups lie.
std::vector<GroupPattern> collective_groups(const model::Plan& plan, const model::Layout& layout);

// Returns what the dense collectives among the operators send.
WireLoad wire_load(const model::Graph& graph, const std::vector<std::uint16_t>& operators, const CostModels& costs);

// Makes the cost functions of the inputs' plan, whose layout is `layout`, with the constants of the profile that hold
// on the cluster's device (model::profile_on). Returns an input error when the profile lacks a constant or has one that
// is not allowed, or when the plan limits the power and the profile does not state what that costs, and an infeasible
// one when communication leaves no SM to compute or the device lacks the plan's number format.
// overlap.communication_sms = 0 reserves no SMs: communication holds what its kernels need for their full rate while
// they run, as under the policy none. That is nothing where the profile's communication.needs_sms is 0.
model::Result<CostModels> cost_models(const Inputs& inputs, const model::Layout& layout);

// Gives inputs those memos that they lack, which cost models of several plans share.
void add_memos(Inputs& inputs);

}  // namespace plumbline::sim
