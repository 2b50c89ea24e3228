// Composes the segments of a schedule slot from the blocks of its stages: the kernels of each stream, their order, and
// the waits between streams.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"

namespace plumbline::model {

struct Plan;

// How collectives of tensor groups overlap with GEMMs.
struct TensorOverlap {
  std::int64_t pieces = 1;  // in which they run, overlapped with the GEMMs that produce or consume their data; 1: whole
  // Whether sums of input gradients overlap; where not, they run whole, and kernels wait for them.
  bool gradients = true;
};
TensorOverlap tensor_overlap(const Plan& plan);
// Returns whether an operator sums an input gradient over ranks; what is computed again has none.
bool sums_input_gradient(const Operator& op);

// F, B, I and W run one chunk; dispatch and combine are exposed unless compute of the same chunk can overlap them.
// FB interleaves the blocks of the forward and the backward chunk pair by pair, in DualPipe's order: compute attn(F),
// mlp(B), mlp(W), mlp(F), attn(B), attn(W); communication combine(B), dispatch(F), dispatch(B), combine(F). Blocks
// without a partner run as in a single chunk.
SlotTemplate make_slot_template(OpType type, std::int32_t f_kind, std::int32_t b_kind,
                                const std::vector<StageKind>& stage_kinds, const std::vector<Graph>& blocks,
                                const TensorOverlap& overlap = {});

}  // namespace plumbline::model
