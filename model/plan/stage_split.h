// How the layers of a model are divided over the stages of a pipeline where the plan gives no numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture/metrics.h"

namespace plumbline::model {

// Returns the fewest layers that a stage can hold. The first and the last of several hold the embedding and the head,
// so they can do without.
inline std::int64_t fewest_layers(std::int64_t stage, std::int64_t stages) {
  return stages > 1 && (stage == 0 || stage + 1 == stages) ? 0 : 1;
}

// Returns the number of layers of each stage: as even as possible, with the remainder on middle stages first. Requires
// stages > 0.
std::vector<std::int64_t> even_layer_counts(std::int64_t layers, std::int64_t stages);

// Returns the numbers for which the stage with the most work has the least that is possible. Of those, every stage,
// from the first, has at most the mean of what is left where it can, so that later ones, which keep fewer activations,
// have the remainder. Work is FLOPs of the layers times `layer_passes` and of embedding, prediction modules and head
// times 3: a backward pass has twice the FLOPs of a forward pass. Requires 0 < stages <= layers + 2.
std::vector<std::int64_t> balanced_layer_counts(const ForwardWork& work, double layer_passes, std::int64_t stages);

}  // namespace plumbline::model
