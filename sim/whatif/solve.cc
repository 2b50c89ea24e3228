#include "sim/whatif/solve.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "sim/whatif/detail/root.h"

namespace plumbline::sim {
namespace {

constexpr double target_tolerance = 1e-6;  // relative to the target
constexpr double x_tolerance = 1e-9;       // relative to x; reached where the quantity jumps

std::vector<double> spread(const SolveRange& range, double low, double high, std::size_t points) {
  std::vector<double> xs;
  if (!range.values.empty()) {
    std::ranges::copy_if(range.values, std::back_inserter(xs), [&](double x) { return x >= low && x <= high; });
    return xs;
  }
  if (range.whole && high - low < static_cast<double>(points)) {
    for (double x = std::ceil(low); x <= high; ++x) xs.push_back(x);
    return xs;
  }
  const bool logarithmic = low > 0 && high / low > 8;
  for (std::size_t i = 0; i < points; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(points - 1);
    const double x = logarithmic ? low * std::pow(high / low, share) : low + (high - low) * share;
    xs.push_back(range.whole ? std::round(x) : x);
  }
  xs.front() = low, xs.back() = high;
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
  return xs;
}

class Solver {
 public:
  Solver(const SolveRange& range, double target, double near, const SolveFunction& function)
      : range_(range), target_(target), near_(near), function_(function) {}

  model::Result<Solution> run(std::size_t grid) {
    TRY(sample(spread(range_, range_.low, range_.high, grid)));
    std::optional<Pair> pair = nearest_crossing();
    solution_.crossings = crossings_;
    while (pair && !reached(*pair)) {
      const bool numbers = !range_.whole && range_.values.empty();
      const auto done = TRY(numbers ? close_in(*pair) : refine(*pair, grid));
      if (!done) break;
      pair = nearest_crossing();
    }
    if (pair) conclude(*pair);
    return std::move(solution_);
  }

 private:
  struct Pair {
    SolveSample first, second;  // with values; neighbours by x
  };

  double rest(const SolveSample& sample) const { return *sample.value - target_; }
  bool exact(const SolveSample& sample) const { return std::abs(rest(sample)) <= target_tolerance * std::abs(target_); }
  bool reached(const Pair& pair) const { return exact(pair.first) || exact(pair.second); }

  model::Result<void> sample(std::vector<double> xs) {
    std::erase_if(xs, [&](double x) {
      return std::ranges::find(solution_.samples, x, &SolveSample::x) != solution_.samples.end();
    });
    auto values = TRY(function_(xs));
    for (std::size_t i = 0; i < xs.size(); ++i) solution_.samples.push_back({xs[i], (values)[i]});
    std::ranges::sort(solution_.samples, {}, &SolveSample::x);
    return {};
  }

  // Returns the neighbouring feasible samples around the target, or one that reaches it; the nearest to near_.
  std::optional<Pair> nearest_crossing() {
    std::optional<Pair> best;
    const SolveSample* before = nullptr;
    crossings_ = 0;
    const auto consider = [&](const Pair& pair) {
      const auto distance = [&](const Pair& p) { return std::max({0.0, p.first.x - near_, near_ - p.second.x}); };
      ++crossings_;
      if (!best || distance(pair) < distance(*best)) best = pair;
    };
    for (const SolveSample& sample : solution_.samples) {
      if (!sample.value) continue;
      const bool exact_before = before != nullptr && exact(*before);
      if (exact(sample) && !exact_before) {
        consider({sample, sample});
      } else if (before != nullptr && !exact_before && !exact(sample) && (rest(*before) < 0) != (rest(sample) < 0)) {
        consider({*before, sample});
      }
      before = &sample;
    }
    return best;
  }

  // Returns whether there are new samples.
  model::Result<bool> refine(const Pair& pair, std::size_t grid) {
    const std::size_t before = solution_.samples.size();
    if (!range_.values.empty()) return false;
    TRY(sample(spread(range_, pair.first.x, pair.second.x, grid)));
    return solution_.samples.size() > before;
  }

  model::Result<bool> close_in(const Pair& pair) {
    bool gap = false;
    const auto f = [&](double x) -> model::Result<double> {
      TRY(sample({x}));
      const SolveSample& found = *std::ranges::find(solution_.samples, x, &SolveSample::x);
      if (found.value) return rest(found);
      gap = true;
      return tl::unexpected(model::Error{});
    };
    const auto root = find_root(f, {pair.first.x, rest(pair.first)}, {pair.second.x, rest(pair.second)}, x_tolerance,
                                target_tolerance * std::abs(target_));
    if (!root && !gap) return tl::unexpected(root.error());
    if (root) solution_.exact = SolveSample{root->at.x, root->at.y + target_};
    // Between the sides of a jump, or next to an infeasible value, no further search is possible.
    if (solution_.exact && !exact(*solution_.exact)) solution_.exact.reset();
    return false;
  }

  void conclude(const Pair& found) {
    if (solution_.exact) return;
    const Pair pair = nearest_crossing().value_or(found);
    if (exact(pair.first) || exact(pair.second)) {
      solution_.exact = std::abs(rest(pair.first)) <= std::abs(rest(pair.second)) ? pair.first : pair.second;
      return;
    }
    solution_.below = pair.first;
    solution_.above = pair.second;
  }

  const SolveRange& range_;
  double target_, near_;
  const SolveFunction& function_;
  Solution solution_;
  std::size_t crossings_ = 0;
};

}  // namespace

model::Result<Solution> solve(const SolveRange& range, double target, double near, const SolveFunction& function,
                              std::size_t grid) {
  return Solver(range, target, near, function).run(grid);
}

}  // namespace plumbline::sim
