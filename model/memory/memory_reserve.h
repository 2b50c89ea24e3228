// The peak of a rank: what comes and goes on top of what stays, and memory that no tensor of the model accounts for
// (driver, libraries, allocator), whose constants are the device's.
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
  // Collective and exchange libraries keep buffers through the whole step: one set of connections for every group of
  // ranks that the plan communicates in, the exchange's own where experts lie on several ranks, and the gradient
  // buckets (one travels while the next fills; none is larger than the gradients).
  Bytes buffers;
  // The driver's context, the workspaces of matrix products, one for each stream that runs them (compute and weight
  // gradients), and what the allocator holds beside the live tensors that come and go.
  Bytes reserve;
  Bytes sum() const { return state + (dynamic + buffers + reserve); }
};

// gradients: those of `state`. The sum never falls when state, gradients or dynamic grow: it is a lower bound of the
// peak wherever these are.
RankPeak rank_peak(const Plan& plan, const Layout& layout, const Device& device, Bytes state, Bytes gradients,
                   Bytes dynamic);

struct ChunkBytes {  // of one micro-batch on one stage, between its phases
  Bytes after_forward, for_weights;
};

// The most that a rank's activations, temporary tensors and messages come to. chunks: of each stage of the schedule;
// slots: of each slot class, what it needs beside what was kept when it began; message: one between stages.
Bytes fullest_moment(const ScheduleTable::Rank& rank, const std::vector<ChunkBytes>& chunks,
                     const std::vector<Bytes>& slots, Bytes message);

}  // namespace plumbline::model
