// The operators of the graph, one function each (model/graph/attributes.h says what each computes).
#pragma once

#include "tests/support/interpreter/interpreter.h"

namespace plumbline::tests {

using Function = void (*)(Calls);

// Throws std::logic_error for a kind without a function.
Function function_of(model::OperatorKind kind);

// matrix_products.cc
void matmul(Call& call);
void grouped_matmul(Call& call);

// attention.cc
void attention(Call& call);
void attention_grad(Call& call);

// stored_scores.cc: attention without the fused kernel
void batched_matmul(Call& call);
void softmax(Call& call);
void softmax_grad(Call& call);

// dropout.cc
void dropout(Call& call);
void dropout_grad(Call& call);
// What dropout multiplies an entry by: 0 or 1 / (1 - probability). A stand-in for random numbers that depends on the
// token's place in its sequence and the column only, so that a token's mask is the same on every rank.
double dropout_factor(Index row, Index column, double probability);

// elementwise.cc
void rmsnorm(Call& call);
void rmsnorm_grad(Call& call);
void layernorm(Call& call);
void layernorm_grad(Call& call);
void cast(Call& call);
void transpose(Call& call);
void add(Call& call);
void split(Call& call);
void concatenate(Call& call);
void swiglu(Call& call);
void swiglu_grad(Call& call);
void add_bias(Call& call);
void gelu(Call& call);
void gelu_grad(Call& call);
void column_sum(Call& call);
void sigmoid_gate(Call& call);
void sigmoid_gate_grad(Call& call);

// heads.cc
void rotary(Call& call);
void rotary_grad(Call& call);
void assemble_heads(Call& call);
void assemble_heads_grad(Call& call);

// router.cc
void router(Call& call);
void router_grad(Call& call);

// permutation.cc: between received tokens and the rows of experts
void permute(Call& call);
void permute_grad(Call& call);
void permute_transpose(Call& call);
void unpermute(Call& call);
void gather_rows(Call& call);
void gather_columns(Call& call);

// exchange.cc: between ranks
void dispatch(Calls calls);
void dispatch_grad(Calls calls);
void combine(Calls calls);
void combine_grad(Calls calls);

// optimizer.cc
void all_reduce(Calls calls);
void reduce_scatter(Calls calls);
void all_gather(Calls calls);
void sum_of_squares(Call& call);
void unscale(Call& call);
void adamw(Call& call);
void copy(Call& call);

// model_ends.cc
void embedding(Call& call);
void embedding_grad(Call& call);
void add_positions(Call& call);
void add_positions_grad(Call& call);
void cross_entropy(Call& call);
void cross_entropy_grad(Call& call);
void shift_tokens(Call& call);

}  // namespace plumbline::tests
