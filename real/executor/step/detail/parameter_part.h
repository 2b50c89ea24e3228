// Which part of a parameter a rank holds, and what parameters begin with: numbers that depend on their place in the
// undivided model alone, so that training begins with the same model however it is divided.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/graph/graph.h"
#include "model/plan/plan.h"

namespace plumbline::real {

// A rank's position among those that divide parameters.
struct Division {
  std::int64_t tensor = 1, tensor_rank = 0;
  std::int64_t expert = 1, expert_rank = 0;
  std::int64_t expert_tensor = 1, expert_tensor_rank = 0;
};

// Of the rank at `index` among those of a pipeline stage.
Division division_of(const model::Plan::Parallelism& degrees, std::int64_t index);

// `values` of the whole parameter (or gradient), row by row -> those of the part of `held`'s shape. Experts are dealt
// out in order, then cut like all else: rows in equal parts, of matrices that make several things at once (queries,
// keys and values; gate and up) each thing in equal parts; or columns. The tensors' names tell what they make.
std::vector<float> part_of(const model::Architecture& architecture, const model::Tensor& whole,
                           const model::Tensor& held, const Division& division, std::span<const float> values);

// What the part of `held`'s shape begins with: scales of norms 1, biases 0, matrices normal with variance 1 / columns
// of the whole, drawn from a seed of the name. Made on all cores, without the rest of the whole; `values` is resized,
// and its memory used again from call to call.
void initial_part(const model::Architecture& architecture, const model::Tensor& whole, const model::Tensor& held,
                  const Division& division, const std::string& name, std::vector<float>& values);

}  // namespace plumbline::real
