// Fits GEMMs of few rows, single and grouped ones and the experts of a layer, to small_gemm_core() of
// model/cost/forms/kernel_forms.h: t = launches + sum over the GEMMs + activation bytes / activation_bandwidth, the
// last for experts alone. All softwares of a format are fitted together; the constants are then moved to the geometric
// mean of the softwares' levels (the median of measured / fitted), and half the spread of these is an uncertainty.
#pragma once

#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {

struct SmallGemmFit {
  model::SmallGemmConstants constants;  // in SI; the start holds all launches of the software
  // Of start, bandwidth, rate and k_time (which groups do not have): relative standard deviations, those of the fit or
  // half the spread between softwares where that is larger, and the correlations of each with those before it.
  std::vector<double> deviations;
  std::vector<std::vector<double>> correlation;
  std::vector<HeldOut> held_out;  // by software
  // |fitted / measured - 1| of rows of the fit with 64 and 128 rows, by software as in held_out.
  std::vector<std::vector<double>> fitted_errors;
};

// Require rows of one format. Of experts only balanced rows are used: rows of each expert of the others are not known.
SmallGemmFit fit_small_gemms(const std::vector<GemmRow>& rows, const FitMachine& machine);
SmallGemmFit fit_small_grouped_gemms(const std::vector<GroupedGemmRow>& rows, const FitMachine& machine);
SmallGemmFit fit_small_experts(const std::vector<ExpertRow>& rows, const FitMachine& machine);

}  // namespace plumbline::calibrate
