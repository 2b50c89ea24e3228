#include "calibrate/fit/detail/power_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "calibrate/fit/detail/least_squares.h"
#include "model/base/statistics.h"

namespace plumbline::calibrate {
namespace {

constexpr std::size_t fewest_rows = 3;
// Of rows at the limit. The best energy is often one at which the limit just reaches some row: that one is not counted.
constexpr double limited_clock = 0.999;
constexpr double least_energy = 1e-14, most_energy = 1e-10;  // J per FLOP: FP4 needs 0.2e-12, FP64 some 1e-11

struct HeldTime {
  double seconds, clock;
};

HeldTime held_time(const HeldGemm& row, double energy, const PowerAssumptions& assumptions) {
  const model::PowerWindow window{row.sm_seconds, row.other_seconds,
                                  energy * row.flops + assumptions.energy_per_byte * row.bytes};
  const double clock = model::clock_under(assumptions.constants, window, row.limit_w);
  return {row.sm_seconds / clock + row.other_seconds, clock};
}

// Returns where a function of a positive number is least: the best of points of equal ratios, then golden sections.
double least_at(const std::function<double(double)>& loss) {
  constexpr int points = 120, sections = 60;
  const double ratio = std::pow(most_energy / least_energy, 1.0 / points), golden = (std::sqrt(5.0) - 1) / 2;
  double best = least_energy, least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= points; ++i) {
    const double at = least_energy * std::pow(ratio, i), now = loss(at);
    if (now < least) {
      least = now;
      best = at;
    }
  }
  double low = std::log(best / ratio), high = std::log(best * ratio);
  for (int i = 0; i < sections; ++i) {
    const double left = high - golden * (high - low), right = low + golden * (high - low);
    if (loss(std::exp(left)) <= loss(std::exp(right)))
      high = right;
    else
      low = left;
  }
  return std::exp((low + high) / 2);
}

double energy_of(std::span<const HeldGemm> rows, const PowerAssumptions& assumptions) {
  return least_at([&](double energy) {
    double loss = 0;
    for (const HeldGemm& row : rows)
      loss += std::abs(std::log(held_time(row, energy, assumptions).seconds / row.seconds));
    return loss;
  });
}

// Returns half of the range of energies that the assumptions leave open, over the energy.
double range_of(std::span<const HeldGemm> rows, const PowerAssumptions& assumptions, double energy) {
  double least = energy, most = energy;
  const auto with = [&](double idle, double energy_per_byte) {
    PowerAssumptions other = assumptions;
    other.constants.idle = idle;
    other.energy_per_byte = energy_per_byte;
    const double found = energy_of(rows, other);
    least = std::min(least, found);
    most = std::max(most, found);
  };
  const double idle = assumptions.constants.idle;
  for (const double sign : {-1.0, 1.0})
    with(idle * (1 + sign * assumptions.idle_uncertainty), assumptions.energy_per_byte);
  with(idle, assumptions.energy_per_byte_low);
  with(idle, assumptions.energy_per_byte_high);
  return (most - least) / (2 * energy);
}

// Returns the standard error of the median of these relative deviations.
double standard_error(const std::vector<double>& deviations) {
  constexpr double of_median = 1.2533, normal = 1.4826;  // sqrt(pi / 2); standard deviation over median deviation
  std::vector<double> sizes;
  for (const double deviation : deviations) sizes.push_back(std::abs(deviation));
  const auto rows = static_cast<double>(sizes.size());
  return of_median * normal * model::upper_median(std::move(sizes)) / std::sqrt(rows);
}

// Returns the median over rows at the limit of what `of` finds for one and the joules that it drew above idle.
std::optional<PowerReading> median_at_limit(std::span<const HeldGemm> rows, const model::PowerConstants& constants,
                                            const std::function<double(const HeldGemm&, double)>& of) {
  constexpr double settled = 0.985;
  std::vector<double> found;
  for (const HeldGemm& row : rows)
    if (row.power_w >= settled * constants.limit_share * row.limit_w)
      found.push_back(of(row, (row.power_w - constants.idle) * row.seconds));
  if (found.size() < fewest_rows) return std::nullopt;
  PowerReading reading{.value = model::upper_median(found), .rows = found.size()};
  for (double& value : found) value = std::abs(value / reading.value - 1);
  constexpr double normal = 1.4826;  // standard deviation over median deviation
  reading.relative_spread = normal * model::upper_median(std::move(found));
  return reading;
}

}  // namespace

std::optional<PowerReading> read_scale(std::span<const HeldGemm> rows, double energy_per_flop,
                                       const PowerAssumptions& assumptions) {
  return median_at_limit(rows, assumptions.constants, [&](const HeldGemm& row, double joules) {
    return joules / (energy_per_flop * row.flops + assumptions.energy_per_byte * row.bytes);
  });
}

std::optional<PowerReading> read_energy(std::span<const HeldGemm> rows, double scale,
                                        const PowerAssumptions& assumptions) {
  return median_at_limit(rows, assumptions.constants, [&](const HeldGemm& row, double joules) {
    return (joules / scale - assumptions.energy_per_byte * row.bytes) / row.flops;
  });
}

std::optional<PowerFit> fit_power(std::span<const HeldGemm> rows, const PowerAssumptions& assumptions) {
  if (rows.size() < fewest_rows) return std::nullopt;
  constexpr double least_share = 0.05;
  PowerFit fit;
  fit.rows = rows.size();
  fit.energy_per_flop = energy_of(rows, assumptions);
  std::vector<double> at_limit;
  for (const HeldGemm& row : rows) {
    const HeldTime held = held_time(row, fit.energy_per_flop, assumptions);
    fit.errors.push_back(held.seconds / row.seconds - 1);
    if (held.clock < limited_clock) at_limit.push_back(fit.errors.back());
  }
  fit.at_limit = at_limit.size();
  if (fit.at_limit < fewest_rows || static_cast<double>(fit.at_limit) < least_share * static_cast<double>(fit.rows))
    return std::nullopt;
  // At the limit the time goes with the energy to 1 / (1 + clock_exponent).
  const double spread = standard_error(at_limit) * (1 + assumptions.constants.clock_exponent);
  fit.relative_uncertainty = std::hypot(range_of(rows, assumptions, fit.energy_per_flop), spread);
  return fit;
}

}  // namespace plumbline::calibrate
