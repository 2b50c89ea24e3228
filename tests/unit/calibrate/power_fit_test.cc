// Energies per FLOP: those that made the rows are found again.
#include "calibrate/fit/detail/power_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace plumbline::calibrate {
namespace {

constexpr double energy = 0.89e-12;

PowerAssumptions assumptions(double exponent = 0.8) {
  PowerAssumptions assumed;
  assumed.constants = {120, 0.987, exponent};
  assumed.energy_per_byte = 60e-12;
  assumed.energy_per_byte_low = 40e-12;
  assumed.energy_per_byte_high = 140e-12;
  return assumed;
}

// Returns square GEMMs at 750 TFLOP/s, held at 700 W by a GPU with that energy. `noise` moves every second row up.
std::vector<HeldGemm> held_rows(double noise, double limit = 700) {
  std::vector<HeldGemm> rows;
  for (double m = 2048; m <= 16384; m *= 2)
    for (double k = 2048; k <= 16384; k *= 2) {
      HeldGemm row;
      row.flops = 2 * m * m * k;
      row.bytes = 2 * (2 * m * k + m * m);
      row.sm_seconds = row.flops / 750e12;
      row.other_seconds = 3e-6;
      row.limit_w = limit;
      const model::PowerWindow window{row.sm_seconds, row.other_seconds, energy * row.flops + 60e-12 * row.bytes};
      const double clock = model::clock_under(assumptions().constants, window, limit);
      row.seconds = (row.sm_seconds / clock + row.other_seconds) * (rows.size() % 2 == 0 ? 1 + noise : 1 / (1 + noise));
      rows.push_back(row);
    }
  return rows;
}

TEST(PowerFit, FindsTheEnergyOfHeldGemms) {
  const auto fit = fit_power(held_rows(0), assumptions());
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->energy_per_flop / energy, 1, 1e-6);
  EXPECT_EQ(fit->rows, 16);
  EXPECT_GT(fit->at_limit, 12);
  for (const double error : fit->errors) EXPECT_NEAR(error, 0, 1e-6);
  // 40 % of 120 W over the 571 W above it, in time; (1 + gamma) times the clock, which is not all of it.
  EXPECT_GT(fit->relative_uncertainty, 0.05);
  EXPECT_LT(fit->relative_uncertainty, 0.2);
}

TEST(PowerFit, IsNotMovedByNoise) {
  const auto fit = fit_power(held_rows(0.03), assumptions());
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->energy_per_flop / energy, 1, 0.06);
  EXPECT_GT(fit->relative_uncertainty, fit_power(held_rows(0), assumptions())->relative_uncertainty);
}

// Times at one limit do not determine the exponent, but each exponent has its own energy.
TEST(PowerFit, TheEnergyBelongsToItsExponent) {
  const double at_0 = fit_power(held_rows(0), assumptions(0))->energy_per_flop;
  EXPECT_LT(at_0, 0.98 * energy);
  EXPECT_GT(at_0, 0.8 * energy);
}

// Rows that the meter read at the limit (571 W above the idle power of 120 W) had clocks of their own, so their
// energies are a median times those at the highest clock. Rows below the limit do not count.
TEST(PowerReading, IsThatOfTheMeterAtTheLimit) {
  std::vector<HeldGemm> rows = held_rows(0);
  EXPECT_FALSE(read_scale(rows, energy, assumptions()));
  EXPECT_FALSE(read_energy(rows, 1, assumptions()));
  for (HeldGemm& row : rows) row.power_w = row.flops < 1e11 ? 300 : 691;
  const auto scale = read_scale(rows, energy, assumptions());
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->rows, 12);
  // clock^0.8, and no GEMM slows by more than a third here.
  EXPECT_LT(scale->value, 1);
  EXPECT_GT(scale->value, 0.75);
  EXPECT_LT(scale->relative_spread, 0.05);
  const auto found = read_energy(rows, scale->value, assumptions());
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->value / energy, 1, 0.01);
}

// At the limit both formats draw 0.8 of their joules at the highest clock: bytes lower with the clock as FLOPs do, so
// the energy of a FLOP is found exactly however many bytes there are.
TEST(PowerReading, TakesBytesAtTheSameClockAsFlops) {
  const auto rows_of = [](double energy_per_flop, double bytes) {
    std::vector<HeldGemm> rows(3);
    for (HeldGemm& row : rows) {
      row.flops = 1e12;
      row.bytes = bytes;
      row.limit_w = 700;
      row.power_w = 691;
      row.seconds = 0.8 * (energy_per_flop * row.flops + 60e-12 * row.bytes) / (691 - 120);
    }
    return rows;
  };
  const auto scale = read_scale(rows_of(0.8e-12, 1e9), 0.8e-12, assumptions());
  ASSERT_TRUE(scale);
  EXPECT_NEAR(scale->value, 0.8, 1e-12);
  const auto found = read_energy(rows_of(0.5e-12, 3e9), scale->value, assumptions());
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->value, 0.5e-12, 1e-24);
}

TEST(PowerFit, NeedsRowsAtTheLimit) {
  EXPECT_FALSE(fit_power(held_rows(0, 5000), assumptions()));
  std::vector<HeldGemm> few = held_rows(0);
  few.resize(2);
  EXPECT_FALSE(fit_power(few, assumptions()));
}

}  // namespace
}  // namespace plumbline::calibrate
