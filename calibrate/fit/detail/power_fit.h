// The energy of a FLOP, from GEMMs that ran long enough for the power limit to hold (docs/power.md).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "model/cost/power_model.h"

namespace plumbline::calibrate {

// A GEMM that was repeated for seconds. All rows of a fit have one number format.
struct HeldGemm {
  double flops = 0, bytes = 0;  // of one execution; bytes of memory, each operand once
  double sm_seconds = 0;        // of a burst at the highest clock, as predicted: the part that the SMs bound
  double other_seconds = 0;     // the part that they do not: launches, casts
  double seconds = 0;           // as measured while it was held
  double power_w = 0;           // as the board's meter read it; 0: not read
  double limit_w = 0;           // of the board
};

// What these fits cannot determine, and how far off it may be.
struct PowerAssumptions {
  model::PowerConstants constants;                           // idle, limit_share, clock_exponent
  double energy_per_byte = 0;                                // J/B of a GEMM
  double idle_uncertainty = 0.4;                             // relative
  double energy_per_byte_low = 0, energy_per_byte_high = 0;  // J/B
};

struct PowerFit {
  double energy_per_flop = 0;       // J at the highest clock; belongs to the assumed clock_exponent
  double relative_uncertainty = 0;  // of the assumptions' ranges and of the spread between rows
  std::size_t rows = 0;
  std::size_t at_limit = 0;    // rows whose time the limit determines
  std::vector<double> errors;  // of times, predicted / measured - 1 of each row
};

// Finds the energy with the least sum of |log(predicted / measured)| of times. Returns nullopt where fewer than three
// rows, or fewer than a twentieth of them, are at the limit: the others do not depend on the energy.
std::optional<PowerFit> fit_power(std::span<const HeldGemm> rows, const PowerAssumptions& assumptions);

// A median over the rows whose meter stands at the limit; below it a meter may still have been rising.
struct PowerReading {
  double value = 0, relative_spread = 0;  // the spread is a standard deviation
  std::size_t rows = 0;
};

// Returns what the energies of rows were over those at the highest clock, clock^clock_exponent, where the energy of a
// FLOP is known: the median of
//   (power - idle) seconds / (energy_per_flop flops + energy_per_byte bytes).
// Returns nullopt where fewer than three rows are at the limit.
std::optional<PowerReading> read_scale(std::span<const HeldGemm> rows, double energy_per_flop,
                                       const PowerAssumptions& assumptions);

// Returns the energy of a FLOP in J at the highest clock of rows whose energies are `scale` times theirs there: the
// median of
//   ((power - idle) seconds / scale - energy_per_byte bytes) / flops.
// One limit leaves two formats nearly the same clock, so `scale` may be that of another. Returns nullopt where fewer
// than three rows are at the limit.
std::optional<PowerReading> read_energy(std::span<const HeldGemm> rows, double scale,
                                        const PowerAssumptions& assumptions);

}  // namespace plumbline::calibrate
