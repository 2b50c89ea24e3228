// Collectives by direct messages between all members. Sums are added in FP32 in the group's order, by one rank for all,
// and rounded once to the format of what is written. Tensors are taken as their elements one after the other.
#pragma once

#include "real/host/buffer.h"
#include "real/host/device.h"
#include "real/host/members.h"

namespace plumbline::real::host {

// What a stream runs; buffers must outlive it. Both throw RankFailure for sizes that do not fit.
// in and out have the same size and may be the same buffer. Parts need not be equal.
StreamWork all_reduce(const Members& members, const HostBuffer& in, HostBuffer& out);
// The size of `in` is a multiple of the members'; out becomes this member's part.
StreamWork reduce_scatter(const Members& members, const HostBuffer& in, HostBuffer& out);
// Pieces may have any sizes; out becomes all of them.
StreamWork all_gather(const Members& members, const HostBuffer& in, HostBuffer& out);

}  // namespace plumbline::real::host
