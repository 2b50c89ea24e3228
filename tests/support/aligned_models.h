// The tiny models with sizes that GPU kernels accept: heads of 128, columns that are multiples of 64.
#pragma once

#include <vector>

#include "tests/support/tiny_models.h"

namespace plumbline::tests {

inline constexpr std::int64_t aligned_sequence_length = 128;

std::vector<TinyModel> aligned_models();

// Returns the context of two sequences on one rank.
model::LayerContext aligned_context(const TinyModel& model, model::Precision precision);

}  // namespace plumbline::tests
