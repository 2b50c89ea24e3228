#include "sim/whatif/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace plumbline::sim {
namespace {

std::string_view leaf(std::string_view key) { return key.substr(key.rfind('.') + 1); }

}  // namespace

model::Result<SweepGrid> SweepGrid::make(std::vector<SweepAxis> axes) {
  const auto failure = [](std::string message, std::string key, std::string hint) {
    return model::wrong_input_at("--over", 0, std::move(key), std::move(message), std::move(hint));
  };
  std::size_t points = 1;
  for (auto axis = axes.begin(); axis != axes.end(); ++axis) {
    if (std::find_if(axes.begin(), axis, [&](const SweepAxis& other) { return other.key == axis->key; }) != axis)
      return failure("the key is swept twice", axis->key, "give all its values in one --over");
    points *= axis->values.size();
    if (points > most_points)
      return failure(fmt::format("the sweep has more than {} points", most_points), axis->key,
                     "take larger steps or sweep fewer keys at once");
  }
  return SweepGrid(std::move(axes));
}

std::size_t SweepGrid::size() const {
  std::size_t points = 1;
  for (const SweepAxis& axis : axes_) points *= axis.values.size();
  return points;
}

std::size_t SweepGrid::stride(std::size_t axis) const {
  std::size_t points = 1;
  for (std::size_t faster = axis + 1; faster < axes_.size(); ++faster) points *= axes_[faster].values.size();
  return points;
}

const SweepValue& SweepGrid::value(std::size_t point, std::size_t axis) const {
  return axes_[axis].values[point / stride(axis) % axes_[axis].values.size()];
}

std::vector<std::string> SweepGrid::changes(std::size_t point) const {
  std::vector<std::string> texts;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis)
    texts.push_back(fmt::format("{}={}", axes_[axis].key, value(point, axis).text));
  return texts;
}

std::optional<std::size_t> SweepGrid::numeric_axis() const {
  for (std::size_t axis = axes_.size(); axis-- > 0;)
    if (axes_[axis].numeric() && axes_[axis].values.size() > 1) return axis;
  return std::nullopt;
}

std::vector<std::vector<std::size_t>> SweepGrid::lines() const {
  const auto axis = numeric_axis();
  std::vector<std::vector<std::size_t>> lines;
  const std::size_t step = axis ? stride(*axis) : 1;
  const std::size_t length = axis ? axes_[*axis].values.size() : size();
  for (std::size_t start = 0; start < size(); ++start) {
    if (start / step % length != 0) continue;  // not the first of its line
    std::vector<std::size_t>& line = lines.emplace_back();
    for (std::size_t i = 0; i < length; ++i) line.push_back(start + i * step);
    if (!axis) continue;
    std::ranges::stable_sort(line, {}, [&](std::size_t point) { return *value(point, *axis).number; });
  }
  return lines;
}

std::string SweepGrid::short_name(std::size_t axis) const {
  const std::string& key = axes_[axis].key;
  const auto same_end = [&key](const SweepAxis& other) { return leaf(other.key) == leaf(key); };
  return std::ranges::count_if(axes_, same_end) > 1 ? key : std::string(leaf(key));
}

std::string SweepGrid::line_name(std::size_t point) const {
  const auto numeric = numeric_axis();
  if (!numeric) return "";
  std::string name;
  for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axis == *numeric) continue;
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", short_name(axis), value(point, axis).text);
  }
  return name;
}

}  // namespace plumbline::sim
