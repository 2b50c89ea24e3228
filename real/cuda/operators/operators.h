// The operators of the graph on a GPU, one function each (model/graph/attributes.h says what each computes; the host's
// in real/host/operators/ are the reference). Exchanges and collectives are the communicator's.
#pragma once

#include "real/cuda/operators/call.h"

namespace plumbline::real::cuda {

// nullptr for a kind that the GPU cannot compute.
Function function_of(model::OperatorKind kind);

// matrix_products.cc, grouped_products.cc, stored_scores.cc
Status matmul(const Call& call);
Status grouped_matmul(const Call& call);
Status batched_matmul(const Call& call);

// attention.cc
Status attention(const Call& call);
Status attention_grad(const Call& call);

// norms.cc
Status rmsnorm(const Call& call);
Status rmsnorm_grad(const Call& call);
Status layernorm(const Call& call);
Status layernorm_grad(const Call& call);

// elementwise.cc
Status cast(const Call& call);
Status add(const Call& call);
Status add_bias(const Call& call);
Status column_sum(const Call& call);
Status sigmoid_gate(const Call& call);
Status sigmoid_gate_grad(const Call& call);

// activations.cc
Status swiglu(const Call& call);
Status swiglu_grad(const Call& call);
Status gelu(const Call& call);
Status gelu_grad(const Call& call);
Status softmax(const Call& call);
Status softmax_grad(const Call& call);

// arrangement.cc: also cast_transpose
Status transpose(const Call& call);
Status split_columns(const Call& call);
Status concatenate(const Call& call);
Status assemble_heads(const Call& call);
Status assemble_heads_grad(const Call& call);

// rotary.cc
Status rotary(const Call& call);
Status rotary_grad(const Call& call);

// router.cc
Status router(const Call& call);
Status router_grad(const Call& call);

// permutation.cc
Status permute(const Call& call);
Status permute_grad(const Call& call);
Status permute_transpose(const Call& call);
Status unpermute(const Call& call);
Status gather_rows(const Call& call);
Status gather_columns(const Call& call);

// tokens.cc
Status embedding(const Call& call);
Status embedding_grad(const Call& call);
Status add_positions(const Call& call);
Status add_positions_grad(const Call& call);
Status shift_tokens(const Call& call);

// loss.cc
Status cross_entropy(const Call& call);
Status cross_entropy_grad(const Call& call);

// optimizer.cc
Status sum_of_squares(const Call& call);
Status unscale(const Call& call);
Status adamw(const Call& call);

}  // namespace plumbline::real::cuda
