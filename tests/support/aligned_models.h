// The tiny models with sizes that kernels of a GPU take: heads of 128, columns that are multiples of 64.
#pragma once

#include <vector>

#include "tests/support/tiny_models.h"

namespace plumbline::tests {

inline constexpr std::int64_t aligned_sequence_length = 128;

std::vector<TinyModel> aligned_models();

// Two sequences on one rank.
model::LayerContext aligned_context(const TinyModel& model, model::Precision precision);

}  // namespace plumbline::tests
