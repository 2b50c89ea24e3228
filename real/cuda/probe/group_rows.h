// How the rows of a product are spread over its groups.
#pragma once

#include <cstdint>
#include <vector>

#include "real/cuda/probe/case.h"

namespace plumbline::real::cuda {

// Of one group, or their mean: `m`, in phase W `k`.
std::int64_t rows_of_group(const Case& value);

// Rows of each group of a product, the largest first: `m` of them (in phase W: `k`) or, by Zipf's law, shares in
// proportion to 1, 1/2, 1/3, ... of as many in all, in whole blocks of 128 and at least one.
std::vector<std::int64_t> group_rows(const Case& value);

}  // namespace plumbline::real::cuda
