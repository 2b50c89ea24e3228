// Which part of a parameter a rank holds, and what parameters begin with. Every rank makes the whole tensor of the
// undivided model and keeps its part, so that training begins with the same model however it is divided.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/graph/graph.h"

namespace plumbline::real {

// A rank's position among those that divide parameters.
struct Division {
  std::int64_t tensor = 1, tensor_rank = 0;
  std::int64_t expert = 1, expert_rank = 0;
  std::int64_t expert_tensor = 1, expert_tensor_rank = 0;
};

// `values` of the whole parameter (or gradient), row by row -> those of the part of `held`'s shape. Experts are dealt
// out in order, then cut like all else: rows in equal parts, of matrices that make several things at once (queries,
// keys and values; gate and up) each thing in equal parts; or columns. The tensors' names tell what they make.
std::vector<float> part_of(const model::Architecture& architecture, const model::Tensor& whole,
                           const model::Tensor& held, const Division& division, std::span<const float> values);

// Scales of norms 1, biases 0, matrices normal with variance 1 / columns, drawn from a seed of the name.
std::vector<float> initial_values(const model::Tensor& whole, const std::string& name);

}  // namespace plumbline::real
