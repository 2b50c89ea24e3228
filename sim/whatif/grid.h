// The points of a sweep: every combination of the values of the swept keys; the last key varies fastest.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "sim/whatif/range.h"

namespace plumbline::sim {

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
