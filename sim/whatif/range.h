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

// The points of a sweep: every combination of the values of the swept keys; the last key varies fastest.
class SweepGrid {
 public:
  // Returns an input error when a key is swept twice or there are more than most_points points.
  static model::Result<SweepGrid> make(std::vector<SweepAxis> axes);

  const std::vector<SweepAxis>& axes() const { return axes_; }
  std::size_t size() const;
  const SweepValue& value(std::size_t point, std::size_t axis) const;
  std::vector<std::string> changes(std::size_t point) const;  // KEY=VALUE of every swept key

  // Returns the last key that has more than one value, all of them numbers.
  std::optional<std::size_t> numeric_axis() const;
  // Returns the points that differ in the numeric axis alone, by rising value, as one list per combination of the other
  // keys. Without such an axis there is a single list with all points.
  std::vector<std::vector<std::size_t>> lines() const;
  // Returns "zero_stage 1, kind 1f1b": the values of all keys but the numeric axis, or "" without such an axis.
  std::string line_name(std::size_t point) const;
  // Returns the last part of the key, or all of it where another swept key has the same last part.
  std::string short_name(std::size_t axis) const;

 private:
  explicit SweepGrid(std::vector<SweepAxis> axes) : axes_(std::move(axes)) {}
  std::size_t stride(std::size_t axis) const;
  std::vector<SweepAxis> axes_;
};

}  // namespace plumbline::sim
