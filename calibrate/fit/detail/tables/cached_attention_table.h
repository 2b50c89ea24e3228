// Fits attention over a cache to the form of model/cost/forms/cached_attention_form.h: one set of constants for all
// shapes of one format of the cache, except for what belongs to a software: its start and its bandwidth.
#pragma once

#include <string>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/cached_attention_form.h"

namespace plumbline::calibrate {

// Query rows that a block of the kernels over a latent cache computes at least: the rows of Hopper's tensor-core
// instructions (wgmma), which FlashMLA and FlashAttention-3 fill with heads.
inline constexpr double latent_rows = 64;

struct CachedAttentionSoftware {
  std::string name;
  double start = 0, bandwidth = 0;
};

struct CachedAttentionTableFit {
  model::CachedAttentionConstants constants;  // start and bandwidth are the geometric means over the softwares
  std::vector<CachedAttentionSoftware> softwares;
  // Relative; of start and bandwidth the larger of the fit's deviation and half the spread between softwares.
  double start_deviation = 0, bandwidth_deviation = 0, request_deviation = 0, rate_deviation = 0, ramp_deviation = 0,
         ramp_time_deviation = 0, merge_deviation = 0;
  std::vector<HeldOut> held_out;  // of each software, with its own start and bandwidth
};

// Requires rows, all of a latent cache or none.
CachedAttentionTableFit fit_cached_attention_table(const std::vector<CachedAttentionRow>& rows,
                                                   const FitMachine& machine);

}  // namespace plumbline::calibrate
