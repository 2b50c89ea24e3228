// Steps of a rank whose peers are stood in for: the same work in the same order, on made-up messages. Nothing is
// learnt.
#pragma once

#include "model/base/error.h"
#include "real/executor/trainer.h"

namespace plumbline::real {

// As train(), for one rank alone: losses and norms are not numbers, because what came from other ranks is made up;
// seconds are the rank's own.
model::Result<TrainingResult> rehearse(TrainingStep& step, const TextSource& text, const TrainingOptions& options,
                                       const StepObserver& observer = {});

}  // namespace plumbline::real
