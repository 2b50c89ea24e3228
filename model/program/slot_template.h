// Composes the segments of a schedule slot from the blocks of its stages: which kernels run on which
// stream, in which order, and who waits for whom across streams.
#pragma once

#include <vector>

#include "model/program/program.h"

namespace plumbline::model {

// F, B, I and W run one chunk; exchanges are exposed except where compute of the same chunk can run
// beside them. FB interleaves the forward chunk's blocks with the backward chunk's, pair by pair, in
// DualPipe's order: compute attn(F), mlp(B), mlp(W), mlp(F), attn(B), attn(W); communication
// combine(B), dispatch(F), dispatch(B), combine(F). Blocks without a partner run as in a lone chunk.
// Collectives of tensor groups run in `pieces` beside the products that read or make what they carry; 1: not so.
SlotTemplate make_slot_template(OpType type, std::int32_t f_kind, std::int32_t b_kind,
                                const std::vector<StageKind>& stage_kinds, const std::vector<Graph>& blocks,
                                std::int64_t pieces = 1);

}  // namespace plumbline::model
