// What the GPUs of a cluster compute in one step where experts, or documents in packed sequences, make micro-batches
// differ.
#pragma once

#include <cstdint>
#include <memory>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/step/fleet.h"

namespace plumbline::sim {

// Returns the work of every replica of a pipeline rank, tabulated by micro-batch, or nullptr where the plan makes none
// differ. Rows are those of model::RankRows where the plan states the load of experts, else those of imbalance_of(),
// scaled so that the rows of an expert group add up to its tokens; layers that have no experts have no row but 1. A
// seed gives the draws. Errors: those of make_layout().
model::Result<std::unique_ptr<UnevenWork>> uneven_work(const model::Plan& plan, const model::Architecture& architecture,
                                                       std::uint64_t seed);

}  // namespace plumbline::sim
