// The part of a parameter that a rank holds, and its initial values. These depend only on the place in the undivided
// model, so that training begins with the same model however it is divided.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/graph/graph.h"
#include "model/plan/parallelism.h"

namespace plumbline::real {

// A rank's position among those that divide parameters.
struct Division {
  std::int64_t tensor = 1, tensor_rank = 0;
  std::int64_t expert = 1, expert_rank = 0;
  std::int64_t expert_tensor = 1, expert_tensor_rank = 0;
};

// Returns the division of the rank at `index` among those of a pipeline stage.
Division division_of(const model::Parallelism& degrees, std::int64_t index);

// Returns the part of shape `held` of the whole parameter's (or gradient's) `values`, row by row. Experts are divided
// in order. Then rows or columns are divided in equal parts; a fused matrix (queries, keys and values; gate and up),
// which its name identifies, has each of its outputs divided separately.
std::vector<float> part_of(const model::Architecture& architecture, const model::Tensor& whole,
                           const model::Tensor& held, const Division& division, std::span<const float> values);

// Puts the part of shape `held` into the whole parameter's `values`: the inverse of part_of.
void put_part(const model::Architecture& architecture, const model::Tensor& whole, const model::Tensor& held,
              const Division& division, std::span<const float> part, std::span<float> values);

// Sets `values` to the initial values of the part of shape `held`: scales of norms 1, biases 0, matrices normal with
// variance 1 / columns of the whole and a seed derived from the name. All cores compute this part only. `values` is
// resized, so that its memory can be reused from call to call.
void initial_part(const model::Architecture& architecture, const model::Tensor& whole, const model::Tensor& held,
                  const Division& division, const std::string& name, std::vector<float>& values);

}  // namespace plumbline::real
