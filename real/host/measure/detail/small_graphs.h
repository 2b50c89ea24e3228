// Graphs of a single operator and its gradients, written by the same layers as those of a model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph/graph.h"

namespace plumbline::real::host {

// Returns y[m,n] = x[m,k] W[n,k]^T, then the gradients of x and of W.
model::Graph gemm_graph(std::int64_t m, std::int64_t n, std::int64_t k, model::Precision precision);

// Returns causal attention of one sequence, with `head_dim` for queries, keys and values, and its gradient.
model::Graph attention_graph(std::int64_t sequence, std::int64_t heads, std::int64_t head_dim,
                             model::Precision precision);

// Returns the operators that memory_graph accepts.
std::vector<std::string> memory_operators();

// Returns operator `name` on [rows, columns] (of its output where that is smaller), with its gradients if it has any.
// The columns are divided into two equal parts for split, and form one head for rotary.
model::Graph memory_graph(std::string_view name, std::int64_t rows, std::int64_t columns, model::Precision precision);

}  // namespace plumbline::real::host
