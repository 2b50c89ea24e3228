// Fits the expert all-to-all over NVLink between trays (GB200 NVL72) to the form of model/cost/forms/transfer_forms.h
// without SMs: start * ranks^exponent + node bytes / nvlink_rate + tokens * bytes / local_rate. Within a tray (up to
// four GPUs) the rates are others, and belong to no plan that spans trays.
#pragma once

#include <string>
#include <vector>

#include "calibrate/components/rows.h"
#include "calibrate/fit/held_out.h"
#include "model/cost/forms/transfer_forms.h"

namespace plumbline::calibrate {

struct TrayTableFit {
  model::ExchangeConstants constants;  // start, start_exponent, nvlink_rate, local_rate
  double start = 0, start_exponent = 0, nvlink_rate = 0, local_rate = 0;  // relative standard deviations
  HeldOut held_out;
};

// Uses the rows of one kernel, direction and format, of more than one token and beyond a tray. Requires such rows.
TrayTableFit fit_tray_table(const std::vector<TrayExchangeRow>& rows, const std::string& kernel,
                            const std::string& direction, const std::string& format, const FitMachine& machine);

}  // namespace plumbline::calibrate
