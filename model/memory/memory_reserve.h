// Computes the peak of a rank: live tensors on top of what stays, and memory outside the tensors of the model (driver,
// libraries, allocator), whose constants are the device's.
#pragma once

#include <vector>

#include "model/base/units.h"
#include "model/memory/training_state.h"
#include "model/plan/layout.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "model/schedule/schedule_table.h"

namespace plumbline::model {

struct Plan;

// Returns the device with the constants allocator.* of a profile, which replace the device's own of the same meaning.
Device with_allocator(Device device, const Profile& profile);

struct RankHolding {
  Bytes state;      // parameters, gradients and optimizer states
  Bytes gradients;  // those within `state`
  ParameterCounts counts;
  Bytes dynamic;  // activations, temporary tensors and messages at the fullest moment
  Bytes kept;     // the activations of that moment that were kept when its slot began
  Bytes outputs;  // of the stages, for all micro-batches whose backward has not begun
};

struct RankPeak {
  Bytes state, dynamic;
  // Buffers that communication libraries keep through the whole step. There is one set of connections for every group
  // of ranks in which the plan communicates, and the expert all-to-all's own where experts are on several ranks. The
  // buffers of reductions are counted too; where the software states none, two gradient buckets (one is sent while the
  // next fills), each at most as large as the gradients.
  Bytes buffers;
  // Tensors of the software that are not in the graph: gradients of weights before they are added, and outputs of
  // stages. 0 where the profile has no allocator.* constant of them.
  Bytes software;
  // The driver's context, a GEMM workspace for each stream that runs GEMMs (compute and weight gradients), and what the
  // allocator holds in addition to the live dynamic tensors.
  Bytes reserve;
  // The part of `reserve` that the allocator holds. Copies of gradients for the update are in it: they need segments of
  // their own, because those of activations are too small. Under full recomputation the kept tensors are inputs of
  // layers, which are all of one size: one takes the block of another, and none lies unused between them. Both are held
  // only as long as the device has space, since an allocator returns empty segments before it fails.
  Bytes held;
  Bytes low, high;                        // the interval of the sum that follows from the fragmentation's
  Bytes held_low, held_usual, held_high;  // the same of `held`, on a device without limit
  Bytes sum() const { return state + (dynamic + buffers + reserve) + software; }
  // What the tensors of a framework take, and the segments that its allocator holds for them.
  Bytes allocated() const { return state + dynamic + software + workspaces; }
  Bytes segments() const { return allocated() + held; }
  Bytes workspaces;  // buffers of reductions that are tensors of the framework
  // What the driver and libraries hold: context, workspaces of GEMMs, connections and buffers of transfers.
  Bytes libraries() const { return buffers - workspaces + (reserve - held); }
};

// The sum never falls when a part of the holding grows, so it is a lower bound of the peak wherever these are.
RankPeak rank_peak(const Plan& plan, const Layout& layout, const Device& device, const RankHolding& holding);

struct ChunkBytes {  // kept by one micro-batch on one stage, between its phases
  Bytes after_forward, for_weights;
};

struct FullestMoment {
  Bytes sum, kept;  // as RankHolding's dynamic and kept
};
// Returns the most that a rank's activations, temporary tensors and messages take. `chunks` has one entry per stage;
// `slots` is what each slot class needs on top of what was kept before; `message` is one between stages.
FullestMoment fullest_moment(const ScheduleTable::Rank& rank, const std::vector<ChunkBytes>& chunks,
                             const std::vector<Bytes>& slots, Bytes message);

}  // namespace plumbline::model
