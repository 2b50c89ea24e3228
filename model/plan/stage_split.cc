#include "model/plan/stage_split.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

namespace plumbline::model {
namespace {

constexpr double no_division = std::numeric_limits<double>::infinity();

// The seconds of consecutive layers on a stage, with those of what else the ends hold.
class LayerCosts {
 public:
  LayerCosts(const SplitCosts& costs, std::int64_t stages) : stages_(stages), first_(costs.first), last_(costs.last) {
    for (const double layer : costs.layers) before_.push_back(before_.back() + layer);
  }

  std::int64_t layers() const { return static_cast<std::int64_t>(before_.size()) - 1; }
  // Returns infinity where the stage needs more layers.
  double of(std::int64_t stage, std::int64_t begin, std::int64_t end) const {
    if (end - begin < fewest_layers(stage, stages_)) return no_division;
    return before_[static_cast<std::size_t>(end)] - before_[static_cast<std::size_t>(begin)] +
           (stage == 0 ? first_ : 0) + (stage + 1 == stages_ ? last_ : 0);
  }

 private:
  std::int64_t stages_;
  double first_, last_;
  std::vector<double> before_ = {0};  // [layer]: seconds of the layers before it
};

// The best division of the first layers over the first stages, stage by stage (a dynamic programme). `value` is that of
// a stage with its layers, `join` that of stages together. Of equal divisions the one with the longest last stage is
// taken.
struct Divisions {
  std::vector<double> values;                     // [end], of the stages so far
  std::vector<std::vector<std::int64_t>> begins;  // [stage][end]: first layer of the stage

  std::vector<std::int64_t> counts() const {
    std::vector<std::int64_t> counts(begins.size());
    auto end = static_cast<std::int64_t>(values.size()) - 1;
    for (std::size_t stage = begins.size(); stage-- > 0;) {
      const std::int64_t begin = begins[stage][static_cast<std::size_t>(end)];
      counts[stage] = end - begin;
      end = begin;
    }
    return counts;
  }
};

template <class Value, class Join>
Divisions best_divisions(std::int64_t stages, std::int64_t layers, Value value, Join join) {
  const auto ends = static_cast<std::size_t>(layers) + 1;
  Divisions best{std::vector<double>(ends, no_division), {}};
  best.values[0] = 0;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::vector<double> values(ends, no_division);
    std::vector<std::int64_t>& begins = best.begins.emplace_back(ends, 0);
    for (std::size_t end = 0; end < ends; ++end)
      for (std::size_t begin = 0; begin <= end; ++begin) {
        if (best.values[begin] == no_division) continue;
        const auto from = static_cast<std::int64_t>(begin);
        const double joined = join(best.values[begin], value(stage, from, static_cast<std::int64_t>(end)));
        if (joined >= values[end]) continue;
        values[end] = joined;
        begins[end] = from;
      }
    best.values = std::move(values);
  }
  return best;
}

}  // namespace

std::vector<std::int64_t> even_layer_counts(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), layers / stages);
  std::int64_t left = layers % stages;
  for (std::size_t stage = 1; stage + 1 < counts.size() && left > 0; ++stage, --left) ++counts[stage];
  if (left > 0) ++counts.front();
  return counts;
}

std::vector<std::int64_t> balanced_layer_counts(const SplitCosts& costs, std::int64_t stages) {
  const LayerCosts of_stages(costs, stages);
  const auto cost = [&](std::int64_t stage, std::int64_t begin, std::int64_t end) {
    return of_stages.of(stage, begin, end);
  };
  const auto dearest = [](double a, double b) { return std::max(a, b); };
  constexpr double rounding = 1e-9;
  const double most = best_divisions(stages, of_stages.layers(), cost, dearest).values.back() * (1 + rounding);
  const auto square = [&](std::int64_t stage, std::int64_t begin, std::int64_t end) {
    return cost(stage, begin, end) <= most ? static_cast<double>((end - begin) * (end - begin)) : no_division;
  };
  return best_divisions(stages, of_stages.layers(), square, std::plus<>()).counts();
}

}  // namespace plumbline::model
