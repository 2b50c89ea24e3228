#include "sim/campaign/detail/best_interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "sim/campaign/closed_form.h"

namespace plumbline::sim {
namespace {

constexpr std::int64_t most_seeds = 256;  // of a campaign with one interval
constexpr int most_doublings = 20;        // of the interval while its best is sought

struct Tried {
  double interval_s = 0, seconds = 0;
};

// Solves three linear equations by Cramer's rule, for two of the unknowns.
std::pair<double, double> first_two(const std::array<std::array<double, 4>, 3>& rows) {
  const auto determinant = [&](int i, int j, int k) {
    const auto at = [&](int row, int column) {
      return rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
    };
    return at(0, i) * (at(1, j) * at(2, k) - at(1, k) * at(2, j)) -
           at(0, j) * (at(1, i) * at(2, k) - at(1, k) * at(2, i)) +
           at(0, k) * (at(1, i) * at(2, j) - at(1, j) * at(2, i));
  };
  const double all = determinant(0, 1, 2);
  return {determinant(3, 1, 2) / all, determinant(0, 3, 2) / all};
}

// Returns where the form a / x + b x + c fitted to the tried intervals, x being an interval over the middle one, is
// smallest; the interval of the least seconds where that is not between them.
double fitted_minimum(const std::vector<Tried>& tried, double middle) {
  std::array<std::array<double, 4>, 3> rows{};
  for (const Tried& point : tried) {
    const double x = point.interval_s / middle;
    const std::array<double, 4> terms = {1 / x, x, 1, point.seconds / tried.front().seconds - 1};
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t column = 0; column < 4; ++column) rows[row][column] += terms[row] * terms[column];
  }
  const auto [a, b] = first_two(rows);
  const double x = std::sqrt(a / b);
  const auto [low, high] = std::ranges::minmax(tried, {}, &Tried::interval_s);
  if (a > 0 && b > 0 && x * middle >= low.interval_s && x * middle <= high.interval_s) return x * middle;
  return std::ranges::min(tried, {}, &Tried::seconds).interval_s;
}

}  // namespace

model::Result<double> best_interval(const CampaignInput& input, const CampaignSeconds& seconds) {
  CampaignInput candidate = input;
  candidate.seeds = std::min(input.seeds, most_seeds);
  const double longest = ideal_seconds(input.phases), shortest = std::min(longest, shortest_interval(input));
  std::map<double, double> known;
  const auto time = [&](double interval) -> model::Result<Tried> {
    candidate.checkpoint.interval_s = std::clamp(interval, shortest, longest);
    const auto [place, added] = known.try_emplace(candidate.checkpoint.interval_s);
    if (added) place->second = TRY(seconds(candidate));
    return Tried{place->first, place->second};
  };
  Tried best = TRY(time(input.checkpoint.interval_s));
  for (const double factor : {2.0, 0.5})
    for (int doubling = 0; doubling < most_doublings; ++doubling) {
      const Tried next = TRY(time(best.interval_s * factor));
      if (next.seconds >= best.seconds) break;
      best = next;
    }
  if (!std::isfinite(best.seconds)) return input.checkpoint.interval_s;
  std::vector<Tried> tried;
  for (int point = -4; point <= 4; ++point) {
    const Tried next = TRY(time(best.interval_s * std::exp2(point / 4.0)));
    if (std::isfinite(next.seconds) && (tried.empty() || next.interval_s > tried.back().interval_s))
      tried.push_back(next);
  }
  return tried.size() < 4 ? best.interval_s : fitted_minimum(tried, best.interval_s);
}

}  // namespace plumbline::sim
