// The operators, one function each, by the file that holds them.
#pragma once

#include "real/host/operators/operators.h"

namespace plumbline::real::host {

// matrix_products.cc
void matmul(const Call& call);
void grouped_matmul(const Call& call);

// attention.cc
void attention(const Call& call);
void attention_grad(const Call& call);

// stored_scores.cc: attention without the fused kernel
void batched_matmul(const Call& call);
void softmax(const Call& call);
void softmax_grad(const Call& call);

// norms.cc
void rmsnorm(const Call& call);
void rmsnorm_grad(const Call& call);
void layernorm(const Call& call);
void layernorm_grad(const Call& call);

// elementwise.cc
void cast(const Call& call);
void add(const Call& call);
void add_bias(const Call& call);
void column_sum(const Call& call);
void sigmoid_gate(const Call& call);
void sigmoid_gate_grad(const Call& call);

// activations.cc
void swiglu(const Call& call);
void swiglu_grad(const Call& call);
void gelu(const Call& call);
void gelu_grad(const Call& call);

// arrangement.cc
void transpose(const Call& call);
void split_columns(const Call& call);
void concatenate(const Call& call);
void assemble_heads(const Call& call);
void assemble_heads_grad(const Call& call);

// rotary.cc
void rotary(const Call& call);
void rotary_grad(const Call& call);

// router.cc
void router(const Call& call);
void router_grad(const Call& call);

// permutation.cc: between received tokens and the rows of experts
void permute(const Call& call);
void permute_grad(const Call& call);
void permute_transpose(const Call& call);
void unpermute(const Call& call);
void gather_rows(const Call& call);
void gather_columns(const Call& call);

// tokens.cc: where token ids and places enter
void embedding(const Call& call);
void embedding_grad(const Call& call);
void add_positions(const Call& call);
void add_positions_grad(const Call& call);
void shift_tokens(const Call& call);

// loss.cc
void cross_entropy(const Call& call);
void cross_entropy_grad(const Call& call);

// optimizer.cc
void sum_of_squares(const Call& call);
void unscale(const Call& call);
void adamw(const Call& call);

}  // namespace plumbline::real::host
