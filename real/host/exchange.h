// Exchanges of tokens between the ranks that hold experts, by direct messages (model/graph/operators.def says what each
// operator computes). A token goes to a rank once. Sums are added in FP32 in the group's order, then what is added to
// them, and rounded once.
#pragma once

#include "real/host/buffer.h"
#include "real/host/device.h"
#include "real/host/members.h"

namespace plumbline::real::host {

// What a stream runs; the kernel's buffers must outlive it. dispatch leaves with the indices who sent what, and the
// others throw RankFailure where it is not there.
StreamWork dispatch(const Members& members, const Kernel& kernel);
StreamWork dispatch_grad(const Members& members, const Kernel& kernel);
StreamWork combine(const Members& members, const Kernel& kernel);
StreamWork combine_grad(const Members& members, const Kernel& kernel);

}  // namespace plumbline::real::host
