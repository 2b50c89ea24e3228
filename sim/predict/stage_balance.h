// Balances the stages of a pipeline by the seconds that their layers take, with the costs of every prediction.
#pragma once

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/plan/stage_split.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns the seconds of the forward and backward pass of a micro-batch through each layer, embedding, prediction
// modules and head: slots of one block on a GPU alone, at the shapes of the plan, whose model and cluster are those of
// the inputs. The links are taken to be as fast as the cluster's. Returns the errors of make_layout() and
// cost_models().
model::Result<model::SplitCosts> split_costs(const model::Plan& plan, const Inputs& inputs);

// Returns the plan with the numbers of layers that its rule of balanced stages gives. Numbers of a plan's file are
// replaced by these where an override changes the schedule and not the numbers (model/plan/plan_read.cc); the layout's
// warnings have them. A plan of one stage and one that has no layout are returned as they are.
model::Plan with_balanced_stages(model::Plan plan, const Inputs& inputs);

}  // namespace plumbline::sim
