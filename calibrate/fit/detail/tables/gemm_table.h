// Fits GEMMs of one software and format to the form of model/cost/forms/kernel_forms.h. The times of quantized formats
// hold a kernel that quantizes the 16-bit activation; it has two constants of its own,
//   quantize = m k (2 + operand bytes) / quantize_bandwidth + k quantize_k_time,
// and belongs to the software that was measured, not to the GPU. Rows slower than 1.15 times the fit are dropped twice:
// what disturbs a measurement only ever lengthens it.
#pragma once

#include <string>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {

struct GemmTableFit {
  model::GemmConstants constants;  // in SI; the ramp holds all launches of the software
  double rate = 0;                 // FLOP/s of the whole GPU: 2 tile_m tile_n SMs / k_time
  double quantize_bandwidth = 0;   // B/s; 0: the format is not quantized
  double quantize_k_time = 0;      // s per element of the inner dimension
  // Relative standard deviations of the fit; infinite where the constants were given.
  double rate_deviation = 0, wave_overhead_deviation = 0, wave_share_deviation = 0, memory_deviation = 0,
         droop_deviation = 0, droop_time_deviation = 0, ramp_deviation = 0;
  // Of the errors of k_time, wave_overhead, wave_share, memory_bandwidth, droop and droop_time; none where the shape
  // was given.
  std::vector<std::vector<double>> correlation;
  HeldOut held_out;
};

// Returns whether the fits leave the shape out: with i, j, l the places of m, n, k among the sizes of the table,
// (i + 2 j + 3 l) mod 5 = 0, one row in five, in which each size occurs. Where less than half of the grid of sizes was
// measured, (2 j + 3 l) mod 5 = 0: whole pairs of n and k.
std::vector<bool> held_out_gemms(const std::vector<GemmRow>& rows);

// Fits all constants; the tile is the one of seven with the least loss. Requires rows of one software and format.
// `quantizes`: whether the times of formats below 16 bits hold the quantizing kernel.
GemmTableFit fit_gemm_table(const std::vector<GemmRow>& rows, const FitMachine& machine, bool quantizes = true);

// Fits the rate, the ramp and the quantizing kernel with the other constants of `shape`: a table of few sizes of m does
// not determine those.
GemmTableFit fit_gemm_rate(const std::vector<GemmRow>& rows, const FitMachine& machine, const GemmTableFit& shape,
                           bool quantizes = true);

// Returns the bytes of an operand's element with its scales. Formats: bf16, fp8, fp8_block, nvfp4, mxfp4.
double operand_bytes(const std::string& format);
// Returns the dense datasheet peak in FLOP/s; 0 where the device lacks the format.
double datasheet_peak(const model::Device& device, const std::string& format);

}  // namespace plumbline::calibrate
