// Emits a mixer with a state in place of keys and values (model/architecture/architecture.h, Recurrence) and its
// projections. Tokens of training and of prompts are computed in chunks, tokens of decode passes one by one from the
// state that earlier passes left.
#pragma once

#include "model/graph/builder.h"
#include "model/layers/context.h"

namespace plumbline::model {

// Shapes: x [T, H] -> [T, H], without the residual. Tensor ranks divide the heads. Context ranks of state_space and the
// delta rules divide the tokens of the projections and, by sending each other columns, the heads of what lies between:
// they scan whole sequences [context T, n / context]. Those of constant_decay scan their tokens [T, n] from the states
// of the others, [R heads, key_dim value_dim] in FP32. Others have none (model/plan/detail/plan_rules.cc).
TensorId recurrence(GraphBuilder& builder, const LayerContext& context, TensorId x);

// Returns the bytes that a rank of `tensor` ones keeps for one request in a layer of that mixer, however many tokens it
// has: the state of its heads and the last inputs of the convolution in 16 bits, or the projections of tokens whose run
// has not ended.
double state_bytes(const Architecture& architecture, std::int64_t tensor, Mixer mixer);

// Returns the same of all layers on all ranks; 0 without such layers.
double request_state_bytes(const Architecture& architecture);

}  // namespace plumbline::model
