// Computes the peak of a rank: live tensors on top of what stays, and memory outside the tensors of the model (driver,
// libraries, allocator), whose constants are the device's.
#pragma once

#include <vector>

#include "model/base/units.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {

struct RankPeak {
  Bytes state;    // parameters, gradients and optimizer states
  Bytes dynamic;  // activations, temporary tensors and messages at the fullest moment
  // Buffers that communication libraries keep through the whole step. There is one set of connections for every group
  // of ranks in which the plan communicates, and the expert all-to-all's own where experts are on several ranks. Two
  // gradient buckets (one is sent while the next fills) are counted too, each at most as large as the gradients.
  Bytes buffers;
  // The driver's context, a GEMM workspace for each stream that runs GEMMs (compute and weight gradients), and what the
  // allocator holds in addition to the live dynamic tensors.
  Bytes reserve;
  Bytes sum() const { return state + (dynamic + buffers + reserve); }
};

// `gradients` are those within `state`. The sum never falls when state, gradients or dynamic grow, so it is a lower
// bound of the peak wherever these are.
RankPeak rank_peak(const Plan& plan, const Layout& layout, const Device& device, Bytes state, Bytes gradients,
                   Bytes dynamic);

struct ChunkBytes {  // kept by one micro-batch on one stage, between its phases
  Bytes after_forward, for_weights;
};

// Returns the most that a rank's activations, temporary tensors and messages take. `chunks` has one entry per stage;
// `slots` is what each slot class needs on top of what was kept before; `message` is one between stages.
Bytes fullest_moment(const ScheduleTable::Rank& rank, const std::vector<ChunkBytes>& chunks,
                     const std::vector<Bytes>& slots, Bytes message);

}  // namespace plumbline::model
