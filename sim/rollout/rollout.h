// Predicts a step of reinforcement learning from the update that a plan trains and the deployment that generates its
// answers (formulas: docs/reinforcement_learning.md).
#pragma once

#include <optional>

#include "model/base/error.h"
#include "model/result/result.h"
#include "sim/interval/step_draws.h"
#include "sim/predict/inputs.h"

namespace plumbline::sim {

// Returns the step of a plan with [rollout], whose inputs have `engines`, and a `reward` where the plan names a model.
// `update` is the result of its [batch], which is trained rollout.updates times in each epoch. Answers are drawn by a
// fixed seed. Errors: infeasible ones of the engines, with the keys of [rollout] (GPUs that are no whole number of
// instances, weights or the longest answer that do not fit); a profile that lacks a constant is an input error.
model::Result<model::RolloutResult> predict_rollout(const Inputs& inputs, const model::StepResult& update);

// Adds the interval of the step to the rollout of an update: `draws` of the update, which add_spread() returns, and
// such of the engines' decode steps, each with what is left of its software, independent of each other; what is sent
// and copied is as predicted. There is none where it was stopped before it had enough of them. Errors: those of
// draw_serving_interval().
model::Result<void> add_rollout_interval(const Inputs& inputs, model::StepResult& update, const StepDraws& draws,
                                         const IntervalOptions& options);

// Adds the step of reinforcement learning to the update of a plan with [rollout], with its interval where there are
// draws of the update, or why its engines cannot be; to that of another plan nothing. Returns input errors.
model::Result<void> add_rollout(const Inputs& inputs, model::StepResult& update, const std::optional<StepDraws>& draws,
                                const IntervalOptions& options);

}  // namespace plumbline::sim
