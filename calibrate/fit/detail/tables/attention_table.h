// Fits attention to the form of model/cost/forms/kernel_forms.h.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {

// Of causal attention forward: one set of constants for all head dimensions and softwares of a GPU, except for what
// belongs to a software, its launch and the bandwidth of keys and values. The measured calls of serving frameworks also
// write keys and values into a paged cache, so that bandwidth holds for serving alone.
struct AttentionTableFit {
  model::AttentionConstants constants;  // of the whole GPU, without a kv_bandwidth
  // Relative: of the rate the larger of the fit's deviation and half the spread between softwares.
  double rate_deviation = 0, pair_deviation = 0, row_deviation = 0, tail_deviation = 0;
  std::vector<std::vector<double>>
      correlation;  // of the errors of the rate, row_time, tail and, where it is fitted, pair_time
  HeldOut held_out;
};

// `pair_share`: pair_time over the time of a pair at head dimension 128, where the rows have one dimension only and
// do not determine both; nullopt: fitted. Requires rows.
AttentionTableFit fit_attention_table(const std::vector<AttentionRow>& rows, const FitMachine& machine,
                                      std::optional<double> pair_share = std::nullopt);

// Of one direction of one kernel of training. Its few rows have large grids, which do not determine how late the last
// blocks end, and in BF16 two head dimensions, which do not determine what a pair costs besides its GEMMs: those are
// known from elsewhere.
struct TrainingAttentionFit {
  double rate = 0, row_time = 0, pair_time = 0;                      // FLOP/s and s, as of AttentionConstants
  double rate_deviation = 0, row_deviation = 0, pair_deviation = 0;  // relative
  bool skips_window = true;  // whether time grows as the length in a window, and not as its square
  std::vector<std::vector<double>> correlation = {};  // of the errors of rate, row_time and, in FP8, pair_time
  std::size_t rows = 0;                               // fitted and held out
  HeldOut held_out;
};

// Fits causal rows without deterministic sums. Rows of more than `longest` seconds are left out, because ten launches
// of them are held at the power limit. `known` has pair_time, from which that of FP8 is searched, tail and
// kv_bandwidth; measured times count `times` fold. Returns a rate of 0 where no row is left.
TrainingAttentionFit fit_training_attention(const std::vector<TrainingAttentionRow>& rows, const FitMachine& machine,
                                            const model::AttentionConstants& known, double times = 1,
                                            double longest = 0.05);

}  // namespace plumbline::calibrate
