// Merges rows of one shape and leaves out rows that their neighbors give by interpolation.
#pragma once

#include <cstddef>
#include <vector>

#include "calibrate/import/components/detail/layouts.h"

namespace plumbline::calibrate::components {

enum class Merge { median, least };

// Returns one record for each combination of keys, ordered by keys: the median of each value (of an even number the
// mean of the middle two), or the least. Keys of digits are ordered as numbers.
std::vector<Record> merged(std::vector<Record> records, Merge merge);

// Keeps of each series (records that differ in the key `axis` alone) both ends, then repeatedly the record that linear
// interpolation of ln value over ln axis misses most, until none is missed by more than `tolerance`. Takes and returns
// merged records, in their order.
std::vector<Record> thinned(std::vector<Record> records, std::size_t axis, double tolerance);

}  // namespace plumbline::calibrate::components
