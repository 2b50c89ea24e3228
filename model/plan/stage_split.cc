#include "model/plan/stage_split.h"

#include <algorithm>
#include <optional>

namespace plumbline::model {
namespace {

constexpr double outer_passes = 3;  // forward, and two GEMMs of the backward pass for each of the forward pass

// The work of consecutive layers, with that of embedding and head on the stages that hold them.
class StageWork {
 public:
  StageWork(const ForwardWork& work, double layer_passes, std::int64_t stages)
      : stages_(stages), first_(outer_passes * work.embedding), last_(outer_passes * work.head) {
    for (const double layer : work.layers) before_.push_back(before_.back() + layer_passes * layer);
  }

  std::int64_t layers() const { return static_cast<std::int64_t>(before_.size()) - 1; }
  double total() const { return first_ + before_.back() + last_; }
  double of(std::int64_t stage, std::int64_t begin, std::int64_t end) const {
    return before_[static_cast<std::size_t>(end)] - before_[static_cast<std::size_t>(begin)] +
           (stage == 0 ? first_ : 0) + (stage + 1 == stages_ ? last_ : 0);
  }
  // Returns the first layers from which on each stage and those after it can hold the rest, none with more work than
  // `most`; nothing where there are none.
  std::optional<std::vector<std::int64_t>> earliest(double most) const {
    std::vector<std::int64_t> begins(static_cast<std::size_t>(stages_));
    std::int64_t end = layers();
    for (std::int64_t stage = stages_; stage-- > 0;) {
      std::int64_t begin = end;
      while (begin > 0 && of(stage, begin - 1, end) <= most) --begin;
      if (of(stage, begin, end) > most) return std::nullopt;
      end = begins[static_cast<std::size_t>(stage)] = begin;
    }
    return end == 0 ? std::optional(begins) : std::nullopt;
  }
  // Returns the least work of the fullest stage, rounded up.
  double least_maximum() const {
    double too_little = 0, enough = total();
    for (int step = 0; step < 60; ++step) {  // the width of a double's digits
      const double middle = (too_little + enough) / 2;
      (earliest(middle) ? enough : too_little) = middle;
    }
    return enough;
  }

 private:
  std::int64_t stages_;
  double first_, last_;
  std::vector<double> before_ = {0};  // [layer]: work of the layers before it
};

}  // namespace

std::vector<std::int64_t> even_layer_counts(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), layers / stages);
  std::int64_t left = layers % stages;
  for (std::size_t stage = 1; stage + 1 < counts.size() && left > 0; ++stage, --left) ++counts[stage];
  if (left > 0) ++counts.front();
  return counts;
}

std::vector<std::int64_t> balanced_layer_counts(const ForwardWork& work, double layer_passes, std::int64_t stages) {
  const StageWork sums(work, layer_passes, stages);
  const double most = sums.least_maximum();
  const std::vector<std::int64_t> earliest = *sums.earliest(most);
  std::vector<std::int64_t> counts;
  std::int64_t begin = 0;
  double left = sums.total();
  for (std::int64_t stage = 0; stage + 1 < stages; ++stage) {
    constexpr double rounding = 1e-9;
    const double mean = left / static_cast<double>(stages - stage) * (1 + rounding);
    const std::int64_t later = std::max<std::int64_t>(0, stages - stage - 2);  // stages after it that need a layer
    std::int64_t end = std::max(begin + fewest_layers(stage, stages), earliest[static_cast<std::size_t>(stage) + 1]);
    while (end + 1 + later <= sums.layers() && sums.of(stage, begin, end + 1) <= std::min(most, mean)) ++end;
    left -= sums.of(stage, begin, end);
    counts.push_back(end - begin);
    begin = end;
  }
  counts.push_back(sums.layers() - begin);
  return counts;
}

}  // namespace plumbline::model
