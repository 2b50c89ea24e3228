// Fits causal attention forward to the form of model/cost/forms/kernel_forms.h: one set of constants for all head
// dimensions and softwares of a GPU, except for what belongs to a software, its launch and the bandwidth of keys and
// values. The measured calls of serving frameworks also write keys and values into a paged cache, so that bandwidth
// holds for serving alone.
#pragma once

#include <optional>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/kernel_forms.h"

namespace plumbline::calibrate {

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

}  // namespace plumbline::calibrate
