// The values of a swept key, as `--over KEY=RANGE` gives them:
//
//   0..64:4  1..8  64..0:-8     both ends included; without a step 1, for integers
//   0..0.2:0.05                 numbers with a fraction; each value is the decimal that one would write down
//   1..64:*2                    each value times 2
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
  std::string text;              // what follows KEY= in an override
  std::optional<double> number;  // when it is one
};

struct SweepAxis {
  std::string key;
  std::vector<SweepValue> values;  // at least one
  bool numeric() const;            // all values are numbers
};

// Values of one key, and points of a sweep, at most.
inline constexpr std::size_t most_points = 100'000;

// Reads KEY=RANGE. Errors (input) name --over and the key; whether the key exists is the plan's business.
model::Result<SweepAxis> parse_axis(std::string_view text);

// The same, but of KEY=A..B without a step only the two ends, which may have fractions: a range to search or to span.
model::Result<SweepAxis> parse_ends(std::string_view text);
// Whether the text is KEY=A..B without a step.
bool is_span(std::string_view text);

}  // namespace plumbline::sim
