// The points of a sweep: every combination of the values of the swept keys, the last key fastest.
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
  // Fails (input) when a key is swept twice or there are more than most_points points.
  static model::Result<SweepGrid> make(std::vector<SweepAxis> axes);

  const std::vector<SweepAxis>& axes() const { return axes_; }
  std::size_t size() const;
  const SweepValue& value(std::size_t point, std::size_t axis) const;
  std::vector<std::string> changes(std::size_t point) const;  // KEY=VALUE of every swept key

  // The last key whose values are all numbers and more than one.
  std::optional<std::size_t> numeric_axis() const;
  // The points that differ in the numeric axis alone, by rising value; one list per combination of the other keys.
  // Without such an axis there is a single list with all points.
  std::vector<std::vector<std::size_t>> lines() const;
  // "zero_stage 1, kind 1f1b": the keys beside the numeric axis; "" where there is none.
  std::string line_name(std::size_t point) const;
  // The last part of the key, or all of it where another swept key ends the same.
  std::string short_name(std::size_t axis) const;

 private:
  explicit SweepGrid(std::vector<SweepAxis> axes) : axes_(std::move(axes)) {}
  std::size_t stride(std::size_t axis) const;
  std::vector<SweepAxis> axes_;
};

}  // namespace plumbline::sim
