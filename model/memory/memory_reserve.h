// Memory that no tensor of the model accounts for: driver, libraries, allocator. The constants are the device's.
#pragma once

#include "model/base/units.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"

namespace plumbline::model {

// Buffers that collective and exchange libraries keep through the whole step: one set of connections for every group
// of ranks that the plan communicates in, the exchange's own where experts lie on several ranks, and the gradient
// buckets (one travels while the next fills; none is larger than the gradients).
Bytes communication_buffers(const Plan& plan, const Layout& layout, const Device& device, Bytes gradients);

// The driver's context and the workspaces of matrix products, one for each stream that runs them (compute and weight
// gradients).
Bytes runtime_memory(const Device& device);

// What the allocator holds beside the live tensors that come and go, of whose sum `dynamic` is the largest.
Bytes fragmentation(const Device& device, Bytes dynamic);

}  // namespace plumbline::model
