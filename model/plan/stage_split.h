// How the layers of a model are divided over the stages of a pipeline where the plan gives no numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::model {

// Returns the fewest layers that a stage can hold. The first and the last of several hold the embedding and the head,
// so they can do without.
inline std::int64_t fewest_layers(std::int64_t stage, std::int64_t stages) {
  return stages > 1 && (stage == 0 || stage + 1 == stages) ? 0 : 1;
}

// Returns the number of layers of each stage: as even as possible, with the remainder on middle stages first. Requires
// stages > 0.
std::vector<std::int64_t> even_layer_counts(std::int64_t layers, std::int64_t stages);

// What a micro-batch costs on the stages that hold these parts, in seconds.
struct SplitCosts {
  std::vector<double> layers;  // in order
  double first = 0, last = 0;  // what else the first and the last stage hold: embedding; prediction modules and head
};

// Returns the numbers for which the dearest stage costs the least that is possible. Of those, the numbers are as even
// as they can be (the least sum of squares), so that stages keep as many parameters and activations as each other, and
// later stages, which keep fewer activations, have the remainder. Requires 0 < stages <= layers + 2.
std::vector<std::int64_t> balanced_layer_counts(const SplitCosts& costs, std::int64_t stages);

}  // namespace plumbline::model
