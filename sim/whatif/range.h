// The values of a swept key, as in `--over KEY=RANGE`:
//
//   0..64:4  1..8  64..0:-8     both ends included; for integers the default step is 1
//   0..0.2:0.05                 numbers with a fraction; each value is an exact decimal
//   1..64:*2                    each value is twice the one before it
//   1,2,4   fp8,bf16   0..8:4,16   lists of values, bare words and ranges
//   [1, 2]  [[3, 4], [4, 3]]    a TOML list: of values, or of lists for a key that takes a list
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

struct SweepValue {
  std::string text;              // the text after KEY= in an override
  std::optional<double> number;  // set where the value is one
};

struct SweepAxis {
  std::string key;
  std::vector<SweepValue> values;  // at least one
  bool numeric() const;            // all values are numbers
};

// The largest number of values of one key, and of points of a sweep.
inline constexpr std::size_t most_points = 100'000;

// Reads KEY=RANGE. Errors (input) name --over and the key; the key itself is not checked.
model::Result<SweepAxis> parse_axis(std::string_view text);

// Reads the same, but KEY=A..B without a step gives only the two ends, which may have fractions.
model::Result<SweepAxis> parse_ends(std::string_view text);
// Returns whether the text is KEY=A..B without a step.
bool is_span(std::string_view text);

}  // namespace plumbline::sim
