// Fits DeepEP's normal kernels, one direction, to the form of model/cost/forms/transfer_forms.h: start, per-SM rates
// and times per row and token from the rows on one node and on several together. NVLink never limits these kernels with
// the SMs that were measured, so its rate is given.
#pragma once

#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/transfer_forms.h"

namespace plumbline::calibrate {

struct ExchangeTableFit {
  model::ExchangeConstants constants;  // without several nodes: no node_rate, forward_rate, nic_rate, start_exponent
  bool several_nodes = false;
  // Relative standard deviations.
  double start = 0, start_exponent = 0, node_rate = 0, rank_rate = 0, forward_rate = 0, row_time = 0, token_time = 0,
         nic_rate = 0;
  // Of the errors of start, rank_rate, row_time, token_time and, on several nodes, start_exponent, node_rate,
  // forward_rate and nic_rate.
  std::vector<std::vector<double>> correlation;
  HeldOut held_out;
};

// Uses the rows of normal kernels and of `direction` ("dispatch" or "combine") on up to four nodes. `nvlink_rate`: B/s
// that collectives reach. Requires such rows.
ExchangeTableFit fit_exchange_table(const std::vector<ExchangeRow>& rows, const std::string& direction,
                                    const FitMachine& machine, double nvlink_rate);

// Returns the expected number of distinct groups, of `groups` equal ones, that `top_k` of `experts` reach.
double distinct_groups(double groups, double experts, double top_k);

}  // namespace plumbline::calibrate
